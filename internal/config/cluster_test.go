package config

import (
	"fmt"
	"strings"
	"testing"
)

// What other servers read of this one's address holds no secret, and neither does what is said of
// one that does.
func TestClusterAddress(t *testing.T) {
	for address, want := range map[string]string{
		"": "", "none": "", "http://10.0.0.7:4318": "", "https://ts1.example/otlp/": "",
		"10.0.0.7:4318": `"10.0.0.7:4318" is not a URL`, "http://u:secret@10.0.0.7:4318": "has a user",
		"http://10.0.0.7:4318?token=secret": "has a user, a query", "http://10.0.0.7:4318#secret": "or a fragment",
	} {
		got := ""
		c := Cluster{Address: address}
		c.validate(func(key, format string, args ...any) { got += key + ": " + fmt.Sprintf(format, args...) })
		if want == "" && got != "" || !strings.Contains(got, want) || strings.Contains(got, "secret") {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
}

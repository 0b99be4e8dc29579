package shadow

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestOptionsThatCannotBe(t *testing.T) {
	good := func() Options { return Options{Name: "new", Servers: []string{"http://a", "https://b:1"}} }
	for _, tt := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) {}, ""},
		{func(o *Options) { o.Servers = nil }, "no server: give at least one URL"},
		{func(o *Options) { o.Servers[0] = "ftp://a" }, `server "ftp://a": give a URL with http, https or h2c`},
		{func(o *Options) { o.Servers[0] = "a:80" }, `server "a:80": give a URL with http, https or h2c`},
		{func(o *Options) { o.Servers[0] = "http://" }, `server "http://": give a scheme, a host`},
		{func(o *Options) { o.Servers[0] = "http://a/path" }, `server "http://a/path": give a scheme, a host`},
		{func(o *Options) { o.Servers[0] = "http://u@a" }, `server "http://u@a": give a scheme, a host`},
		{func(o *Options) { o.Servers[0] = "http://a:b" }, `server "http://a:b": `},
		{func(o *Options) { o.Using = 3 }, "using 3 of 2 servers: give 1 to 2"},
		{func(o *Options) { o.Amplify = 256 }, "amplify 256: give 0 to 255"},
		{func(o *Options) { o.Amplify = math.NaN() }, "amplify NaN: give 0 to 255"},
		{func(o *Options) { o.Queue = -1 }, "a bound is negative"},
		{func(o *Options) { o.Spread = -time.Second }, "a bound is negative"},
	} {
		o := good()
		tt.change(&o)
		l, err := NewSender(o)
		if err == nil {
			if tt.want != "" {
				t.Errorf("%+v is taken, want %q", o, tt.want)
			}
			l.Close(t.Context())
			continue
		}
		if tt.want == "" || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "shadow new: ") {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}

func TestParseServer(t *testing.T) {
	for raw, want := range map[string]target{
		"http://a":          {"http://a", "http", "a:80", "a"},
		"https://a/":        {"https://a/", "https", "a:443", "a"},
		"h2c://[::1]":       {"h2c://[::1]", "h2c", "[::1]:80", "::1"},
		"http://10.0.0.1:8": {"http://10.0.0.1:8", "http", "10.0.0.1:8", "10.0.0.1"},
	} {
		if got, err := parseServer(raw); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", raw, got, err, want)
		}
	}
}

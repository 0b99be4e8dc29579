package config

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDefaultIsValid(t *testing.T) {
	c := Default()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
}

func TestFile(t *testing.T) {
	for _, tc := range []struct {
		name, file string
		want       string // joined errors; empty if none
	}{
		{"empty", "", ""},
		{"comment only", "# nothing\n", ""},
		{"one key", "listen: :7099\n", ""},
		{"quoted", "listen: \":7099\"\n", ""},
		{"sections", "otlp:\n  grpc: 0.0.0.0:4317\n  http: \"\"\nretention:\n  10s: 2d\n  max_bytes: 10GiB\n", ""},
		{"list", "labels:\n  tenant: [shop.id, tenant.id]\n  extra:\n    - region\n", ""},
		{"unknown", "listen: :1\nlisten_on: x\n", "f.yaml:2:1: unknown key listen_on in the file: did you mean listen?"},
		{"swapped letters", "otlp:\n  gprc: x\n", "f.yaml:2:3: unknown key otlp.gprc: did you mean otlp.grpc?"},
		{"wrong section", "memory: 1GiB\n", "f.yaml:1:1: unknown key memory in the file: did you mean limits.memory?"},
		{"misspelt section", "retension:\n  10s: 48h\n", "f.yaml:1:1: unknown key retension in the file: did you mean retention?"},
		{"two problems", "limits:\n  memory: lots\ningest:\n  flush: 10 apples\n",
			"f.yaml:2:11: limits.memory: \"lots\" is not a size: write one such as 256MiB, 10GB or 0\n" +
				"f.yaml:4:10: ingest.flush: \"10 apples\" is not a duration: write one such as 500ms, 10s, 48h or 35d"},
		{"words", "log:\n  level: loud\n  format: xml\n",
			"f.yaml:2:10: log.level: \"loud\" is not known: write one of debug, info, warn, error\n" +
				"f.yaml:3:11: log.format: \"xml\" is not known: write one of text, json"},
		{"not a mapping", "- a\n- b\n", "f.yaml:1:1: the file is not a mapping: write key: value below it"},
		{"section as value", "otlp: 4317\n", "f.yaml:1:7: otlp is not a mapping: write key: value below it"},
		{"mapping as value", "data:\n  dir: x\n", "f.yaml:2:3: data is more than one text: write one text"},
		{"two documents", "data: a\n---\ndata: b\n", "f.yaml:3:5: a second document: put it in a file of its own"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := Default()
			got := ""
			if err := errors.Join(c.File("f.yaml", []byte(tc.file))...); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestFileSets(t *testing.T) {
	c := Default()
	errs := c.File("f", []byte("listen: :80\nretention:\n  10s: 3d\n  max_bytes: 1.5GB\nlabels:\n  tenant: [a, b]\nlimits:\n  tenants: 5_000\notlp:\n  http: \"\"\n"))
	if errs != nil {
		t.Fatal(errs)
	}
	if c.Listen != ":80" || c.Retain.Base != 72*time.Hour || c.Retain.MaxBytes != 1_500_000_000 ||
		strings.Join(c.TenantKeys, "|") != "a|b" || c.MaxTenants != 5000 || c.OTLPHTTP != "" {
		t.Errorf("got %+v", c)
	}
}

func TestOrder(t *testing.T) {
	c := Default()
	c.File("f", []byte("listen: :1\ndata: from-file\n"))
	if errs := c.Environ([]string{"TAILSCOPE_LISTEN=:2", "TAILSCOPE_PORT=tcp://10.0.0.1:7099", "OTHER=1"}); errs != nil {
		t.Fatal(errs)
	}
	if c.Listen != ":2" || c.Data != "from-file" {
		t.Errorf("got listen %s, data %s", c.Listen, c.Data)
	}
	errs := c.Environ([]string{"TAILSCOPE_INGEST_SYNC=soon"})
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "TAILSCOPE_INGEST_SYNC") {
		t.Errorf("got %v", errs)
	}
}

func TestValidateReportsEverything(t *testing.T) {
	c := Default()
	c.Data = ""
	c.Listen = "nowhere"
	c.OTLPGRPC, c.OTLPHTTP = ":4317", ":4317"
	c.Retain.Minute = time.Hour
	c.Memory = 1
	c.ExtraLabels = []string{"service", "a b", "host.name=host"}
	c.Traces = Traces{Memory: 1 << 20, Grace: time.Millisecond, Idle: time.Minute, Keep: time.Minute, MaxBytes: 1, Link: "https://jaeger.example/trace/"}
	c.Agent = Agent{Name: "edge\n1", Spool: 1}
	c.AllowedHosts = []string{"tail.example.com", "*", "https://tail.example.com", "tail.example.com:7099"}
	got := c.Validate().Error()
	want := `data: needs a directory
listen: "nowhere" is not an address: write host:port, such as 127.0.0.1:7099 or :7099 for every interface
otlp.http: :4317 is already the address of otlp.grpc
retention.1m: 1h is shorter than retention.10s (2d): a coarser resolution is kept at least as long as a finer one
traces.memory: 1MiB is too little: at least 8MiB, or 0 to break nothing down
traces.grace: 1ms is too short: at least 100ms
traces.keep: 1m is too short: at least 1h
traces.max_bytes: 1B is too little: at least 16MiB
traces.link: "https://jaeger.example/trace/" has no {trace_id} in it: write one such as https://jaeger.example/trace/{trace_id}
limits.memory: 1B is too little: at least 96MiB, it is for the whole program
labels.extra: "service" would become the label service, which every span has: write service=another_name
labels.extra: "a b" is neither an attribute key nor attribute=label
allowed_hosts: "https://tail.example.com" is not a host name: write one such as tailscope.example.com, without scheme and port, or * for any
allowed_hosts: "tail.example.com:7099" is not a host name: write one such as tailscope.example.com, without scheme and port, or * for any
agent.spool: 1B is too little: at least 16MiB
agent.name: "edge\n1" is not a name: write at most 256 bytes that can be printed`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestLink(t *testing.T) {
	for link, want := range map[string]string{
		"": "",
		"https://jaeger.example/trace/{trace_id}":                        "",
		"http://localhost:3000/explore?left={trace_id}&again={trace_id}": "",
		"https://jaeger.example/{service}/{trace_id}":                    "placeholder",
		"/trace/{trace_id}":                 "not a web address",
		"javascript:alert('{trace_id}')":    "not a web address",
		"https:///{trace_id}":               "not a web address",
		"https://jaeger example/{trace_id}": "not a web address",
	} {
		c := Default()
		c.Traces.Link = link
		err := c.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", link, err, want)
		}
	}
}

func TestYAMLRoundTrip(t *testing.T) {
	c := Default()
	c.Listen, c.DebugListen = ":7099", "localhost:6060"
	c.ExtraLabels = []string{"cloud.region=region", "host.name"}
	c.Flush = 1500 * time.Millisecond
	c.Traces.Link = "https://jaeger.example/trace/{trace_id}?a=b#c"
	var back Config
	if errs := back.File("printed", []byte(c.YAML())); errs != nil {
		t.Fatal(errs, c.YAML())
	}
	if back.YAML() != c.YAML() {
		t.Errorf("got\n%s\nwant\n%s", back.YAML(), c.YAML())
	}
}

func TestDurationAndSizeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(1000*day)/1e6).Draw(t, "ms")) * time.Millisecond
		if back, err := ParseDuration(FormatDuration(d)); err != nil || back != d {
			t.Fatalf("%s: got %s, %v", FormatDuration(d), back, err)
		}
		n := rapid.Int64Range(0, 1<<50).Draw(t, "bytes")
		if back, err := ParseSize(FormatSize(n)); err != nil || back != n {
			t.Fatalf("%s: got %d, %v", FormatSize(n), back, err)
		}
	})
}

func TestBadDurationsAndSizes(t *testing.T) {
	for _, s := range []string{"", "h", "5", "-1h", "1x", "1h-1m", "99999999w", "1.2.3s"} {
		if d, err := ParseDuration(s); err == nil {
			t.Errorf("duration %q: got %s, want an error", s, d)
		}
	}
	for _, s := range []string{"", "MiB", "-1", "1PB", "1e9", "99999999TiB"} {
		if n, err := ParseSize(s); err == nil {
			t.Errorf("size %q: got %d, want an error", s, n)
		}
	}
}

func FuzzFile(f *testing.F) {
	c := Default()
	f.Add([]byte(c.YAML()))
	f.Add([]byte("a: &x [1]\nb: *x\n"))
	f.Add([]byte("otlp: {grpc: x, ? : y}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := Default()
		_ = c.File("f", b)
	})
}

// TestDocumented keeps docs in step with Settings.
func TestDocumented(t *testing.T) {
	for file, want := range map[string]string{"docs/configuration.md": Markdown(), "docs/mirror.md": MirrorMarkdown()} {
		doc, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(doc), want) {
			t.Errorf("%s lacks this table; put it between its begin and end comments:\n%s", file, want)
		}
	}
}

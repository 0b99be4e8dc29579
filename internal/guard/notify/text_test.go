package notify

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

func TestPluginOutput(t *testing.T) {
	plain := func() event.Result {
		r := event.Result{Bands: noBands()}
		r.Reading.Value = 5
		return r
	}
	for _, c := range []struct {
		name   string
		change func(r *event.Result)
		most   int
		late   time.Duration
		want   string
	}{
		{"bare", func(*event.Result) {}, 200, 0, "OK - 5 | value=5;;"},
		{"null", func(r *event.Result) { r.Reading.Null = true; r.Level = event.Unknown }, 200, 0, "UNKNOWN - no value"},
		{"failed", func(r *event.Result) {
			r.Reading.Null, r.Reading.Err, r.Level = true, errors.New("connection\nrefused | sorry"), event.Critical
		}, 200, 0, "CRITICAL - connection refused   sorry"},
		{"below", func(r *event.Result) { r.Bands.Threshold, r.Bands.LowWarning, r.Bands.LowCritical = 10, 9, 7.5 }, 200, 0,
			"OK - 5, threshold 10 | value=5;9:;7.5: threshold=10 warning=9 critical=7.5"},
		{"near", func(r *event.Result) {
			r.Bands.Threshold, r.Bands.LowWarning, r.Bands.HighWarning, r.Bands.HighCritical = 10, 9, 11, 12
		}, 200, 0, "OK - 5, threshold 10 | value=5;9:11;~:12 threshold=10 low_warning=9 high_warning=11 high_critical=12"},
		{"small numbers have no exponent", func(r *event.Result) { r.Reading.Value, r.Unit = 1.5e-7, "s" }, 200, 0, "OK - 150 ns | value=0.00000015s;;"},
		{"odd unit", func(r *event.Result) { r.Unit = "req/s; x" }, 200, 0, "OK - 5 req/s; x | value=5;;"},
		{"late", func(r *event.Result) { r.Time = t0 }, 200, time.Minute, "OK - 5 (measured 2000-01-01 00:00:00Z) | value=5;;"},
		{"plugin", func(r *event.Result) {
			r.Reading.Text = "DISK OK"
			r.Reading.Perf = []event.Perf{{Label: "/var 'x'", Value: 3, Unit: "MB", Warning: 5, Critical: nan, Low: 0, High: nan}, {Label: "n", Value: nan}}
		}, 200, 0, "OK - 5: DISK OK | value=5;; '/var _x_'=3MB;5;;0"},
		{"too long", func(r *event.Result) { r.Reading.Text = strings.Repeat("ü", 100) }, 60, 0, "OK - 5: " + strings.Repeat("ü", 20) + " | value=5;;"},
	} {
		r := plain()
		c.change(&r)
		if got := pluginOutput(&r, c.most, c.late); got != c.want || len(got) > c.most {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

// Whatever a check's text holds, a command of Nagios stays one line of four fields.
func TestOutputIsOneLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := someResult("orders", 1, t0)
		r.Reading.Text, r.Host = rapid.String().Draw(t, "text"), rapid.String().Draw(t, "host")
		r.Reading.Perf = []event.Perf{{Label: rapid.String().Draw(t, "label"), Value: 1, Warning: nan, Critical: nan, Low: nan, High: nan}}
		most := rapid.IntRange(100, 600).Draw(t, "most")
		out := pluginOutput(&r, most, 0)
		if len(out) > most || strings.ContainsAny(out, "\n\r\x00") || strings.Count(out, "|") > 1 {
			t.Fatalf("%d bytes of %d: %q", len(out), most, out)
		}
		if host := clean(r.Host, ";"); strings.ContainsAny(host, ";\n\r\x00") {
			t.Fatalf("host %q", host)
		}
		n := &nsca{output: nscaOld, now: fixed}
		if p := n.packet(nil, &r, 7); len(p) != 720 {
			t.Fatalf("a packet of %d bytes", len(p))
		}
	})
}

// A server without an acknowledgement: what it has read when it ends well is
// delivered; what it left unread when it died is not.
func TestDrained(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	g := newGraphite(spec.Graphite{Address: l.Addr().String()})
	r := someResult("orders", 1, time.Unix(5, 0))
	type got struct {
		outcome map[int]error
		err     error
	}
	results := make(chan got, 1)
	send := func() {
		outcome, err := deliver(t, g, message{result: &r})
		results <- got{outcome, err}
	}
	go send()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	c.Close()
	const path = "tailscope.orders.GET__a.shop."
	if want := path + "value 1 5\n" + path + "threshold 100 5\n" + path + "warning 110 5\n" + path + "critical 130 5\n" + path + "state 0 5\n"; err != nil || string(b) != want {
		t.Errorf("got %q, want %q", b, want)
	}
	if res := <-results; res.err != nil || len(res.outcome) != 1 {
		t.Errorf("%+v", res)
	}
	go send()
	if c, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	_, _ = c.Read(make([]byte, 5)) // of more, and then it dies
	c.Close()
	if res := <-results; res.err == nil || len(res.outcome) != 0 {
		t.Errorf("%+v", res)
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	f, err := newFile(spec.FileOut{Path: path, What: "both"})
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	r := someResult("orders", 1, t0)
	put := func() {
		t.Helper()
		if outcome, err := deliver(t, f, eventMessage(someEvent("i", 1, event.Opened, event.OK, event.Critical, t0)), message{result: &r}); err != nil || len(outcome) != 2 {
			t.Fatal(outcome, err)
		}
	}
	put()
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	put()
	put()
	for name, want := range map[string]int{path: 4, path + ".1": 2} {
		b, err := os.ReadFile(name)
		if err != nil || bytes.Count(b, []byte("\n")) != want {
			t.Fatalf("%s: %v, %q", name, err, b)
		}
		for line := range bytes.Lines(b) {
			var v map[string]any
			if err := json.Unmarshal(line, &v); err != nil || v["check"] != "orders" {
				t.Errorf("%v: %s", err, line)
			}
		}
	}
	text, err := newFile(spec.FileOut{Path: path + ".text", Format: "text"})
	if err != nil {
		t.Fatal(err)
	}
	defer text.close()
	e := someEvent("i", 1, event.Opened, event.OK, event.Critical, t0)
	e.Text = "two\nlines"
	if _, err := deliver(t, text, eventMessage(e)); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path + ".text"); string(b) != "2000-01-01T00:00:00Z opened orders{service=\"shop\"} OK -> CRITICAL i/1: two lines\n" {
		t.Errorf("got %q", b)
	}
	missing, err := newFile(spec.FileOut{Path: filepath.Join(path, "below", "a", "file")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := deliver(t, missing, eventMessage(e)); err == nil {
		t.Error("a file below a file is written")
	}
}

func TestSeriesLabels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := map[string]string{}
		for range rapid.IntRange(0, 4).Draw(t, "n") {
			set[rapid.SampledFrom([]string{"a", "service", "k8s.pod", "operation", "b_2"}).Draw(t, "name")] = rapid.StringN(1, 20, -1).Draw(t, "value")
		}
		want := labels.FromMap(set)
		var b labels.Builder
		for _, l := range seriesLabels(event.Key{Labels: strings.Trim(want.String(), "{}")}) {
			b.Set(l.name, l.value)
		}
		if got := b.Labels(); got.String() != want.String() {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

func TestMatch(t *testing.T) {
	m := func(name, v string) *labels.Matcher { return labels.MustNewMatcher(labels.MatchRegexp, name, v) }
	r := someResult("orders", 1, t0)
	r.Labels = labels.FromStrings("check", "orders", "operation", "GET /a", "service", "shop", "team", "blue")
	e := someEvent("i", 1, event.Opened, event.OK, event.Critical, t0)
	for _, c := range []struct {
		match           []*labels.Matcher
		results, events bool
	}{
		{nil, true, true},
		{[]*labels.Matcher{m("service", "shop|cart")}, true, true},
		{[]*labels.Matcher{m("service", "shop"), m("check", "ord.*")}, true, true},
		{[]*labels.Matcher{m("check", "other")}, false, false},
		{[]*labels.Matcher{m("team", "blue")}, true, true},
		{[]*labels.Matcher{m("absent", "")}, true, true},
	} {
		def := spec.Receiver{Match: c.match}
		if matches(def, &r) != c.results || matchesEvent(def, &e) != c.events {
			t.Errorf("%v: results %v, events %v", c.match, matches(def, &r), matchesEvent(def, &e))
		}
	}
}

// An encryption that is not there is named, with those that are.
func TestEncryptions(t *testing.T) {
	for _, method := range []string{"aes192", "aes256", "rot13"} {
		_, err := newNSCA(spec.NSCA{Encryption: method, Password: &spec.Secret{Env: "X"}}, time.Now)
		want := `nsca: encryption "` + method + `" does not exist: use none, xor, 3des or aes128`
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestDefinitions(t *testing.T) {
	for _, r := range []spec.Receiver{
		{},
		{NSCA: &spec.NSCA{Address: "h:1", Encryption: "rot13"}},
		{NSCA: &spec.NSCA{Address: "h:1", Encryption: "aes128"}},
		{Icinga: &spec.Icinga{URL: "icinga"}},
		{Icinga: &spec.Icinga{URL: "https://icinga", CA: "/nonexistent"}},
		{Alertmanager: &spec.Alertmanager{URL: "am"}},
		{Webhook: &spec.Webhook{URL: spec.Text{Plain: "hook"}}},
		{FileOut: &spec.FileOut{}},
		{FileOut: &spec.FileOut{Path: "x", Format: "xml"}},
		{FileOut: &spec.FileOut{Path: "x", What: "all"}},
	} {
		dir := t.TempDir()
		if _, err := Open(t.Context(), Options{Dir: dir, Receivers: map[string]spec.Receiver{"broken": r}}); err == nil || !strings.Contains(err.Error(), "receiver broken: ") {
			t.Errorf("%+v: got %v", r, err)
		}
	}
}

// People read a ratio in per cent, in templates too.
func TestTemplateOfARatio(t *testing.T) {
	d := newTemplateData(&event.Event{Value: 0.02682, Unit: "ratio", Bands: event.Bands{Threshold: 0.01, LowCritical: nan, LowWarning: nan, HighWarning: 0.01, HighCritical: nan}})
	if got := d.Value + d.Unit + " " + d.Threshold + d.Unit + " " + d.Warning + d.Unit; got != "2.682% 1% 1%" {
		t.Errorf("got %s", got)
	}
}

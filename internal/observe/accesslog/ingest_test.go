package accesslog

import (
	"context"
	encodinghex "encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/internal/agg"
)

func importText(t testing.TB, in *Ingester, c Config, lines string) error {
	t.Helper()
	_, err := in.Import(t.Context(), strings.NewReader(lines), Import{Source: compile(t, c)})
	return err
}

// A line becomes a request, its attempts and its queue.
func TestLineToSpans(t *testing.T) {
	l := newLedger()
	line := `10.0.0.9 - - [01/Mar/2026:11:59:30 +0000] "GET /cart/4711?x=1 HTTP/1.1" 200 512 "-" "curl/8" 1772366370.250 0.120 "10.0.0.1:8080, 10.0.0.2:8080" "0.030, 0.080" "0.002, 0.001" "-, 0.079" "502, 200" "backend" "acme.example.com" "t=1772366370.100" "4bf92f3577b34da6a3ce929d0e0e4736" "-"` + "\n"
	if err := importText(t, testIngester(l, nil), Config{Tenant: "host"}, line); err != nil {
		t.Fatal(err)
	}
	want := `shop "GET /cart/{id}" app server ok tenant=acme: 120ms at 11:59:30.250
shop "GET backend" external client error tenant=acme instance=10.0.0.1:8080: 30ms at 11:59:30.160
shop "GET backend" external client ok tenant=acme instance=10.0.0.2:8080: 80ms at 11:59:30.240`
	if got := l.text(); got != want {
		t.Errorf("observed\n%s\nwant\n%s", got, want)
	}
	if len(l.whole) != 1 {
		t.Fatalf("%d traces, want 1", len(l.whole))
	}
	got := ""
	at := func(ns int64) string { return time.Unix(0, ns).UTC().Format("05.000") }
	root := l.whole[0][0].ID
	for _, s := range l.whole[0] {
		got += fmt.Sprintf("%s %s %s-%s failed=%v root=%v %q", encodinghex.EncodeToString(s.TraceID[:4]), l.names[s.Name], at(s.Start), at(s.End), s.Failed, s.Parent == root, s.Detail)
		if s.Queued != 0 {
			got += " queued " + at(s.Queued)
		}
		got += "\n"
	}
	want = `4bf92f35 shop "GET /cart/{id}" app server instance= tenant=acme 30.130-30.250 failed=false root=false "/cart/4711" queued 30.100
4bf92f35 shop "GET backend" external client instance=10.0.0.1:8080 tenant=acme 30.130-30.160 failed=true root=true "10.0.0.1:8080, connect 2 ms, status 502"
4bf92f35 shop "GET backend" external client instance=10.0.0.2:8080 tenant=acme 30.160-30.240 failed=false root=true "10.0.0.2:8080, connect 1 ms, header 79 ms, status 200"
`
	if got != want {
		t.Errorf("traced\n%s\nwant\n%s", got, want)
	}
}

// Attempts that come to more than the request, by rounding, stay within it.
func TestAttemptsStayWithinTheRequest(t *testing.T) {
	l := newLedger()
	line := `1772366370.250 0.100 502 GET /x "0.060, 0.041" "10.0.0.1:80, 10.0.0.2:80"` + "\n"
	if err := importText(t, testIngester(l, nil), Config{Format: `$msec $request_time $status $request_method $uri "$upstream_response_time" "$upstream_addr"`}, line); err != nil {
		t.Fatal(err)
	}
	spans := l.whole[0]
	if len(spans) != 3 || spans[2].End != spans[0].End || spans[2].Start != spans[1].End {
		t.Errorf("got %+v", spans)
	}
	want := `shop "GET /x" app server error: 100ms at 11:59:30.250
shop "GET upstream:80" external client error instance=10.0.0.1:80: 60ms at 11:59:30.210
shop "GET upstream:80" external client error instance=10.0.0.2:80: 41ms at 11:59:30.250`
	if got := l.text(); got != want {
		t.Errorf("observed\n%s\nwant\n%s", got, want)
	}
}

func TestTraceIDs(t *testing.T) {
	const format = `$msec $request_time $status $request_method $uri $request_id $http_traceparent`
	ids := func(lines string) []string {
		l := newLedger()
		if err := importText(t, testIngester(l, nil), Config{Format: format}, lines); err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, w := range l.whole {
			out = append(out, encodinghex.EncodeToString(w[0].TraceID[:]))
		}
		return out
	}
	const line = "1772366370.250 0.100 200 GET /x "
	text := line + "- 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n" +
		line + "9a1d8c9e-8c2b-4f5a-9a53-3a2f3c1d4e5f -\n" +
		line + "ffffffffffffffffffffffffffffffff -\n" +
		line + "short -\n" + line + "- -\n" + line + "- -\n" +
		line + "- 00-00000000000000000000000000000000-00f067aa0ba902b7-01\n"
	got := ids(text)
	want := []string{"4bf92f3577b34da6a3ce929d0e0e4736", "9a1d8c9e8c2b4f5a9a533a2f3c1d4e5f", "ffffffffffffffffffffffffffffffff"}
	if len(got) != 7 || fmt.Sprint(got[:3]) != fmt.Sprint(want) {
		t.Fatalf("got %v, want %v first", got, want)
	}
	seen := map[string]bool{}
	for _, id := range got {
		if seen[id] || strings.Trim(id, "0") == "" {
			t.Errorf("%s is given twice, or is none", id)
		}
		seen[id] = true
	}
	if again := ids(text); fmt.Sprint(again) != fmt.Sprint(got) {
		t.Errorf("the same lines read again: got %v, want %v", again, got)
	}
}

func TestRefusedLinesAreCounted(t *testing.T) {
	l := newLedger()
	in := testIngester(l, nil)
	const format = `$msec $request_time $status $request_method $uri`
	good := "1772366370.250 0.100 200 GET /x\n"
	lines := good + "nonsense\n" + good + "\r\n\n" +
		"1772366370.250 - 200 GET /x\r\n" +
		"1472366370.250 0.100 200 GET /x\n" + // years ago
		"1772369999.250 0.100 200 GET /x\n" + // an hour ahead
		"1772360000.250 0.100 200 GET /x\n" + // before since
		"1772366370.250 90000 200 GET /x\n" + // more than a day
		strings.Repeat("y", MaxLine+1) + "\n" + good
	out, err := in.Import(t.Context(), strings.NewReader(lines), Import{Source: compile(t, Config{Format: format}), Since: noon.Add(-time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	// The line of years ago is before since, too.
	want := map[string]uint64{"other_format": 1, "no_duration": 1, "too_new": 1, "before_since": 2, "too_long": 1, "long_duration": 1}
	if out.Lines != 10 || out.Accepted != 3 || fmt.Sprint(out.Refused) != fmt.Sprint(want) {
		t.Errorf("got %d lines, %d accepted, %v; want 10, 3, %v", out.Lines, out.Accepted, out.Refused, want)
	}
	if l.requests() != 3 {
		t.Errorf("%d requests, want 3", l.requests())
	}
	if len(out.Problems) != 5 || out.Problems[0].Line != 2 || out.Problems[0].Column != 1 || out.Problems[0].Text != "nonsense" {
		t.Errorf("problems %+v", out.Problems)
	}
	if st := in.Stats(); st.Lines != 10 || st.Accepted != 3 {
		t.Errorf("stats %+v", st)
	}
}

// An overloaded server is waited for; each line is counted once.
func TestOverloadIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		l.overload = 3
		begin := time.Now()
		in := New(Options{Sink: l, Traces: l, Now: func() time.Time { return noon }})
		out, err := in.Import(t.Context(), strings.NewReader(strings.Repeat(example, 100)), Import{Source: compile(t, Config{})})
		if err != nil || out.Accepted != 100 || l.requests() != 100 || len(l.whole) != 100 {
			t.Errorf("got %+v, %v, %d requests, %d traces; want 100", out, err, l.requests(), len(l.whole))
		}
		if waited := time.Since(begin); waited != 3*time.Second {
			t.Errorf("waited %s, want 3s", waited)
		}
	})
}

// numbered makes n lines of a file, all different.
func numbered(from, n int) string {
	var b strings.Builder
	for i := from; i < from+n; i++ {
		fmt.Fprintf(&b, "1772366370.250 0.100 200 GET /x/%d\n", i)
	}
	return b.String()
}

const plain = `$msec $request_time $status $request_method $uri`

func TestImportTwiceIsNoticed(t *testing.T) {
	l, st := newLedger(), newMemory()
	file := numbered(0, 1000)
	c := Config{Format: plain}
	if err := importText(t, testIngester(l, st), c, file); err != nil {
		t.Fatal(err)
	}
	if err := importText(t, testIngester(l, st), c, file); !errors.Is(err, ErrAlready) {
		t.Errorf("got %v, want ErrAlready", err)
	}
	if got := l.requests(); got != 1000 {
		t.Errorf("%d requests, want 1000", got)
	}
	// It has grown: only what is new counts.
	if err := importText(t, testIngester(l, st), c, file+numbered(1000, 10)); err != nil {
		t.Error(err)
	}
	if got := l.requests(); got != 1010 {
		t.Errorf("%d requests, want 1010", got)
	}
	// It is of another service.
	if err := importText(t, testIngester(l, st), Config{Format: plain, Service: "other"}, file); err != nil {
		t.Error(err)
	}
	if _, err := testIngester(l, st).Import(t.Context(), strings.NewReader(file), Import{Source: compile(t, c), Again: true}); err != nil {
		t.Error(err)
	}
	if got := l.requests(); got != 3010 {
		t.Errorf("%d requests, want 3010", got)
	}
}

// A small file is recognised when it has grown beyond what it was known by.
func TestSmallFileGrows(t *testing.T) {
	l, st := newLedger(), newMemory()
	c := Config{Format: plain}
	for n := 1; n <= 1024; n *= 2 {
		if err := importText(t, testIngester(l, st), c, numbered(0, n)); err != nil {
			t.Fatal(err)
		}
		if got := l.requests(); got != n {
			t.Fatalf("%d requests, want %d", got, n)
		}
	}
}

// cut breaks off after so many bytes.
type cut struct {
	r    io.Reader
	left int
}

func (c *cut) Read(b []byte) (int, error) {
	if c.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.r.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

// However often an import breaks off, each line is counted once.
func TestImportGoesOnWhereItStopped(t *testing.T) {
	l, st := newLedger(), newMemory()
	const lines = 200_000
	file := numbered(0, lines)
	src := compile(t, Config{Format: plain})
	breaks := 0
	for at := blockBytes + 1000; ; at += blockBytes/2 + 12345 {
		in := testIngester(l, st)
		if breaks == 1 {
			l.fail = errors.New("journal failed")
		} else {
			l.fail = nil
		}
		out, err := in.Import(t.Context(), &cut{strings.NewReader(file), at}, Import{Source: src})
		if err == nil {
			if out.Bytes != int64(len(file)) || out.ResumedAt == 0 {
				t.Errorf("got %+v, want all %d bytes, resumed", out, len(file))
			}
			break
		}
		if at >= len(file) {
			at = len(file) + 1
		}
		breaks++
	}
	if got := l.requests(); got != lines || breaks < 3 {
		t.Errorf("%d requests after %d breaks, want %d", got, breaks, lines)
	}
}

func TestUnfinishedLine(t *testing.T) {
	l, st := newLedger(), newMemory()
	c := Config{Format: plain}
	whole := numbered(0, 100)
	if err := importText(t, testIngester(l, st), c, whole+"1772366370.250 0.1"); err != nil {
		t.Fatal(err)
	}
	if got := l.requests(); got != 100 {
		t.Errorf("%d requests, want 100", got)
	}
	if err := importText(t, testIngester(l, st), c, whole+"1772366370.250 0.1 200 GET /y"); err != nil {
		t.Fatal(err)
	}
	if got := l.requests(); got != 101 {
		t.Errorf("%d requests, want 101", got)
	}
}

func TestDryImportCountsNothing(t *testing.T) {
	in := New(Options{Now: func() time.Time { return noon }})
	out, err := in.Import(t.Context(), strings.NewReader(strings.Repeat(example, 7)), Import{Source: compile(t, Config{Tenant: "host"}), Dry: true})
	if err != nil {
		t.Fatal(err)
	}
	if out.Accepted != 7 || len(out.Routes) != 1 || out.Routes[0].Name != "GET /cart/{id}" || len(out.Tenants) != 1 || out.Tenants[0].Requests != 7 {
		t.Errorf("got %+v", out)
	}
	if st := in.Stats(); st.Lines != 0 {
		t.Errorf("stats %+v", st)
	}
}

// Targets are resolved anew when the aggregator or the assembler forgets them.
func TestEpochsChange(t *testing.T) {
	l := newLedger()
	in := testIngester(l, nil)
	src := compile(t, Config{})
	f, err := in.feed(t.Context(), src.mustSettle(t), 1, "test")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if i == 2 {
			l.mu.Lock()
			l.epoch, l.names, l.byName = 2, []string{"", "not this one"}, map[string]int{}
			l.mu.Unlock()
		}
		if err := f.ingestBlock(t.Context(), []byte(example), 0); err != nil {
			t.Fatal(err)
		}
	}
	if l.counts["not this one"] != 0 || l.requests() != 4 {
		t.Errorf("got %v", l.counts)
	}
}

func (s *Source) mustSettle(t testing.TB) *Source {
	t.Helper()
	out, err := s.ForLines([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var _ interface {
	Sink
	Traces
} = (*ledger)(nil)
var _ Sink = Into((*agg.Aggregator)(nil))

// A field with ever new values does not fill memory.
func TestValuesAreBounded(t *testing.T) {
	l := newLedger()
	in := New(Options{Sink: l, Now: func() time.Time { return noon }})
	src := compile(t, Config{Format: plain + " $http_x", Tenant: "field:http_x"})
	f, err := in.feed(t.Context(), src, 1, "test")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		var b strings.Builder
		for j := range 10_000 {
			fmt.Fprintf(&b, "1772366370.250 0.100 200 GET /x t%d-%d\n", i, j)
		}
		if err := f.ingestBlock(t.Context(), []byte(b.String()), 0); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(f.svc.texts); n > maxValues+10_001 {
		t.Errorf("%d texts are kept", n)
	}
	if n := len(f.tally.tenants); n > maxTallied+1 {
		t.Errorf("%d tenants are tallied", n)
	}
	if l.requests() != 200_000 || l.counts[`shop "GET /x" app server ok tenant=t19-9999`] != 1 {
		t.Errorf("%d requests", l.requests())
	}
}

// Of many who import the same file at once, each line is counted once.
func TestImportsOfOneFileAtOnce(t *testing.T) {
	l, st := newLedger(), newMemory()
	in := testIngester(l, st)
	file := numbered(0, 20_000)
	src := compile(t, Config{Format: plain})
	errs := make(chan error)
	for range 8 {
		go func() {
			_, err := in.Import(t.Context(), strings.NewReader(file), Import{Source: src})
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil && !errors.Is(err, ErrBusy) && !errors.Is(err, ErrAlready) {
			t.Error(err)
		}
	}
	if got := l.requests(); got != 20_000 {
		t.Errorf("%d requests, want 20000", got)
	}
}

// A header that is not a time of our days is not a queue of years.
func TestImplausibleQueue(t *testing.T) {
	l := newLedger()
	in := testIngester(l, nil)
	c := Config{Format: plain + " $http_x_request_start"}
	if err := importText(t, in, c, "1772366370.250 0.100 200 GET /x t=1600000000.000\n1772366370.250 0.100 200 GET /x t=1772366370.200\n"); err != nil {
		t.Fatal(err)
	}
	// The second is later than the start: that is a clock which disagrees, for the assembler to count.
	if a, b := l.whole[0][0].Queued, l.whole[1][0].Queued; a != 0 || b != 1772366370200e6 {
		t.Errorf("queued %d and %d", a, b)
	}
	if n := in.Stats().QueueImplausible; n != 1 {
		t.Errorf("%d times are implausible, want 1", n)
	}
}

// What is wrong with the lines is reported to their sender; what is wrong with the
// server is not.
func TestWhoseFaultAnImportIs(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		st         State
		status     int
		words      string
	}{
		{"lines of no format", "hello\n", newMemory(), http.StatusBadRequest, "no known format"},
		{"a state that cannot be read", "hello\n", brokenState{}, http.StatusBadRequest, "no known format"},
		{"the same with good lines", "1772366370.250 0.120 200 GET /\n", brokenState{}, http.StatusInternalServerError, "import the same file again"},
	} {
		d := NewImportHandler(testIngester(newLedger(), tc.st))
		w := httptest.NewRecorder()
		query := url.Values{"service": {"shop"}}
		if tc.status == http.StatusInternalServerError {
			query.Set("format", plain)
		}
		d.ServeHTTP(w, httptest.NewRequest(http.MethodPost, ImportPath+"?"+query.Encode(), strings.NewReader(tc.body)))
		d.Close()
		if w.Code != tc.status || !strings.Contains(strings.ToLower(w.Body.String()), tc.words) || strings.Contains(w.Body.String(), "disk") {
			t.Errorf("%s: %d %s", tc.name, w.Code, w.Body)
		}
	}
}

// brokenState cannot be read or written.
type brokenState struct{}

var errDisk = errors.New("disk failed")

func (brokenState) Load(context.Context, string, func(string, []byte) error) error { return errDisk }
func (brokenState) Save(context.Context, map[string][]byte) error                  { return errDisk }

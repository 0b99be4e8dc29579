package accesslog

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// combinedLine is a line of nginx's default format.
func combinedLine(end time.Time, path string, status, bytes int) string {
	return fmt.Sprintf("10.0.0.9 - - [%s] \"GET %s HTTP/1.1\" %d %d \"-\" \"curl/8\"\n", end.Format("02/Jan/2006:15:04:05 -0700"), path, status, bytes)
}

// Lines without durations are counted by slot and series, with their sizes; no
// span is made of them.
func TestUntimedLinesAreCounted(t *testing.T) {
	l := newLedger()
	at := noon.Add(-time.Minute)
	lines := combinedLine(at, "/cart/4711?x=1", 200, 512) + combinedLine(at.Add(2*time.Second), "/cart/4712", 200, 0) +
		combinedLine(at.Add(3*time.Second), "/cart/4713", 502, 100) + combinedLine(at.Add(10*time.Second), "/cart/1", 200, 7)
	out, err := testIngester(l, nil).Import(t.Context(), strings.NewReader(lines), Import{Source: compile(t, Config{})})
	if err != nil {
		t.Fatal(err)
	}
	if out.Format != "combined" || out.Accepted != 4 || out.Untimed != 4 || !strings.Contains(out.Notice, Directive) || len(out.Routes) != 1 {
		t.Errorf("got %+v", out)
	}
	want := `access_log_response_bytes{operation="GET /cart/{id}", service="shop", status="ok"}: 8m32s at 11:59:00.000
access_log_response_bytes{operation="GET /cart/{id}", service="shop", status="ok"}: 0s at 11:59:02.000
access_log_response_bytes{operation="GET /cart/{id}", service="shop", status="error"}: 1m40s at 11:59:03.000
access_log_response_bytes{operation="GET /cart/{id}", service="shop", status="ok"}: 7s at 11:59:10.000
`
	const ok = `access_log_requests_total{operation="GET /cart/{id}", service="shop", status="ok"}: `
	const bad = `access_log_requests_total{operation="GET /cart/{id}", service="shop", status="error"}: `
	for _, c := range []struct {
		name string
		n    int
		at   string
	}{{ok, 2, "11:59:02.000"}, {bad, 1, "11:59:03.000"}} {
		// The total stands in the slot before, of each resolution.
		for _, before := range []string{"23:59:59.999", "10:59:59.999", "11:49:59.999", "11:58:59.999", "11:58:59.999"} {
			want += c.name + "0 at " + before + "\n"
		}
		want += fmt.Sprintf("%s%d at %s\n", c.name, c.n, c.at)
	}
	want += ok + "1 at 11:59:10.000"
	if got := l.text(); got != want {
		t.Errorf("observed\n%s\nwant\n%s", got, want)
	}
	if len(l.whole) != 0 {
		t.Errorf("%d traces, want none", len(l.whole))
	}
}

// What is older than what was counted, or read beside it, has its own sequence; a
// file keeps its sequence, also over a restart.
func TestLanes(t *testing.T) {
	l, st := newLedger(), newMemory()
	totals := func() string {
		text := ""
		for i := range 6 {
			name := `access_log_requests_total{operation="GET /x", service="shop", status="ok"}`
			if i > 0 {
				name = fmt.Sprintf(`access_log_requests_total{lane="%d", operation="GET /x", service="shop", status="ok"}`, i+1)
			}
			text += fmt.Sprintf("%d ", l.counts[name])
		}
		return strings.TrimSpace(text)
	}
	lines := func(before time.Duration, n int) string {
		return strings.Repeat(combinedLine(noon.Add(-before), "/x", 200, n), n)
	}
	in := testIngester(l, st)
	for i, step := range []struct {
		before time.Duration
		n      int
		want   string
	}{
		{time.Hour, 3, "3 0 0 0 0 0"},
		{time.Minute, 2, "5 0 0 0 0 0"},
		{2 * time.Hour, 4, "5 4 0 0 0 0"}, // older than any
		{90 * time.Minute, 1, "5 5 0 0 0 0"},
		{3 * time.Hour, 1, "5 5 1 0 0 0"},
		{30 * time.Second, 6, "11 5 1 0 0 0"},
	} {
		if err := importText(t, in, Config{}, lines(step.before, step.n)); err != nil {
			t.Fatal(err)
		}
		if got := totals(); got != step.want {
			t.Errorf("step %d: got %s, want %s", i, got, step.want)
		}
		in = testIngester(l, st) // as if started anew
	}
	svc, err := in.service(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	first, second := svc.enterSequence("a", noon.UnixNano()), svc.enterSequence("b", noon.UnixNano())
	if first == second || svc.enterSequence("a", 0) != first {
		t.Errorf("two files share a sequence, or one has two")
	}
	for i := range 2 * maxSequences {
		svc.enterSequence(fmt.Sprint(i), 0)
	}
	if len(svc.sequences) != maxSequences {
		t.Errorf("%d sequences, want %d", len(svc.sequences), maxSequences)
	}
	svc.leaveSequence("b")
	if got := svc.enterSequence("c", noon.UnixNano()); got != second {
		t.Errorf("got sequence %d, want %d that was left", got, second)
	}
}

// An overloaded server counts once, and what is said of totals is said again.
func TestUntimedOverload(t *testing.T) {
	l := newLedger()
	in := New(Options{Sink: l, Now: func() time.Time { return noon }})
	f, err := in.feed(t.Context(), compile(t, Config{Format: "combined"}), 1, "x")
	if err != nil {
		t.Fatal(err)
	}
	l.overload = 1
	block := []byte(combinedLine(noon, "/x", 200, 1))
	if f.try(t.Context(), block, 0) == nil {
		t.Fatal("not refused")
	}
	for i := range 3 {
		if err := f.try(t.Context(), block, int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	const name = `access_log_requests_total{operation="GET /x", service="shop", status="ok"}`
	if l.counts[name] != 3 || strings.Count(l.text(), name+": 0 at") != len(steps) {
		t.Errorf("counted\n%s", l.text())
	}
}

// A followed log without durations is logged once, and read on over a
// rotation and a restart.
func TestFollowedWithoutDurations(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.watch = Watch{Path: w.path, Source: compile(t, Config{}), Whole: true}
	add := func(n int) {
		w.write(w.path, strings.Repeat(combinedLine(w.now, "/x", 200, 10), n))
	}
	add(3)
	w.start()
	w.rounds(2)
	add(4)
	w.rounds(1)
	w.rename(w.path, w.path+".1")
	add(5)
	w.rounds(2)
	w.start()
	add(6)
	w.rounds(2)
	const name = `access_log_requests_total{operation="GET /x", service="shop", status="ok"}`
	if got := w.l.counts[name]; got != 18 {
		t.Errorf("%d requests, want 18: %v", got, w.l.counts)
	}
	// Once for each file, and for each start.
	if got := strings.Count(w.said.String(), "has no durations"); got != 3 || !strings.Contains(w.said.String(), "log_format tailscope") {
		t.Errorf("logged %d times:\n%s", got, w.said.String())
	}
}

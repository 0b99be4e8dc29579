package pair

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

const second = int64(time.Second)

var both = []Shadow{{"control", Control}, {"new", Candidate}}

type clock struct{ nanos int64 }

func (c *clock) now() int64 { return c.nanos }

func testLedger(t testing.TB, o Options) (*Ledger, *memory, *clock) {
	t.Helper()
	m, c := newMemory(), &clock{1_000_000 * second}
	o.Service, o.Experiment = "shop", "e1"
	if o.Sink == nil {
		o.Sink = m
	}
	if o.Now == nil {
		o.Now = c.now
	}
	if o.Shadows == nil {
		o.Shadows = both
	}
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	return NewLedger(o), m, c
}

// answer returns a whole leg that took some milliseconds.
func answer(c *clock, status int, millis int64) Leg {
	return Leg{Start: c.nanos, FirstByte: c.nanos + millis*1e6/2, End: c.nanos + millis*1e6, Status: status, Bytes: 100 * millis}
}

func flush(t testing.TB, b *Ledger) {
	t.Helper()
	if err := b.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// dump is one line for every distribution and counter, sorted.
func (m *memory) dump() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var lines []string
	for key, h := range m.dists {
		lines = append(lines, fmt.Sprintf("%d %s n=%d sum=%.4g", key.at, key.series, h.Count, h.Sum))
	}
	for key, v := range m.counts {
		lines = append(lines, fmt.Sprintf("%d %s %v", key.at, key.series, v))
	}
	slices.Sort(lines)
	return strings.ReplaceAll(strings.Join(lines, "\n"), `experiment="e1", `, "")
}

func TestFamilies(t *testing.T) {
	b, m, c := testLedger(t, Options{})
	names := Names{"GET /cart/{id}", "acme"}

	x := b.Begin(names, []uint8{1, 1}, false)
	x.Sent(0)
	x.Sent(1)
	x.EndCopy(1, answer(c, 200, 30))
	x.EndPrimary(answer(c, 200, 20))
	c.nanos += 10 * second // the last leg ends in the next slot; the request is of the first
	x.EndCopy(0, Leg{Start: c.nanos, FirstByte: c.nanos + 1, End: c.nanos + 10e6, Status: 404})

	x = b.Skip(names, Share)
	x.EndPrimary(answer(c, 200, 40))

	x = b.Begin(names, []uint8{1, 1}, false)
	x.EndPrimary(Leg{Cause: Refused})
	x.EndCopy(0, Leg{Cause: QueueFull})
	x.Sent(1)
	x.EndCopy(1, answer(c, 503, 50))
	flush(t, b)

	got := m.dump()
	want := strings.TrimSpace(`
1000000 mirror_answer_bytes{operation="GET /cart/{id}", service="shop", status="ok", tenant="acme", variant="control"} n=1 sum=0
1000000 mirror_answer_bytes{operation="GET /cart/{id}", service="shop", status="ok", tenant="acme", variant="new"} n=1 sum=3000
1000000 mirror_answer_bytes{operation="GET /cart/{id}", service="shop", status="ok", tenant="acme", variant="primary"} n=1 sum=2000
1000000 mirror_copies_total{outcome="answered", service="shop", variant="control"} 1
1000000 mirror_copies_total{outcome="answered", service="shop", variant="new"} 1
1000000 mirror_copies_total{outcome="dropped_queue_full", service="shop", variant="control"} 1
1000000 mirror_copies_total{outcome="unpaired", service="shop", variant="new"} 1
1000000 mirror_duration_seconds{operation="GET /cart/{id}", service="shop", status="ok", tenant="acme", variant="control"} n=1 sum=0.01
1000000 mirror_duration_seconds{operation="GET /cart/{id}", service="shop", status="ok", tenant="acme", variant="new"} n=1 sum=0.03
1000000 mirror_duration_seconds{operation="GET /cart/{id}", service="shop", status="ok", tenant="acme", variant="primary"} n=1 sum=0.02
1000000 mirror_failed_total{outcome="failed_refused", service="shop", variant="primary"} 1
1000000 mirror_first_byte_seconds{operation="GET /cart/{id}", service="shop", status="ok", tenant="acme", variant="control"} n=1 sum=1e-09
1000000 mirror_first_byte_seconds{operation="GET /cart/{id}", service="shop", status="ok", tenant="acme", variant="new"} n=1 sum=0.015
1000000 mirror_first_byte_seconds{operation="GET /cart/{id}", service="shop", status="ok", tenant="acme", variant="primary"} n=1 sum=0.01
1000000 mirror_ratio{against="control", operation="GET /cart/{id}", service="shop", status="ok", tenant="acme", variant="new"} n=1 sum=3
1000000 mirror_ratio{against="primary", operation="GET /cart/{id}", service="shop", status="ok", tenant="acme", variant="control"} n=1 sum=0.5
1000000 mirror_ratio{against="primary", operation="GET /cart/{id}", service="shop", status="ok", tenant="acme", variant="new"} n=1 sum=1.5
1000000 mirror_requests_total{outcome="mirrored", service="shop"} 2
1000000 mirror_requests_total{outcome="skipped_share", service="shop"} 1
1000010 mirror_answer_bytes{mirrored="no", operation="GET /cart/{id}", service="shop", status="ok", tenant="acme", variant="primary"} n=1 sum=4000
1000010 mirror_answer_bytes{operation="GET /cart/{id}", service="shop", status="error", tenant="acme", variant="new"} n=1 sum=5000
1000010 mirror_duration_seconds{mirrored="no", operation="GET /cart/{id}", service="shop", status="ok", tenant="acme", variant="primary"} n=1 sum=0.04
1000010 mirror_duration_seconds{operation="GET /cart/{id}", service="shop", status="error", tenant="acme", variant="new"} n=1 sum=0.05
1000010 mirror_duration_seconds{operation="GET /cart/{id}", service="shop", status="error", tenant="acme", variant="primary"} n=1 sum=0
1000010 mirror_first_byte_seconds{mirrored="no", operation="GET /cart/{id}", service="shop", status="ok", tenant="acme", variant="primary"} n=1 sum=0.02
1000010 mirror_first_byte_seconds{operation="GET /cart/{id}", service="shop", status="error", tenant="acme", variant="new"} n=1 sum=0.025`)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if s := b.Stats(); s.Requests != 3 || s.Open != 0 || s.Strays != 0 || s.Held != 0 ||
		!maps.Equal(s.Skipped, map[string]uint64{"share": 1}) || !maps.Equal(s.Failed, map[string]uint64{"refused": 1}) {
		t.Errorf("stats %+v", s)
	}
}

const ratioOfNew = `mirror_ratio{against="primary", experiment="e1", operation="op", service="shop", status="ok", variant="new"}`

// A ratio needs two whole answers below 500, and several copies of one request
// make one ratio, of the geometric mean of their durations.
func TestRatio(t *testing.T) {
	f := func(want float64, primary Leg, copies ...Leg) {
		t.Helper()
		b, m, _ := testLedger(t, Options{Shadows: []Shadow{{"new", Candidate}}})
		x := b.Begin(Names{Operation: "op"}, []uint8{uint8(len(copies))}, false)
		for i, l := range copies {
			if i == 1 {
				x.EndPrimary(primary)
			}
			x.EndCopy(0, l)
		}
		if len(copies) < 2 {
			x.EndPrimary(primary)
		}
		flush(t, b)
		h := m.total(ratioOfNew)
		if got := h.Sum; h.Count > 1 || math.Abs(got-want) > 1e-12 {
			t.Errorf("%d ratios that add up to %v, want %v", h.Count, got, want)
		}
	}
	c := &clock{second}
	f(2, answer(c, 200, 10), answer(c, 200, 20))
	f(4, answer(c, 200, 10), answer(c, 200, 20), answer(c, 404, 80))
	f(4, answer(c, 200, 10), answer(c, 200, 20), answer(c, 500, 70), answer(c, 404, 40), Leg{Cause: Expired}, answer(c, 200, 80))
	f(0, answer(c, 500, 10), answer(c, 200, 20))
	f(0, answer(c, 200, 10), answer(c, 500, 20))
	f(0, answer(c, 200, 0), answer(c, 200, 20)) // no time passed: the clock is too coarse
	f(0, answer(c, 200, 10), Leg{Start: second, FirstByte: second + 1, Status: 200, Cause: Reset})
	f(0, Leg{Start: second, Cause: TimedOut}, answer(c, 200, 20))
}

// A leg that never ended is timed until it was given up, so that no failure is
// missing among the errors.
func TestFailedLegIsTimed(t *testing.T) {
	b, m, c := testLedger(t, Options{})
	x := b.Begin(Names{Operation: "op"}, []uint8{0, 1}, false)
	start := c.nanos
	x.EndPrimary(answer(c, 200, 1))
	x.Sent(1)
	c.nanos += 3 * second
	x.EndCopy(1, Leg{Start: start, Cause: TimedOut})
	flush(t, b)
	h := m.total(`mirror_duration_seconds{experiment="e1", operation="op", service="shop", status="error", variant="new"}`)
	if h.Count != 1 || h.Sum != 3 {
		t.Errorf("%d errors of %v s together, want one of 3 s", h.Count, h.Sum)
	}
}

// Legs that a client broke off are counted and are not errors: the server is not at
// fault.
func TestNoFaultIsNoError(t *testing.T) {
	for c := QueueFull; c < NumCauses; c++ {
		b, m, clock := testLedger(t, Options{})
		x := b.Begin(Names{Operation: "op"}, []uint8{0, 1}, false)
		x.Sent(1)
		x.EndCopy(1, Leg{Start: clock.nanos, Cause: c})
		x.EndPrimary(Leg{Start: clock.nanos, Cause: c})
		flush(t, b)
		want := uint64(0)
		if slices.Contains([]Cause{Refused, ConnectTime, Handshake, Reset, TimedOut, BadAnswer, AnswerLimit}, c) {
			want = 1
		}
		for _, variant := range []string{"primary", "new"} {
			h := m.total(`mirror_duration_seconds{experiment="e1", operation="op", service="shop", status="error", variant="` + variant + `"}`)
			if h.Count != want {
				t.Errorf("%v of %s: %d errors, want %d", c, variant, h.Count, want)
			}
		}
		if a, s := b.Account(1), b.Stats(); a.Failed[c.String()] != 1 || s.Failed[c.String()] != 1 {
			t.Errorf("%v is not counted: %+v, %+v", c, a, s)
		}
	}
}

func TestID(t *testing.T) {
	b, _, c := testLedger(t, Options{})
	var ids []string
	for range 3 {
		x := b.Skip(Names{}, Share)
		ids = append(ids, string(x.AppendID([]byte("e1/"))))
		x.EndPrimary(answer(c, 200, 1))
	}
	if want := []string{"e1/0000000000000001", "e1/0000000000000002", "e1/0000000000000003"}; !slices.Equal(ids, want) {
		t.Errorf("ids %v, want %v", ids, want)
	}
}

// What is called too often is left out, and the sums close all the same.
func TestStrays(t *testing.T) {
	b, _, c := testLedger(t, Options{})
	x := b.Begin(Names{Operation: "op"}, []uint8{1, 2}, false)
	x.Sent(1)
	x.Sent(1)
	x.Sent(1)
	x.EndCopy(1, answer(c, 200, 1))
	x.EndCopy(1, Leg{Cause: Stopped}) // was begun, so it has failed
	x.EndCopy(1, answer(c, 200, 1))
	x.EndCopy(0, answer(c, 200, 1)) // never said to be sent
	x.EndPrimary(answer(c, 200, 1))
	if s := b.Stats(); s.Strays != 1 || s.Open != 0 {
		t.Errorf("%d strays and %d open, want 1 and 0", s.Strays, s.Open)
	}
	for i, want := range []string{"1 0 map[] 1 0 map[] 1 0 1 0", "2 0 map[] 2 0 map[stopped:1] 1 0 1 0"} {
		a := b.Account(i)
		got := fmt.Sprint(a.Offered, a.Queued, a.Dropped, a.Mirrored, a.Waiting, a.Failed, a.Answered, a.Pairing, a.Paired, a.Unpaired)
		if got != want {
			t.Errorf("account %d is %s, want %s", i, got, want)
		}
	}
}

func TestWatch(t *testing.T) {
	var seen []string
	b, _, c := testLedger(t, Options{Watch: func(x *Exchange) {
		seen = append(seen, fmt.Sprint(x.Request, x.Names().Operation, x.Primary().Status, len(x.Copies(0)), x.Copies(1)[0].Answer.Status, x.Copies(1)[1].Cause))
	}})
	for _, keep := range []bool{true, false, true} {
		x := b.Begin(Names{Operation: "op"}, []uint8{0, 2}, keep)
		if x.Keep() != keep {
			t.Errorf("keep is %v", x.Keep())
		}
		x.Request = "asked"
		l := answer(c, 200, 1)
		l.Answer = &Answer{Status: 201}
		x.EndCopy(1, l)
		x.EndCopy(1, Leg{Cause: Expired})
		x.EndPrimary(answer(c, 200, 1))
	}
	if want := []string{"askedop200 0 201 expired", "askedop200 0 201 expired"}; !slices.Equal(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
}

func TestValidate(t *testing.T) {
	o := Options{Primary: "primary", Shadows: []Shadow{{"", Candidate}, {"primary", Candidate}, {"x", Primary}}}
	err := o.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"without a name", `two targets are named "primary"`, `"x" is neither`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

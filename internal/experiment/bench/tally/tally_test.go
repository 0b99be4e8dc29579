package tally

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/experiment/bench/load"
)

const ms = time.Millisecond

// answered returns an observation of a request that was due and sent at at.
func answered(query, tenant int, at, took time.Duration, status int) load.Observation {
	return load.Observation{Query: query, Tenant: tenant, Due: at, Sent: at, FirstByte: at + took/2, End: at + took, Status: status, Bytes: 100, Check: -1}
}

func observe(r load.Recorder, os ...load.Observation) {
	for i := range os {
		r.Observe(&os[i])
	}
}

// Every request ends up in exactly one place of the account, and an error is
// counted once however many reasons there are.
func TestAccount(t *testing.T) {
	tl := New(Options{
		Queries: []string{"a", "b"}, Tenants: []string{"acme", "zoo"}, Checks: []string{"a: status", "a: body"}, Phases: 2,
		Accepts: func(query, status int) bool { return status < 400 || query == 1 && status == 404 },
	})
	l := tl.Recorder(0, 1)
	failed := answered(0, 0, 10*ms, ms, 500)
	failed.Check = 0
	wrong := answered(0, -1, 20*ms, ms, 200)
	wrong.Check = 1
	wanted := answered(1, 1, 30*ms, ms, 404)
	timeout := load.Observation{Query: 1, Tenant: -1, Phase: 1, Due: 1200 * ms, Sent: 1300 * ms, End: 2300 * ms, Cause: load.Timeout, Check: -1}
	cut := load.Observation{Query: 1, Tenant: -1, Phase: 1, Due: 1400 * ms, Sent: 1400 * ms, End: 1500 * ms, Cause: load.CutOff, Check: -1}
	observe(l, answered(0, 0, 0, ms, 200), failed, wrong, wanted, timeout, cut)
	l.Drop(1900*ms, 1)
	tl.Collect(time.Unix(1000, 0))

	r := &api.BenchResult{Phases: []api.BenchPhase{{Name: "one", Start: 0, End: 1}, {Name: "two", Start: 1, End: 2}}}
	tl.Fill(r, Frame{Start: time.Unix(1000, 0), Elapsed: 2 * time.Second, Unsent: 3, Due: func(d time.Duration) float64 { return 4 * d.Seconds() * 1.3 }})
	a := r.Account
	want := api.BenchAccount{
		Due: 10, Sent: 6, Answered: 4, Dropped: 1, Unsent: 3, CutOff: 1, Errors: 3,
		Failed: map[string]uint64{"timeout": 1}, Statuses: map[string]uint64{"200": 2, "404": 1, "500": 1}, Checks: map[string]uint64{"a: status": 1, "a: body": 1},
	}
	if fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", a, want)
	}
	if r.Latency.Count != 4 || r.Uncorrected.Count != 4 || r.Bytes != 400 {
		t.Errorf("latency of %d, uncorrected of %d, %d bytes", r.Latency.Count, r.Uncorrected.Count, r.Bytes)
	}
	if q := r.Queries; len(q) != 2 || q[0].Name != "a" || q[0].Sent != 3 || q[0].Errors != 2 || q[1].Answered != 1 || q[1].Errors != 1 {
		t.Errorf("queries %+v", q)
	}
	if n := r.Tenants; len(n) != 2 || n[0].Name != "acme" || n[0].Sent != 2 || n[1].Name != "zoo" {
		t.Errorf("tenants %+v", n)
	}
	// What was never sent was due last.
	if p := r.Phases; p[0].Due+p[1].Due != a.Due || p[0].Due < 4 || p[1].Due < 5 || p[0].Answered != 4 || p[1].Errors != 1 {
		t.Errorf("phases %+v", p)
	}
	due := uint64(0)
	for _, s := range r.Timeline {
		due += s.Due
	}
	if last := r.Timeline[len(r.Timeline)-1]; due != a.Due || last.Waiting != a.Unsent {
		t.Errorf("time line has %d due, %d waiting at its end", due, last.Waiting)
	}
	counts := map[string]uint64{}
	for c := range tl.Totals().Counts() {
		counts[c.Status+" "+c.Cause] += c.N
	}
	if got := fmt.Sprint(counts); got != "map[ cut off:1  dropped:1 error answered:2 error timeout:1 ok answered:2]" {
		t.Errorf("counts %s", got)
	}
}

// However observations are spread over loops and collections, what comes out is
// the same to the bit.
func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.Custom(func(t *rapid.T) load.Observation {
			due := time.Duration(rapid.Int64Range(0, 5e9).Draw(t, "due"))
			sent := due + time.Duration(rapid.Int64Range(0, 2e9).Draw(t, "waited"))
			first := sent + time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "first"))
			return load.Observation{
				Query: rapid.IntRange(0, 2).Draw(t, "query"), Tenant: rapid.IntRange(-1, 1).Draw(t, "tenant"), Phase: rapid.IntRange(0, 1).Draw(t, "phase"),
				Due: due, Sent: sent, FirstByte: first, End: first + time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "rest")),
				Late: min(sent-due, 1000), Status: rapid.SampledFrom([]int{200, 404, 500}).Draw(t, "status"), Bytes: rapid.Int64Range(0, 1e6).Draw(t, "bytes"),
				Cause: rapid.SampledFrom([]load.Cause{load.Answered, load.Answered, load.Timeout, load.CutOff}).Draw(t, "cause"), Check: rapid.IntRange(-1, 0).Draw(t, "check"),
			}
		})
		all := rapid.SliceOfN(gen, 1, 60).Draw(t, "observations")
		o := Options{Queries: []string{"a", "b", "c"}, Tenants: []string{"x", "y"}, Checks: []string{"check"}, Phases: 2, Keep: true}
		one, many := New(o), New(o)
		l := one.Recorder(0, 1)
		observe(l, all...)
		one.Collect(time.Unix(5, 0))
		loops := []load.Recorder{many.Recorder(0, 3), many.Recorder(1, 3), many.Recorder(2, 3)}
		for _, x := range all {
			observe(loops[rapid.IntRange(0, 2).Draw(t, "loop")], x)
			if rapid.Bool().Draw(t, "collect") {
				many.Collect(time.Unix(5, 0))
			}
		}
		many.Collect(time.Unix(5, 0))
		frame := Frame{Start: time.Unix(0, 0), Elapsed: 9 * time.Second}
		var got, want api.BenchResult
		one.Fill(&want, frame)
		many.Fill(&got, frame)
		if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); a != b {
			t.Fatalf("got  %s\nwant %s", a, b)
		}
		pending, lost := many.Take()
		if len(pending) != 1 || lost != 0 || pending[0].Sent() != got.Account.Sent {
			t.Fatalf("%d slots pending, %d lost", len(pending), lost)
		}
		if a, b := bytesOf(t, pending[0].Latency()), bytesOf(t, one.Totals().Latency()); !bytes.Equal(a, b) {
			t.Fatalf("what is pending is not what there is")
		}
	})
}

func bytesOf(t *rapid.T, h *hist.Histogram) []byte {
	b, err := h.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A loop counts while the collector swaps its banks: nothing is lost.
func TestSwap(t *testing.T) {
	const loops, each = 3, 20_000
	tl := New(Options{Queries: []string{"a"}})
	var working sync.WaitGroup
	for i := range loops {
		l := tl.Recorder(i, loops)
		working.Go(func() {
			for k := range each {
				o := answered(0, -1, time.Duration(k)*time.Microsecond, ms, 200)
				l.Observe(&o)
			}
		})
	}
	done := make(chan struct{})
	go func() { working.Wait(); close(done) }()
	for {
		tl.Collect(time.Unix(1, 0))
		select {
		case <-done:
			tl.Collect(time.Unix(1, 0))
			if n := tl.Totals().Latency().Count; n != loops*each {
				t.Errorf("counted %d of %d", n, loops*each)
			}
			return
		default:
		}
	}
}

// What was due in the warm-up is in nothing but its count.
func TestWarmUp(t *testing.T) {
	tl := New(Options{Queries: []string{"a"}, Phases: 1, Skip: time.Second})
	l := tl.Recorder(0, 1)
	before, over, after := answered(0, -1, 500*ms, ms, 200), answered(0, -1, 999*ms, 10*ms, 500), answered(0, -1, time.Second, 2*ms, 200)
	after.Phase = 1
	observe(l, before, over, after)
	l.Drop(900*ms, 0)
	tl.Collect(time.Unix(1, 0))
	r := &api.BenchResult{Phases: []api.BenchPhase{{Start: 0, End: 1}}}
	tl.Fill(r, Frame{Start: time.Unix(100, 0), Elapsed: time.Second})
	if r.Account.Due != 1 || r.Account.Errors != 0 || r.Phases[0].Due != 1 || tl.Warmed() != 2 {
		t.Errorf("account %+v, phase %+v, %d before", r.Account, r.Phases[0], tl.Warmed())
	}
	if r.Timeline[0].Time != 100 || r.Timeline[0].Due != 1 {
		t.Errorf("time line %+v", r.Timeline)
	}
}

// A long run has wider slots, not more of them.
func TestTimelineWidens(t *testing.T) {
	l := timeline{limit: 6, width: time.Second}
	for at := range int64(70) {
		s := newSlot(at)
		s.due, s.sent, s.answered = 2, 2, 2
		record(s.latency, time.Duration(at+1)*ms)
		l.add(s)
	}
	out := l.result(time.Unix(0, 0))
	if len(out) != 1 || l.width != 100*time.Second {
		t.Fatalf("%d slots of %s", len(out), l.width)
	}
	if s := out[0]; s.Due != 140 || s.Max != 0.07 || s.Time != 0 {
		t.Errorf("got %+v", s)
	}
}

// Tenants beyond MaxCells are counted as the last one, _other.
func TestManyTenants(t *testing.T) {
	var tenants, queries []string
	for i := range 100 {
		tenants = append(tenants, fmt.Sprint("t", i))
	}
	tenants = append(tenants, "_other")
	for i := range 500 {
		queries = append(queries, fmt.Sprint("q", i))
	}
	tl := New(Options{Queries: queries, Tenants: tenants})
	l := tl.Recorder(0, 1)
	for i := range tenants {
		observe(l, answered(499, i, 0, ms, 200))
	}
	tl.Collect(time.Unix(1, 0))
	var r api.BenchResult
	tl.Fill(&r, Frame{})
	if n := r.Tenants; len(n) != 7 || n[0].Name != "_other" || n[0].Sent != 95 {
		t.Errorf("tenants %+v", n)
	}
}

func TestLatencyBars(t *testing.T) {
	h := hist.New(hist.DefaultSchema)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		record(h, time.Duration(rng.ExpFloat64()*float64(ms)))
	}
	record(h, 0)
	l := Latency(h, true, 0.97)
	total := uint64(0)
	for _, n := range l.Counts {
		total += n
	}
	if total != h.Count || len(l.Bounds) != len(l.Counts)+1 || len(l.Counts) > maxBars+1 || !slices.IsSorted(l.Bounds) || l.Bounds[0] != 0 {
		t.Errorf("%d of %d in %d bars, bounds %v", total, h.Count, len(l.Counts), l.Bounds)
	}
	if q := float64(l.Quantiles["0.97"]); q < 3.4e-3 || q > 3.6e-3 { // −ln 0.03 = 3.5
		t.Errorf("p97 %v", q)
	}
	if none := Latency(nil, true); none.Count != 0 || none.Mean == none.Mean || none.Counts != nil {
		t.Errorf("of nothing: %+v", none)
	}
}

// In the steady state a loop counts without allocating.
func TestObserveAllocatesNothing(t *testing.T) {
	tl, os := steady()
	l := tl.Recorder(0, 1)
	for range 3 { // both banks have seen everything
		observe(l, os...)
		tl.Collect(time.Unix(1, 0))
	}
	i := 0
	if n := testing.AllocsPerRun(10_000, func() {
		l.Observe(&os[i%len(os)])
		i++
	}); n != 0 {
		t.Errorf("%v allocations an observation", n)
	}
}

func steady() (*Tally, []load.Observation) {
	tl := New(Options{Queries: []string{"a", "b", "c", "d"}, Tenants: []string{"x", "y"}, Phases: 1})
	rng := rand.New(rand.NewPCG(1, 1))
	var os []load.Observation
	for i := range 4096 {
		os = append(os, answered(i%4, i%3-1, time.Duration(i)*100*time.Microsecond, time.Duration(1e5+rng.ExpFloat64()*1e6), 200))
	}
	return tl, os
}

func BenchmarkObserve(b *testing.B) {
	tl, os := steady()
	l := tl.Recorder(0, 1)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		l.Observe(&os[i%len(os)])
		i++
	}
}

func BenchmarkCollect(b *testing.B) {
	tl, os := steady()
	l := tl.Recorder(0, 1)
	for b.Loop() {
		observe(l, os[:512]...)
		tl.Collect(time.Unix(1, 0))
	}
}

package compare

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/query/querytest"
	"tailscope/internal/store"
)

// lookedAt says at which of many looks at what follows a mark something was
// found, -1 if at none.
func lookedAt(t testing.TB, seed uint64, factor float64, live bool) int {
	t.Helper()
	const before, after, looks = 600, 1200, 6
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(seed, 9))
	l := load{operation: "GET /cart", perSlot: 8, median: 0.02}
	send(w, rng, epoch, epoch+before, l)
	l.median *= factor
	send(w, rng, epoch+before, epoch+before+after, l)
	st := stored(t, w)
	if err := store.PutMark(t.Context(), st, store.Mark{ID: "m", Name: "a deploy", Time: at(epoch + before)}); err != nil {
		t.Fatal(err)
	}
	for look := range looks {
		now := at(epoch + before + 20 + int64(look+1)*after/looks)
		r := compared(t, st, Request{Mark: "m", Length: 20 * time.Minute, Now: now, Live: live, Measures: []string{"p50", "p95", "mean"}, Limit: 1})
		if r.Live != live || live != (r.Whole == nil) {
			t.Fatalf("live %v, whole %v", r.Live, r.Whole)
		}
		switch r.Verdict {
		case judge.Regression, judge.Improvement, judge.Mixed:
			return look
		}
	}
	return -1
}

// Several looks at a deploy that changed nothing: one of them alarms far more often
// than the 5 % that each would have by itself, but not of intervals made for it.
func TestPeeking(t *testing.T) {
	const trials = 8
	alarms := map[bool]int{}
	for seed := range uint64(trials) {
		for _, live := range []bool{true, false} {
			if lookedAt(t, seed, 1, live) >= 0 {
				alarms[live]++
			}
		}
	}
	// More than three of 8 have a probability of 0.04 % at 5 %.
	if alarms[true] > 3 || alarms[false] < alarms[true] {
		t.Errorf("%d of %d alarm, %d by intervals for one look", alarms[true], trials, alarms[false])
	}
}

// What is slower by a third is seen long before the end.
func TestLiveFinds(t *testing.T) {
	for seed := range uint64(3) {
		if look := lookedAt(t, seed, 1.33, true); look < 0 || look > 3 {
			t.Errorf("found at look %d", look)
		}
	}
}

// A comparison that is watched is tightest when it is as long as planned,
// whatever its slots are.
func TestLivePlan(t *testing.T) {
	for _, c := range []struct {
		paired       bool
		step         int64
		length       time.Duration
		a, b         span
		slots, fixed int
	}{
		{false, 10, 0, span{0, 3600}, span{3620, 4000}, 360, 360},
		{false, 60, 0, span{0, 3600}, span{3620, 4000}, 60, 60},
		{false, 10, 30 * time.Minute, span{0, 1800}, span{1820, 1900}, 180, 180},
		{true, 10, 0, span{0, 400}, span{0, 400}, 360, 0},
	} {
		x := &comparison{Request: Request{Live: true, Length: c.length}, step: c.step, paired: c.paired, mark: &store.Mark{},
			a: &side{span: c.a, step: c.step}, b: &side{span: c.b, step: c.step}}
		if got := x.live(); got.Slots != c.slots || got.Fixed != c.fixed {
			t.Errorf("%+v: got %+v", c, got)
		}
	}
	if x := (&comparison{}); x.live() != nil {
		t.Error("live unasked")
	}
}

// The band of what is watched is wider, and holds as many quantiles.
func TestLiveCurve(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(6, 6))
	send(w, rng, epoch, epoch+1200, load{operation: "GET /cart", perSlot: 20, median: 0.02})
	st := stored(t, w)
	r := Request{A: window(0, 600), B: window(600, 1200), Include: []string{IncludeCurve}, Measures: []string{"p50"}}
	once := compared(t, st, r)
	r.Live = true
	live := compared(t, st, r)
	for i := range once.Curve.Ps {
		a, b := once.Curve, live.Curve
		if a.Ratio[i] != b.Ratio[i] || b.High[i]/b.Low[i] < a.High[i]/a.Low[i] {
			t.Errorf("at %v: %v (%v to %v), live %v (%v to %v)", a.Ps[i], a.Ratio[i], a.Low[i], a.High[i], b.Ratio[i], b.Low[i], b.High[i])
		}
		if p := a.Ps[i]; p < 0.9 && (math.IsNaN(float64(b.Low[i])) || math.IsNaN(float64(b.High[i]))) {
			t.Errorf("no band at %v", p)
		}
	}
}

// Who waits is told what may still come from what never will.
func TestTooEarly(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(8, 8))
	send(w, rng, epoch, epoch+600, load{operation: "GET /cart", perSlot: 2, median: 0.02, more: []string{"version", "1.0"}})
	st := stored(t, w)
	for id, sec := range map[string]int64{"now": 590, "soon": 700} {
		if err := store.PutMark(t.Context(), st, store.Mark{ID: id, Name: id, Time: at(epoch + sec)}); err != nil {
			t.Fatal(err)
		}
	}
	sel := selection("service", "shop")
	sel.Start, sel.End = at(epoch), at(epoch+600)
	byLabel := func(now int64) Request {
		return Request{Selection: sel, Label: "version", ValueA: "1.0", ValueB: "1.1", Now: at(epoch + now)}
	}
	for name, c := range map[string]struct {
		r    Request
		code string
	}{
		"just after a mark":            {Request{Mark: "now", Now: at(epoch + 605)}, query.CodeTooEarly},
		"before a mark":                {Request{Mark: "soon", Now: at(epoch + 605)}, query.CodeTooEarly},
		"no such mark":                 {Request{Mark: "never", Now: at(epoch + 605)}, query.CodeNotFound},
		"a side to come":               {Request{A: window(0, 300), B: window(600, 900), Now: at(epoch + 605)}, query.CodeTooEarly},
		"too short a side":             {Request{A: window(0, 300), B: window(400, 405), Now: at(epoch + 700)}, query.CodeInvalid},
		"a version to come":            {byLabel(610), query.CodeTooEarly},
		"a version that was not there": {byLabel(700), query.CodeInvalid},
	} {
		if c.r.Matchers == nil {
			c.r.Selection = selection("service", "shop")
		}
		if _, err := Compare(t.Context(), st, c.r); query.AsError(err) == nil || query.AsError(err).Code != c.code {
			t.Errorf("%s: got %v, want %s", name, err, c.code)
		}
	}
}

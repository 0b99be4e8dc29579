package compare

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/query/querytest"
)

// Many series over many hours are read in longer slots: nothing is lost, and
// what is judged is the same.
func TestLongerSlotsOfMany(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(15, 4))
	const long = 11 * 3600
	for at := epoch - 60; at < epoch+2*long+300; at += 60 {
		median := 0.1
		if at >= epoch+long {
			median = 0.15
		}
		for range 12 {
			tenant := "whale"
			if rng.IntN(2) == 0 {
				tenant = fmt.Sprint("tenant-", rng.IntN(80))
			}
			send(w, rng, at, at+10, load{operation: fmt.Sprint("GET /", rng.IntN(3)), tenant: tenant, perSlot: 1, median: median})
		}
	}
	st := stored(t, w)
	r := Request{Selection: selection("service", "shop"), A: window(-40, long+30), B: window(long+60, 2*long+130)}
	if err := r.check(); err != nil {
		t.Fatal(err)
	}
	c := &comparison{Request: r, st: st, out: &api.CompareResponse{}}
	for _, step := range []func(context.Context) error{c.settleFamily, c.sides} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if c.step != 60 || c.a.start != epoch || c.a.end != epoch+long || c.b.start != epoch+long+60 || c.b.end != epoch+2*long+120 {
		t.Errorf("slots of %d s, A %v, B %v", c.step, c.a.span, c.b.span)
	}
	if err := c.cohorts(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, s := range []struct{ all, fine *side }{{c.a, c.fineA}, {c.b, c.fineB}} {
		from := s.fine.start - s.all.start // what does not fill ten minutes is left out
		s.all.cut(int(from/60), int((from+s.fine.end-s.fine.start)/60))
		n, _ := s.all.total()
		m, _ := s.fine.total()
		if s.fine.step != 600 || s.fine.start%600 != 0 || s.fine.slots() < 65 || n != m {
			t.Errorf("side %d: %d slots of %d s, %d requests; want 600 s and %d requests", i, s.fine.slots(), s.fine.step, m, n)
		}
	}
	out := compared(t, st, r)
	p50 := measureOf(t, out, "p50")
	if f := p50.Like; out.Slot != 60 || out.Verdict != judge.Regression || !(f.Low <= 1.5 && 1.5 <= f.High) || f.High/f.Low > 1.1 || len(out.Tenants) == 0 || out.Covered != 1 {
		t.Errorf("%s [%v, %v], %d tenants, covered %v", out.Sentence, f.Low, f.High, len(out.Tenants), out.Covered)
	}
	for _, row := range out.Tenants {
		if row.Tenant == "whale" && !row.Changed {
			t.Errorf("%+v", row)
		}
	}
}

// Longer slots are those that shorter ones fill.
func TestFills(t *testing.T) {
	for _, x := range []struct {
		start int64
		parts []part
		fills bool
		want  string
	}{
		{6000, nil, true, "[]"},
		{6000, []part{{0, 30, 6000}, {30, 30, 12000}}, true, "[{0 3 6000} {3 3 12000}]"},
		{6000, []part{{0, 30, 6000}, {30, 30, 12060}}, false, ""},
		{6000, []part{{0, 25, 6000}, {30, 30, 12000}}, true, "[{0 2 6000} {3 3 12000}]"},
		{6000, []part{{5, 55, 12300}}, true, "[{1 5 12600}]"},
		{5880, []part{{0, 60, 3480}}, true, "[{0 5 3600}]"},
		{5880, []part{{0, 60, 3500}}, false, ""},
	} {
		s := newSide(span{x.start, x.start + 3600}, 60)
		s.parts = x.parts
		if got := s.fills(600); got != x.fills {
			t.Errorf("%v: %v, want %v", x.parts, got, x.fills)
		}
		if w := s.in(600); x.fills && (fmt.Sprint(w.parts) != x.want || w.start != 6000 || (w.end-w.start)%600 != 0) {
			t.Errorf("%v: %v in %v, want %s", x.parts, w.parts, w.span, x.want)
		}
	}
}

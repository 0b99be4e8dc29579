package compare

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tailscope/api"
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
	if c.step != 60 || c.a.start != epoch || c.a.end != epoch+long || c.b.start != epoch+long+600 || c.b.end != epoch+2*long {
		t.Errorf("slots of %d s, A %v, B %v: want full ten minutes", c.step, c.a.span, c.b.span)
	}
	if err := c.cohorts(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, s := range []struct{ all, fine *side }{{c.a, c.fineA}, {c.b, c.fineB}} {
		n, _ := s.all.total()
		m, _ := s.fine.total()
		if s.fine.step != 600 || s.fine.slots() != s.all.slots()/10 || n != m {
			t.Errorf("side %d: slots of %d s, %d of them, %d requests; want 600 and %d requests", i, s.fine.step, s.fine.slots(), m, n)
		}
	}
	out := compared(t, st, r)
	p50 := measureOf(t, out, "p50")
	if f := p50.Like; out.Slot != 60 || out.Verdict != Regression || !(f.Low <= 1.5 && 1.5 <= f.High) || f.High/f.Low > 1.1 || len(out.Tenants) == 0 || out.Covered != 1 {
		t.Errorf("%s [%v, %v], %d tenants, covered %v", out.Sentence, f.Low, f.High, len(out.Tenants), out.Covered)
	}
	for _, row := range out.Tenants {
		if row.Tenant == "whale" && !row.Changed {
			t.Errorf("%+v", row)
		}
	}
}

// Longer slots are those that shorter ones fill.
func TestDivides(t *testing.T) {
	for _, x := range []struct {
		parts []part
		want  bool
	}{
		{nil, true},
		{[]part{{0, 30, 6000}, {30, 30, 12000}}, true},
		{[]part{{0, 30, 6000}, {30, 30, 12060}}, false},
		{[]part{{0, 25, 6000}, {30, 30, 12000}}, false},
	} {
		s := newSide(span{6000, 6000 + 3600}, 60)
		s.parts = x.parts
		if got := s.divides(600); got != x.want {
			t.Errorf("%v: %v, want %v", x.parts, got, x.want)
		}
		if !x.want || x.parts == nil {
			continue
		}
		w := s.in(600)
		if fmt.Sprint(w.parts) != "[{0 3 6000} {3 3 12000}]" || w.side(600).slots() != 6 {
			t.Errorf("parts %v", w.parts)
		}
	}
	if grain(int64(10*time.Hour/time.Second), 60) != 600 || grain(3600, 10) != 10 || grain(86400, 3600) != 3600 {
		t.Error("grain of 10 h, 1 h and a day")
	}
}

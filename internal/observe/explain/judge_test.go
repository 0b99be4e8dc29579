package explain

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"tailscope/hist"
)

// tableOf draws a few labels of random counts.
func tableOf(t *rapid.T) []counts {
	window := rapid.IntRange(0, 50).Draw(t, "window")
	rest := rapid.IntRange(0, 50).Draw(t, "rest")
	out := make([]counts, rapid.IntRange(1, 4).Draw(t, "labels"))
	for i := range out {
		c := counts{make([]float64, window), make([]float64, window+rest)}
		for s := range c.all {
			c.all[s] = float64(rapid.IntRange(0, 9).Draw(t, "all"))
			if s < window {
				c.in[s] = float64(rapid.IntRange(0, int(c.all[s])).Draw(t, "in"))
			}
		}
		out[i] = c
	}
	return out
}

func totalOf(all []counts) counts {
	c := counts{make([]float64, len(all[0].in)), make([]float64, len(all[0].all))}
	for _, x := range all {
		c.add(x, 1)
	}
	return c
}

// The shares of a label's values sum to 1 on either side, and so their effects
// to 0; intervals hold their effect.
func TestSharesSumToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := tableOf(t)
		total := totalOf(all)
		var in, out, size float64
		for i := range all {
			e := compare(&total, &all[i])
			in, out, size = in+e.in, out+e.out, size+e.size
			if e.ok && !(e.low <= e.size+1e-12 && e.size <= e.high+1e-12 && e.p >= 0 && e.p <= 1) {
				t.Fatalf("%+v", e)
			}
			if e.ok && (e.p < 0.05) != (e.low > 0 || e.high < 0) && math.Abs(e.p-0.05) > 1e-6 && math.Abs(e.low) < 1 && math.Abs(e.high) < 1 {
				t.Fatalf("%+v: the interval and the probability disagree", e)
			}
		}
		if total.inside() > 0 && math.Abs(in-1) > 1e-9 || total.outside() > 0 && math.Abs(out-1) > 1e-9 {
			t.Fatalf("shares sum to %v and %v", in, out)
		}
		if total.inside() > 0 && total.outside() > 0 && math.Abs(size) > 1e-9 {
			t.Fatalf("effects sum to %v", size)
		}
	})
}

// Inside and outside change places, where the rectangle is all the time: the
// effect changes its sign and is as sure.
func TestSwap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := tableOf(t)
		for i := range all {
			all[i].all = all[i].all[:len(all[i].in)]
		}
		total, part := totalOf(all), all[0]
		turned := func(c counts) counts {
			out := counts{make([]float64, len(c.in)), c.all}
			for s := range c.in {
				out.in[s] = c.all[s] - c.in[s]
			}
			return out
		}
		a := compare(&total, &part)
		whole, swapped := turned(total), turned(part)
		b := compare(&whole, &swapped)
		same := func(x, y float64) bool { return math.Abs(x-y) < 1e-9 || math.IsNaN(x) && math.IsNaN(y) || x == y }
		if a.ok != b.ok || !same(a.size, -b.size) || !same(a.low, -b.high) || !same(a.high, -b.low) || !same(a.p, b.p) {
			t.Fatalf("%+v\n%+v", a, b)
		}
	})
}

// Whatever is asked for, whole buckets are counted: all of those that reach
// into the rectangle, and no others.
func TestBand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := hist.New(hist.DefaultSchema)
		if rapid.Bool().Draw(t, "explicit") {
			h, _ = hist.NewExplicit([]float64{0.1, 0.2, 0.5, 1})
		}
		for range rapid.IntRange(1, 20).Draw(t, "n") {
			v := rapid.SampledFrom([]float64{-2, -0.5, 0, 0.001, 0.1, 0.15, 0.2, 0.21, 0.7, 1, 3}).Draw(t, "v")
			if h.Schema == hist.Explicit {
				v = math.Abs(v)
			}
			if err := h.Record(v); err != nil {
				t.Fatal(err)
			}
		}
		low := rapid.SampledFrom([]float64{math.Inf(-1), -1, 0, 0.1, 0.15, 0.5}).Draw(t, "low")
		high := rapid.SampledFrom([]float64{0.11, 0.2, 0.7, math.Inf(1), -0.3, 0}).Draw(t, "high")
		if high <= low {
			return
		}
		b := bandOf(h, low, high)
		if b.low > low+1e-3*math.Abs(low) || b.high < high-1e-3*math.Abs(high) {
			t.Fatalf("(%v, %v] was narrowed to (%v, %v]", low, high, b.low, b.high)
		}
		var want uint64
		for x := range h.All() {
			at := x.Lower + (x.Upper-x.Lower)/2
			if h.Schema == hist.Explicit {
				at = x.Upper // the lower one may be infinite
			}
			if at > b.low && at <= b.high || x.Lower <= 0 && x.Upper >= 0 && h.Schema != hist.Explicit && low <= 0 && high >= 0 {
				want += x.Count
			}
		}
		if got := b.count(h); got != want {
			t.Fatalf("(%v, %v] as (%v, %v] holds %d, want %d of %v", low, high, b.low, b.high, got, want, h)
		}
	})
}

package stat

import (
	"math"
	"testing"
)

func TestDistributionFindsATail(t *testing.T) {
	r := source(5)
	m := medians(r, 360, 0.3, 0.1)
	a, same := sideAround(r, m, 100, 0), sideAround(r, medians(r, 360, 0.3, 0.1), 100, 0)
	slower := sideAround(r, medians(r, 360, 0.3, 0.1), 100, 0.1)
	for _, by := range []Weighting{Energy, CramerVonMises, AndersonDarling} {
		w, err := Distribution(Side{a}, Side{slower}, nil, by, 999, 1, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if w.P > 0.01 || w.Gap < 0.04 || w.Gap > 0.1 || w.Blocks < 8 || w.At < 0.5 || w.At > 2 {
			t.Errorf("weighting %d: %+v of sides 10 %% apart", by, w)
		}
		n, err := Distribution(Side{a}, Side{same}, nil, by, 999, 1, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if n.P < 0.01 || n.Distance > w.Distance/3 {
			t.Errorf("weighting %d: %+v of sides that are alike", by, n)
		}
		again, err := Distribution(Side{a}, Side{same}, nil, by, 999, 1, Options{})
		if err != nil || again != n {
			t.Errorf("weighting %d: %+v, then %+v by the same seed", by, n, again)
		}
		// In the same slots, a tenth of that is found.
		p, err := Distribution(Side{a}, Side{sideAround(r, m, 100, 0.03)}, nil, by, 999, 1, Options{Paired: true})
		if err != nil || p.P > 0.01 {
			t.Errorf("weighting %d: %+v, %v of paired sides 3 %% apart", by, p, err)
		}
	}
}

// The weighted squares, by their definition from both distributions.
func TestDistanceByDefinition(t *testing.T) {
	r := source(6)
	a, b := side(r, 40, 30, 0, 0.1), side(r, 50, 20, 0, 0.1)
	w, err := Distribution(Side{a}, Side{b}, nil, Energy, 1, 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want, gap := 0.0, 0.0
	const steps = 20000
	for i := range steps {
		x := -4 + 8*(float64(i)+0.5)/steps
		d := b.atMostAll(b.placeOf(math.Exp(x)))/b.total - a.atMostAll(a.placeOf(math.Exp(x)))/a.total
		want += d * d * 8 / steps
		gap = max(gap, math.Abs(d))
	}
	if math.Abs(w.Distance/want-1) > 0.01 || math.Abs(w.Gap/gap-1) > 0.01 {
		t.Errorf("distance %v, gap %v; want %v, %v", w.Distance, w.Gap, want, gap)
	}
}

// A change of mix is a change of the whole, and none like for like.
func TestDistributionLikeForLike(t *testing.T) {
	r := source(7)
	slots := medians(r, 120, 0, 0.05)
	a := Side{sideAround(r, slots, 80, 0), sideAround(r, slots, 20, 1.5)}
	b := Side{sideAround(r, slots, 50, 0), sideAround(r, slots, 50, 1.5)}
	mix, covered := CommonMix(a.Counts(), b.Counts())
	if covered != 1 || math.Abs(mix[0]-0.65) > 1e-9 {
		t.Fatalf("mix %v covers %v", mix, covered)
	}
	raw, err := Distribution(a, b, nil, Energy, 499, 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	like, err := Distribution(a, b, mix, Energy, 499, 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if raw.P > 0.01 || like.P < 0.01 || like.Gap > raw.Gap/4 {
		t.Errorf("raw %+v\nlike for like %+v", raw, like)
	}
	c, err := Quantile(a, b, 0.5, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := Quantile(a, b, 0.5, mix, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c.CI.Contains(0) || !l.CI.Contains(0) {
		t.Errorf("median raw %+v\nlike for like %+v", c, l)
	}
}

func TestCommonMix(t *testing.T) {
	mix, covered := CommonMix([]float64{10, 0, 90}, []float64{50, 50, 0})
	if covered != 0.1 || mix[0] != 1 || mix[1] != 0 || mix[2] != 0 {
		t.Errorf("mix %v covers %v, want [1 0 0], 0.1", mix, covered)
	}
	if mix, covered := CommonMix([]float64{1, 0}, []float64{0, 1}); mix != nil || covered != 0 {
		t.Errorf("nothing in common: %v, %v", mix, covered)
	}
}

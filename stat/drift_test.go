package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// fractional draws fractional noise of unit variance, of which d is the order of
// integration (Hosking 1984, Water Resources Research 20).
func fractional(r *rand.Rand, slots int, d float64) []float64 {
	x, phi := make([]float64, slots), make([]float64, slots)
	variance := 1.0
	for t := range x {
		if t > 0 {
			last := d / (float64(t) - d)
			for j := 0; j < (t-1)/2+(t-1)%2; j++ { // phi[j] weighs what was j+1 slots before
				k := t - 2 - j
				phi[j], phi[k] = phi[j]-last*phi[k], phi[k]-last*phi[j]
			}
			phi[t-1] = last
			variance *= 1 - last*last
		}
		for j := range t {
			x[t] += phi[j] * x[t-1-j]
		}
		x[t] += math.Sqrt(variance) * r.NormFloat64()
	}
	return x
}

// logMeans returns a stratum whose mean is exp(x) in each slot, of so many requests.
func logMeans(x, requests []float64) []Tally {
	t := Tally{Num: make([]float64, len(x)), Den: make([]float64, len(x))}
	for i, v := range x {
		t.Den[i] = 100
		if requests != nil {
			t.Den[i] = requests[i]
		}
		t.Num[i] = t.Den[i] * math.Exp(v)
	}
	return []Tally{t}
}

// Neighbouring hours of slots that never forget are called a change in few trials: where
// their interval excludes 0, drifts is said. A change of half as much again is found all
// the same.
func TestDrifts(t *testing.T) {
	const trials, slots = 200, 360
	r := source(3)
	alarms, drifts, found := 0, 0, 0
	for range trials {
		x := fractional(r, 2*slots, 0.35)
		for i := range x {
			x[i] *= 0.15
		}
		a, b := logMeans(x[:slots], nil), logMeans(x[slots:], nil)
		c, err := Ratios(a, b, nil, LogRatio, Options{})
		if err != nil {
			t.Fatal(err)
		}
		switch c.Verdict(0) {
		case Less, More:
			alarms++
		case Drifts:
			drifts++
			if c.CI.Contains(0) || c.P > 0.05 {
				t.Fatalf("drifts with an interval that holds 0: %+v", c)
			}
		}
		for i := range b[0].Num {
			b[0].Num[i] *= 1.5
		}
		if c, err = Ratios(a, b, nil, LogRatio, Options{}); err != nil {
			t.Fatal(err)
		}
		if c.Verdict(0) == More {
			found++
		}
	}
	t.Logf("of %d trials %d alarm, %d drift; a change by 1.5 is found in %d", trials, alarms, drifts, found)
	if alarms > trials*7/100 || drifts < trials/10 || found < trials*90/100 {
		t.Errorf("of %d trials %d alarm, %d drift; a change by 1.5 is found in %d", trials, alarms, drifts, found)
	}
}

// Where slots forget, drifts is said of few trials.
func TestForgettingSlotsDoNotDrift(t *testing.T) {
	const trials, slots = 200, 360
	for _, phi := range []float64{0, 0.6, 0.9} {
		r, drifts, alarms := source(4), 0, 0
		for range trials {
			x := medians(r, 2*slots, phi, 0.15)
			c, err := Ratios(logMeans(x[:slots], nil), logMeans(x[slots:], nil), nil, LogRatio, Options{})
			if err != nil {
				t.Fatal(err)
			}
			switch c.Verdict(0) {
			case Less, More:
				alarms++
			case Drifts:
				drifts++
			}
		}
		t.Logf("correlation %v: of %d trials %d alarm, %d drift", phi, trials, alarms, drifts)
		if alarms > trials*9/100 || drifts > trials*2/100 {
			t.Errorf("correlation %v: of %d trials %d alarm, %d drift", phi, trials, alarms, drifts)
		}
	}
}

// A busier hour is slower by what busy slots are slower anyway: the load explains it. A
// change beyond that is found.
func TestAtEqualLoad(t *testing.T) {
	const trials, slots = 100, 360
	r := source(5)
	alarms, byLoad, found := 0, 0, 0
	for range trials {
		busy := medians(r, 2*slots, 0.9, 0.15)
		x, requests := make([]float64, 2*slots), make([]float64, 2*slots)
		for i, v := range busy {
			if i >= slots {
				v += 0.1
			}
			load := 0.5 * math.Exp(v)
			requests[i] = math.Round(200 * load)
			x[i] = -math.Log(1-min(load, 0.95)) + 0.05*r.NormFloat64()
		}
		side := func(slower float64) (Change, error) {
			b := logMeans(x[slots:], requests[slots:])
			for i := range b[0].Num {
				b[0].Num[i] *= slower
			}
			return Ratios(logMeans(x[:slots], requests[:slots]), b, nil, LogRatio, Options{})
		}
		c, err := side(1)
		if err != nil {
			t.Fatal(err)
		}
		if v := c.Verdict(0); v == Less || v == More {
			alarms++
		}
		if c.ByLoad {
			byLoad++
		}
		if c, err = side(1.3); err != nil {
			t.Fatal(err)
		}
		if c.Verdict(0) == More {
			found++
		}
	}
	t.Logf("of %d trials %d alarm, %d are explained; a change by 1.3 is found in %d", trials, alarms, byLoad, found)
	if alarms > trials*5/100 || byLoad < trials*30/100 || found < trials*90/100 {
		t.Errorf("of %d trials %d alarm, %d are explained; a change by 1.3 is found in %d", trials, alarms, byLoad, found)
	}
}

// The powers of memories' cosines and the variance of their sums are those of the
// covariances.
func TestMemories(t *testing.T) {
	const slots = 200
	for _, m := range memories {
		g := make([]float64, slots)
		g[0] = 1
		for k := 1; k < slots; k++ {
			g[k] = g[k-1] * (float64(k) - 1 + float64(m)) / (float64(k) - float64(m))
		}
		sum := float64(slots)
		for k := 1; k < slots; k++ {
			sum += 2 * float64(slots-k) * g[k]
		}
		if got := m.sum(slots); math.Abs(got/sum-1) > 0.01 {
			t.Errorf("order %v: the variance of a sum is %v, want %v", m, got, sum)
		}
		for j := 1; j <= 8; j++ {
			want, at := 1.0, math.Pi*float64(j)/slots
			for k := 1; k < slots; k++ {
				want += 2 / float64(slots) * g[k] * (float64(slots-k)*math.Cos(at*float64(k)) - math.Sin(at*float64(k))/math.Sin(at))
			}
			if got := m.power(float64(j), slots); math.Abs(got/want-1) > 0.03 {
				t.Errorf("order %v: the power of cosine %d is %v, want %v", m, j, got, want)
			}
		}
	}
	// One sum beside the next.
	m := memory(0.4)
	if got, want := m.together(100, 100, 100), known*(math.Exp2(0.8)-1); math.Abs(got/want-1) > 1e-9 {
		t.Errorf("neighbours go together by %v, want %v", got, want)
	}
	if near, far := m.together(100, 50, 100), m.together(50, 100, -100); math.Abs(near-far) > 1e-9 {
		t.Errorf("%v one way, %v the other", near, far)
	}
}

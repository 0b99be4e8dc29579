package stat

import (
	"math"
	"testing"

	"tailscope/hist"
)

func change(effect, se, df float64) Change {
	half := critical(0.025, df) * se
	return Change{Log: true, Effect: effect, SE: se, DF: df, Level: 0.95, CI: Interval{effect - half, effect + half}, ofB: 0.5}
}

func TestVerdict(t *testing.T) {
	for _, tc := range []struct {
		name   string
		c      Change
		margin float64
		want   Verdict
	}{
		{"slower", change(0.2, 0.05, 60), 0.05, More},
		{"faster", change(-0.2, 0.05, 60), 0.05, Less},
		{"wide", change(0.02, 0.05, 60), 0.05, NoEvidence},
		{"narrow", change(0.01, 0.005, 60), 0.05, Same},
		// Surely changed, and surely by less than what matters.
		{"small", change(0.02, 0.005, 60), 0.05, Same},
		{"small, and that matters", change(0.02, 0.005, 60), 0, More},
		// The 90 % interval lies within the margin, and the one that is said does not.
		{"hardly small", change(0.03, 0.0105, 60), 0.05, More},
		{"hardly the same", change(0.015, 0.018, 60), 0.05, NoEvidence},
		{"none", Change{Short: "side A: no observations", Level: 0.95}, 0.05, TooLittle},
	} {
		if got := tc.c.Verdict(tc.margin); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// Two one-sided tests at 5 % are the 90 % interval's lying within the margin.
func TestWithinIsTheNinetyPercentInterval(t *testing.T) {
	for _, effect := range []float64{-0.03, 0, 0.01, 0.04} {
		for _, se := range []float64{0.004, 0.0078, 0.02, 0.03} {
			c := change(effect, se, 17)
			half := critical(0.05, 17) * se
			inside := math.Abs(effect)+half < math.Log(1.05)
			if got := c.Within(0.05) < 0.05; got != inside {
				t.Errorf("effect %v ± %v: within is %v, interval %v", effect, se, c.Within(0.05), inside)
			}
		}
	}
}

func TestNeeded(t *testing.T) {
	c := change(0, 0.05, 1e7)
	// (1.96+0.8416)·0.05 is what is found with a power of 0.8.
	if got, want := c.Detectable(0.8), 2.80158*0.05; math.Abs(got-want) > 1e-5 {
		t.Errorf("detectable %v, want %v", got, want)
	}
	if n := c.Needed(2.80158*0.05/2, 0.8); math.Abs(n.Both-4) > 0.02 || !math.IsInf(n.B, 1) {
		t.Errorf("half of that needs %+v, want four times both sides, and no B alone", n)
	}
	// A fixes half the variance: with B three times as long, ⅔ of it remain.
	if n := c.Needed(2.80158*0.05*math.Sqrt(2.0/3), 0.8); math.Abs(n.B-3) > 0.02 {
		t.Errorf("needs %+v, want three times B", n)
	}
	if n := c.Needed(1, 0.8); n.Both >= 1 {
		t.Errorf("a large effect needs %+v", n)
	}
	if n := (&Change{Short: "x"}).Needed(0.1, 0.8); !math.IsInf(n.Both, 1) {
		t.Errorf("no data: %+v", n)
	}
}

// What cannot be judged says so, and is not a change.
func TestTooLittle(t *testing.T) {
	r := source(3)
	full := sideAround(r, medians(r, 100, 0, 0.1), 50, 0)
	none, err := NewSeries(make([]*hist.Histogram, 100))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		a, b *Series
		p    float64
	}{
		{"empty", full, none, 0.5},
		{"few slots", full, full.Slice(0, 12), 0.5},
		{"nothing beyond p99.99", full, full.Slice(0, 30), 0.9999},
	} {
		c, err := Quantile(Side{tc.a}, Side{tc.b}, tc.p, nil, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if v := c.Verdict(0.05); v != TooLittle || c.Short == "" || c.P != 1 || !c.CI.Contains(0) {
			t.Errorf("%s: %v, %+v", tc.name, v, c)
		}
	}
	zeros := hist.New(hist.DefaultSchema)
	for range 10 {
		if err := zeros.Record(0); err != nil {
			t.Fatal(err)
		}
	}
	slots := make([]*hist.Histogram, 40)
	for i := range slots {
		slots[i] = zeros
	}
	s, err := NewSeries(slots)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := Quantile(Side{s}, Side{full.Slice(0, 40)}, 0.5, nil, Options{}); err != nil || c.Short == "" || c.A != 0 {
		t.Errorf("zeros: %+v, %v", c, err)
	}
}

func TestInvalid(t *testing.T) {
	r := source(4)
	s := side(r, 30, 5, 0, 0.1)
	for name, f := range map[string]func() error{
		"quantile":  func() error { _, err := Quantile(Side{s}, Side{s}, 1, nil, Options{}); return err },
		"level":     func() error { _, err := Quantile(Side{s}, Side{s}, 0.5, nil, Options{Level: 95}); return err },
		"strata":    func() error { _, err := Quantile(Side{s, s}, Side{s}, 0.5, nil, Options{}); return err },
		"nil":       func() error { _, err := Quantile(Side{nil}, Side{s}, 0.5, nil, Options{}); return err },
		"mix":       func() error { _, err := Mean(Side{s}, Side{s}, []float64{0.5}, Options{}); return err },
		"paired":    func() error { _, err := Mean(Side{s}, Side{s.Slice(0, 20)}, nil, Options{Paired: true}); return err },
		"edges":     func() error { _, err := NewSeriesOfCounts([]float64{1, 1}, nil, nil); return err },
		"counts":    func() error { _, err := NewSeriesOfCounts([]float64{1, 2}, [][]float64{{-1}}, nil); return err },
		"resamples": func() error { _, err := Distribution(Side{s}, Side{s}, nil, Energy, 0, 1, Options{}); return err },
		"tally": func() error {
			_, err := Shares([]Tally{{Num: []float64{1}}}, []Tally{{}}, nil, Difference, Options{})
			return err
		},
		"no strata":  func() error { _, err := Shares(nil, nil, nil, Difference, Options{}); return err },
		"mixed NaNs": func() error { _, err := Mean(Side{s}, Side{s}, []float64{math.NaN()}, Options{}); return err },
	} {
		if err := f(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

package stat

import (
	"math"
	"testing"
)

// tallies draws independent slots with a share of errors.
func tallies(seed uint64, slots, n int, share float64) Tally {
	r := source(seed)
	t := Tally{Num: make([]float64, slots), Den: make([]float64, slots)}
	for i := range slots {
		t.Den[i] = float64(n)
		for range n {
			if r.Float64() < share {
				t.Num[i]++
			}
		}
	}
	return t
}

// For slots that are independent, the interval of a difference of shares is
// close to the one that requests would give: Newcombe (1998), Statist. Med. 17,
// method 10, Wilson's scores combined.
func TestSharesOfIndependentSlots(t *testing.T) {
	a, b := tallies(1, 2000, 10, 0.02), tallies(2, 2000, 10, 0.03)
	c, err := Shares([]Tally{a}, []Tally{b}, nil, Difference, Options{})
	if err != nil {
		t.Fatal(err)
	}
	al, ah := wilson(c.A, 20000, 1.96)
	bl, bh := wilson(c.B, 20000, 1.96)
	low := c.B - c.A - math.Hypot(c.B-bl, ah-c.A)
	high := c.B - c.A + math.Hypot(bh-c.B, c.A-al)
	if math.Abs(c.CI.Low-low) > 0.15*(high-low) || math.Abs(c.CI.High-high) > 0.15*(high-low) {
		t.Errorf("interval %v, by requests [%v %v]", c.CI, low, high)
	}
	if !c.CI.Contains(0.01) || c.CI.Contains(0) || c.Verdict(0) != More {
		t.Errorf("%+v", c)
	}
	ratio, err := Shares([]Tally{a}, []Tally{b}, nil, LogRatio, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r, ci := ratio.Ratio(); math.Abs(r-c.B/c.A) > 1e-9 || !ci.Contains(1.5) || ci.Contains(1) {
		t.Errorf("ratio %v in %v", r, ci)
	}
}

// No error at all has a difference with an interval, and no ratio.
func TestSharesWithoutErrors(t *testing.T) {
	none, some := tallies(1, 100, 50, 0), tallies(2, 100, 50, 0.02)
	c, err := Shares([]Tally{none}, []Tally{some}, nil, Difference, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c.A != 0 || c.CI.Low <= 0 || c.CI.High > 0.05 || c.Verdict(0) != More {
		t.Errorf("%+v", c)
	}
	if c, err = Shares([]Tally{none}, []Tally{none}, nil, Difference, Options{}); err != nil || !c.CI.Contains(0) || c.P != 1 || c.CI.High > 0.002 {
		t.Errorf("neither side has any: %+v, %v", c, err)
	}
	if c, err = Shares([]Tally{none}, []Tally{some}, nil, LogRatio, Options{}); err != nil || c.Verdict(0) != TooLittle || c.Short != "side A: 0 events, at least 10 are needed for a ratio" {
		t.Errorf("ratio: %+v, %v", c, err)
	}
}

// Throughput is a ratio of requests and slots.
func TestRatios(t *testing.T) {
	r := source(3)
	draw := func(mean float64) Tally {
		t := Tally{Num: make([]float64, 200), Den: make([]float64, 200)}
		for i := range t.Num {
			t.Num[i], t.Den[i] = mean*(1+0.1*r.NormFloat64()), 1
		}
		return t
	}
	a, b := draw(100), draw(90)
	c, err := Ratios([]Tally{a}, []Tally{b}, nil, LogRatio, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := 0.1 * math.Sqrt(2.0/200); math.Abs(c.SE/want-1) > 0.3 || !c.CI.Contains(math.Log(0.9)) || c.Verdict(0.01) != Less {
		t.Errorf("%+v, want a standard error near %v", c, want)
	}
	c, err = Ratios([]Tally{a}, []Tally{b}, nil, Difference, Options{Paired: true})
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(c.Effect+10) > 3 || !c.CI.Contains(-10) {
		t.Errorf("paired difference: %+v", c)
	}
}

// The mix moves the raw ratio of errors and not the one like for like.
func TestSharesLikeForLike(t *testing.T) {
	a := []Tally{tallies(1, 200, 80, 0.01), tallies(2, 200, 20, 0.1)}
	b := []Tally{tallies(3, 200, 50, 0.01), tallies(4, 200, 50, 0.1)}
	raw, err := Shares(a, b, nil, Difference, Options{})
	if err != nil {
		t.Fatal(err)
	}
	like, err := Shares(a, b, []float64{0.65, 0.35}, Difference, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if raw.CI.Contains(0) || !like.CI.Contains(0) || math.Abs(like.A-(0.65*0.01+0.35*0.1)) > 0.005 {
		t.Errorf("raw %+v\nlike for like %+v", raw, like)
	}
	empty := Tally{Num: make([]float64, 200), Den: make([]float64, 200)}
	if c, err := Shares(a, []Tally{b[0], empty}, []float64{0.65, 0.35}, Difference, Options{}); err != nil || c.Verdict(0) != TooLittle {
		t.Errorf("a stratum without requests: %+v, %v", c, err)
	}
}

func TestApdexCounts(t *testing.T) {
	s, err := NewSeriesOfCounts([]float64{0.125, 0.25, 0.5, 1, 2}, [][]float64{{10, 4, 2, 1}, {0, 0, 0, 0}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := Apdex(s, 0.25) // 10 satisfied, 6 tolerating, 1 frustrated
	if got.Num[0] != 13 || got.Den[0] != 17 || got.Num[1] != 0 || got.Den[1] != 0 {
		t.Errorf("%+v", got)
	}
}

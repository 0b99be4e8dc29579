package report

import (
	"math"
	"testing"

	"tailscope/api"
)

// An interval that leaves out no change is not printed as one that touches it.
func TestBoundKeepsItsSide(t *testing.T) {
	d := &Comparison{}
	ratios, points := &api.CompareMeasure{Name: "p95", Scale: "ratio"}, &api.CompareMeasure{Name: "errors", Scale: "difference"}
	for _, c := range []struct {
		m    *api.CompareMeasure
		f    float64
		want string
	}{
		{ratios, 0.99959, "−0.0 %"}, {ratios, 1.0004, "+0.0 %"}, {ratios, 1, "±0.0 %"}, {ratios, 0.94, "−6.0 %"}, {ratios, math.NaN(), "-"},
		{points, -0.00001, "−0.00pt"}, {points, 0, "±0.00pt"},
	} {
		both := c.want + " … " + c.want
		if c.want == "-" {
			both = c.want
		}
		if got := d.interval(c.m, &api.CompareFigure{Low: api.Float(c.f), High: api.Float(c.f)}); got != both {
			t.Errorf("%s %v: got %s, want %s", c.m.Name, c.f, got, c.want)
		}
	}
}

// What is left of a very large effect is said in times.
func TestVeryLargeEffects(t *testing.T) {
	d := &Comparison{}
	m := &api.CompareMeasure{Name: "p99", Scale: "ratio"}
	m.Raw.Effect, m.Raw.Low, m.Raw.High = 1./5012, 1./6437, 0.06
	if got := d.effect(m, m.Raw.Effect) + " " + d.interval(m, &m.Raw); got != "÷5012 ÷6437 … ÷16.7" {
		t.Errorf("got %s", got)
	}
	m.Raw.Effect, m.Raw.Low, m.Raw.High = 5012, 9.4, 6437
	if got := d.effect(m, m.Raw.Effect) + " " + d.interval(m, &m.Raw); got != "×5012 ×9.4 … ×6437" {
		t.Errorf("got %s", got)
	}
	m.Raw.Low, m.Raw.High = 0, 0.5 // at least so much faster, however much
	if got := d.interval(m, &m.Raw); got != "−100.0 % … −50.0 %" {
		t.Errorf("got %s", got)
	}
}

// What was not measured has no unit.
func TestRateOfNothing(t *testing.T) {
	nan := api.Float(math.NaN())
	d := &Comparison{R: &api.CompareResponse{}}
	m := &api.CompareMeasure{Name: "rate", Scale: "ratio", Verdict: "too little data"}
	m.Raw.A, m.Raw.B, m.Raw.Effect, m.Raw.Low, m.Raw.High = nan, nan, nan, nan, nan
	if row := d.measure(m); row[1] != "-" || row[2] != "-" {
		t.Errorf("got %q", row)
	}
	m.Raw.A = 2
	if row := d.measure(m); row[1] != "2/s" {
		t.Errorf("got %q", row)
	}
}

// What is allowed stands beside a verdict that was judged with it.
func TestAllowedBesideTheVerdict(t *testing.T) {
	d := &Comparison{R: &api.CompareResponse{}}
	m := &api.CompareMeasure{Name: "p99", Scale: "ratio", Verdict: "slower", Allowed: "an increase of 3 % is allowed"}
	if row := d.measure(m); row[len(row)-1] != "slower; an increase of 3 % is allowed" {
		t.Errorf("got %q", row)
	}
	if m.Allowed = ""; d.measure(m)[7] != "slower" {
		t.Errorf("got %q", d.measure(m))
	}
}

// What several windows need is said in windows, as in the sentence.
func TestNeededWindows(t *testing.T) {
	d := &Comparison{R: &api.CompareResponse{}}
	m := &api.CompareMeasure{Name: "p99", Scale: "ratio", Verdict: "no evidence", Raw: api.CompareFigure{Needed: 96, NeededSeconds: 345600, NeededWindows: 288}}
	if row := d.measure(m); row[7] != "no evidence; needs about 288 windows a side" {
		t.Errorf("got %q", row)
	}
}

package judge

import (
	"math"
	"strings"
	"testing"

	"tailscope/stat"
)

func TestParseGate(t *testing.T) {
	for text, want := range map[string]Gate{
		"3%":              {Allowed: 0.03},
		"worse:0.03":      {Direction: ForWorse, Allowed: 0.03},
		"p99=increase:3%": {"p99", Increase, 0.03},
		"apdex=0.02":      {Measure: "apdex", Allowed: 0.02},
		" p50 = 0 ":       {Measure: "p50"},
	} {
		if got, err := ParseGate(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "p99=", "up:3%", "-3%", "p99=increase:x", "p99=NaN"} {
		if g, err := ParseGate(text); err == nil {
			t.Errorf("%q is %+v", text, g)
		}
	}
}

// A size without a per cent sign that is over 1 is refused with what to write, and no
// share changes by more than 100 points.
func TestParseGateRefusesLarge(t *testing.T) {
	for text, want := range map[string]string{
		"p99=worse:3":          "3 is 300 %: write 3%, or 300% if that is meant",
		"p99=worse:2.5":        "2.5 is 250 %: write 2.5%, or 250% if that is meant",
		"5":                    "5 is 500 %: write 5%, or 500% if that is meant",
		"errors=increase:3":    "3 is 300 points, and shares and scores change by 100 at most: write 3%",
		"errors=increase:300%": "300% is more than 100 points, the most that shares and scores change by",
		"apdex=worse:1.5":      "1.5 is 150 points, and shares and scores change by 100 at most: write 1.5%",
	} {
		if g, err := ParseGate(text); err == nil || err.Error() != want {
			t.Errorf("%q: %+v, %v, want %s", text, g, err, want)
		}
	}
	for text, want := range map[string]float64{"p99=worse:300%": 3, "errors=increase:3%": 0.03, "p99=1": 1} {
		if g, err := ParseGate(text); err != nil || g.Allowed != want {
			t.Errorf("%q: %+v, %v, want %g", text, g, err, want)
		}
	}
}

func TestParseGates(t *testing.T) {
	gates, err := ParseGates("worse:3%, p99=increase:5%")
	if err != nil || len(gates) != 2 || gates[1] != (Gate{"p99", Increase, 0.05}) {
		t.Errorf("%+v, %v", gates, err)
	}
	if gates, err = ParseGates(" "); err != nil || gates != nil {
		t.Errorf("of nothing: %+v, %v", gates, err)
	}
	if _, err = ParseGates("worse:3%,,"); err == nil || !strings.Contains(err.Error(), "write one such as worse:3%") {
		t.Errorf("got %v", err)
	}
}

// The gate that names a figure goes before one that names none, whose size is not that of
// a difference; worse follows the figure.
func TestGateOfAFigure(t *testing.T) {
	p99, errors, apdex := Figure{Name: "p99", Kind: Time, Ratio: true}, Figure{Name: ErrorShare, Kind: Errors}, Figure{Name: Apdex, Sense: MoreIsBetter}
	gates := Gates{{Measure: "p99", Direction: ForWorse, Allowed: 0.1}, {Direction: ForWorse, Allowed: 0.03}}
	for _, c := range []struct {
		f      Figure
		margin float64
		want   Gate
	}{
		{p99, 0, Gate{"p99", Increase, 0.1}}, {errors, 0.001, Gate{"", Increase, 0.001}}, {apdex, 0.01, Gate{"", Decrease, 0.01}},
	} {
		if got, ok := gates.Of(c.f, c.margin); !ok || got != c.want {
			t.Errorf("%s: %+v, want %+v", c.f.Name, got, c.want)
		}
	}
	if _, ok := gates[:1].Of(errors, 0.001); ok {
		t.Error("errors have no gate, and one was found")
	}
}

func TestGateJudges(t *testing.T) {
	p99 := Figure{Name: "p99", Kind: Time, Ratio: true}
	for _, c := range []struct {
		gate              Gate
		effect, low, high float64 // ratios
		want              Verdict
		says              string
	}{
		{Gate{Direction: Increase, Allowed: 0.03}, 1.1, 1.05, 1.15, Slower, "is 10 % slower"},
		{Gate{Direction: Increase, Allowed: 0.03}, 1.05, 1.01, 1.09, NoEvidence, "no evidence that p99 of shop changed by more than is allowed, an increase of 3 % is allowed"},
		{Gate{Direction: Increase, Allowed: 0.03}, 1.01, 1.005, 1.02, WithinTolerance, "is within tolerance, an increase of 3 % is allowed"},
		{Gate{Direction: Increase, Allowed: 0.03}, 0.6, 0.5, 0.7, WithinTolerance, "is within tolerance"},
		{Gate{Direction: Decrease, Allowed: 0.03}, 0.6, 0.5, 0.7, Faster, "is 40 % faster"},
		{Gate{Allowed: 0.03}, 0.6, 0.5, 0.7, Faster, "is 40 % faster"},
		{Gate{Allowed: 0.03}, 1.0, 0.98, 1.02, WithinTolerance, "a change of 3 % is allowed"},
		{Gate{Direction: Increase}, 1.1, 1.05, 1.15, Slower, "slower"},
		{Gate{Direction: Increase}, 0.9, 0.85, 0.95, WithinTolerance, "no increase is allowed"},
	} {
		x := stat.Change{Effect: math.Log(c.effect), CI: stat.Interval{Low: math.Log(c.low), High: math.Log(c.high)}, Log: true, Level: 0.95, DF: 20}
		f := Finding{Figure: p99, Of: "shop", Effect: c.effect, Low: c.low, High: c.high, Level: 0.95, Noise: math.NaN(), Gate: &c.gate}
		f.Evidence, _ = c.gate.Judge(&x, 0)
		f.Conclude()
		if got := f.Sentence(); f.Verdict != c.want || !strings.Contains(got, c.says) {
			t.Errorf("%+v of %g–%g: %s: %s; want %s: %s", c.gate, c.low, c.high, f.Verdict, got, c.want, c.says)
		}
	}
}

// Outside a noise floor a change has to be surely beyond both.
func TestGateWithANoiseFloor(t *testing.T) {
	for _, c := range []struct {
		gate                     Gate
		noise, effect, low, high float64 // ratios, but for the noise
		want                     Verdict
	}{
		{Gate{Direction: Increase, Allowed: 0.03}, 0.02, 1.1, 1.05, 1.15, Slower},
		{Gate{Direction: Increase, Allowed: 0.03}, 0.08, 1.1, 1.05, 1.15, WithinFloor},
		{Gate{Direction: Increase, Allowed: 0.2}, 0.08, 1.1, 1.05, 1.15, WithinTolerance},
		{Gate{Direction: Increase, Allowed: 0.1}, 0.02, 1.1, 1.05, 1.15, NoEvidence},
		{Gate{Direction: Increase, Allowed: 0.03}, 0.02, 0.6, 0.5, 0.7, WithinTolerance},
		{Gate{Allowed: 0.03}, math.Inf(1), 1.1, 1.05, 1.15, TooLittle},
		{Gate{Allowed: 0.03}, math.Inf(1), 1, 0.99, 1.01, WithinTolerance},
	} {
		x := stat.Change{Effect: math.Log(c.effect), CI: stat.Interval{Low: math.Log(c.low), High: math.Log(c.high)}, Log: true, Level: 0.95, DF: 20}
		f := Finding{Figure: Figure{Name: "p99", Kind: Time, Ratio: true}, Against: "control", Effect: c.effect, Low: c.low, High: c.high, Level: 0.95, Noise: c.noise, Gate: &c.gate}
		f.Evidence, _ = c.gate.Judge(&x, math.Log1p(c.noise))
		if f.Conclude(); f.Verdict != c.want {
			t.Errorf("%+v, noise %g, of %g–%g: %s, want %s", c.gate, c.noise, c.low, c.high, f.Verdict, c.want)
		}
	}
}

package judge

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"tailscope/internal/figure"
	"tailscope/stat"
)

// Direction is which changes of a figure matter.
type Direction string

// Directions. That of worse and better follows the figure.
const (
	Either   Direction = ""
	Increase Direction = "increase"
	Decrease Direction = "decrease"
	ForWorse Direction = "worse"
)

// Gate is the change of a figure that is allowed: what is surely beyond it matters, and
// what surely is not is within tolerance. It is the direction and the effect size of a
// metric of a canary judge.
type Gate struct {
	Measure   string // empty: of all that have no gate of their own
	Direction Direction
	Allowed   float64 // a relative change, or of shares and scores a difference
}

// NoGates is the text of gates that are none, where a default would hold otherwise.
const NoGates = "none"

// Gates are those of several figures.
type Gates []Gate

// ParseGate reads MEASURE=DIRECTION:SIZE, of which the measure and the direction may be
// left out: 3%, worse:3%, p99=increase:3%, errors=0.1%.
func ParseGate(text string) (g Gate, err error) {
	rest := strings.TrimSpace(text)
	if measure, after, ok := strings.Cut(rest, "="); ok {
		g.Measure, rest = strings.TrimSpace(measure), after
	}
	if direction, after, ok := strings.Cut(rest, ":"); ok {
		g.Direction, rest = Direction(strings.TrimSpace(direction)), after
		switch g.Direction {
		case Increase, Decrease, ForWorse:
		default:
			return g, fmt.Errorf("%q is not a direction: want increase, decrease or worse", string(g.Direction))
		}
	}
	rest = strings.TrimSpace(rest)
	number, percent := strings.CutSuffix(rest, "%")
	g.Allowed, err = strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		g.Allowed /= 100
	}
	if err != nil || !(g.Allowed >= 0 && g.Allowed <= 10) {
		return g, fmt.Errorf("%q is not the size of a change: want 0.03 or 3%%", rest)
	}
	share := g.Measure == ErrorShare || g.Measure == Apdex
	switch {
	case g.Allowed > 1 && share && !percent:
		return g, fmt.Errorf("%s is %s points, and shares and scores change by 100 at most: write %s%%", number, figure.Digits(100*g.Allowed), number)
	case g.Allowed > 1 && share:
		return g, fmt.Errorf("%s is more than 100 points, the most that shares and scores change by", rest)
	case g.Allowed > 1 && !percent:
		return g, fmt.Errorf("%s is %s: write %s%%, or %s%% if that is meant", number, figure.Percent(g.Allowed), number, figure.Digits(100*g.Allowed))
	}
	return g, nil
}

// ParseGates reads gates with commas between: worse:3%,p99=increase:5%. Empty text is nil,
// and NoGates an empty list.
func ParseGates(text string) (gs Gates, err error) {
	switch strings.TrimSpace(text) {
	case "":
		return nil, nil
	case NoGates:
		return Gates{}, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		g, err := ParseGate(part)
		if err != nil {
			return nil, fmt.Errorf("%w; write one such as worse:3%% or p99=increase:3%%", err)
		}
		gs = append(gs, g)
	}
	return gs, nil
}

// Measures returns the measures that are named.
func (gs Gates) Measures() (names []string) {
	for _, g := range gs {
		if g.Measure != "" {
			names = append(names, g.Measure)
		}
	}
	return names
}

// Of returns the gate of a figure: the last that names it, else the last that names none,
// with the figure's own margin as the size where it is compared by difference.
func (gs Gates) Of(f Figure, margin float64) (gate Gate, ok bool) {
	for _, g := range gs {
		if g.Measure == "" && !(ok && gate.Measure != "") || g.Measure == f.Name {
			gate, ok = g, true
		}
	}
	if ok && gate.Measure == "" && !f.Ratio {
		gate.Allowed = margin
	}
	if gate.Direction == ForWorse {
		switch f.Sense {
		case LessIsBetter:
			gate.Direction = Increase
		case MoreIsBetter:
			gate.Direction = Decrease
		default:
			gate.Direction = Either
		}
	}
	return gate, ok
}

// Judge returns the evidence of a change beyond what is allowed, and its probability
// without one. A change lies beyond where its interval does, and within tolerance where
// its interval does, toward the direction that matters. Noise is that of Finding, on the
// scale of the change, and 0 without a floor: a change within it is hidden.
func (g Gate) Judge(x *stat.Change, noise float64) (e Evidence, p float64) {
	if x.Short != "" {
		return Evidence{Short: x.Short}, math.NaN()
	}
	up, down := g.bounds(x.Log)
	bound := max(down, noise)
	if x.Effect > 0 {
		bound = max(up, noise)
	}
	p = 1
	if !math.IsInf(bound, 1) {
		p = x.Beyond(bound)
	}
	e = g.Evidence(x.CI.Low, x.CI.High, x.Log)
	e.Hidden = e.Sure && x.CI.Low <= noise && x.CI.High >= -noise
	e.Sure = e.Sure && !e.Hidden
	e.Sure, e.Drifts, e.ByLoad = e.Sure && !x.Drifts, e.Sure && x.Drifts, x.ByLoad
	return e, p
}

// Evidence reads the interval of an effect, a logarithm of a ratio or a difference.
func (g Gate) Evidence(low, high float64, log bool) Evidence {
	up, down := g.bounds(log)
	return Evidence{Sure: low > up || high < -down, Tolerated: high <= up && low >= -down}
}

// bounds returns how far an effect may rise and fall.
func (g Gate) bounds(log bool) (up, down float64) {
	up, down = g.Allowed, g.Allowed
	if log {
		up = math.Log1p(g.Allowed)
		down = up
	}
	switch g.Direction {
	case Increase:
		down = math.Inf(1)
	case Decrease:
		up = math.Inf(1)
	}
	return up, down
}

// Text says what a gate allows of a figure: an increase of 3 % is allowed.
func (g Gate) Text(f Figure) string {
	what := "a change"
	switch g.Direction {
	case Increase:
		what = "an increase"
	case Decrease:
		what = "a decrease"
	}
	size := f.MarginText(g.Allowed)
	if f.Kind != Errors && !f.Ratio {
		size = figure.Digits(g.Allowed)
	}
	if g.Allowed == 0 {
		return "no " + strings.TrimPrefix(strings.TrimPrefix(what, "an "), "a ") + " is allowed"
	}
	return what + " of " + size + " is allowed"
}

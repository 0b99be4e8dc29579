package experiment

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"tailscope/api"
	"tailscope/internal/experiment/judge"
	"tailscope/internal/figure"
	"tailscope/stat"
)

// Allowed is the share by which a measure may be worse unless a gate says
// otherwise.
const Allowed = 0.05

// gated are the measures that may fail a gate unless it names others.
var gated = []string{"p50", "p95", "p99", "mean", "errors"}

// allowedErrors is by how much the share of errors may be greater.
const allowedErrors = 0.001

// compared is one figure of a gate.
type compared struct {
	what     string // p99 of term with workers=24
	measure  string
	estimate judge.Estimate // worse is above 0
	adjusted float64
}

// Judge says whether something became worse. A measure fails if it is surely
// worse, by an interval that leaves out no change with its probability adjusted
// over all that were compared, and by more than is allowed as far as one can tell.
// So noise does not fail a gate, and neither does a sure change that is small.
//
// Without a baseline the settings are held against the control of the same
// experiment. With one, the ratio of each setting to its control is held against
// the same ratio there: another machine, or a busier one, moves both. Absolute
// gates compare the figures of every setting, the control too, and are for one
// machine.
func (g *Gate) Judge(t, base *api.Trial) *api.TrialGate {
	out := &api.TrialGate{Baseline: g.Baseline, Allowed: api.Float(g.Allowed), Why: []string{}}
	measures := g.Measures
	if measures == nil {
		measures = gated
	}
	level := float64(t.Stopping.Level)
	if !(level > 0) {
		level = 0.95
	}
	var all []compared
	if base == nil {
		all = g.own(t, measures)
	} else {
		all, out.Why = g.against(t, base, measures, level)
	}
	p := make([]float64, len(all))
	for i, c := range all {
		p[i] = c.estimate.P
	}
	for i, v := range stat.BenjaminiHochberg(p) {
		all[i].adjusted = v
	}
	out.Passed = len(all) > 0
	if len(all) == 0 && len(out.Why) == 0 {
		out.Why = append(out.Why, "nothing could be compared: it takes three whole rounds here and there of a setting and a measure that both have")
	}
	for _, c := range all {
		allowed := math.Log1p(g.Allowed)
		if c.measure == "errors" {
			allowed = allowedErrors
		}
		e := c.estimate
		if e.Low > 0 && c.adjusted <= 1-level && e.Effect > allowed {
			out.Passed = false
			out.Why = append(out.Why, c.sentence(level, g.Allowed))
		}
	}
	if out.Passed {
		out.Why = append(out.Why, fmt.Sprintf("none of %d figures is surely worse by more than %g %%", len(all), 100*g.Allowed))
	}
	return out
}

func (c *compared) sentence(level, allowed float64) string {
	e := c.estimate
	if c.measure == "errors" {
		return fmt.Sprintf("%s is %s points higher (%g %% interval %s to %s points)", c.what, figure.TwoDigits(100*e.Effect), 100*level, figure.TwoDigits(100*e.Low), figure.TwoDigits(100*e.High))
	}
	sign := 1.0
	word := "higher"
	if !judge.Lower(c.measure) {
		sign, word = -1, "lower"
	}
	low, high := math.Expm1(sign*e.Low), math.Expm1(sign*e.High)
	return fmt.Sprintf("%s is %.0f %% %s (%g %% interval %+.0f to %+.0f %%), %g %% are allowed", c.what, math.Abs(100*math.Expm1(sign*e.Effect)), word, 100*level, 100*min(low, high), 100*max(low, high), 100*allowed)
}

// own are the rows of the experiment itself.
func (g *Gate) own(t *api.Trial, measures []string) []compared {
	var out []compared
	for _, r := range t.Rows {
		if r.Effect != "" || r.Against != t.Settings[0].Name {
			continue // a live design has rows against other things than the control
		}
		for _, m := range r.Measures {
			if !slices.Contains(measures, m.Name) || math.IsNaN(float64(m.Low)) {
				continue
			}
			e := judge.Estimate{Effect: float64(m.Effect), Low: float64(m.Low), High: float64(m.High), P: float64(m.P)}
			if m.Name != "errors" {
				e.Effect, e.Low, e.High = math.Log(e.Effect), math.Log(e.Low), math.Log(e.High)
			}
			out = append(out, compared{what: judge.Title(m.Name, judge.Key{Query: r.Query, Tenant: r.Tenant}) + " with " + r.Setting + ", against " + r.Against + ",", measure: m.Name, estimate: worse(m.Name, e)})
		}
	}
	return out
}

// worse turns an estimate such that above 0 is worse.
func worse(measure string, e judge.Estimate) judge.Estimate {
	if !judge.Lower(measure) {
		e.Effect, e.Low, e.High = -e.Effect, -e.High, -e.Low
	}
	return e
}

// against compares with a baseline, and says what could not be.
func (g *Gate) against(t, base *api.Trial, measures []string, level float64) (all []compared, why []string) {
	why = []string{}
	now, then := rounds(t), rounds(base)
	if g.Absolute {
		if a, b := t.Environment, base.Environment; a.CPU != b.CPU || a.Cores != b.Cores || a.Kernel != b.Kernel {
			why = append(why, fmt.Sprintf("the machine is another (%s, %d cores, %s; the baseline's %s, %d cores, %s): figures themselves say little", a.CPU, a.Cores, a.Kernel, b.CPU, b.Cores, b.Kernel))
		}
	}
	if err := Comparable(t.Settings, base.Settings, g.Absolute); err != nil {
		return nil, append(why, err.Error())
	}
	var known []string
	for _, s := range base.Settings {
		known = append(known, s.Name)
	}
	for i, s := range t.Settings {
		if i == 0 && !g.Absolute {
			continue
		}
		if !slices.Contains(known, s.Name) {
			why = append(why, s.Name+" is not in the baseline, and not compared")
			continue
		}
		for _, query := range queries(t) {
			for _, m := range measures {
				a := then.values(base.Settings[0].Name, s.Name, query, m, g.Absolute)
				b := now.values(t.Settings[0].Name, s.Name, query, m, g.Absolute)
				e := judge.Apart(a, b, level)
				if math.IsNaN(e.Effect) {
					continue
				}
				what := judge.Title(m, judge.Key{Query: query}) + " with " + s.Name
				if !g.Absolute {
					what += ", set against its control,"
				}
				all = append(all, compared{what: what, measure: m, estimate: worse(m, e)})
			}
		}
	}
	return all, why
}

// Comparable says why settings, the control first, cannot be held against those of
// a baseline: none of them is in it or, where ratios to the control are compared,
// the control is another.
func Comparable(settings, base []api.TrialSetting, absolute bool) error {
	if len(settings) == 0 || len(base) == 0 {
		return errors.New("the baseline has no settings")
	}
	if a, b := settings[0].Name, base[0].Name; !absolute && a != b {
		return fmt.Errorf("the baseline is of another experiment: its control is %s, not %s", b, a)
	}
	var names []string
	for i, s := range base {
		if i > 0 || absolute {
			names = append(names, s.Name)
		}
	}
	if !slices.ContainsFunc(settings, func(s api.TrialSetting) bool { return slices.Contains(names, s.Name) }) {
		return fmt.Errorf("the baseline is of another experiment: it has %s, and none of these settings", and(names))
	}
	return nil
}

// roundsOf has valid figures by round and setting.
type roundsOf map[int]map[string]map[string]map[string]api.Float

func rounds(t *api.Trial) roundsOf {
	out := roundsOf{}
	for _, r := range t.Rounds {
		if !r.Valid {
			continue
		}
		if out[r.Round] == nil {
			out[r.Round] = map[string]map[string]map[string]api.Float{}
		}
		out[r.Round][r.Setting] = r.Figures
	}
	return out
}

// values are the numbers of rounds: a setting's log figure, less the control's
// unless absolute.
func (r roundsOf) values(control, setting, query, measure string, absolute bool) []float64 {
	figure := func(of map[string]map[string]map[string]api.Float, setting string) float64 {
		v, ok := of[setting][query][measure]
		switch {
		case !ok:
			return math.NaN()
		case measure == "errors":
			return float64(v)
		}
		return math.Log(float64(v))
	}
	var out []float64
	for _, of := range r {
		v := figure(of, setting)
		if !absolute {
			v -= figure(of, control)
		}
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			out = append(out, v)
		}
	}
	return out
}

// queries of a trial, everything together first.
func queries(t *api.Trial) []string {
	names := map[string]bool{}
	for _, r := range t.Rounds {
		for q := range r.Figures {
			names[q] = true
		}
	}
	var out []string
	for q := range names {
		out = append(out, q)
	}
	slices.Sort(out)
	return out
}

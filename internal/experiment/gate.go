package experiment

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/judge/rounds"
	"tailscope/stat"
)

// Allowed is the default share by which a measure may be worse.
const Allowed = 0.05

// gated are the measures that a gate checks by default.
var gated = []string{"p50", "p95", "p99", "mean", "errors"}

// compared is one figure of a gate.
type compared struct {
	finding  judge.Finding // without its effect
	estimate rounds.Estimate
	adjusted float64
}

// Judge decides whether a measure became worse by more than is allowed of it, see
// judge.Gate: its interval lies beyond, and its probability, adjusted over all that were
// compared, leaves out no change. So noise does not fail a gate, and neither does a sure
// change that is small.
//
// Without a baseline the settings are compared with the control of the same
// experiment. With one, the ratio of each setting to its control is compared with the
// same ratio there: another machine, or a busier one, moves both. Absolute gates
// compare the figures of every setting, the control too, and are for one machine.
func (g *Gate) Judge(t, base *api.Experiment) *api.ExperimentGate {
	out := &api.ExperimentGate{Baseline: g.Baseline, Allowed: api.Float(g.Allowed), Why: []string{}}
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
	gates := g.gates()
	for _, c := range all {
		allowed, _ := gates.Of(c.finding.Figure, judge.MarginOfErrors)
		if c.conclude(allowed, level); c.finding.Way(c.finding.Verdict) == judge.Worse && c.adjusted <= 1-level {
			out.Passed = false
			out.Why = append(out.Why, c.finding.Claim()+", "+allowed.Text(c.finding.Figure))
		}
	}
	if out.Passed {
		out.Why = append(out.Why, fmt.Sprintf("none of %d figures is surely worse by more than is allowed", len(all)))
	}
	return out
}

// gates returns what is allowed: what is said of every measure, then of single ones.
func (g *Gate) gates() judge.Gates {
	all := judge.Gates{{Direction: judge.ForWorse, Allowed: g.Allowed}}
	for _, text := range g.Allow {
		if gate, err := judge.ParseGate(text); err == nil { // files and flags are checked
			all = append(all, gate)
		}
	}
	return all
}

// conclude gives the finding its effect, and its verdict by what is allowed.
func (c *compared) conclude(allowed judge.Gate, level float64) {
	e, f := c.estimate, &c.finding
	f.Evidence = allowed.Evidence(e.Low, e.High, f.Ratio)
	f.Effect, f.Low, f.High, f.Level, f.Noise = e.Effect, e.Low, e.High, level, math.NaN()
	if f.Ratio {
		f.Effect, f.Low, f.High = math.Exp(e.Effect), math.Exp(e.Low), math.Exp(e.High)
	}
	f.Conclude()
}

// own returns the rows of the experiment itself.
func (g *Gate) own(t *api.Experiment, measures []string) []compared {
	var out []compared
	for _, r := range t.Rows {
		if r.Effect != "" || r.Against != t.Settings[0].Name {
			continue // a live design has rows against other things than the control
		}
		for _, m := range r.Measures {
			if !slices.Contains(measures, m.Name) || math.IsNaN(float64(m.Low)) {
				continue
			}
			e := rounds.Estimate{Effect: float64(m.Effect), Low: float64(m.Low), High: float64(m.High), P: float64(m.P)}
			if m.Name != "errors" {
				e.Effect, e.Low, e.High = math.Log(e.Effect), math.Log(e.Low), math.Log(e.High)
			}
			f := judge.Finding{Figure: rounds.FigureOf(m.Name), Of: rounds.Key{Query: r.Query, Tenant: r.Tenant}.Of(), With: r.Setting, Against: r.Against}
			out = append(out, compared{finding: f, estimate: e})
		}
	}
	return out
}

// against compares with a baseline, and lists what could not be compared.
func (g *Gate) against(t, base *api.Experiment, measures []string, level float64) (all []compared, why []string) {
	why = []string{}
	now, then := roundsIn(t), roundsIn(base)
	if g.Absolute() {
		if a, b := t.Environment, base.Environment; a.CPU != b.CPU || a.Cores != b.Cores || a.Kernel != b.Kernel {
			why = append(why, fmt.Sprintf("the machine is another (%s, %d cores, %s; the baseline's %s, %d cores, %s): figures themselves say little", a.CPU, a.Cores, a.Kernel, b.CPU, b.Cores, b.Kernel))
		}
	}
	if err := Comparable(t.Settings, base.Settings, g.Absolute()); err != nil {
		return nil, append(why, err.Error())
	}
	var known []string
	for _, s := range base.Settings {
		known = append(known, s.Name)
	}
	for i, s := range t.Settings {
		if i == 0 && !g.Absolute() {
			continue
		}
		if !slices.Contains(known, s.Name) {
			why = append(why, s.Name+" is not in the baseline, and not compared")
			continue
		}
		with := s.Name
		if !g.Absolute() {
			with += ", set against its control,"
		}
		for _, query := range queries(t) {
			for _, m := range measures {
				a := then.values(base.Settings[0].Name, s.Name, query, m, g.Absolute())
				b := now.values(t.Settings[0].Name, s.Name, query, m, g.Absolute())
				e := rounds.Apart(a, b, level)
				if math.IsNaN(e.Effect) {
					continue
				}
				f := judge.Finding{Figure: rounds.FigureOf(m), Of: rounds.Key{Query: query}.Of(), With: with, Against: "the baseline"}
				all = append(all, compared{finding: f, estimate: e})
			}
		}
	}
	return all, why
}

// Comparable returns why settings, the control first, cannot be compared with those
// of a baseline: none of them is in it or, where ratios to the control are compared,
// the control is another.
func Comparable(settings, base []api.ExperimentSetting, absolute bool) error {
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
	if !slices.ContainsFunc(settings, func(s api.ExperimentSetting) bool { return slices.Contains(names, s.Name) }) {
		return fmt.Errorf("the baseline is of another experiment: it has %s, and none of these settings", figure.Listed(names))
	}
	return nil
}

// roundsOf holds valid figures by round and setting.
type roundsOf map[int]map[string]map[string]map[string]api.Float

func roundsIn(t *api.Experiment) roundsOf {
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

// values returns the rounds' values of a setting: its log figure, less the control's
// if not absolute.
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

// queries returns the queries of an experiment, everything together first.
func queries(t *api.Experiment) []string {
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

package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"tailscope/internal/experiment/bench"
	"tailscope/internal/experiment/scenario"
	"tailscope/internal/judge"
	"tailscope/internal/judge/rounds"
	"tailscope/internal/strictyaml"
)

// Load reads an experiment and its scenario, with every setting's values. With any
// problem the experiment is nil, and the problems are complete.
func Load(path string) (*Experiment, []strictyaml.Problem) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, []strictyaml.Problem{{File: path, Message: err.Error(), Hint: "tailscope experiment schema says what such a file has"}}
	}
	var p strictyaml.Problems
	tree := strictyaml.Parse(path, content, &p, "what several places share goes into the control's variables")
	if tree == nil || p.Len() > 0 {
		return nil, p.Sorted()
	}
	var raw file
	d := &strictyaml.Decoder{Problems: &p, Leaves: leaves}
	d.Decode("experiment", tree, &raw)
	x := &raw.Experiment
	x.File, x.Dir, x.Text = path, filepath.Dir(path), string(content)
	if abs, err := filepath.Abs(x.Dir); err == nil {
		x.Dir = abs
	}
	r := &fileReader{x: x, raw: &raw, d: d, problems: &p}
	(&designer{raw: &raw, dec: d, problems: &p, x: x}).design()
	r.rounds()
	r.commands()
	r.gate()
	if x.Versions == nil {
		x.Versions = map[string]string{}
	}
	r.load()
	r.used()
	if p.Len() > 0 {
		return nil, p.Sorted()
	}
	return x, nil
}

type fileReader struct {
	x        *Experiment
	raw      *file
	d        *strictyaml.Decoder
	problems *strictyaml.Problems
}

// add notes a mistake at a field, or at the file if the field is missing or nil.
func (r *fileReader) add(field any, hint, format string, args ...any) {
	n := r.d.Node(field)
	if n == nil {
		n = r.d.Node(r.raw)
	}
	r.problems.Add(n.At, hint, format, args...)
}

// usualMeasure returns the default deciding measure: p99 or, where only others are
// judged, the most informative one.
func (r *fileReader) usualMeasure() string {
	const usual = "p99"
	named := r.x.Measures
	if len(named) == 0 || slices.Contains(named, usual) {
		return usual
	}
	for _, m := range rounds.Reading("") {
		if slices.Contains(named, m) {
			return m
		}
	}
	return named[0]
}

// rounds reads when to stop.
func (r *fileReader) rounds() {
	x := &r.x.Rounds
	rule, least, most, measure := "fixed", 8, 0, r.usualMeasure()
	if r.x.Live != nil {
		least, measure = 1, judge.Ratio
	}
	switch {
	case r.d.Given(&x.Precision) && x.Early:
		r.add(&x.Early, "keep one of the two", "precision and early are two rules")
	case r.d.Given(&x.Precision):
		rule, least, most = "precision", 6, 30
		if r.d.OK(&x.Precision) && !(x.Precision > 0) {
			r.add(&x.Precision, "write one such as 3%", "an interval is never of no width")
		}
	case x.Early:
		rule, least, most = "decided", 6, 30
	}
	x.Rule, x.Measure = rule, cmp.Or(x.Measure, measure)
	if !r.d.OK(&x.AtLeast) {
		x.AtLeast = least
	}
	switch {
	case r.d.OK(&x.AtMost) && rule == "fixed":
		if r.d.OK(&x.AtLeast) && x.AtMost != x.AtLeast {
			r.add(&x.AtMost, "write precision: 3% or early: true, or leave at_most out", "nothing says when to stop between %d and %d rounds", x.AtLeast, x.AtMost)
		}
		x.AtLeast = x.AtMost
	case r.d.OK(&x.AtMost):
	default:
		if x.AtMost = most; most < x.AtLeast {
			x.AtMost = x.AtLeast
		}
	}
	if x.AtLeast < rounds.Fewest-1 && r.x.Live == nil {
		r.add(&x.AtLeast, "write 6 or more", "one round tells nothing of how much rounds differ")
	}
	if x.AtMost < x.AtLeast {
		r.add(&x.AtMost, fmt.Sprintf("write at_most: %d or more", x.AtLeast), "at_most is less than at_least")
	}
	if rule == "precision" && x.AtLeast < 3 {
		r.add(&x.AtLeast, "write 6 or more", "a first stage of %d rounds says nothing of how much rounds differ", x.AtLeast)
	}
}

// commands sets the defaults of commands.
func (r *fileReader) commands() {
	x := r.x
	for _, of := range []struct {
		what string
		all  []Command
	}{{"apply", x.Apply}, {"restore", x.Restore}, {"between", x.Between}} {
		for i := range of.all {
			c := &of.all[i]
			if len(c.Args) == 0 || strings.TrimSpace(c.Args[0]) == "" {
				r.add(c, "write the command", "%s has an empty command", of.what)
				continue
			}
			c.Shell = len(c.Args) == 1 && !listed(r.d.Node(c))
			c.Name, c.Dir = cmp.Or(c.Name, strings.Fields(c.Args[0])[0]), within(x.Dir, c.Dir)
		}
	}
	if len(x.Restore) == 0 {
		x.Restore = x.Apply
	}
}

// listed reports whether a command was written as a list.
func listed(n *node) bool {
	run := n.Get("run")
	return run != nil && run.Kind == strictyaml.List
}

func (r *fileReader) gate() {
	if g := r.x.Gate; g != nil && g.Absolute() && g.Baseline == "" {
		r.add(&g.Compare, "write baseline: FILE, or leave compare out", "there is no figure to compare with")
	}
}

// load reads the scenario with every setting's values, so that no mistake is found
// when half the rounds are done.
func (r *fileReader) load() {
	x := r.x
	if live := x.Live; live != nil {
		if r.d.Given(&x.Scenario) {
			r.add(&x.Scenario, "leave it out, or live", "live traffic is the load of a live design; it has no scenario")
		}
		if len(x.Factors) > 0 || x.Rounds.Rule != "fixed" {
			r.add(live, "leave out factors, precision and early", "a live design changes one variable, a fixed number of times")
		}
		x.Design = LiveDesign
		if live.For == 0 {
			live.For = defaultLive
		}
		// Slots at either end of a window are incomplete.
		if whole := int(live.For/liveSlot) - 1; whole*x.Rounds.AtMost < leastSlots {
			r.add(&live.For, "write 4m or more; half an hour tells more", "%s of a setting is too short for an interval, which needs %d whole slots of %s", live.For*time.Duration(x.Rounds.AtMost), leastSlots, liveSlot)
		}
		if x.Gate != nil && x.Gate.Baseline != "" {
			r.add(&x.Gate.Baseline, "leave it out: the settings are then held against the control", "a live design has no rounds to hold against a baseline")
		}
		if len(x.Apply) == 0 {
			r.add(nil, "write apply: COMMAND that gives the candidate a setting", "a live design without apply changes nothing")
		}
		return
	}
	if x.Scenario == "" {
		r.add(nil, "write scenario: FILE, as tailscope bench takes, or live", "the experiment has no load")
		return
	}
	x.Scenario = within(x.Dir, x.Scenario)
	content, err := os.ReadFile(x.Scenario)
	if err != nil {
		r.add(&x.Scenario, "write the path of a scenario, from the directory of this file", "the scenario is not read: %v", err)
		return
	}
	x.scenarioText = string(content)
	s, problems := scenario.Load(x.Scenario, scenario.LoadOptions{})
	for _, p := range problems {
		r.problems.Put(p)
	}
	if len(problems) > 0 {
		return
	}
	x.scenario = s
	for _, set := range x.Settings {
		with, problems := s.With(x.vars(set))
		for _, p := range problems {
			p.Message += ", with " + set.Name
			r.problems.Put(p)
		}
		if with != nil && with.Plan.Duration() <= 0 && with.Duration <= 0 && with.Plan.Arrivals == bench.Closed {
			r.add(&x.Scenario, "write for: 30s of its phases", "the load of the scenario has no end")
			return
		}
		if with != nil && !r.tells(with, set.Name) {
			return
		}
	}
}

// tells reports whether a run has enough requests for the measure that decides the
// number of rounds. A measure that was not named does not need them: it only stands
// first.
func (r *fileReader) tells(s *scenario.Scenario, setting string) bool {
	x, o := r.x, &r.x.Rounds
	if !r.d.Given(o) || o.Rule == "fixed" && !r.d.Given(&o.Measure) {
		return true
	}
	n, known := s.Plan.Requests()
	if need := rounds.Needs(x.Rounds.Measure); known && n < need {
		at := any(&o.Measure)
		if !r.d.Given(at) {
			at = o
		}
		hint := "let it run for longer"
		for _, m := range []string{"p95", "p90", "p50"} {
			if rounds.Needs(m) <= n {
				hint += ", or write measure: " + m
				break
			}
		}
		r.add(at, hint, "%s takes %d requests a round, and the load has %d with %s", x.Rounds.Measure, need, n, setting)
		return false
	}
	return true
}

// vars returns a setting's values of the scenario's variables.
func (x *Experiment) vars(s Setting) map[string]string {
	out := map[string]string{}
	for name, v := range s.Values {
		if _, ok := x.scenario.Vars[name]; ok {
			out[name] = v
		}
	}
	return out
}

var variable = regexp.MustCompile(`\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}`)

// used reports variables that change nothing, with which the variants would be the
// control under other names, and names in commands without a value.
func (r *fileReader) used() {
	x := r.x
	if len(x.Settings) == 0 || r.problems.Len() > 0 {
		return
	}
	known := slices.Sorted(maps.Keys(x.Settings[0].Values))
	inCommands := map[string]bool{}
	for _, c := range slices.Concat(x.Apply, x.Restore, x.Between) {
		for _, arg := range c.Args {
			for _, m := range variable.FindAllStringSubmatch(arg, -1) {
				if !slices.Contains(known, m[1]) {
					r.add(nil, strictyaml.Suggest(m[1], known), "the command %s asks for {{%s}}, which the control has not", c.Name, m[1])
				}
			}
			for _, name := range known {
				inCommands[name] = inCommands[name] || strings.Contains(arg, name) // {{name}} or $name
			}
		}
	}
	changed := []string{x.Variable}
	if x.Design == Factorial {
		changed = nil
		for _, f := range x.Factors {
			changed = append(changed, f.Name)
		}
	}
	for _, name := range changed {
		inScenario := false
		if x.scenario != nil {
			_, inScenario = x.scenario.Vars[name]
		}
		// A script may read the variable from its environment.
		if !inCommands[name] && !inScenario && len(x.Apply) == 0 {
			r.add(&x.Variable, "write {{"+name+"}} in apply, or name it under vars in the scenario and use it there", "nothing uses %s: every setting would be the control", name)
		}
	}
}

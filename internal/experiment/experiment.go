// Package experiment measures what one change does: a control and settings that
// differ from it in exactly one declared variable, in rounds that measure every
// setting once and in random order, for as many rounds as the answer takes.
//
// Whatever happens, the control is applied again: at the end, after a failure, a
// signal or a panic; and after a kill -9 when the next experiment of the same file
// starts, for what is applied is noted in a journal beside the file first.
//
// Load reads a file and says everything that is wrong with it before anything is
// applied or sent; Run runs it. What the rounds amount to is said by
// internal/judge/rounds.
package experiment

import (
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/bench"
	"tailscope/internal/experiment/scenario"
	"tailscope/internal/judge/rounds"
)

// Experiment is a file that was read. It is not changed after Load.
type Experiment struct {
	Name, Hypothesis string
	File             string // its path
	Dir              string // which relative names are relative to
	Text             string // the file as it was
	Scenario         string // path of its scenario, empty of a live design
	scenario         *scenario.Scenario
	scenarioText     string

	Design   string // one variable, sweep, factorial, live
	Variable string // names joined by " × " of a factorial design
	Unit     string
	Settings []Setting // the control first
	Factors  []rounds.Factor
	levels   [][]int // of settings, by factor

	Apply, Restore, Between []Command
	Settle                  time.Duration
	Rounds                  Rounds
	Measures                []string // nil: all
	Within, Level           float64  // margin of sameness, confidence; 0: the usual
	Seed                    uint64   // 0: drawn
	Versions                map[string]string
	Configs                 []string
	Gate                    *Gate
	Live                    *Live
}

// The designs.
const (
	OneVariable = "one variable"
	Sweep       = "sweep"
	Factorial   = "factorial"
	LiveDesign  = "live"
)

// Setting is one value of the variable, or one combination of a factorial design.
type Setting struct {
	Name   string
	Values map[string]string // of every variable that the control has
	X      float64           // NaN if the value is not a number
}

// Command is a line for /bin/sh, or a program and its arguments. Its texts hold
// {{variables}}.
type Command struct {
	Name    string
	Args    []string
	Shell   bool
	Dir     string
	Timeout time.Duration
}

// Rounds say when to stop.
type Rounds struct {
	Rule            string // fixed, precision, decided
	AtLeast, AtMost int
	Precision       float64 // half the width of the interval, as a share
	Measure         string  // that decides
}

// Gate is what a pipeline asks.
type Gate struct {
	Baseline string  // file or id; empty: the control of the same experiment
	Allowed  float64 // share by which a measure may be worse
	Absolute bool    // figures themselves are compared, not their ratios to the control
	Measures []string
}

// Live is an experiment on a candidate behind a running mirror session.
type Live struct {
	Session   string
	To        string // address of the server that has it
	For       time.Duration
	Candidate string
}

func (x *Experiment) names() []string {
	var out []string
	for _, s := range x.Settings {
		out = append(out, s.Name)
	}
	return out
}

func (x *Experiment) places() []float64 {
	var out []float64
	for _, s := range x.Settings {
		out = append(out, s.X)
	}
	return out
}

// ResultSettings are the settings as a result has them.
func (x *Experiment) ResultSettings() (out []api.ExperimentSetting) {
	for i, s := range x.Settings {
		out = append(out, api.ExperimentSetting{Name: s.Name, Control: i == 0, Values: s.Values, X: api.Float(s.X)})
	}
	return out
}

// contrasts are the rows that there will be.
func (x *Experiment) contrasts() []rounds.Contrast {
	out := rounds.Against(x.names())
	if x.Design == Factorial {
		out = append(rounds.Factorial(x.Factors, x.levels), out...)
	}
	return out
}

// rule is how the number of rounds comes about.
func (x *Experiment) rule() rounds.Rule {
	switch x.Rounds.Rule {
	case "precision":
		return rounds.Rule{Stage: x.Rounds.AtLeast}
	case "decided":
		return rounds.Rule{Live: true}
	}
	return rounds.Rule{}
}

// plan says how many rounds there should be, after those that there are.
func (x *Experiment) plan(in rounds.Input) rounds.Plan {
	switch x.Rounds.Rule {
	case "precision":
		return rounds.Precision(in, x.Rounds.Precision, x.Rounds.AtMost)
	case "decided":
		return rounds.Decided(in, x.Rounds.AtLeast, x.Rounds.AtMost)
	}
	return rounds.Fixed(x.Rounds.AtMost, rounds.Complete(in))
}

func (x *Experiment) input(runs []rounds.Run) rounds.Input {
	return rounds.Input{
		Settings: x.names(), Runs: runs, Contrasts: x.contrasts(), Measures: x.Measures, Decides: x.Rounds.Measure,
		Rule: x.rule(), Level: x.Level, Within: x.Within, Closed: x.scenario != nil && x.scenario.Plan.Arrivals == bench.Closed,
	}
}

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
	Name         string `key:"experiment" is:"word" need:"yes" doc:"Its name."`
	Hypothesis   string `key:"hypothesis" doc:"What is expected, and why: kept with the result."`
	File         string // its path
	Dir          string // which relative names are relative to
	Text         string // the file as it was
	Scenario     string `key:"scenario" doc:"File of the scenario that each round runs. {{names}} in it stand for the setting's values."` // once read its path
	scenario     *scenario.Scenario
	scenarioText string

	Design   string    `key:"design" is:"one variable|factorial" doc:"Default: one variable. factorial, asked for by name, measures every combination of the factors."` // once read one of the designs
	Variable string    `key:"variable" doc:"The one variable that settings differ in."`                                                                                 // names joined by " × " of a factorial design
	Unit     string    `key:"unit" doc:"Of the variable, for the response curve."`
	Settings []Setting // the control first
	Factors  []rounds.Factor
	levels   [][]int // of settings, by factor

	Apply    []Command         `key:"apply" doc:"Commands that make a setting hold, with {{names}} of its values, before it is measured."`
	Settle   time.Duration     `key:"settle" doc:"How long to wait after that; default not at all."`
	Restore  []Command         `key:"restore" doc:"Commands that make the control hold again at the end; default those of apply with the control's values."`
	Between  []Command         `key:"between" doc:"Commands before each round, such as emptying a cache. If one fails the experiment ends, in order."`
	Rounds   Rounds            `key:"rounds" doc:"How many, and when to stop; default 8."`
	Measures []string          `key:"measures" is:"measure" doc:"Judge only these: p50, p75, p90, p95, p99, p999, mean, errors, rate, and resources such as cpu_per_request. Default: all; the more there are, the more it takes to believe one."`
	Within   float64           `key:"within" is:"share" default:"5%" doc:"Ratios within this are the same."`
	Level    float64           `key:"level" is:"share" default:"95%" doc:"Confidence of intervals."`
	Seed     uint64            `key:"seed" is:"1.." doc:"Of the order within rounds and of arrivals; default drawn and recorded."`
	Versions map[string]string `key:"record" doc:"Commands whose first line of output is recorded with the environment: {nginx: nginx -v}"`
	Configs  []string          `key:"configuration" doc:"Files whose hash and text are recorded."`
	Gate     *Gate             `key:"gate" doc:"What a pipeline asks: exit code 1 if something became worse."`
	Live     *Live             `key:"live" doc:"Instead of a scenario: live traffic, through a mirror session that runs."`
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
	Args    []string      `key:"run" need:"yes" doc:"A line for /bin/sh, or a list: the program and its arguments."`
	Name    string        `key:"name" doc:"For people; default its first word."`
	Shell   bool          // Args is a line
	Dir     string        `key:"dir" doc:"Where it runs; default the directory of the file."`
	Timeout time.Duration `key:"timeout" doc:"Default: 5m."`
}

// Rounds decide when to stop.
type Rounds struct {
	Rule      string  // fixed, precision, decided
	AtLeast   int     `key:"at_least" is:"1..1000" doc:"The first stage of precision, and the earliest decision; of these default 6."`
	AtMost    int     `key:"at_most" is:"1..1000" doc:"However undecided; 30 with precision or early, else at_least."`
	Precision float64 `key:"precision" is:"share" doc:"As many rounds as make the interval this narrow to either side, such as 3%."`
	Early     bool    `key:"early" doc:"Stop as soon as every setting is decided, by intervals that hold at every look."`
	Measure   string  `key:"measure" is:"measure" doc:"That decides, and is read first; default p99, or of the measures that are named the one that says most."`
}

// Gate is the condition that a pipeline checks.
type Gate struct {
	Baseline string   `key:"baseline" doc:"File that --save-baseline wrote, or the id of an experiment at the server; without one, the settings are held against the control of the same experiment."`
	Allowed  float64  `key:"allowed" is:"share" default:"5%" doc:"By how much a measure may be worse."`
	Allow    []string `key:"allow" is:"gate" doc:"The same of single measures, with a direction: p99=worse:10%, errors=0.2%."`
	Compare  string   `key:"compare" is:"ratio|absolute" doc:"Default: ratio, of a setting to its control, which another machine hardly changes; absolute compares figures themselves."`
	Measures []string `key:"measures" is:"measure" doc:"That may fail it; default p50, p95, p99, mean and errors."`
}

// Absolute reports whether figures themselves are compared, not their ratios to the
// control.
func (g *Gate) Absolute() bool { return g.Compare == "absolute" }

// Live is an experiment on a candidate behind a running mirror session.
type Live struct {
	Session   string        `key:"session" need:"yes" doc:"Id of the mirror session, as tailscope session list shows it."`
	To        string        `key:"to" is:"url" doc:"Server that has it; default --server."`
	For       time.Duration `key:"for" default:"30m" doc:"How long each setting is measured in a round."`
	Candidate string        `key:"candidate" default:"candidate" doc:"Name of the candidate."`
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

// ResultSettings returns the settings for a result.
func (x *Experiment) ResultSettings() (out []api.ExperimentSetting) {
	for i, s := range x.Settings {
		out = append(out, api.ExperimentSetting{Name: s.Name, Control: i == 0, Values: s.Values, X: api.Float(s.X)})
	}
	return out
}

// contrasts returns the rows that the result will have.
func (x *Experiment) contrasts() []rounds.Contrast {
	out := rounds.Against(x.names())
	if x.Design == Factorial {
		out = append(rounds.Factorial(x.Factors, x.levels), out...)
	}
	return out
}

// rule returns how the number of rounds is decided.
func (x *Experiment) rule() rounds.Rule {
	switch x.Rounds.Rule {
	case "precision":
		return rounds.Rule{Stage: x.Rounds.AtLeast}
	case "decided":
		return rounds.Rule{Live: true}
	}
	return rounds.Rule{}
}

// plan returns how many rounds there should be, given those so far.
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

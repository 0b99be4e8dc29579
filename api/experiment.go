package api

// Experiment is an experiment: a control and variants that differ in one declared
// variable, measured in rounds. It is reported as it grows and kept as the log
// book has it.
type Experiment struct {
	Format     int    `json:"format"` // 1
	Name       string `json:"name"`
	Hypothesis string `json:"hypothesis"`
	Service    string `json:"service"`
	// Design is one variable, sweep, factorial, or live (mirror sessions).
	Design   string              `json:"design" enum:"one variable,sweep,factorial,live"`
	Variable string              `json:"variable"` // names joined by " × " of a factorial design
	Unit     string              `json:"unit,omitempty"`
	Settings []ExperimentSetting `json:"settings"` // the control first
	Seed     uint64              `json:"seed"`
	Start    Float               `json:"start"`
	End      Float               `json:"end"`
	Stopping ExperimentStopping  `json:"stopping"`

	Environment Environment `json:"environment"`
	// File is the experiment's file as it was, Files those it names, by name: with
	// them it can be run again.
	File    string            `json:"file"`
	Files   map[string]string `json:"files"`
	Command string            `json:"command"`         // that runs it again from the log book
	Again   string            `json:"again,omitempty"` // id of the experiment that this one repeats

	Rounds   []ExperimentRun   `json:"rounds"`
	Rows     []ExperimentRow   `json:"rows"`
	Curves   []ExperimentCurve `json:"curves"`
	Loads    []BenchLoad       `json:"loads"`
	Events   []BenchEvent      `json:"events"`
	Progress string            `json:"progress,omitempty"` // what it does now; empty when it has ended
	// Restored says that the control was applied again at the end, and RestoreError
	// why not.
	Restored     bool   `json:"restored"`
	RestoreError string `json:"restore_error,omitempty"`
	Failed       string `json:"failed,omitempty"` // why it ended before its time
	// Verdict is faster, slower, mixed, same, no evidence, too little data; of a
	// sweep the best setting is in Headline.
	Verdict  Verdict          `json:"verdict"`
	Headline string           `json:"headline"`
	Warnings []CompareWarning `json:"warnings"`
	Gate     *ExperimentGate  `json:"gate,omitempty"`
}

// ExperimentSetting is one value of the variable, or one combination of a factorial
// design.
type ExperimentSetting struct {
	Name    string            `json:"name"` // label variant of its series
	Control bool              `json:"control"`
	Values  map[string]string `json:"values"` // of every variable
	X       Float             `json:"x"`      // its place on the response curve; null if it is not a number
	// Session is the id of the mirror session of a live design.
	Session string `json:"session,omitempty"`
}

// ExperimentStopping says how many rounds there are and why.
type ExperimentStopping struct {
	// Rule is fixed; precision (as many rounds as make the interval as narrow as
	// asked, by Stein's two stages); or decided (stopped early by an interval that
	// holds at every look).
	Rule      string `json:"rule" enum:"fixed,precision,decided"`
	AtLeast   int    `json:"at_least"`
	AtMost    int    `json:"at_most"`
	Precision Float  `json:"precision"` // half the width of the interval, as a share
	Measure   string `json:"measure"`   // that decides
	Level     Float  `json:"level"`
	Planned   int    `json:"planned"` // rounds, as known so far
	Done      int    `json:"done"`
	Why       string `json:"why"` // a sentence
}

// ExperimentRun is one setting in one round.
type ExperimentRun struct {
	Round   int          `json:"round"` // from 1
	Order   int          `json:"order"` // within the round, from 1
	Setting string       `json:"setting"`
	Start   Float        `json:"start"`
	End     Float        `json:"end"`
	Valid   bool         `json:"valid"`
	Why     string       `json:"why,omitempty"` // it is not
	WarmUp  *BenchWarmUp `json:"warm_up,omitempty"`
	// Figures by query, "" being all together, then by measure: p50 p75 p90 p95
	// p99 p999 mean errors rate, and resources such as cpu_per_request.
	Figures map[string]map[string]Float `json:"figures"`
}

// ExperimentRow is one setting against the control for one query or tenant, or, with
// both empty, for all together.
type ExperimentRow struct {
	Setting string `json:"setting"`
	Query   string `json:"query,omitempty"`
	Tenant  string `json:"tenant,omitempty"`
	Against string `json:"against"` // name of the control, or of the setting before it in a live design
	// Effect is main or interaction of a factorial design's effects, else empty: the
	// row is then of a setting by itself.
	Effect   string              `json:"effect,omitempty" enum:"main,interaction"`
	Rounds   int                 `json:"rounds"` // that count
	Requests uint64              `json:"requests"`
	Verdict  Verdict             `json:"verdict"`
	Lead     string              `json:"lead"` // the measure that says most
	Measures []ExperimentMeasure `json:"measures"`
}

// ExperimentMeasure is one figure of a row. Effect is the ratio variant / control with
// its interval; of errors and shares it is the difference.
type ExperimentMeasure struct {
	Name     string  `json:"name"`
	Control  Float   `json:"control"`
	Variant  Float   `json:"variant"`
	Effect   Float   `json:"effect"`
	Low      Float   `json:"low"`
	High     Float   `json:"high"`
	P        Float   `json:"p"`
	Adjusted Float   `json:"adjusted_p"` // among all rows that were looked at
	Verdict  Verdict `json:"verdict"`
	Sentence string  `json:"sentence"`
	Needs    string  `json:"needs,omitempty"` // how many more rounds would tell
}

// ExperimentCurve is a sweep's response: one measure of one query over the settings.
type ExperimentCurve struct {
	Query   string                 `json:"query"`
	Measure string                 `json:"measure"`
	Lower   bool                   `json:"lower"` // less is better
	Points  []ExperimentCurvePoint `json:"points"`
	// Best is the setting with the best figure, and Candidates those that cannot be
	// told from the best at the level of the intervals, Best among them. XLow and
	// XHigh span them; null if the variable is not a number.
	Best       string   `json:"best"`
	Candidates []string `json:"candidates"`
	XLow       Float    `json:"x_low"`
	XHigh      Float    `json:"x_high"`
	Sentence   string   `json:"sentence"`
}

type ExperimentCurvePoint struct {
	Setting string `json:"setting"`
	X       Float  `json:"x"`
	Value   Float  `json:"value"`
	Low     Float  `json:"low"`
	High    Float  `json:"high"`
	BestIn  Float  `json:"best_in"` // share of rounds in which it was best
}

// ExperimentGate is an experiment against a stored baseline.
type ExperimentGate struct {
	Baseline string   `json:"baseline"` // file or id
	Passed   bool     `json:"passed"`
	Allowed  Float    `json:"allowed"` // share by which a measure may be worse
	Why      []string `json:"why"`
}

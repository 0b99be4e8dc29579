package api

// Capacity is a search for how far a system goes: the most load, or the fewest
// servers, at which an objective is kept. It is reported as it grows. Durations are
// seconds.
type Capacity struct {
	Format  int    `json:"format"` // 1
	Name    string `json:"name"`
	Service string `json:"service"` // label of its series
	Target  string `json:"target"`
	Command string `json:"command"` // that makes such a search again
	// Mode is rate (load of our own is raised), mirror (copies of live requests are
	// amplified), servers (a pool is shrunk), or fit (nothing was sent: Law is of what
	// was stored).
	Mode string `json:"mode" enum:"rate,mirror,servers,fit"`
	// Unit is that of X: requests/s, copies (of each live request), servers.
	Unit      string `json:"unit"`
	Objective string `json:"objective"` // p99 < 200ms and errors < 0.1%
	Arrivals  string `json:"arrivals"`  // poisson, constant, recorded, live
	Seed      uint64 `json:"seed"`
	Start     Float  `json:"start"` // Unix seconds
	End       Float  `json:"end"`   // null while it runs

	Environment Environment `json:"environment"`

	// Bounds are those of every step's slots: counts[i] lie in (bounds[i], bounds[i+1]].
	Bounds []Float         `json:"bounds"`
	Steps  []CapacityStep  `json:"steps"` // as they were taken
	Answer *CapacityAnswer `json:"answer,omitempty"`
	Law    *ScalingLaw     `json:"law,omitempty"`
	Events []BenchEvent    `json:"events"`

	Progress     string           `json:"progress,omitempty"` // what it does now; empty when it has ended
	Restored     bool             `json:"restored"`           // load or pool are as they were before
	RestoreError string           `json:"restore_error,omitempty"`
	Failed       string           `json:"failed,omitempty"` // why it ended before its time
	Verdict      CapacityVerdict  `json:"verdict"`
	Headline     string           `json:"headline"`
	Warnings     []CompareWarning `json:"warnings"`
}

// CapacityStep is one load that was held, or one size of the pool.
type CapacityStep struct {
	Phase string `json:"phase" enum:"rise,narrow,confirm,shrink"`
	X     Float  `json:"x"`     // asked, in Capacity.Unit
	Asked Float  `json:"asked"` // requests a second that were due
	Rate  Float  `json:"rate"`  // answered a second
	Start Float  `json:"start"` // Unix seconds, of what is measured
	End   Float  `json:"end"`
	Kept  string `json:"kept" enum:"kept,broken,unclear"`
	// Objectives are the objective's conditions, each with what was seen.
	Objectives  []CapacityObjective `json:"objectives"`
	Latency     BenchLatency        `json:"latency"`     // from when requests were due
	Uncorrected BenchLatency        `json:"uncorrected"` // from when they were sent
	Errors      Float               `json:"errors"`      // share of requests, 0..1
	// Concurrency is requests in the system on average: Rate × mean latency (Little
	// 1961).
	Concurrency Float `json:"concurrency"`
	// Waited is the mean a request waited before it was sent: for a connection, or for
	// a server of the pool. Queued is how long it waited at the target by the target's
	// own word, of which QueuedBy says the source, a header field of its answers; null if
	// nobody says. Worked is the rest of the latency.
	Waited   Float  `json:"waited"`
	Queued   Float  `json:"queued"`
	QueuedBy string `json:"queued_by,omitempty"`
	Worked   Float  `json:"worked"`
	// CPU is cores that processes under test were busy with, Resources their other
	// readings: means, by process and name.
	CPU       Float            `json:"cpu"`
	Resources map[string]Float `json:"resources,omitempty"`
	Generator BenchGenerator   `json:"generator"`
	Valid     bool             `json:"valid"`
	Why       string           `json:"why,omitempty"` // it is not
	// Stopped says why the step ended before its time, and StoppedAfter how many
	// seconds after the objective was first surely broken the last request was sent.
	Stopped      string         `json:"stopped,omitempty"`
	StoppedAfter Float          `json:"stopped_after"`
	Slots        []CapacitySlot `json:"slots"`
}

// CapacityObjective is one condition at one step. Low and High are its interval.
type CapacityObjective struct {
	Text  string `json:"text"`  // p99 < 200ms
	Value Float  `json:"value"` // seconds, or a share
	Low   Float  `json:"low"`
	High  Float  `json:"high"`
	Limit Float  `json:"limit"`
	Kept  string `json:"kept" enum:"kept,broken,unclear"`
}

// CapacitySlot is a column of a step's heatmap.
type CapacitySlot struct {
	Time   Float    `json:"time"`  // seconds from the step's start
	Width  Float    `json:"width"` // seconds
	Counts []uint64 `json:"counts"`
	Errors uint64   `json:"errors"`
}

// CapacityAnswer is the most load that keeps the objective, or the fewest servers.
type CapacityAnswer struct {
	Value    Float  `json:"value"` // null if it is only known to be beyond Low or High
	Low      Float  `json:"low"`   // of the interval; null, as High, if it lies beyond what was held
	High     Float  `json:"high"`
	Level    Float  `json:"level"`
	Rate     Float  `json:"rate"`     // answered a second at Value
	Limit    string `json:"limit"`    // the condition that breaks first
	Sentence string `json:"sentence"` // p99 < 200ms is kept up to 812 requests/s (95 % interval 799–826)
	Next     string `json:"next,omitempty"`
}

// ScalingLaw is the Universal Scalability Law (Gunther 2007, Guerrilla Capacity
// Planning) fitted to throughput over concurrency:
//
//	X(N) = λN / (1 + σ(N−1) + κN(N−1))
type ScalingLaw struct {
	Lambda ScalingValue `json:"lambda"` // requests a second at N = 1
	Sigma  ScalingValue `json:"sigma"`  // contention
	Kappa  ScalingValue `json:"kappa"`  // coherency
	// PeakN is where throughput is highest, √((1−σ)/κ), PeakRate that throughput; null
	// if there is no peak. Ceiling is λ/σ, what no concurrency reaches, null without
	// contention.
	PeakN    ScalingValue   `json:"peak_n"`
	PeakRate ScalingValue   `json:"peak_rate"`
	Ceiling  ScalingValue   `json:"ceiling"`
	Level    Float          `json:"level"` // of the intervals
	R2       Float          `json:"r2"`
	Error    Float          `json:"error"`   // residual standard error, requests a second
	Highest  Float          `json:"highest"` // the highest concurrency seen: beyond is extrapolation
	Points   []ScalingPoint `json:"points"`
	Source   string         `json:"source" enum:"steps,stored"`
	Sentence string         `json:"sentence"` // what it amounts to
	Warnings []string       `json:"warnings"`
}

// ScalingValue is a figure with its interval; null where there is none.
type ScalingValue struct {
	Value Float `json:"value"`
	Low   Float `json:"low"`
	High  Float `json:"high"`
}

// ScalingPoint is one step, or one slot of what was stored.
type ScalingPoint struct {
	N    Float `json:"n"`    // mean concurrency: Rate × Mean
	Rate Float `json:"rate"` // requests a second
	Mean Float `json:"mean"` // mean latency, seconds
	Time Float `json:"time"` // Unix seconds, null of a step
	Left bool  `json:"left"` // left out of the fit
	// Configuration is the index of the configuration that it is of, -1 of none: of a step,
	// of a slot with a mark in it, and of one before the first configuration.
	Configuration int `json:"configuration"`
}

// ScalingResponse answers GET /api/v1/scaling?match&start&end&step&width&level: the laws of
// what was stored of one service, one for each configuration: marks part the range. Without
// a Law a warning says why.
type ScalingResponse struct {
	Range
	Step int64 `json:"step"` // seconds of a point
	// Law is that of the newest configuration.
	Law            *ScalingLaw            `json:"law,omitempty"`
	Points         []ScalingPoint         `json:"points"`
	Configurations []ScalingConfiguration `json:"configurations"` // in order of time
	// CPU and Memory are the families that the configurations' figures are of; empty if the
	// service sends none that is known.
	CPU    string `json:"cpu,omitempty"`
	Memory string `json:"memory,omitempty"`
	// Sentence says what each mark gave of the whole; empty without marks. Headline says it
	// shorter where there are many: of those it names the one that gave most.
	Sentence string           `json:"sentence,omitempty"`
	Headline string           `json:"headline,omitempty"`
	Warnings []CompareWarning `json:"warnings"`
}

// ScalingConfiguration is the time between two marks: the requests of one configuration of
// the service.
type ScalingConfiguration struct {
	Range
	Marks     []Mark           `json:"marks"` // that it began with, several if they were close; none of the first
	Name      string           `json:"name"`  // of the marks
	Law       *ScalingLaw      `json:"law,omitempty"`
	NoLaw     string           `json:"no_law,omitempty"` // why it has none; Warnings say what to ask for
	Warnings  []CompareWarning `json:"warnings"`
	Requests  uint64           `json:"requests"`
	Rate      Float            `json:"rate"`      // requests a second
	Mean      Float            `json:"mean"`      // seconds
	Quantiles map[string]Float `json:"quantiles"` // seconds, by p50, p95, p99
	Errors    Float            `json:"errors"`    // share of requests, 0..1
	Apdex     Float            `json:"apdex"`     // with each operation's target
	CPU       Float            `json:"cpu"`       // of all instances, mean; null if it is not known
	Memory    Float            `json:"memory"`
	Change    *ScalingChange   `json:"change,omitempty"` // since the configuration before
}

// ScalingChange is how the mean response time changed from one configuration to the next,
// both with the mix of operations of the whole range, so that the changes of neighbours add
// up.
type ScalingChange struct {
	Before   Float        `json:"before"`  // seconds
	After    Float        `json:"after"`   // seconds
	Ratio    ScalingValue `json:"ratio"`   // After / Before, with its interval
	Covered  Float        `json:"covered"` // share of the requests that are of operations of all configurations
	Sentence string       `json:"sentence"`
}

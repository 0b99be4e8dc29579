package api

// BenchResult is one run of load, as tailscope bench makes it: while it runs, as
// far as it has come. Durations are seconds.
type BenchResult struct {
	Format  int       `json:"format"` // 1
	Name    string    `json:"name"`
	Target  string    `json:"target"`  // base URL
	Service string    `json:"service"` // label of its series
	Variant string    `json:"variant"` // label of its series, empty if none
	Command string    `json:"command"` // that makes such a run again
	Start   Float     `json:"start"`   // Unix seconds
	End     Float     `json:"end"`     // null while it runs
	Seed    uint64    `json:"seed"`    // of arrivals, weights and data
	Plan    BenchPlan `json:"plan"`

	Environment Environment `json:"environment"`

	Account BenchAccount `json:"account"`
	Asked   Float        `json:"asked"` // mean requests a second of the schedule; null of a closed loop
	Rate    Float        `json:"rate"`  // answered a second
	// Latency counts from when a request was due, Service from when it was sent,
	// which is what tools that wait for a free worker call latency. Both of
	// answered requests, failed checks included.
	Latency     BenchLatency `json:"latency"`
	Uncorrected BenchLatency `json:"uncorrected"`
	FirstByte   BenchLatency `json:"first_byte"` // from when it was sent; the end of an answer that was read at once
	Bytes       uint64       `json:"bytes"`      // of answers, bodies and headers

	Queries    []BenchQuery     `json:"queries"`
	Tenants    []BenchQuery     `json:"tenants"` // the heaviest
	Phases     []BenchPhase     `json:"phases"`
	Timeline   []BenchSlot      `json:"timeline"`
	Events     []BenchEvent     `json:"events"`
	Notes      []string         `json:"notes"` // what of a recording or a log was not sent, for people
	Thresholds []BenchThreshold `json:"thresholds"`
	Resources  []BenchResource  `json:"resources"`
	Loads      []BenchLoad      `json:"loads"` // data loaded before
	WarmUp     *BenchWarmUp     `json:"warm_up,omitempty"`

	Generator BenchGenerator `json:"generator"`
	// Valid says that the generator kept its schedule; Invalid why it did not. The
	// figures of an invalid run say more of the generator than of the target.
	Valid    bool     `json:"valid"`
	Invalid  []string `json:"invalid"`
	Aborted  string   `json:"aborted,omitempty"` // why it ended before its time
	Headline string   `json:"headline"`
}

// BenchPlan says how requests arrive.
type BenchPlan struct {
	Arrivals    string `json:"arrivals" enum:"constant,poisson,recorded,closed"`
	Protocol    string `json:"protocol"` // HTTP/1.1, HTTP/2
	TLS         bool   `json:"tls"`
	Connections int    `json:"connections"` // at most
	Timeout     Float  `json:"timeout"`     // of a request, from when it was sent
	Duration    Float  `json:"duration"`    // asked; null if until the end of the requests
}

// BenchAccount is what became of every request:
//
//	due  = sent + dropped + unsent
//	sent = answered + sum(failed) + cut off
//
// so nothing is lost without being counted.
type BenchAccount struct {
	Due      uint64 `json:"due"` // by the schedule
	Sent     uint64 `json:"sent"`
	Answered uint64 `json:"answered"` // with a whole answer of any status
	Dropped  uint64 `json:"dropped"`  // due, while as many as may wait were waiting
	Unsent   uint64 `json:"unsent"`   // still waiting for a connection at the end
	CutOff   uint64 `json:"cut_off"`  // under way at the end
	// Failed counts requests without a whole answer, by cause: timeout, connect,
	// reset, closed, protocol, tls.
	Failed map[string]uint64 `json:"failed"`
	// Statuses counts answers by status, Checks failed checks by their name.
	// Errors are requests in Failed, of status 400 or more unless a check wants
	// it, or that fail a check: each once.
	Statuses map[string]uint64 `json:"statuses"`
	Checks   map[string]uint64 `json:"checks"`
	Errors   uint64            `json:"errors"`
}

// BenchLatency is a distribution in figures; all null if it is empty.
type BenchLatency struct {
	Count     uint64           `json:"count"`
	Mean      Float            `json:"mean"`
	Min       Float            `json:"min"`
	Max       Float            `json:"max"`
	Quantiles map[string]Float `json:"quantiles"` // 0.5 0.75 0.9 0.95 0.99 0.999 0.9999
	Error     Float            `json:"error"`     // relative, of quantiles
	// Bounds and Counts are the distribution for charts: Counts[i] lie in
	// (Bounds[i], Bounds[i+1]]. Absent where only figures are kept.
	Bounds []Float  `json:"bounds,omitempty"`
	Counts []uint64 `json:"counts,omitempty"`
}

// BenchQuery is one query of the set, or one tenant.
type BenchQuery struct {
	Name        string            `json:"name"`
	Sent        uint64            `json:"sent"`
	Answered    uint64            `json:"answered"`
	Errors      uint64            `json:"errors"`
	Bytes       uint64            `json:"bytes"`
	Statuses    map[string]uint64 `json:"statuses"`
	Checks      map[string]uint64 `json:"checks"` // failed, by name
	Latency     BenchLatency      `json:"latency"`
	Uncorrected BenchLatency      `json:"uncorrected"`
}

// BenchPhase is a stretch of the plan. From and To are requests a second at its
// ends, null of a closed loop.
type BenchPhase struct {
	Name        string       `json:"name"`
	Start       Float        `json:"start"` // seconds from the run's start
	End         Float        `json:"end"`
	From        Float        `json:"from"`
	To          Float        `json:"to"`
	Due         uint64       `json:"due"`
	Answered    uint64       `json:"answered"`
	Errors      uint64       `json:"errors"`
	Latency     BenchLatency `json:"latency"`
	Uncorrected BenchLatency `json:"uncorrected"`
}

// BenchSlot is one interval of the time line, by when requests were due.
type BenchSlot struct {
	Time     Float  `json:"time"` // Unix seconds of its start
	Width    Float  `json:"width"`
	Due      uint64 `json:"due"`
	Answered uint64 `json:"answered"` // ended in it
	Errors   uint64 `json:"errors"`
	Waiting  uint64 `json:"waiting"` // due and not sent at its end
	P50      Float  `json:"p50"`
	P99      Float  `json:"p99"`
	Max      Float  `json:"max"`
	Late     Float  `json:"late"` // the generator's own lateness, p99
}

// BenchEvent is something that happened: a phase, a fault, a command, a restart.
type BenchEvent struct {
	Time   Float  `json:"time"` // Unix seconds
	End    Float  `json:"end"`  // null of a moment
	Kind   string `json:"kind"` // command, server, load, warm_up, phase, fault, abort
	Name   string `json:"name"`
	Text   string `json:"text,omitempty"`
	Failed bool   `json:"failed,omitempty"`
}

// BenchThreshold is a condition on the result and what came of it.
type BenchThreshold struct {
	Text    string `json:"text"` // p(99) < 300ms
	Query   string `json:"query,omitempty"`
	Value   Float  `json:"value"` // what was seen, in the unit of the threshold's kind: seconds, a share, requests a second
	Met     bool   `json:"met"`
	Aborted bool   `json:"aborted,omitempty"` // it ended the run
}

// BenchResource is a reading of one process under test over time.
type BenchResource struct {
	Process string `json:"process"`
	Name    string `json:"name"` // cpu_cores, resident_bytes, threads, open_files, or a metric of its own
	// Unit is cores, bytes, seconds, or another; with /s of totals, whose values are
	// how much they grew a second. Empty of a number of things.
	Unit   string  `json:"unit"`
	Times  []Float `json:"times"` // Unix seconds
	Values []Float `json:"values"`
	// PerRequest is the whole divided by answered requests, of what adds up (CPU
	// seconds, pauses); else null.
	PerRequest Float `json:"per_request"`
	Mean       Float `json:"mean"`
	Max        Float `json:"max"`
}

// BenchLoad is data that was loaded before the load began.
type BenchLoad struct {
	Name      string       `json:"name"`
	Documents uint64       `json:"documents"`
	Bytes     uint64       `json:"bytes"`
	Batches   uint64       `json:"batches"`
	Errors    uint64       `json:"errors"`
	Seconds   Float        `json:"seconds"`
	Rate      Float        `json:"rate"`    // documents a second
	Latency   BenchLatency `json:"latency"` // of batches
}

// BenchWarmUp says when the target had become steady.
type BenchWarmUp struct {
	Seconds  Float  `json:"seconds"`
	Requests uint64 `json:"requests"`
	Steady   bool   `json:"steady"`
	Why      string `json:"why"` // a sentence with the figures
}

// BenchGenerator is what the generator did itself.
type BenchGenerator struct {
	CPUSeconds    Float `json:"cpu_seconds"`
	CPUPerRequest Float `json:"cpu_per_request"` // seconds a sent request
	Cores         Float `json:"cores"`           // busy on average
	Loops         int   `json:"loops"`           // threads that send, 0 if there are none of its own
	// Busiest is the share of the time that its busiest thread ran or was ready to run,
	// 0..1; Starved is the part of it in which that thread had no core.
	Busiest Float `json:"busiest"`
	Starved Float `json:"starved"`
	// Late is how long after it was due a request was sent although a connection
	// was free: the generator's own error. Blocked is how long requests waited for
	// a connection: the target's doing.
	Late    BenchLatency `json:"late"`
	Blocked BenchLatency `json:"blocked"`
	Host    Float        `json:"host"` // share of the machine's cores that were busy, 0..1
	// Delayed is how long its threads were ready to run and had no core, in seconds
	// a sent request; null if the system does not say.
	Delayed Float `json:"delayed"`
}

// Environment is where something was measured.
type Environment struct {
	Host    string `json:"host"`
	OS      string `json:"os"`
	Kernel  string `json:"kernel"`
	CPU     string `json:"cpu"`
	Cores   int    `json:"cores"`
	Memory  uint64 `json:"memory"` // bytes
	Go      string `json:"go"`
	Version string `json:"version"` // of tailscope
	Commit  string `json:"commit"`  // git commit of the working directory, with + if it was changed
	// Versions and Configuration are what the file asked to be recorded, by name:
	// the first lines of commands' output, hashes and texts of files.
	Versions      map[string]string `json:"versions"`
	Configuration map[string]string `json:"configuration"`
}

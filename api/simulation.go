package api

// Simulation says what layouts of a scatter-gather system would do: a query asks a
// leaf of every shard, waits for the slowest, and merges. Durations are seconds.
type Simulation struct {
	Format  int    `json:"format"` // 1
	Name    string `json:"name"`
	Service string `json:"service"` // whose leaves were measured; empty of given ones
	Command string `json:"command"` // that makes it again
	File    string `json:"file"`    // the words it was made of, YAML
	Seed    uint64 `json:"seed"`
	Start   Float  `json:"start"` // Unix seconds
	End     Float  `json:"end"`
	Seconds Float  `json:"seconds"` // it took

	Variable string             `json:"variable"` // what layouts of a curve differ in: nodes, shards, rate, …; empty if they just differ
	Leaves   []SimulationLeaf   `json:"leaves"`
	Layouts  []SimulationLayout `json:"layouts"` // the first is what others are measured against
	Progress string             `json:"progress,omitempty"`
	Failed   string             `json:"failed,omitempty"`
	Headline string             `json:"headline"`
	Warnings []CompareWarning   `json:"warnings"`
}

// SimulationLeaf is what a leaf takes for one class of queries, as it was measured.
type SimulationLeaf struct {
	Class        string `json:"class"`  // operation, or the query's name
	Weight       Float  `json:"weight"` // share of queries, 0..1
	Source       string `json:"source"` // a sentence: where it is from
	Observations uint64 `json:"observations"`
	Slots        int    `json:"slots"` // moments with distributions of their own, 1 if they are one
	// Shards is of how many shards it was measured: leaves of others take more or less.
	Shards  Float        `json:"shards"`
	Latency BenchLatency `json:"latency"`
	// Together is how alike leaves of one query are beyond their class and moment, the
	// correlation of their normal scores, 0..1.
	Together Float `json:"together"`
}

// SimulationLayout is one layout and what it would do.
type SimulationLayout struct {
	Name string `json:"name"`
	// Curve names the layouts that differ in the variable only, as binary and
	// arbitrary; empty if all do.
	Curve    string `json:"curve"`
	X        Float  `json:"x"`      // value of the variable; null if it is not a number
	Nodes    int    `json:"nodes"`  // that serve leaves
	Shards   int    `json:"shards"` // that a query asks
	Threads  int    `json:"threads"`
	Cores    Float  `json:"cores"`     // of a node
	Rounds   int    `json:"rounds"`    // shards of the fullest node / its threads, rounded up
	PerNode  Float  `json:"per_node"`  // shards of the fullest node
	Rate     Float  `json:"rate"`      // queries a second
	Queries  uint64 `json:"queries"`   // simulated and counted
	Cost     Float  `json:"cost"`      // by the hour, null if no price is given
	CostEach Float  `json:"cost_each"` // of a query

	// Stable says that work does not pile up; Why not. Figures of an unstable layout
	// are null, but those of NoQueue: without queues it keeps up.
	Stable bool   `json:"stable"`
	Why    string `json:"why,omitempty"`
	// Mean and Quantiles (0.5 0.75 0.9 0.95 0.99 0.999) are of whole queries, with
	// their 95 % intervals, which say what the simulation's length leaves open; NoQueue
	// are quantiles of the same fan-out where all leaves start at once on idle nodes,
	// for one class exactly F^N.
	Mean      ScalingValue            `json:"mean"`
	Quantiles map[string]ScalingValue `json:"quantiles"`
	NoQueue   map[string]Float        `json:"no_queue"`
	Leaf      map[string]Float        `json:"leaf"`      // quantiles of one leaf, waiting included
	Waiting   Float                   `json:"waiting"`   // mean wait of a leaf for a thread
	Straggler Float                   `json:"straggler"` // mean of a query's last leaf / mean of a leaf
	Merge     Float                   `json:"merge"`     // mean time of the aggregator's own work, waiting included
	// Utilisation is busy cores / cores: of all nodes, of the busiest one, and of the
	// aggregators (null if their work is free).
	Utilisation Float `json:"utilisation"`
	Busiest     Float `json:"busiest"`
	Aggregator  Float `json:"aggregator"`
	Hedged      Float `json:"hedged"` // share of leaves asked twice
	Cached      Float `json:"cached"` // share of queries answered from the cache
	// Work is a short stretch of the simulation, to be watched.
	Work []SimulationWork `json:"work,omitempty"`
}

// SimulationWork is one unit of work on a node, or a pause of it.
type SimulationWork struct {
	Kind   string `json:"kind" enum:"leaf,hedge,merge,pause"`
	Query  int    `json:"query"`  // from 0 in this stretch; -1 of a pause
	Shard  int    `json:"shard"`  // -1 of a merge or a pause
	Node   int    `json:"node"`   // -1 of aggregators
	Thread int    `json:"thread"` // of the node
	Ready  Float  `json:"ready"`  // when it was asked for, seconds
	Start  Float  `json:"start"`
	End    Float  `json:"end"`
}

// SimulateRequest is POSTed to /api/v1/simulate; the answer is a Simulation.
type SimulateRequest struct {
	File string `json:"file"` // the words of tailscope simulate, YAML; leaves from this server's store
}

// Leaves is what leaves took, class by class and slot by slot: the answer to GET
// /api/v1/leaves?match&start&end&step&classes, and a file that tailscope simulate
// reads.
type Leaves struct {
	Format  int    `json:"format"` // 1
	Service string `json:"service"`
	Range
	Step   int64  `json:"step"`   // seconds of a slot
	Source string `json:"source"` // a sentence: what was read
	// Bounds are those of all slots' buckets, ascending, seconds.
	Bounds   []Float          `json:"bounds"`
	Classes  []LeafClass      `json:"classes"` // by falling count
	Warnings []CompareWarning `json:"warnings"`
}

// LeafClass is one class of queries: an operation.
type LeafClass struct {
	Class  string     `json:"class"`
	Count  uint64     `json:"count"`
	Failed uint64     `json:"failed"` // left out
	Slots  []LeafSlot `json:"slots"`  // those with any, in order of time
	// Together is the correlation of the normal scores of leaves of one query, beyond
	// class and slot, with its interval, out of so many traces; null without.
	Together ScalingValue `json:"together"`
	Traces   int          `json:"traces"`
	// FanOut is how many leaves of the class these traces have, on average; null
	// without.
	FanOut Float `json:"fan_out"`
}

// LeafSlot is a class in one slot: Counts[i] leaves took (Bounds[At[i]],
// Bounds[At[i]+1]].
type LeafSlot struct {
	Time   int64    `json:"time"` // Unix seconds
	Min    Float    `json:"min"`
	Max    Float    `json:"max"`
	At     []int    `json:"at"`
	Counts []uint64 `json:"counts"`
}

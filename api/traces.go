package api

// TracesResponse answers
// GET /api/v1/traces?match&start&end&min&max&why&sort&at&time&limit: the requests
// of kept traces. match selects by service, operation, tenant, status. sort is
// slowest (default), newest, or nearest: to the duration `at` (seconds) and the
// moment `time`, as the heatmap's cursor asks.
type TracesResponse struct {
	Range
	Misnamed
	Traces []TraceRow `json:"traces"`
	// Groups gathers Traces by operation and Longest, the largest first, if `where` asked for
	// it. A request whose trace is gone meanwhile is in none.
	Groups []TraceGroup `json:"groups,omitempty"`
	// Link is the configured address of a trace in another system, with
	// {trace_id} in it; empty if there is none.
	Link string `json:"link,omitempty"`
}

type TraceRow struct {
	TraceID   string   `json:"trace_id"` // 32 hex digits
	SpanID    string   `json:"span_id"`
	Service   string   `json:"service"`
	Operation string   `json:"operation"`
	Tenant    string   `json:"tenant,omitempty"`
	Failed    bool     `json:"failed"`
	Why       []string `json:"why" enum:"slow,failed,exemplar"`
	Start     Float    `json:"start" nullable:"false"`
	Duration  Float    `json:"duration" nullable:"false"`
	// Longest is the part with the longest share of the request's critical path, if `where`
	// asked for it.
	Longest *TracePart `json:"longest,omitempty"`
}

// TracePart is a part of a request: what it itself does, or what it calls.
type TracePart struct {
	Service   string `json:"service"`
	Operation string `json:"operation"`
	Component string `json:"component"`
	Itself    bool   `json:"itself"`                 // the request's own span
	Share     Float  `json:"share" nullable:"false"` // of the duration: from 0 to 1; of a group the median
}

// TraceGroup is kept requests of one operation whose longest part is the same.
type TraceGroup struct {
	Service   string    `json:"service"`
	Operation string    `json:"operation"`
	Longest   TracePart `json:"longest"`
	Requests  int       `json:"requests"`
	Failed    int       `json:"failed"`
	Min       Float     `json:"min" nullable:"false"` // duration
	Max       Float     `json:"max" nullable:"false"`
	Tenants   int       `json:"tenants"`          // how many; those without a tenant count as one
	Tenant    string    `json:"tenant,omitempty"` // that of all of them
}

// TraceResponse answers GET /api/v1/traces/{id}: a whole trace, parents before
// children, siblings by start. Times are relative to Start.
type TraceResponse struct {
	TraceID    string           `json:"trace_id"`
	Start      Float            `json:"start" nullable:"false"` // Unix seconds
	Duration   Float            `json:"duration" nullable:"false"`
	Complete   bool             `json:"complete"`
	LeftOut    int              `json:"left_out,omitempty"` // spans beyond the bound
	Spans      []TraceSpan      `json:"spans"`
	Components []TraceComponent `json:"components"` // of the root request
	Skews      []Skew           `json:"skews,omitempty"`
	Link       string           `json:"link,omitempty"` // this trace in another system
}

type TraceSpan struct {
	SpanID    string `json:"span_id"`
	Parent    int    `json:"parent"` // index into Spans, -1 for a root
	Depth     int    `json:"depth"`
	Service   string `json:"service"`
	Operation string `json:"operation"`
	Component string `json:"component"`
	Kind      string `json:"kind"`
	Tenant    string `json:"tenant,omitempty"`
	Instance  string `json:"instance,omitempty"`
	Failed    bool   `json:"failed"`
	Request   bool   `json:"request"` // an entry span
	Orphan    bool   `json:"orphan"`  // its parent never came; it hangs below the root
	Async     bool   `json:"async"`   // outlives its parent
	Start     Float  `json:"start" nullable:"false"`
	Duration  Float  `json:"duration" nullable:"false"`
	Self      Float  `json:"self" nullable:"false"`     // exclusive, within the trace's root
	Critical  Float  `json:"critical" nullable:"false"` // on the critical path of the trace's root
	// Path lists the stretches [start, end] on the critical path, in pairs.
	Path    []float64 `json:"path,omitempty"`
	Queue   Float     `json:"queue,omitempty" nullable:"false"`   // seconds waited before Start
	Shifted Float     `json:"shifted,omitempty" nullable:"false"` // by how much the clock was off and the span was moved
	Text    string    `json:"text,omitempty"`                     // the statement without its literals
	Detail  string    `json:"detail,omitempty"`
}

type TraceComponent struct {
	Component string `json:"component"`
	Self      Float  `json:"self" nullable:"false"`
	Critical  Float  `json:"critical" nullable:"false"`
}

package api

// BreakdownResponse answers
// GET /api/v1/breakdown?match&start&end&step&width&q&above&low&high&limit&overlay&tz:
// where the time of requests goes.
//
// match selects requests by service (needed), operation and cohort; or by
// tenant, version, variant, status too, but then only Components is answered
// (Parts and Band are kept by cohort, not by tenant; Note says so).
//
// A band of requests is chosen by duration: `above=0.95` takes the requests
// above that quantile, `low` and `high` (seconds) take those between. Without
// any, above=0.95. All requests of the selection are counted, none is sampled.
type BreakdownResponse struct {
	Range
	Warned
	Step  int64   `json:"step"`
	Slot  int64   `json:"slot"`
	Times []int64 `json:"times"` // start of each step
	// Overlay says which earlier days all of it is of; Times are those of the range shown.
	Overlay *Overlay `json:"overlay,omitempty"`
	// Requests assembled, per step and in all: Seconds is their summed duration.
	Requests []uint64 `json:"requests"`
	Total    uint64   `json:"total"`
	Seconds  Float    `json:"seconds"`
	// Components in the fixed order app, db, cache, external, messaging, queue,
	// others; queue time lies before the request and is not part of Seconds.
	Components []BreakdownComponent `json:"components"`
	Parts      []BreakdownPart      `json:"parts,omitempty"` // by falling exclusive time
	Band       *Band                `json:"band,omitempty"`
	// Backends are the calls of the service by what they go to, by falling time, at most
	// 100. They are kept by the labels of calls: empty if match names another label of
	// requests than service and environment, version, variant or instance.
	Backends []Backend `json:"backends,omitempty"`
	FanOuts  []FanOut  `json:"fan_outs,omitempty"`
	Skews    []Skew    `json:"skews,omitempty"`
	Note     string    `json:"note,omitempty"`
}

// BreakdownComponent is the time spent in one component. Self and Critical are
// seconds summed over the requests of each step.
type BreakdownComponent struct {
	Component     string  `json:"component"`
	Self          []Float `json:"self"`
	Critical      []Float `json:"critical,omitempty"`
	Seconds       Float   `json:"seconds"`        // exclusive, whole range
	Share         Float   `json:"share"`          // of the requests' time, 0..1
	CriticalShare Float   `json:"critical_share"` // of the critical path
	// Services tells the service's own time from that of services it called which send
	// spans too, by falling time; empty if all of it is the service's own.
	Services []ComponentService `json:"services,omitempty"`
	// Quantiles of the exclusive time per request that spent any here.
	Quantiles map[string]Float `json:"quantiles,omitempty"`
	Error     Float            `json:"error"`
}

// ComponentService is the time spent in one component of one service.
type ComponentService struct {
	Service       string `json:"service"`
	Seconds       Float  `json:"seconds"`        // exclusive, whole range
	Share         Float  `json:"share"`          // of the requests' time, 0..1
	CriticalShare Float  `json:"critical_share"` // of the critical path
}

// Backend is the calls to one node of a system.
type Backend struct {
	Component  string           `json:"component"`
	System     string           `json:"system,omitempty"` // mysql, kafka
	Peer       string           `json:"peer,omitempty"`   // host, address or service
	Calls      uint64           `json:"calls"`
	Effective  uint64           `json:"effective,omitempty"` // see DistributionGroup
	Errors     uint64           `json:"errors"`
	Seconds    Float            `json:"seconds"`     // summed duration of the calls
	Share      Float            `json:"share"`       // of Seconds of all backends
	PerRequest Float            `json:"per_request"` // calls for each request
	Mean       Float            `json:"mean"`
	Quantiles  map[string]Float `json:"quantiles"`
	Error      Float            `json:"error"`
}

// BreakdownPart is one operation of one component and service within the requests.
type BreakdownPart struct {
	Service   string `json:"service"` // where it ran; for a call without a span of its callee, the caller
	Component string `json:"component"`
	Operation string `json:"operation"`
	System    string `json:"system,omitempty"` // that it calls: mysql, kafka

	Seconds       Float            `json:"seconds"`
	Share         Float            `json:"share"`
	CriticalShare Float            `json:"critical_share"`
	Calls         uint64           `json:"calls"`
	PerRequest    Float            `json:"per_request"` // calls per request, over all requests
	Requests      uint64           `json:"requests"`    // that called it at all
	Repeated      uint64           `json:"repeated"`    // that called it ten times or more
	NPlusOne      bool             `json:"n_plus_one"`  // many equal calls in one request are the rule, or a good part
	Mean          Float            `json:"mean"`        // of a call's own duration, as its own series has it
	Quantiles     map[string]Float `json:"quantiles,omitempty"`
	Error         Float            `json:"error"`
	Self          []Float          `json:"self,omitempty"` // per step, of the first `limit` parts
	// In the chosen band, and in the requests at or below the median, per request.
	Band    *PartIn `json:"band,omitempty"`
	Typical *PartIn `json:"typical,omitempty"`
}

// PartIn is a part within some of the requests.
type PartIn struct {
	Seconds  Float `json:"seconds"`  // exclusive, per request
	Critical Float `json:"critical"` // per request
	Share    Float `json:"share"`
	Calls    Float `json:"calls"` // per request
}

// Band is the requests chosen by duration, and the typical ones they are laid
// beside: those at or below the median.
type Band struct {
	Low      Float  `json:"low"`   // seconds, exclusive; the bucket bound really used
	High     Float  `json:"high"`  // inclusive; null: no bound
	Above    Float  `json:"above"` // the quantile asked for; null when bounds were
	Requests uint64 `json:"requests"`
	Mean     Float  `json:"mean"` // seconds
	Typical  struct {
		High     Float  `json:"high"`
		Requests uint64 `json:"requests"`
		Mean     Float  `json:"mean"`
	} `json:"typical"`
	// By component, per request, in the order of Components.
	Components []BandComponent `json:"components"`
}

type BandComponent struct {
	Component string `json:"component"`
	Band      PartIn `json:"band"`
	Typical   PartIn `json:"typical"`
}

// FanOut is a part called on several instances at once: how often each was the
// last to end, which is what the request waited for.
type FanOut struct {
	Service   string           `json:"service"`
	Component string           `json:"component"`
	Operation string           `json:"operation"`
	System    string           `json:"system,omitempty"`
	Instances []FanOutInstance `json:"instances"` // by falling share
}

type FanOutInstance struct {
	Instance  string `json:"instance"`
	Calls     uint64 `json:"calls"`
	Last      uint64 `json:"last"`
	Share     Float  `json:"share"`      // of all lasts; 1/instances would be even
	BandShare Float  `json:"band_share"` // the same within the chosen band
}

// Skew is a clock that disagrees with another's.
type Skew struct {
	Service   string `json:"service"`
	Peer      string `json:"peer"` // the caller's service, or queue for the header of a proxy
	Direction string `json:"direction" enum:"ahead,behind"`
	Calls     uint64 `json:"calls"`
	Median    Float  `json:"median"` // seconds
	Max       Float  `json:"max"`
}

// OperationsResponse answers
// GET /api/v1/operations?match&start&end&step&width&sort&search&offset&limit&q&component&kind&overlay&tz:
// operations by total time, one of the quantiles, calls, errors or name. component
// is one of the components (or a list); kind as the label.
type OperationsResponse struct {
	Range
	Whole
	Warned
	Misnamed
	Step    int64       `json:"step"`
	Times   []int64     `json:"times"`
	Total   int         `json:"total"`   // operations that match, the search included
	Seconds Float       `json:"seconds"` // time of all that match, whatever is searched for
	Rows    []Operation `json:"operations"`
	// Overlay says which earlier days all of it is of; Times are those of the range shown.
	Overlay *Overlay `json:"overlay,omitempty"`
	// When only database operations match: the time of reading (find), writing
	// (save) and other, per step, seconds summed.
	Verbs []Verb `json:"verbs,omitempty"`
}

type Operation struct {
	Service   string           `json:"service"`
	Operation string           `json:"operation"`
	Component string           `json:"component"`
	Kind      string           `json:"kind"`
	System    string           `json:"system,omitempty"`                      // that it calls: mysql, kafka
	Verb      string           `json:"verb,omitempty" enum:"find,save,other"` // of database operations
	Calls     uint64           `json:"calls"`
	Rate      Float            `json:"rate"`
	Errors    uint64           `json:"errors"`
	ErrorRate Float            `json:"error_ratio"`
	Seconds   Float            `json:"seconds"` // summed duration
	Share     Float            `json:"share"`   // of Seconds of all that match, nested calls counted in each
	Mean      Float            `json:"mean"`
	Quantiles map[string]Float `json:"quantiles"`
	Error     Float            `json:"error"`
	NPlusOne  bool             `json:"n_plus_one"`
	// Per step: summed duration, calls per second.
	SecondsOver []Float `json:"seconds_over"`
	RateOver    []Float `json:"rate_over"`
}

type Verb struct {
	Verb        string  `json:"verb" enum:"find,save,other"`
	Seconds     Float   `json:"seconds"`
	Share       Float   `json:"share"`
	Calls       uint64  `json:"calls"`
	SecondsOver []Float `json:"seconds_over"`
	RateOver    []Float `json:"rate_over"`
}

// CallersResponse answers GET /api/v1/callers?service&component&operation&start&end:
// the requests that lead to an operation.
type CallersResponse struct {
	Range
	Callers []Caller `json:"callers"` // by falling time
}

type Caller struct {
	Service    string `json:"service"` // of the request
	Operation  string `json:"operation"`
	Direct     bool   `json:"direct"` // the operation runs in the request's own service, or is called from there
	Calls      uint64 `json:"calls"`
	Requests   uint64 `json:"requests"`    // that called it
	Repeated   uint64 `json:"repeated"`    // ten times or more
	PerRequest Float  `json:"per_request"` // calls per request that called it
	Seconds    Float  `json:"seconds"`     // exclusive
	// Of the operation's time in all direct requests. Those that are not direct
	// have direct ones within them, so the direct ones alone add up to 1.
	Share    Float `json:"share"`
	NPlusOne bool  `json:"n_plus_one"`
}

package api

// ApdexResponse answers GET /api/v1/apdex?match&start&end&step&width&t&by&overlay&tz:
// Apdex of requests per service, or per service and operation with by=operation.
// t, if given, re-scores everything with that target; otherwise each row uses its
// own. With an overlay it is that of earlier days, at the times of the range.
type ApdexResponse struct {
	Range
	Misnamed
	Step    int64      `json:"step"`
	Overlay *Overlay   `json:"overlay,omitempty"`
	Times   []int64    `json:"times"`
	Rows    []ApdexRow `json:"rows"`
}

// ApdexRow: satisfied up to T, tolerating up to 4T, failed is frustrated.
type ApdexRow struct {
	Service     string  `json:"service"`
	Environment string  `json:"environment,omitempty"`
	Operation   string  `json:"operation,omitempty"`
	T           Float   `json:"t" nullable:"false"`
	From        string  `json:"from" enum:"operation,service,default,asked"` // where T comes from
	Apdex       Float   `json:"apdex"`
	Low         Float   `json:"low"` // the bounds that the buckets holding T and 4T leave
	High        Float   `json:"high"`
	Satisfied   Float   `json:"satisfied"` // requests; not whole, since buckets are interpolated
	Tolerating  Float   `json:"tolerating"`
	Frustrated  Float   `json:"frustrated"`
	Requests    uint64  `json:"requests"`
	Effective   uint64  `json:"effective,omitempty"` // see DistributionGroup
	Rate        Float   `json:"rate"`                // per second
	Thin        bool    `json:"thin"`                // below 100 requests a minute, or as many as say as much: means little
	Over        []Float `json:"over"`                // Apdex per step
	ThinOver    []bool  `json:"thin_over"`
}

// ApdexTarget is T of a service, or of one of its operations. PUT
// /api/v1/apdex-targets sets one, DELETE /api/v1/apdex-targets?service&operation
// removes one, GET lists them.
type ApdexTarget struct {
	Service   string `json:"service"`
	Operation string `json:"operation,omitempty"`
	T         Float  `json:"t" nullable:"false"` // seconds
}

type ApdexTargetsResponse struct {
	Default Float         `json:"default" nullable:"false"`
	Targets []ApdexTarget `json:"targets"`
}

// SLAResponse answers GET /api/v1/sla?match&period&count&tz&end&objective&under&t&q:
// requests of the selection by day, week (from Monday) or month of a time zone,
// newest last. objective (0.99) is the share of requests that should be good:
// not failed, and no slower than `under` seconds.
type SLAResponse struct {
	Misnamed
	Service string `json:"service"`
	// Environment is the one that match names; empty: all that the service has.
	Environment string      `json:"environment,omitempty"`
	Operation   string      `json:"operation,omitempty"`
	Period      string      `json:"period" enum:"day,week,month"`
	Zone        string      `json:"zone"`
	T           Float       `json:"t"`
	Objective   Float       `json:"objective"`
	Under       Float       `json:"under"`
	Rows        []SLAPeriod `json:"rows"`
	All         SLAPeriod   `json:"all"`
	Notes       []string    `json:"notes,omitempty"`
}

// SLAPeriod is one day, week or month.
type SLAPeriod struct {
	Range
	Name       string           `json:"name"`    // 2026-11-16, 2026-W47, 2026-11
	Partial    bool             `json:"partial"` // not over yet, or reaches back before the data
	Covered    int64            `json:"covered"` // seconds of it that have passed and lie after the first data
	Requests   uint64           `json:"requests"`
	Effective  uint64           `json:"effective,omitempty"` // see DistributionGroup
	Rate       Float            `json:"rate"`                // per second of the covered time
	Apdex      Float            `json:"apdex"`
	ApdexLow   Float            `json:"apdex_low"`
	ApdexHigh  Float            `json:"apdex_high"`
	Satisfied  Float            `json:"satisfied"` // shares, 0..1
	Tolerating Float            `json:"tolerating"`
	Frustrated Float            `json:"frustrated"`
	Thin       bool             `json:"thin"`
	Mean       Float            `json:"mean"`
	Quantiles  map[string]Float `json:"quantiles"`
	Error      Float            `json:"error"`
	Errors     uint64           `json:"errors"`
	ErrorRate  Float            `json:"error_ratio"`
	Worst      *SLATenant       `json:"worst,omitempty"` // the tenant with the most frustrated requests beyond its share
	Good       Float            `json:"good"`            // share that is not failed and under the objective's bound
	GoodLow    Float            `json:"good_low"`        // what the bucket holding the bound leaves open
	GoodHigh   Float            `json:"good_high"`
	// Without is the seconds without requests, in stretches that are long for the service.
	// Nothing can fail then: they count as neither good nor bad.
	Without int64       `json:"without,omitempty"`
	Outages []SLAOutage `json:"outages,omitempty"`              // these stretches, the longest 20 of the report
	Met     string      `json:"met" enum:"yes,no,unknown,none"` // unknown: the bucket's width decides; none: no objective or no data
	// Trend against the period before, as ratios of rates, Apdex difference and
	// ratio of p95; null where there is none. Saturated: throughput fell while
	// Apdex fell and p95 rose.
	Trend struct {
		Rate      Float `json:"rate"`
		Apdex     Float `json:"apdex"`
		P95       Float `json:"p95"`
		Saturated bool  `json:"saturated"`
	} `json:"trend"`
}

// SLAOutage is a stretch without requests.
type SLAOutage struct {
	Range
	Up       bool   `json:"up"`                                // other services had requests
	Missed   Float  `json:"missed"`                            // requests that usually come in that time; null if that is not known
	By       string `json:"by,omitempty" enum:"week,day,hour"` // as many as: a week before, a day before, at the rate of the hour before
	Sentence string `json:"sentence"`                          // in the report's zone
}

type SLATenant struct {
	Name      string `json:"name"`
	Requests  uint64 `json:"requests"`
	Effective uint64 `json:"effective,omitempty"` // see DistributionGroup
	Apdex     Float  `json:"apdex"`
	P95       Float  `json:"p95"`
}

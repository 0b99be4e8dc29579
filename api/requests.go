package api

import "time"

// The requests of this file are the parameters of GET /api/v1/… . The tag query
// names a parameter, path a part of the address, and doc describes it. The tag
// positive holds the server's answer to a value that is 0 or below, signed allows a
// duration below 0, example is a number to write instead of one that cannot be read,
// and unit its unit. A zero field leaves the choice to the server.
//
// Flags of the command line are made of the same fields. The tag flag renames a flag,
// help replaces doc, and value names the value in help.

// Selection says which observations a question is about.
type Selection struct {
	Family string `query:"family" doc:"what is measured, such as span_self_seconds or process_cpu_time_seconds_total; default span_duration_seconds"`
	Match  string `query:"match" doc:"PromQL matchers" example:"{service=\"checkout\",tenant=~\"acme|globex\"}" help:"further PromQL matchers, such as '{status=\"error\",tenant=~\"acme|globex\"}'"`
	Start  Time   `query:"start" doc:"beginning of the range, inclusive; default six hours before end" help:"beginning, instead of --since: RFC 3339, Unix seconds, 2006-01-02 15:04, or now-6h"`
	End    Time   `query:"end" doc:"end of the range, exclusive; default now" help:"end: RFC 3339, Unix seconds, 2006-01-02 15:04, or now-6h"`
}

// Requests is the selection of questions about requests, whose families are not a choice.
type Requests struct {
	Match string `query:"match" doc:"PromQL matchers" example:"{service=\"checkout\",tenant=~\"acme|globex\"}"`
	Start Time   `query:"start" doc:"beginning of the range, inclusive; default six hours before end"`
	End   Time   `query:"end" doc:"end of the range, exclusive; default now"`
}

// Selected returns the selection itself, for what is asked of every selection.
func (s Selection) Selected() Selection { return s }

// Selected returns the selection of the requests.
func (r Requests) Selected() Selection {
	return Selection{Match: r.Match, Start: r.Start, End: r.End}
}

// Selected returns the selection of what is searched, of the default range.
func (r ChangesRequest) Selected() Selection { return Selection{Match: r.Match} }

// Selected returns the selection of the requests, of the default range.
func (r SLARequest) Selected() Selection { return Selection{Match: r.Match} }

// Grid cuts a range into columns: of a length, or at most so many.
type Grid struct {
	Step  time.Duration `query:"step" doc:"length of a step, which is a column of a heatmap; default chosen by width" help:"length of a step, such as 1m; default chosen by the range" positive:"a step of %s is not positive; write a duration such as 60s"`
	Width int           `query:"width" doc:"the most columns wanted"`
}

// EarlierDay asks for an earlier day in place of the range shown.
type EarlierDay struct {
	Overlay string `query:"overlay" doc:"show an earlier day instead, by wall clock: day, week, or like (the last day like it)" value:"day"`
	Zone    string `query:"tz" doc:"time zone of the overlay's wall clock, such as Europe/Berlin; default UTC" value:"zone"`
}

// ServicesRequest asks for every service.
type ServicesRequest struct {
	Selection
	Grid
	Quantiles Quantiles `query:"q" doc:"quantiles between 0 and 1, parted by commas; default 0.5,0.95,0.99"`
	ApdexT    float64   `query:"apdex_t" doc:"seconds that satisfy a user, for every service; default each service's own target" example:"0.5" unit:"seconds"`
	Rows      int       `query:"rows" doc:"the most rows of each service's strip; no strips unless asked for"`
	Names     bool      `query:"names" doc:"only names, environments, requests and errors, for lists to choose from"`
}

// DistributionRequest asks for whole distributions.
type DistributionRequest struct {
	Selection
	By        []string  `query:"by" doc:"labels to group by, parted by commas, such as operation,tenant"`
	Quantiles Quantiles `query:"q" doc:"quantiles between 0 and 1, parted by commas; default 0.5,0.95,0.99"`
	At        []float64 `query:"at" doc:"values to rank" help:"values to rank, such as 200ms,1s"`
	Buckets   bool      `query:"buckets" doc:"answer the buckets too"`
	Limit     int       `query:"limit" doc:"keep only so many groups, those with the most observations"`
}

// HeatmapRequest asks how a distribution moves.
type HeatmapRequest struct {
	Selection
	Grid
	Rows int `query:"rows" doc:"the most rows wanted"`
}

// TimelineRequest asks for figures per step.
type TimelineRequest struct {
	Selection
	Grid
	By        []string      `query:"by" doc:"labels to group by, parted by commas, such as operation,tenant"`
	Quantiles Quantiles     `query:"q" doc:"quantiles between 0 and 1, parted by commas; default 0.5,0.95,0.99"`
	Offset    time.Duration `query:"offset" doc:"read the data that much earlier, such as 1d, and move it forward" signed:"yes"`
	EarlierDay
	Per   string        `query:"per" doc:"request divides the increase of a counter by the requests of the service"`
	Slide time.Duration `query:"slide" doc:"length of a window, such as 10m: the figures of a step are those of the window that ends with it"`
	Limit int           `query:"limit" doc:"keep only so many groups, those with the most observations"`
}

// ScalingRequest asks for the scalability law of a service's requests.
type ScalingRequest struct {
	Requests
	Grid
	Level float64 `query:"level" doc:"confidence of intervals, between 0.5 and 1; default 0.95" help:"confidence of intervals, above 50%; default 95%" example:"0.95"`
}

// LabelsRequest asks what there is to filter by.
type LabelsRequest struct {
	Selection
	Names []string `query:"names" doc:"only these labels"`
	Limit int      `query:"limit" doc:"values per label"`
}

// TenantsRequest asks who sends the traffic.
type TenantsRequest struct {
	Selection
	Quantiles Quantiles     `query:"q" doc:"quantiles between 0 and 1, parted by commas; default 0.5,0.95,0.99"`
	Sort      string        `query:"sort" doc:"suffers, requests, errors, mean, slow, cohort, size, name or one of the quantiles; a leading minus turns it round; default suffers: first those with surely more than 1 % of failed requests, then the longest p99, by the lower end of its interval"`
	Search    string        `query:"search" doc:"part of a tenant's name"`
	Cohort    string        `query:"cohort" doc:"only tenants of this cohort: very-large, large, medium or small"`
	NotRare   bool          `query:"not_rare" doc:"only tenants for whom slow requests are not rare"`
	Slow      time.Duration `query:"slow" doc:"duration from which a request is slow; default 1s" positive:"%s is not above 0; write a time such as 1s or 500ms"`
	Rare      Share         `query:"rare" doc:"share of slow requests up to which they are rare, such as 0.005 or 0.5%; default 1%"`
	Offset    int           `query:"offset" doc:"tenants to pass over"`
	Limit     int           `query:"limit" doc:"tenants to answer, at most 1000"`
}

// NearestRequest asks what was there at a moment.
type NearestRequest struct {
	Family    string    `query:"family" doc:"what is measured; default span_duration_seconds"`
	Match     string    `query:"match" doc:"PromQL matchers" example:"{service=\"checkout\",tenant=~\"acme|globex\"}"`
	Time      Time      `query:"time" doc:"the moment; default now"`
	By        []string  `query:"by" doc:"labels to group by, parted by commas, such as operation,tenant"`
	Quantiles Quantiles `query:"q" doc:"quantiles between 0 and 1, parted by commas; default 0.5,0.95,0.99"`
}

// FamiliesRequest asks what is measured, of one service within a range if it is named.
type FamiliesRequest struct {
	Service string `query:"service" doc:"only families that this service has series of, on the days of the range"`
	Start   Time   `query:"start" doc:"beginning of the range, inclusive; default six hours before end"`
	End     Time   `query:"end" doc:"end of the range, exclusive; default now"`
}

// BreakdownRequest asks where the time of one service's requests goes. Match names
// the service. The band is above a quantile, or between Low and High.
type BreakdownRequest struct {
	Requests
	Grid
	EarlierDay
	Quantiles Quantiles     `query:"q" doc:"quantiles between 0 and 1, parted by commas; default 0.5,0.95,0.99"`
	Above     Quantile      `query:"above" doc:"quantile above which requests are in the band; default 0.95" example:"0.95"`
	Low       time.Duration `query:"low" doc:"duration above which requests are in the band, instead of a quantile"`
	High      time.Duration `query:"high" doc:"duration up to which requests are in the band, instead of a quantile"`
	Limit     int           `query:"limit" doc:"parts whose time is answered per step too; default 10" help:"parts to show"`
}

// OperationsRequest asks which operations take the time.
type OperationsRequest struct {
	Requests
	Grid
	EarlierDay
	Sort       string    `query:"sort" doc:"total, calls, errors, mean, name or one of the quantiles (0.99 or p99); a leading minus turns it round; default total"`
	Search     string    `query:"search" doc:"part of an operation's name"`
	Offset     int       `query:"offset" doc:"operations to pass over"`
	Limit      int       `query:"limit" doc:"operations to answer, at most 1000; default 50"`
	Quantiles  Quantiles `query:"q" doc:"quantiles between 0 and 1, parted by commas; default 0.5,0.95,0.99"`
	Components []string  `query:"component" doc:"only these components: app, db, cache, external, messaging"`
	Kinds      []string  `query:"kind" doc:"only these kinds of spans: server and consumer (requests), client and producer (calls), internal"`
}

// CallersRequest asks which requests lead to an operation.
type CallersRequest struct {
	Service   string `query:"service" doc:"that the operation runs in, or is called from if it sends no spans"`
	Component string `query:"component" doc:"of the operation"`
	Operation string `query:"operation" doc:"whose callers are meant"`
	Start     Time   `query:"start" doc:"beginning of the range, inclusive; default six hours before end"`
	End       Time   `query:"end" doc:"end of the range, exclusive; default now"`
}

// TracesRequest asks for requests of kept traces. Match may name service,
// operation, tenant and status.
type TracesRequest struct {
	Requests
	Min   time.Duration `query:"min" doc:"only requests that took at least this duration"`
	Max   time.Duration `query:"max" doc:"only requests that took at most this duration"`
	Why   []string      `query:"why" doc:"only those kept for these reasons: slow, failed, exemplar"`
	Sort  string        `query:"sort" doc:"slowest, newest, or nearest to at and time; default slowest" help:"slowest or newest first; default slowest"`
	At    time.Duration `query:"at" doc:"the duration to be nearest to, in seconds"`
	Time  Time          `query:"time" doc:"the moment to be nearest to"`
	Step  time.Duration `query:"step" doc:"how long that moment lasts, as a column of a heatmap does"`
	Limit int           `query:"limit" doc:"requests to answer, at most 1000; default 100"`
	Where bool          `query:"where" doc:"also answer which part of each request has the longest share of its critical path, and the groups that have it in common"`
}

// TraceRequest asks for a whole kept trace.
type TraceRequest struct {
	ID string `path:"id" doc:"of the trace: 32 hex digits"`
}

// CompareRequest asks what differs between two sides: two windows A and B
// (start/end; several, which commas divide; or one that repeats), before and after a Mark, two values A and B of a Label within the
// range, or earlier Days and B.
type CompareRequest struct {
	Selection
	A        string         `query:"a" doc:"side A: start/end such as now-2h/now-1h; several of them, which commas divide; a window that repeats, such as daily 22:00-06:00 last 5 before now-7d, or mon-fri 09:00-17:00 first 5 after now-7d; or a value of label" help:"side A: START..END such as now-2h..now-1h, several with commas between, a window that repeats such as 'daily 22:00-06:00 last 5 before now-7d', or a value of --label" value:"side"`
	B        string         `query:"b" doc:"side B, in the same manner" value:"side"`
	Mark     string         `query:"mark" doc:"id of a mark: compares what lies before and after it, instead of a and b" value:"id"`
	Label    string         `query:"label" doc:"label of which a and b are values, such as version; both sides are then of the range" value:"label"`
	Settle   *time.Duration `query:"settle" doc:"time left out after a mark; default a slot"`
	Window   time.Duration  `query:"window" doc:"how long each side of a mark is; default an hour" positive:"window is not positive; write how long a side is, such as 1h"`
	Level    float64        `query:"level" doc:"confidence of intervals, between 0.5 and 1; default 0.95" help:"confidence of intervals, above 50%; default 95%" example:"0.95"`
	Within   float64        `query:"within" doc:"relative change that is still the same; default 0.05" help:"relative change that is still the same; default 5%" example:"0.05"`
	Allow    []string       `query:"allow" doc:"changes that are allowed, MEASURE=DIRECTION:SIZE such as worse:3% or p99=increase:3%,errors=0.1%: only what is surely beyond counts, and what surely is not is within tolerance; default what the mark allows, and none: nothing"`
	Measures []string       `query:"measures" doc:"what to judge: p50, p75, p90, p95, p99, p99.9, mean, errors, apdex, rate; of a metric also per_request; default all"`
	Live     bool           `query:"live" doc:"intervals that hold however often the comparison is looked at while data comes in"`
	Include  []string       `query:"include" doc:"what to answer besides: curve (both distributions and the ratio of their quantiles), heat (where requests went), cohorts (rows of cohorts as those of tenants)"`
	Width    int            `query:"width" doc:"columns of a side of the heat, at most 2000; default 240"`
	Rows     int            `query:"rows" doc:"rows of the heat, at most 640; default 120"`
	Per      string         `query:"per" doc:"request: the increase of a counter, or the sum of a distribution, for each request of the service"`
	Days     int            `query:"days" doc:"number of earlier days that side A is made of, at the hours of b and in place of a; default 4 if like is given"`
	Like     string         `query:"like" doc:"which earlier days: day, weekday (of the weeks before) or workday; default weekday if days is given"`
	Zone     string         `query:"tz" doc:"time zone whose clocks say what the same time of another day is, such as Europe/Berlin; default UTC" value:"zone"`
	Limit    int            `query:"limit" doc:"operations and tenants to list, at most 500 each; default 20"`
}

// ExplainRequest asks which labels became slow in a rectangle of the heatmap, or are slow
// in it: [From, To) by (Low, High]. A bound that is nil is none.
type ExplainRequest struct {
	Selection
	From Time     `query:"from" doc:"where the rectangle begins, inclusive; default start"`
	To   Time     `query:"to" doc:"where the rectangle ends, exclusive; default end"`
	Low  *float64 `query:"low" doc:"value above which the rectangle lies; default no bound" help:"value above which the rectangle lies, such as 200ms or 0.2; default no bound"`
	High *float64 `query:"high" doc:"value up to which the rectangle reaches; default no bound"`
	// Against the time before, the rectangle begins at a mark that is near.
	Against string   `query:"against" doc:"what to compare with: before (the same labels in the stretch before: who became slow), day (likewise, a day earlier) or rest (all other requests of the range: who is slow); default before" enum:"before,day,rest"`
	Before  string   `query:"before" doc:"the stretch before, as start/end such as now-2h/now-1h; default the time before the mark that is near or else before the rectangle, as long as that and at least five minutes" help:"the stretch before: START..END such as now-2h..now-1h; default before the mark that is near, or before the rectangle" value:"window"`
	Labels  []string `query:"labels" doc:"only these labels, such as tenant,operation"`
	Pairs   *bool    `query:"pairs" doc:"whether to look at pairs of labels too; default true"`
	Limit   int      `query:"limit" doc:"labels and pairs to answer, at most 200; default 20"`
}

// ChangesRequest asks for the moments at which requests changed.
type ChangesRequest struct {
	Match      string `query:"match" doc:"PromQL matchers of requests, or of a metric by its name" example:"process_cpu_time_seconds_total{service=\"checkout\"}"`
	Start      Time   `query:"start" doc:"beginning of the range, inclusive; default six hours before end"`
	End        Time   `query:"end" doc:"end of the range, exclusive; default now"`
	Per        string `query:"per" doc:"request searches a metric for each request of its service"`
	Operations int    `query:"operations" doc:"operations to search, those with the most requests, at most 500; default 50"`
	Status     string `query:"status" doc:"new, confirmed, dismissed or all; default new and confirmed"`
	Known      bool   `query:"known" doc:"true answers within some seconds what was found in the last ten minutes; whether it is over is looked up anew, and what is not searched yet is unsearched"`
}

// ApdexRequest asks for Apdex over time. Only requests are scored.
type ApdexRequest struct {
	Requests
	Grid
	EarlierDay
	T  float64 `query:"t" doc:"seconds that satisfy a user, for every row; default each row's own target" help:"time that satisfies a user, for every row; default each row's own target" example:"0.5" unit:"seconds"`
	By string  `query:"by" doc:"operation scores every operation by itself"`
}

// SLARequest asks for the report of the one service that Match names.
type SLARequest struct {
	Match     string    `query:"match" doc:"PromQL matchers" example:"{service=\"checkout\",tenant=~\"acme|globex\"}"`
	Period    string    `query:"period" doc:"day, week (from Monday) or month; default week"`
	Count     int       `query:"count" doc:"periods to answer; default 7 days, 8 weeks or 6 months"`
	Zone      string    `query:"tz" doc:"time zone in which days begin, such as Europe/Berlin; default UTC" value:"zone"`
	End       Time      `query:"end" doc:"the last period is the one before this moment, or that holds it; default now"`
	Objective float64   `query:"objective" doc:"share of requests, between 0 and 1, that should be good: not failed, and no slower than under" help:"share of requests that should be good, such as 99%: not failed, and no slower than --under" example:"0.99"`
	Under     float64   `query:"under" doc:"seconds within which a good request is answered" help:"time within which a good request is answered, such as 500ms" example:"0.5" unit:"seconds"`
	T         float64   `query:"t" doc:"seconds that satisfy a user; default the target of the service or operation" help:"time that satisfies a user; default the target of the service or operation" example:"0.5" unit:"seconds"`
	Quantiles Quantiles `query:"q" doc:"quantiles between 0 and 1, parted by commas; default 0.5,0.95,0.99"`
}

// LeavesRequest asks what leaves of a fan-out took: the requests of the service
// that Match names.
type LeavesRequest struct {
	Match   string        `query:"match" doc:"PromQL matchers" example:"{service=\"solr\"}"`
	Start   Time          `query:"start" doc:"beginning of the range, inclusive; default an hour before end"`
	End     Time          `query:"end" doc:"end of the range, exclusive; default now"`
	Step    time.Duration `query:"step" doc:"length of a slot, such as 10s; default the shortest that has observations enough" positive:"a step of %s is not positive; write a duration such as 10s"`
	Classes int           `query:"classes" doc:"the most operations that are answered apart, at most 200; default 20"`
}

// MarksRequest asks for named moments.
type MarksRequest struct {
	Start   Time   `query:"start" doc:"inclusive; default all marks"`
	End     Time   `query:"end" doc:"exclusive"`
	Service string `query:"service" doc:"marks of this service and those that concern every service"`
}

// MarkRequest asks for one mark, with all that was found at it.
type MarkRequest struct {
	ID string `path:"id" doc:"of the mark, as the list of marks has it"`
}

// SessionsRequest asks for what was tried.
type SessionsRequest struct {
	Kind   string `query:"kind" doc:"mirror, bench, experiment, capacity or simulation; default every kind"`
	State  string `query:"state" doc:"running, ended or lost; default any"`
	Search string `query:"q" flag:"search" doc:"words that are all in its name, hypothesis, objective, variable, settings, layouts, service, headline or id"`
	Start  Time   `query:"start" doc:"beginning of the range that it overlaps, inclusive; default all time"`
	End    Time   `query:"end" doc:"end of the range that it overlaps, exclusive; default all time"`
	Limit  int    `query:"limit" doc:"the most that are answered: those that run, then the latest; default 1,000"`
}

// SessionRequest asks for one session as it was last reported.
type SessionRequest struct {
	ID string `path:"id" doc:"of the session, as the list of sessions has it"`
}

// SessionVerdictRequest asks what came of a session.
type SessionVerdictRequest struct {
	ID       string   `path:"id" doc:"of the session, as the list of sessions has it"`
	Start    Time     `query:"start" doc:"beginning of what is judged of a mirror session, inclusive; default that of the session"`
	End      Time     `query:"end" doc:"end of what is judged of a mirror session, exclusive; default that of the session"`
	Measures []string `query:"measures" doc:"judge only these measures of a mirror session: ratio, p50, p75, p90, p95, p99, p99.9, mean, errors, first_byte, bytes"`
	Allow    []string `query:"allow" doc:"changes of a mirror session that are allowed, MEASURE=DIRECTION:SIZE such as worse:3% or p99=increase:3%,errors=0.1%; default what the session was started with, and none: nothing"`
	Limit    int      `query:"limit" doc:"operations, and tenants, of a mirror session to answer; default 20"`
}

// ChecksRequest asks for checks.
type ChecksRequest struct {
	State  string `query:"state" doc:"OK, WARNING, CRITICAL, UNKNOWN or PENDING; bad is all but OK and PENDING; default any"`
	Match  string `query:"match" doc:"PromQL matchers on the labels of checks, and on check, the name of the definition"`
	Search string `query:"q" flag:"search" doc:"part of a check's id or description"`
	Limit  int    `query:"limit" doc:"checks to answer; default 100"`
	Offset int    `query:"offset" doc:"checks to pass over"`
}

// CheckRequest asks for one check over a range.
type CheckRequest struct {
	ID    string        `query:"id" doc:"of the check, as the list of checks has it"`
	Start Time          `query:"start" doc:"beginning of the range, inclusive; default a day before end"`
	End   Time          `query:"end" doc:"end of the range, exclusive; default now"`
	Step  time.Duration `query:"step" doc:"distance of the points; default such that there are about 300" help:"time between lines; default such that there are about 30" positive:"a step of %s is not positive; write a duration such as 60s"`
}

// IncidentsRequest asks for times in which checks were not OK, and those that were
// marked.
type IncidentsRequest struct {
	Start Time   `query:"start" doc:"beginning of the range that it overlaps, inclusive; default all time"`
	End   Time   `query:"end" doc:"end of the range that it overlaps, exclusive; default all time"`
	Check string `query:"check" doc:"id of a check, or name of a definition: those of all its checks"`
	Kind  string `query:"kind" doc:"check (found by one) or marked (by somebody); default both"`
	Open  bool   `query:"open" doc:"only those that last"`
	Limit int    `query:"limit" doc:"the newest so many; default 1000"`
}

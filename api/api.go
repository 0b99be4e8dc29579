// Package api holds the JSON types of Tailscope's HTTP API: what the page, the
// command line and the Go client exchange with the server. Times are Unix
// seconds, durations are seconds, NaN is null.
package api

// Float is a number whose NaN and infinities are null in JSON.
type Float float64

// Labels maps label names to values.
type Labels map[string]string

// Error is the body of every 4xx and 5xx under /api/v1.
type Error struct {
	Error ErrorDetail `json:"error"`
}

type ErrorDetail struct {
	Code    string `json:"code" enum:"invalid,not_found,too_early,too_many,unavailable,damaged,internal"`
	Message string `json:"message"`         // one sentence that says what to write instead
	Field   string `json:"field,omitempty"` // the parameter at fault
	Misnamed
}

// Range is the time really covered, which may be wider than asked.
type Range struct {
	Start int64 `json:"start"` // Unix seconds, inclusive
	End   int64 `json:"end"`   // exclusive
}

// Whole says how much of a range is stored.
type Whole struct {
	// WholeUntil is the moment, in Unix seconds, up to which requests are stored but for one
	// in a thousand, by how late those of the last minute came. Steps that end later are
	// provisional: what is counted in them grows. Absent if the range has none.
	WholeUntil int64 `json:"whole_until,omitempty"`
}

// Warned holds what speaks against taking an answer at its word, such as that several
// environments are taken together.
type Warned struct {
	Warnings []string `json:"warnings,omitempty"`
}

// Cautions returns the warnings.
func (w *Warned) Cautions() []string { return w.Warnings }

// Warn adds a warning.
func (w *Warned) Warn(text string) { w.Warnings = append(w.Warnings, text) }

// ServicesResponse answers GET /api/v1/services?start&end&step.
// Requests are spans of kind server or consumer (all kinds when a service has neither).
type ServicesResponse struct {
	Range
	Whole
	Misnamed
	Step     int64     `json:"step"`
	Services []Service `json:"services"`
}

// Service is a service in one environment.
type Service struct {
	Name        string           `json:"name"`
	Environment string           `json:"environment,omitempty"` // empty where spans do not say
	Requests    uint64           `json:"requests"`
	Effective   uint64           `json:"effective,omitempty"` // see DistributionGroup
	Rate        Float            `json:"rate"`                // per second
	Errors      uint64           `json:"errors"`
	ErrorRate   Float            `json:"error_ratio"` // 0..1
	Apdex       Float            `json:"apdex"`
	ApdexT      Float            `json:"apdex_t"` // seconds
	Mean        Float            `json:"mean"`
	Quantiles   map[string]Float `json:"quantiles"`
	Error       Float            `json:"error"` // relative error of the quantiles
	Sparkline   Sparkline        `json:"sparkline"`
	Strip       *Strip           `json:"strip,omitempty"` // with rows
	Weighted    bool             `json:"weighted,omitempty"`
	// Now is the last minute of the range that is stored as a whole. Absent where only
	// longer slots are kept.
	Now *ServiceNow `json:"now,omitempty"`
	// Usual is what comparable minutes before it were like. Absent while they are too few.
	Usual *ServiceUsual `json:"usual,omitempty"`
	// State is worse if p50, p99 or errors of now lie above what is usual, or Apdex below it
	// or below 0.5 by a T that was set, or a check of the service is critical; odd if only the
	// rate lies outside, or another check fails; else well. A figure lies outside if the
	// interval of what was measured does. Absent while none of this is known.
	State ServiceState `json:"state,omitempty"`
	// Outside has the figures of now that lie outside: rate, errors, p50, p99, apdex.
	Outside map[string]ServiceState `json:"outside,omitempty"`
	Why     string                  `json:"why,omitempty"` // a sentence about those figures and checks
	// Whom is for whom p50, p99 or errors are worse, where that is sure.
	Whom *ServiceWhom `json:"whom,omitempty"`
	// LatestMark is the last one of the range at which the service changed; else
	// the last of the service, else that of every service, else the last before
	// the range. It has its verdict on the service.
	LatestMark *Mark `json:"latest_mark,omitempty"`
}

// ServiceState says how a minute of a service compares with what is usual.
type ServiceState string

const (
	Well  ServiceState = "well"
	Odd   ServiceState = "odd"
	Worse ServiceState = "worse"
)

// ServiceNow is one minute of a service.
type ServiceNow struct {
	Range
	Requests  uint64           `json:"requests"`
	Rate      Float            `json:"rate"` // per second
	Errors    uint64           `json:"errors"`
	ErrorRate Float            `json:"error_ratio"` // 0..1
	Quantiles map[string]Float `json:"quantiles"`   // 0.5 and 0.99
	Apdex     Float            `json:"apdex"`
	// Last is the end of the last slot with requests if the minute has none, Unix seconds.
	Last int64 `json:"last,omitempty"`
}

// ServiceUsual is what minutes of a service are like.
type ServiceUsual struct {
	// Of is days where they are the same minutes, and a quarter of an hour about them, a day
	// and a week before; hours where they are of the three hours before.
	Of      string    `json:"of"`
	Minutes int       `json:"minutes"`
	Rate    UsualBand `json:"rate"`
	Errors  UsualBand `json:"error_ratio"`
	P50     UsualBand `json:"p50"`
	P99     UsualBand `json:"p99"`
	// Apdex is absent where nobody set a T.
	Apdex *UsualBand `json:"apdex,omitempty"`
}

// ServiceWhom says who feels most that a service is worse than usual: tenants, a cohort, or
// all that have requests enough.
type ServiceWhom struct {
	Sentence string   `json:"sentence"` // worst for globex; worse for all tenants
	Tenants  []string `json:"tenants,omitempty"`
	Cohort   string   `json:"cohort,omitempty"`
}

// UsualBand holds nearly all minutes; null where they, or their requests, are too few.
type UsualBand struct {
	Middle Float `json:"middle"`
	Low    Float `json:"low"`
	High   Float `json:"high"`
}

// Strip is a small heatmap with a column per step, oldest first.
type Strip struct {
	Bounds []Float `json:"bounds"` // of rows, ascending; one more than rows
	From   []int   `json:"from"`   // the lowest row of each column that has requests
	// Counts holds the requests of each column from that row on; empty where nothing happened.
	Counts [][]uint64 `json:"counts"`
}

// Sparkline has one entry per step, oldest first; null where nothing happened.
type Sparkline struct {
	Rate []Float `json:"rate"`
	P95  []Float `json:"p95"`
}

// DistributionResponse answers GET /api/v1/distribution?family&match&start&end&by&q&at&buckets.
type DistributionResponse struct {
	Range
	Warned
	Misnamed
	Family string `json:"family"`
	Slot   int64  `json:"slot"` // seconds: the coarsest resolution read
	// Measured is in how many seconds of the range requests of the selected services were
	// measured, which is what a rate divides by: neither gaps, in which no service has any
	// request, nor the time before the first request of a service that is new. Absent of
	// what is not of spans, and of groups: it is the same for each.
	Measured Float               `json:"measured,omitempty"`
	Groups   []DistributionGroup `json:"groups"`
}

type DistributionGroup struct {
	Labels Labels `json:"labels"`
	Count  uint64 `json:"count"`
	// Effective is the number of unsampled observations that say as much as these, of which
	// some stand for several: (Σw)²/Σw², the number that was sampled where all weigh the
	// same. Absent where each stands for itself.
	Effective uint64           `json:"effective,omitempty"`
	Sum       Float            `json:"sum"`
	Mean      Float            `json:"mean"`
	Min       Float            `json:"min"`
	Max       Float            `json:"max"`
	Quantiles map[string]Float `json:"quantiles"`
	Error     Float            `json:"error"`
	At        []At             `json:"at,omitempty"`
	Buckets   []Bucket         `json:"buckets,omitempty"` // with buckets=true
	Weighted  bool             `json:"weighted,omitempty"`
}

// At says where a value lies: shares below its bucket, in it, above it.
type At struct {
	Value Float `json:"value"`
	Below Float `json:"below"`
	Same  Float `json:"same"`
	Above Float `json:"above"`
	Low   Float `json:"low"` // bounds of the value's bucket
	High  Float `json:"high"`
}

type Bucket struct {
	Low   Float  `json:"low"`
	High  Float  `json:"high"`
	Count uint64 `json:"count"`
}

// HeatmapResponse answers GET /api/v1/heatmap?family&match&start&end&step&width&rows.
// Rows are ascending, shared by all columns; row i covers (bounds[i], bounds[i+1]].
// Row 0 starts at 0 when the zero bucket is occupied.
type HeatmapResponse struct {
	Range
	Whole
	Warned
	Family  string          `json:"family"`
	Step    int64           `json:"step"`
	Slot    int64           `json:"slot"`
	Error   Float           `json:"error"`
	Bounds  []Float         `json:"bounds"`
	Columns []HeatmapColumn `json:"columns"` // ascending; empty ones left out
	Count   uint64          `json:"count"`
	MaxCell uint64          `json:"max_cell"`
}

// HeatmapColumn is one step. Rows and Counts run in parallel, sparse, rows ascending.
type HeatmapColumn struct {
	Start  int64    `json:"start"`
	Count  uint64   `json:"count"`
	Sum    Float    `json:"sum"`
	Min    Float    `json:"min"`
	Max    Float    `json:"max"`
	Rows   []int    `json:"rows"`
	Counts []uint64 `json:"counts"`
}

// TimelineResponse answers GET /api/v1/timeline?family&match&start&end&step&width&by&q&offset&overlay&tz&per&slide&limit.
// Arrays of a group run in parallel with Times; null where nothing happened.
type TimelineResponse struct {
	Range
	Whole
	Warned
	Misnamed
	Family string `json:"family"`
	Step   int64  `json:"step"`
	Slot   int64  `json:"slot"`
	Offset int64  `json:"offset,omitempty"` // seconds the data was shifted forward by
	// Overlay says which earlier days the data are of; Times are those of the range shown.
	Overlay *Overlay `json:"overlay,omitempty"`
	Per     string   `json:"per,omitempty"` // request: Value is divided by the requests of the service
	// Slide is the length, in seconds, of the trailing windows that figures are
	// of; a step's window ends with the step.
	Slide  int64           `json:"slide,omitempty"`
	Times  []int64         `json:"times"` // start of each step, shifted by Offset
	Groups []TimelineGroup `json:"groups"`
}

// Overlay is an earlier day laid over the shown one by wall clock.
type Overlay struct {
	Name string `json:"name" enum:"day,week,like"`
	Of   string `json:"of"` // Fri 13 Nov, or the first and the last of several days
	Zone string `json:"zone"`
}

type TimelineGroup struct {
	Labels    Labels             `json:"labels"`
	Count     []uint64           `json:"count"`
	Rate      []Float            `json:"rate"`
	Mean      []Float            `json:"mean"`
	ErrorRate []Float            `json:"error_ratio"` // status="error" over all; span families only
	Quantiles map[string][]Float `json:"quantiles"`
	Error     Float              `json:"error"`
	// Number series, and what is asked for per request: of a counter its
	// increase, of a distribution its sum, for each request of the service.
	Value []Float `json:"value,omitempty"` // gauges: last value in the step, averaged over the group's series; counters: increase per second, summed
}

// LabelsResponse answers GET /api/v1/labels?family&match&start&end: every label
// with its most frequent values (by count), at most limit each.
type LabelsResponse struct {
	Labels []LabelValues `json:"labels"`
}

type LabelValues struct {
	Name    string       `json:"name"`
	Total   int          `json:"total"` // how many distinct values there are
	Values  []LabelValue `json:"values"`
	Without uint64       `json:"without,omitempty"` // observations that do not have the label
}

type LabelValue struct {
	Value string `json:"value"`
	Count uint64 `json:"count"`
}

// FamiliesResponse answers GET /api/v1/families?service&start&end.
type FamiliesResponse struct {
	Families []Family `json:"families"`
}

type Family struct {
	Name     string `json:"name"`
	Kind     string `json:"kind" enum:"distribution,gauge,counter"`
	Interval int64  `json:"interval,omitempty"` // export interval in seconds, 0 if not known
	Unit     string `json:"unit,omitempty"`     // seconds, bytes, or empty
}

// NearestResponse answers GET /api/v1/nearest?family&match&time: per series the
// sample (number series) or the slot (distributions) closest to the moment.
type NearestResponse struct {
	Series []NearestSeries `json:"series"`
}

type NearestSeries struct {
	Labels Labels `json:"labels"`
	Time   Float  `json:"time"`
	Value  *Float `json:"value,omitempty"` // number series
	// Distributions: the slot closest to the moment.
	Distribution *DistributionGroup `json:"distribution,omitempty"`
}

// Mark is a named moment. POST /api/v1/marks takes one (time defaults to now,
// id is given by the server) and answers it; GET /api/v1/marks?start&end lists
// them; DELETE /api/v1/marks/{id} removes one.
type Mark struct {
	ID      string `json:"id,omitempty"`
	Time    Float  `json:"time,omitempty"` // Unix seconds
	Name    string `json:"name"`
	Service string `json:"service,omitempty"`
	// Environment is that of the service which the mark concerns; empty: all that it has.
	Environment string `json:"environment,omitempty"`
	Revision    string `json:"revision,omitempty"`
	User        string `json:"user,omitempty"`
	Description string `json:"description,omitempty"`
	Link        string `json:"link,omitempty"`
	// Allow are the changes that its verdict allows, as those of a CompareRequest, with
	// commas between: worse:3%,p99=increase:5%.
	Allow string `json:"allow,omitempty"`
	// Verdict is what changed at the mark, as soon as that was judged; the server
	// gives it.
	Verdict *MarkVerdict `json:"verdict,omitempty"`
}

// MarkVerdict is what was found by comparing before and after a mark, without
// being asked. Services are those with requests on both sides, regressions first.
type MarkVerdict struct {
	// State is waiting (too little time has passed), provisional (judged on slots of
	// one second, for gross changes), early (judged on what there is of the time after,
	// as intervals that hold at every look) or final.
	State    MarkState        `json:"state" enum:"waiting,provisional,early,final"`
	Step     int64            `json:"step"`   // seconds of the slots that it is based on
	First    Float            `json:"first"`  // when it was first judged, Unix seconds; null while waiting, or if it is not known
	Judged   Float            `json:"judged"` // when, Unix seconds; null while waiting
	Next     Float            `json:"next"`   // when it is judged again, Unix seconds; null if final
	Window   int64            `json:"window"` // seconds a side, at most
	Verdict  Verdict          `json:"verdict,omitempty"`
	Sentence string           `json:"sentence,omitempty"`
	Services []ServiceVerdict `json:"services"`
}

// ServiceVerdict is what changed of one service at a mark.
type ServiceVerdict struct {
	Service string `json:"service"`
	// Environment is empty where the service has one only.
	Environment string  `json:"environment,omitempty"`
	Verdict     Verdict `json:"verdict"` // as CompareResponse.Verdict
	Sentence    string  `json:"sentence"`
	// Headline is the sentence with a small letter at its beginning, as it goes on within
	// another; empty in verdicts of older versions. Lead names the measure of the service
	// that what lasts begins with; empty if that is none of the service as a whole.
	Headline string `json:"headline,omitempty"`
	Lead     string `json:"lead,omitempty"`
	// Before and After are the times that were compared, as far as they were used.
	Before Range `json:"before"`
	After  Range `json:"after"`
	// Shapes are what came and went at the mark, and how a change that lasts moved.
	Shapes []Shape `json:"shapes"`
	// Hints are as CompareResponse.Hints.
	Hints []Shape `json:"hints,omitempty"`
	// Together are the marks, this one among them, that are too near each other to be told
	// apart: what is said is of all of them. Empty of a mark that is by itself.
	Together []MarkName `json:"together"`
	// Outage is when nothing was answered, or nothing measured, about the mark. Before ends at
	// it if it began before the mark, and After begins when it was over.
	Outage *MarkOutage `json:"outage,omitempty"`
	// Then is what changed a while after the mark. Verdict and Sentence are of both.
	Then *MarkThen `json:"then,omitempty"`
	// Lists of marks, and of services, leave out what follows; one mark has it.
	// Measures are p50, p95, p99, p99.9 and errors; Operations, Tenants and Cohorts those
	// that changed, TenantsJudged and CohortsJudged how many could be judged.
	Measures      []CompareMeasure `json:"measures"`
	Operations    []CompareRow     `json:"operations"`
	Tenants       []CompareRow     `json:"tenants"`
	TenantsJudged int              `json:"tenants_judged"`
	// TenantsRest says what is known of the judged tenants that did not surely change: they
	// changed less than half as much (stays), surely more (most), as all did (all), or it is
	// open. Empty if it was not looked at.
	TenantsRest   string           `json:"tenants_rest,omitempty"`
	Cohorts       []CompareRow     `json:"cohorts"`
	CohortsJudged int              `json:"cohorts_judged"`
	Warnings      []CompareWarning `json:"warnings"`
}

// MarkThen is a change that was found within a quarter of an hour after a mark, with no
// other mark between: a late effect of the mark, or a change that nobody marked. The time
// after the mark ends at it. Changes that follow it closely are taken together with it.
type MarkThen struct {
	Time Float `json:"time" nullable:"false"` // of the change, the first of several, Unix seconds
	Low  Float `json:"low" nullable:"false"`  // interval of the moment, 95 %
	High Float `json:"high" nullable:"false"`
	// Changes are the ids of all of them; Change says what the first is.
	Changes []string `json:"changes"`
	Change  string   `json:"change"`
	// After is the time after the last of them, which is compared with the time before the
	// mark by what was found to change: durations, errors or both. What the mark had changed
	// at once in the same way is compared with the time between the mark and the change, which
	// Sentence says. Verdict and Sentence say what was found.
	After    Range   `json:"after"`
	Verdict  Verdict `json:"verdict"`
	Sentence string  `json:"sentence"`
	// Mark is a mark of another service at the moment of the change, which is then not held
	// against this one.
	Mark *MarkName `json:"mark,omitempty"`
	// Called are the services, called by this one, in which the change began. It is then not
	// held against the mark either.
	Called []string `json:"called,omitempty"`
}

// MarkOutage is a time without requests of a service about a mark. Up says that other services had some.
type MarkOutage struct {
	Range
	Up bool `json:"up"`
	// After says that it began at the mark or after it.
	After bool `json:"after,omitempty"`
}

// MarkName is what a mark is called, and when it was.
type MarkName struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Time Float  `json:"time"` // Unix seconds
}

type MarksResponse struct {
	Marks []Mark `json:"marks"`
	// Groups are the marks of one name and service, where there are several that were
	// judged, those with the most marks first.
	Groups []MarkGroup `json:"groups"`
}

// MarkGroup is what marks of one name amount to together.
type MarkGroup struct {
	Name    string `json:"name"`
	Service string `json:"service,omitempty"` // empty where they concern every one
	Marks   int    `json:"marks"`             // that were judged
	// Spikes is at how many of them something came and went, of each by itself or of all of
	// them together; the figures are medians over those at which it was of the operation at
	// which it was most often.
	Spikes    int    `json:"spikes"`
	Operation string `json:"operation,omitempty"`
	Measure   string `json:"measure,omitempty"`
	Higher    Float  `json:"higher"`  // by how much than usual
	Seconds   Float  `json:"seconds"` // how long
	// Regressions, Improvements and Mixed count the verdicts of what lasts; Verdict is that
	// of all: no evidence where no more changed than chance shows among so many.
	Regressions  int     `json:"regressions"`
	Improvements int     `json:"improvements"`
	Mixed        int     `json:"mixed"`
	Verdict      Verdict `json:"verdict"`
	Sentence     string  `json:"sentence"`
}

// StatusResponse answers GET /api/v1/status: what the page needs to greet a
// reader who has no data yet.
type StatusResponse struct {
	Version  string `json:"version"`
	OTLPGRPC string `json:"otlp_grpc"` // addresses that listen, empty if off
	OTLPHTTP string `json:"otlp_http"`
	Now      Float  `json:"now"`
	HasData  bool   `json:"has_data"`
	// First is the start of the first slot with spans in the last six hours, Unix seconds: a
	// default range need not begin before it. Null without any, or where it is not known.
	First        Float `json:"first"`
	FlushSeconds Float `json:"flush_seconds"` // how long until an observation is visible, at most
	// Problems lists why the server is degraded; empty when it is whole.
	Problems []Problem `json:"problems"`
	// Agents are those that were heard since the start, by name.
	Agents []Agent `json:"agents,omitempty"`
	// Acts are what the demo has done, does, and will do, in order of time. No other
	// server has any.
	Acts []Act `json:"acts,omitempty"`
}

// Agent is a tailscope agent that sends to the server.
type Agent struct {
	Name         string `json:"name"`
	Writer       string `json:"writer"` // its identity, that of its data directory
	Version      string `json:"version"`
	Heard        Float  `json:"heard"`       // when it was last heard, Unix seconds
	Generation   uint64 `json:"generation"`  // the last that it has put into its spool
	Stored       uint64 `json:"stored"`      // the last that is stored here
	SpoolFiles   int    `json:"spool_files"` // that wait at the agent, as it told last
	SpoolBytes   int64  `json:"spool_bytes"`
	WaitingSince Float  `json:"waiting_since"` // of the oldest generation there, Unix seconds; null if none waits
	Frames       uint64 `json:"frames"`        // since the start of the server
	Bytes        uint64 `json:"bytes"`         // of these
	Duplicates   uint64 `json:"duplicates"`    // of these, sent again after a lost answer
	Refused      uint64 `json:"refused"`       // requests of others with its identity
}

// Act is something that the demo does while its shop is under load.
type Act struct {
	Name  string `json:"name"` // a word or two
	Text  string `json:"text"` // what is done, and what is seen of it
	State string `json:"state" enum:"comes,runs,done,failed"`
	At    Float  `json:"at"`   // when it began, or comes, Unix seconds
	End   Float  `json:"end"`  // Unix seconds; null before
	Page  string `json:"page"` // address where it is seen, path and query
	// Verdict is what came of it, or why it failed, in a sentence; absent before that is
	// known.
	Verdict string `json:"verdict,omitempty"`
}

// Problem is one reason why a server answers less, or takes in less, than it
// should. A server with problems is degraded, and still ready. Those with the
// code recovered cost nothing: a server that has no others is not degraded.
type Problem struct {
	Code    string `json:"code" enum:"damage,recovered,disk_full,not_stored,traces,memory,maintenance,clock"`
	Summary string `json:"summary"` // what is missing and what to do, for a line on a screen
	Text    string `json:"text"`    // what is wrong and what it costs, one or two sentences
	Next    string `json:"next"`    // what to do about it
	// From and To enclose the data that it concerns, Unix seconds; null if that
	// is not known.
	From Float `json:"from"`
	To   Float `json:"to"`
}

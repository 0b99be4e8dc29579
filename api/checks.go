package api

// ChecksResponse answers GET /api/v1/checks?state&match&q&limit&offset: checks
// by falling severity, then by name.
type ChecksResponse struct {
	Checks []Check `json:"checks"`
	Total  int     `json:"total"` // before limit and offset
	// Counts are of all that match and q select: OK, WARNING, CRITICAL, UNKNOWN,
	// PENDING (not run yet).
	Counts    map[string]int  `json:"counts"`
	Receivers []CheckReceiver `json:"receivers"`
	// Problem says why the definitions on disk are not those that run.
	Problem string `json:"problem,omitempty"`
	// Trouble says why states are not kept or receivers are not told, as when a
	// disk is full; it is tried again until it works.
	Trouble string `json:"trouble,omitempty"`
	// Files are those that definitions come from; empty if none are configured.
	Files []string `json:"files"`
	// Lag is the 99th percentile of how late runs began in the last minutes,
	// seconds; null before the first.
	Lag Float `json:"lag"`
	Now Float `json:"now"`
}

// Check is one guarded value and its state.
type Check struct {
	ID          string            `json:"id"`   // orders, or orders{operation="GET /a"}
	Name        string            `json:"name"` // of the definition
	Labels      map[string]string `json:"labels"`
	Description string            `json:"description,omitempty"`
	Unit        string            `json:"unit"`
	Source      string            `json:"source" enum:"query,expression,promql,http,tcp,tls,command,sql"`
	Schedule    string            `json:"schedule"` // every 10s; cron 0 */5 * * * *; after orders

	State     string     `json:"state" enum:"OK,WARNING,CRITICAL,UNKNOWN,PENDING"` // hard; PENDING has not run yet
	Level     string     `json:"level" enum:"OK,WARNING,CRITICAL,UNKNOWN,PENDING"` // of the last run
	Soft      bool       `json:"soft"`                                             // they differ, and not for long enough
	Since     Float      `json:"since"`                                            // when the state began, or what its incident tells
	Last      Float      `json:"last"`                                             // when it last ran
	Next      Float      `json:"next"`
	Value     Float      `json:"value"` // null if there was none
	Text      string     `json:"text"`  // what was seen, or what failed
	Bands     CheckBands `json:"bands"`
	Flapping  bool       `json:"flapping"`
	Quiet     string     `json:"quiet,omitempty"`    // why nobody is told: maintenance NAME, acknowledged by USER, depends on NAME, silent
	Incident  *Incident  `json:"incident,omitempty"` // the open one
	Receivers []string   `json:"receivers"`
	Warned               // of lists and of one check
}

// CheckBands are thresholds at one moment; what is not set is null. A value is
// bad strictly beyond them.
type CheckBands struct {
	Threshold    Float  `json:"threshold"`
	LowCritical  Float  `json:"low_critical"`
	LowWarning   Float  `json:"low_warning"`
	HighWarning  Float  `json:"high_warning"`
	HighCritical Float  `json:"high_critical"`
	Rule         string `json:"rule,omitempty"` // where the threshold comes from
}

// CheckResponse answers GET /api/v1/checks/{id}?start&end&step.
type CheckResponse struct {
	Range
	Check      Check  `json:"check"`
	Definition string `json:"definition"` // YAML, templates merged in, without secrets
	File       string `json:"file"`       // where it is defined, file:line
	// Learned is what its profile has learned, as YAML that a file of checks may
	// hold; empty if it learns nothing, or has not yet.
	Learned string `json:"learned,omitempty"`
	// Expression is the value's, if it is one; Threshold and Rules are as files
	// have them, for who edits them.
	Expression string          `json:"expression,omitempty"`
	Null       string          `json:"null" enum:"strict,skip,zero"`
	Threshold  *CheckThreshold `json:"threshold,omitempty"`
	Rules      CheckStates     `json:"rules"` // how runs become states
	// Points are values over time, thinned to step.
	Step   float64      `json:"step"`
	Points []CheckPoint `json:"points"`
	States []CheckState `json:"states"` // what held when, oldest first, touching
	// Steps evaluate the value's and the threshold's expressions now, as
	// CheckEvaluateResponse has them; absent where there is no expression.
	ValueSteps     []CheckStep `json:"value_steps,omitempty"`
	ThresholdSteps []CheckStep `json:"threshold_steps,omitempty"`
	Incidents      []Incident  `json:"incidents"` // that overlap the range, newest first
}

// CheckPoint is what a check came to in one step: the mean and the ends of its
// values, and the last bands.
type CheckPoint struct {
	Time  Float      `json:"time"`
	Value Float      `json:"value"` // null: none
	Min   Float      `json:"min"`
	Max   Float      `json:"max"`
	Bands CheckBands `json:"bands"`
}

type CheckState struct {
	Start Float  `json:"start"`
	End   Float  `json:"end"` // null while it lasts
	State string `json:"state" enum:"OK,WARNING,CRITICAL,UNKNOWN"`
	Soft  bool   `json:"soft"`
	Why   string `json:"why,omitempty"`
}

// Incident is a time in which a check was not OK (kind check), or one that
// somebody says was one (kind marked), which backtests are held against.
type Incident struct {
	ID      string `json:"id"`
	Kind    string `json:"kind" enum:"check,marked"`
	Check   string `json:"check,omitempty"`
	Name    string `json:"name,omitempty"` // of a marked one
	Service string `json:"service,omitempty"`
	Start   Float  `json:"start"`
	End     Float  `json:"end"` // null while it is open
	// Story is the sentence by which the first page tells what made the service worse, absent
	// while that is not known. Since is the moment of that, if it lies before start; else start.
	Story  string          `json:"story,omitempty"`
	Since  Float           `json:"since"`
	Worst  string          `json:"worst,omitempty" enum:"OK,WARNING,CRITICAL,UNKNOWN"`
	State  string          `json:"state,omitempty" enum:"OK,WARNING,CRITICAL,UNKNOWN"`
	Value  Float           `json:"value"` // at the beginning
	Text   string          `json:"text"`
	Acked  *Ack            `json:"acked,omitempty"`
	Events []IncidentEvent `json:"events,omitempty"`
	// States are what held when, oldest first, touching; of one that flapped alone, of which
	// events do not tell each change.
	States []CheckState `json:"states,omitempty"`
}

type IncidentEvent struct {
	Seq  int    `json:"seq"`
	Time Float  `json:"time"`
	Kind string `json:"kind" enum:"opened,changed,acknowledged,resolved,flapping,steady"`
	From string `json:"from" enum:"OK,WARNING,CRITICAL,UNKNOWN"`
	To   string `json:"to" enum:"OK,WARNING,CRITICAL,UNKNOWN"`
	Text string `json:"text"`
}

// Ack is posted to /api/v1/checks/{id}/acknowledge; DELETE takes it back.
type Ack struct {
	User    string `json:"user"`
	Comment string `json:"comment"`
	Time    Float  `json:"time,omitempty"` // set by the server
	Until   Float  `json:"until"`          // null: until the check is OK
}

// IncidentsResponse answers GET /api/v1/incidents?start&end&check&kind&open.
type IncidentsResponse struct {
	Range
	Incidents []Incident `json:"incidents"`
}

// MarkedIncident is posted to /api/v1/incidents; DELETE /api/v1/incidents/{id}
// forgets one that was marked.
type MarkedIncident struct {
	Name    string `json:"name"`
	Service string `json:"service,omitempty"`
	Check   string `json:"check,omitempty"`
	Start   Float  `json:"start"`
	End     Float  `json:"end"`
}

// MaintenanceResponse answers GET /api/v1/maintenance: windows of the files
// (not to be deleted here) and those that were posted.
type MaintenanceResponse struct {
	Windows []Maintenance `json:"windows"`
}

// Maintenance is a time in which nobody is told. It is posted to
// /api/v1/maintenance; DELETE /api/v1/maintenance/{id} ends it.
type Maintenance struct {
	ID     string   `json:"id,omitempty"`
	Name   string   `json:"name"`
	Checks []string `json:"checks"` // names of definitions or ids; empty: all
	Match  string   `json:"match,omitempty"`
	Start  Float    `json:"start"`
	End    Float    `json:"end"`
	User   string   `json:"user,omitempty"`
	Active bool     `json:"active"`
	Fixed  bool     `json:"fixed"`          // from a file
	When   string   `json:"when,omitempty"` // of a repeating one, for people
}

// CheckReceiver is somebody who is told, and whether that works.
type CheckReceiver struct {
	Name      string            `json:"name"`
	Kind      string            `json:"kind"`
	To        string            `json:"to"`                                   // address, without secrets
	State     string            `json:"state" enum:"idle,delivering,waiting"` // waiting: broken, tried again at Next
	Error     string            `json:"error,omitempty"`
	Next      Float             `json:"next"`
	Delivered uint64            `json:"delivered"`
	Failed    uint64            `json:"failed"`  // attempts
	Spooled   uint64            `json:"spooled"` // waiting now
	Dropped   map[string]uint64 `json:"dropped"` // by cause: full, age, refused (an answer that no retry will change)
}

// CheckEvaluate is posted to /api/v1/checks/evaluate: an expression at a
// moment, and over a range if Start is given. It reads history only.
type CheckEvaluate struct {
	Expression string `json:"expression"`
	Check      string `json:"check,omitempty"` // id: its labels, calendar, null policy and variables
	Null       string `json:"null,omitempty" enum:"strict,skip,zero"`
	Tolerance  Float  `json:"tolerance,omitempty"`
	At         Float  `json:"at,omitempty"` // default now
	Start      Float  `json:"start,omitempty"`
	End        Float  `json:"end,omitempty"`
	Step       Float  `json:"step,omitempty"`
}

type CheckEvaluateResponse struct {
	Value  Float        `json:"value"` // null if there is none
	Steps  []CheckStep  `json:"steps"`
	Points []CheckPoint `json:"points,omitempty"` // over the range; Value only
	// Truncated says that the range took too long and stops early.
	Truncated bool `json:"truncated,omitempty"`
}

// CheckStep is a part of an expression and what it came to.
type CheckStep struct {
	Text   string `json:"text"`
	Offset int    `json:"offset"` // in the expression, bytes
	Depth  int    `json:"depth"`  // 0 is the whole
	Value  string `json:"value"`  // for people
	Number Float  `json:"number"`
}

// CheckBacktest is posted to /api/v1/checks/backtest: what a check, or one with
// another threshold, would have done. Values are those that were stored; if there
// are none, query, expression and PromQL are asked again over the past.
type CheckBacktest struct {
	Check string `json:"check,omitempty"` // id
	// Value replaces the check's, or makes one: an expression.
	Value     string          `json:"value,omitempty"`
	Threshold *CheckThreshold `json:"threshold,omitempty"`
	States    *CheckStates    `json:"states,omitempty"`
	Null      string          `json:"null,omitempty" enum:"strict,skip,zero"`
	Start     Float           `json:"start,omitempty"` // default four weeks before End
	End       Float           `json:"end,omitempty"`   // default now
	Every     Float           `json:"every,omitempty"` // seconds between runs; default the check's
}

// CheckThreshold is a threshold as files have it: must is <, > or =, of a
// number, an expression or "profile NAME"; distances "10%" or "5".
type CheckThreshold struct {
	Must     string `json:"must"`
	Of       string `json:"of"`
	Warning  string `json:"warning,omitempty"`
	Critical string `json:"critical,omitempty"`
}

type CheckStates struct {
	Bad  string `json:"bad,omitempty"`  // 3 of 5
	Good string `json:"good,omitempty"` // 2 of 2
}

type CheckBacktestResponse struct {
	Range
	Runs        int          `json:"runs"`
	Nulls       int          `json:"nulls"` // runs without a value
	NoThreshold int          `json:"no_threshold"`
	Every       float64      `json:"every"`
	Unit        string       `json:"unit,omitempty"` // the check's
	Step        float64      `json:"step"`
	Points      []CheckPoint `json:"points"`
	States      []CheckState `json:"states"`
	Alarms      []Alarm      `json:"alarms"` // incidents it would have opened
	// Incidents are the marked ones in the range, and whether it saw them.
	Incidents []BacktestIncident `json:"incidents"`
	Found     int                `json:"found"`       // marked incidents with an alarm
	Missed    int                `json:"missed"`      // without
	False     int                `json:"false"`       // alarms outside of every marked incident; meaningless if none are marked
	PerWeek   Float              `json:"per_week"`    // alarms
	Seconds   Float              `json:"bad_seconds"` // in which the state was not OK
	Truncated bool               `json:"truncated,omitempty"`
	// Before is the same of the check as it is, if another threshold was asked for.
	Before *BacktestSummary `json:"before,omitempty"`
}

type BacktestSummary struct {
	Alarms  int   `json:"alarms"`
	Found   int   `json:"found"`
	Missed  int   `json:"missed"`
	False   int   `json:"false"`
	PerWeek Float `json:"per_week"`
	Seconds Float `json:"bad_seconds"`
	// Opened are its alarms, and Bands what held it, one for each of the points.
	Opened []Alarm      `json:"opened"`
	Bands  []CheckBands `json:"bands"`
}

type Alarm struct {
	Start    Float  `json:"start"`
	End      Float  `json:"end"`
	Worst    string `json:"worst" enum:"OK,WARNING,CRITICAL,UNKNOWN"`
	Value    Float  `json:"value"`
	Incident string `json:"incident,omitempty"` // id of the marked one it falls in
}

type BacktestIncident struct {
	Incident
	Found bool  `json:"found"`
	After Float `json:"after"` // seconds from its start to the alarm; negative: before
}

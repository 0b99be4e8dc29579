package api

// States of what is kept in the log book.
const (
	Running = "running"
	Ended   = "ended"
	Lost    = "lost" // its program stopped reporting
)

// SessionsResponse answers GET
// /api/v1/sessions?kind&state&q&start&end&limit: what overlaps the range, those
// that run first, then the latest. Differences of mirror sessions are left out, and
// of Bench, Experiment, Capacity and Simulation all lists but settings, thresholds and
// layouts, distributions, files and the environment; GET /api/v1/sessions/{id}, which answers a Session, has
// them.
type SessionsResponse struct {
	Range
	Total    int       `json:"total"` // of which Sessions are the first
	Sessions []Session `json:"sessions"`
}

// Session is one thing that was tried: a mirror session, a run of load, an
// experiment of settings, a search for capacity, or a simulation. Its observations are series with the label
// experiment=ID.
type Session struct {
	ID      string `json:"id"`
	Kind    string `json:"kind" enum:"mirror,bench,experiment,capacity,simulation"`
	Name    string `json:"name"`    // said by who started it, or made of what is mirrored
	Service string `json:"service"` // label of its series
	Start   Float  `json:"start"`   // Unix seconds
	End     Float  `json:"end"`     // null while it runs
	Updated Float  `json:"updated"` // when its program last reported
	// State is running, ended, or lost: its program stopped reporting.
	State      string       `json:"state" enum:"running,ended,lost"`
	Headline   string       `json:"headline,omitempty"` // its verdict's, once there is one; the document's own of all but Mirror
	Mirror     *MirrorState `json:"mirror,omitempty"`
	Bench      *BenchResult `json:"bench,omitempty"`
	Experiment *Experiment  `json:"experiment,omitempty"`
	Capacity   *Capacity    `json:"capacity,omitempty"`
	Simulation *Simulation  `json:"simulation,omitempty"`
	// Cut says what of the document was left out, as it was too long to keep.
	Cut []string `json:"cut,omitempty"`
	// Change is what its users want changed and its program has not applied yet.
	Change *MirrorChange `json:"change,omitempty"`
}

// SessionReport is what the program that runs a session tells the server
// every second or so, PUT to /api/v1/sessions/{id}. A report replaces the one
// before it.
type SessionReport struct {
	Kind       string       `json:"kind" enum:"mirror,bench,experiment,capacity,simulation"`
	Name       string       `json:"name"`
	Service    string       `json:"service"`
	Start      Float        `json:"start"`
	Ended      bool         `json:"ended"`
	Mirror     *MirrorState `json:"mirror,omitempty"`
	Bench      *BenchResult `json:"bench,omitempty"`
	Experiment *Experiment  `json:"experiment,omitempty"`
	Capacity   *Capacity    `json:"capacity,omitempty"`
	Simulation *Simulation  `json:"simulation,omitempty"`
}

// SessionReply is the server's answer to a report: what its users want
// changed. A program does what it wants and shows it in its next report; Change
// is repeated until Mirror.Applied has reached it. Stop, which is repeated until
// the report that says that it has ended, is all that users can want of what is no
// mirror session.
type SessionReply struct {
	Change *MirrorChange `json:"change,omitempty"`
	Stop   bool          `json:"stop,omitempty"`
}

// MirrorState is a mirror session at one moment. Counts run from its start.
type MirrorState struct {
	Mode    string       `json:"mode" enum:"http,tcp"`
	Listen  string       `json:"listen"` // address
	Primary MirrorTarget `json:"primary"`
	// Control comes first among the shadows if there is one.
	Shadows []MirrorTarget `json:"shadows"`
	// Requests that clients made (connections, in tcp mode), and those of them
	// that were not chosen, by reason: paused, share, method, path, header,
	// upgrade, length, unsafe, connect.
	Requests uint64            `json:"requests"`
	Skipped  map[string]uint64 `json:"skipped"`
	// Failed are requests that the primary gave no whole answer to, by cause;
	// they are among Requests.
	Failed   map[string]uint64 `json:"failed"`
	Applied  uint64            `json:"applied"` // the last change made
	Settings MirrorSettings    `json:"settings"`
	// Differences is what was found by comparing answers; absent unless asked for.
	Differences *MirrorDifferences `json:"differences,omitempty"`
	Recording   *MirrorRecording   `json:"recording,omitempty"`
	// Clients are the connections of clients.
	Clients *MirrorClients `json:"clients,omitempty"`
	// Seen is absent unless the session is looked at, see MirrorChange.Look.
	Seen *MirrorSeen `json:"seen,omitempty"`
}

// MirrorClients are the connections of a session's clients.
type MirrorClients struct {
	Open    int    `json:"open"`
	Bound   int    `json:"bound"`   // that many may be open
	Evicted uint64 `json:"evicted"` // closed at the bound for a newcomer, as they asked nothing
	Refused uint64 `json:"refused"` // closed at the bound as newcomers
}

// MirrorSeen is what happened at a session's targets since it is looked at. Counts
// and distributions only grow: between two of them is what happened in between.
type MirrorSeen struct {
	Since   Float         `json:"since"`   // Unix seconds
	At      Float         `json:"at"`      // Unix seconds
	Until   Float         `json:"until"`   // Unix seconds, unless it is asked for again
	Targets []MirrorSight `json:"targets"` // the primary, then the shadows
}

// MirrorSight is of one target. Distributions are of seconds, in the encoding of
// package hist; absent if there was nothing.
type MirrorSight struct {
	Name string `json:"name"`
	// Ended are requests, or copies, that had a whole answer, and Errors. Errors are
	// answers from 500 on and what got no whole answer by the server's fault, among
	// them Refused, copies that were never sent as it did not keep up. Lost are copies
	// that ended for a reason that says nothing of the server.
	Begun   uint64 `json:"begun"` // requests that came; of the primary alone
	Ended   uint64 `json:"ended"`
	Errors  uint64 `json:"errors"`
	Refused uint64 `json:"refused"`
	Lost    uint64 `json:"lost"`
	// UnderWay are due and have not ended, of which Waiting were not sent; Oldest is
	// since when the oldest was due, seconds.
	UnderWay uint64 `json:"under_way"`
	Waiting  uint64 `json:"waiting"`
	Oldest   Float  `json:"oldest"`
	Latency  []byte `json:"latency,omitempty"` // of whole answers, from when they were due
	Service  []byte `json:"service,omitempty"` // from when they were sent
	Failed   []byte `json:"failed,omitempty"`  // of those without a whole answer
	// Operations are what of all this is that of the operations which are told apart,
	// by name; see MirrorChange.Apart.
	Operations map[string]MirrorSight `json:"operations,omitempty"`
}

// MirrorSettings are those that can change while a session runs.
type MirrorSettings struct {
	Share  Float `json:"share"`  // of requests that are chosen, 0..1
	Paused bool  `json:"paused"` // nothing is copied; clients are served
	// Spread is the time within which the further copies of a request are sent,
	// seconds; it stays.
	Spread Float `json:"spread"`
	// Allow are the changes that the verdict allows, as those of a CompareRequest, with
	// commas between; empty if it allows none. It stays.
	Allow string `json:"allow,omitempty"`
}

// MirrorTarget is a server, or a pool of servers of one role.
type MirrorTarget struct {
	Name string `json:"name"` // label variant: primary, control, candidate, or as given
	Role string `json:"role" enum:"primary,control,candidate"`
	// Servers in use come first; Using says how many.
	Servers []MirrorServer `json:"servers"`
	Using   int            `json:"using"`
	Amplify Float          `json:"amplify"` // copies of each chosen request
	// Late counts extra copies that were sent more than 10 ms behind their time.
	Late uint64 `json:"late,omitempty"`
	// Account is absent of the primary.
	Account *MirrorAccount `json:"account,omitempty"`
	// Diverged is when the first write was missed, null if none was.
	Diverged    Float  `json:"diverged"`
	DivergedWhy string `json:"diverged_why,omitempty"`
}

type MirrorServer struct {
	URL         string `json:"url"`
	Connections int    `json:"connections"`
	// Down says why it is not reached at the moment, empty if it is.
	Down string `json:"down,omitempty"`
}

// MirrorAccount is what became of every copy meant for one shadow. At any
// moment
//
//	offered  = queued + sum(dropped) + mirrored
//	mirrored = waiting + sum(failed) + answered
//	answered = pairing + paired + unpaired
//
// so nothing is lost without being counted.
type MirrorAccount struct {
	Offered  uint64            `json:"offered"`  // copies of chosen requests
	Queued   uint64            `json:"queued"`   // now, not begun to be sent
	Dropped  map[string]uint64 `json:"dropped"`  // never begun, by cause
	Mirrored uint64            `json:"mirrored"` // begun to be sent
	Waiting  uint64            `json:"waiting"`  // now, for the rest of the answer
	Failed   map[string]uint64 `json:"failed"`   // begun, no whole answer, by cause
	Answered uint64            `json:"answered"` // whole answer
	Pairing  uint64            `json:"pairing"`  // now, the primary has not ended
	Paired   uint64            `json:"paired"`   // as the primary's was whole too
	Unpaired uint64            `json:"unpaired"` // the primary's was not
	// Bytes that are buffered for the shadow now, and their bound.
	Buffered    int64 `json:"buffered"`
	BufferBound int64 `json:"buffer_bound"`
}

// MirrorChange is what a user wants changed while a session runs, sent by PATCH
// /api/v1/sessions/{id}; absent fields stay. Number is given by the server.
// The answer is a MirrorChange too: all that is wanted and not applied yet.
type MirrorChange struct {
	Number  uint64                  `json:"number,omitempty"`
	Share   *Float                  `json:"share,omitempty"`
	Paused  *bool                   `json:"paused,omitempty"`
	Shadows map[string]ShadowChange `json:"shadows,omitempty"` // by name
	// Look has the session looked at for so many seconds from now on, up to 60; its
	// state is then reported more often, with what it has Seen. Pools and copies are
	// back to what they were before that when it is over, or at once with 0.
	Look *int `json:"look,omitempty"`
	// Apart are up to 10 operations that are told apart in what is Seen, from the Look
	// that begins it to its end.
	Apart []string `json:"apart,omitempty"`
	Stop  bool     `json:"stop,omitempty"`
}

type ShadowChange struct {
	Using   *int   `json:"using,omitempty"`   // servers of its pool
	Amplify *Float `json:"amplify,omitempty"` // from 0
}

// MirrorRecording is the file that a session is written to.
type MirrorRecording struct {
	Path     string `json:"path"`
	Requests uint64 `json:"requests"`
	Dropped  uint64 `json:"dropped"` // not written, as the disk was behind
	Bytes    int64  `json:"bytes"`
	Error    string `json:"error,omitempty"`
}

// MirrorDifferences is how answers differ, by operation and by what of the
// answer, the most differing first.
type MirrorDifferences struct {
	Compared uint64             `json:"compared"` // answers of candidates, each with its reference
	Skipped  map[string]uint64  `json:"skipped"`  // by cause: too_long, behind, undecodable
	Rows     []MirrorDifference `json:"rows"`
	Examples []MirrorExample    `json:"examples"`
}

// MirrorDifference is one place at which answers differ. Raw counts requests at
// which the candidate differs from its reference there, Noise those at which
// control and primary do (null without a control). Real says that the former
// is more than the latter explains.
type MirrorDifference struct {
	Shadow    string `json:"shadow"`
	Operation string `json:"operation"`
	Place     string `json:"place"` // status, header content-type, body, body .items[].price
	Compared  uint64 `json:"compared"`
	Raw       uint64 `json:"raw"`
	Noise     Float  `json:"noise"`
	NoiseOf   uint64 `json:"noise_of"` // requests at which control and primary were compared
	P         Float  `json:"p"`
	Real      bool   `json:"real"`
}

// MirrorExample is one request whose answers differ; secrets are redacted.
type MirrorExample struct {
	ID        string         `json:"id"`
	Time      Float          `json:"time"`
	Shadow    string         `json:"shadow"`
	Operation string         `json:"operation"`
	Tenant    string         `json:"tenant,omitempty"`
	Request   string         `json:"request"` // method and target
	Places    []MirrorValues `json:"places"`
}

type MirrorValues struct {
	Place     string `json:"place"`
	Reference string `json:"reference"` // the control's, or the primary's without one
	Shadow    string `json:"shadow"`
}

// MirrorVerdictResponse answers GET
// /api/v1/sessions/{id}/verdict?start&end&measures&limit: each candidate
// against the control, outside the noise floor that control against primary
// makes; without a control, against the primary.
type MirrorVerdictResponse struct {
	Range
	ID    string `json:"id"`
	Slot  int64  `json:"slot"`
	Level Float  `json:"level"`
	// Live says that the intervals hold at every look, as they do while the
	// experiment runs; else they hold at one, when it has ended.
	Live bool `json:"live"`
	// Slots of the range in which control, or primary without one, has requests.
	Slots int `json:"slots"`
	// Allow are the changes that were allowed, those of the request or the session's.
	Allow      string           `json:"allow,omitempty"`
	Candidates []MirrorVerdict  `json:"candidates"`
	Warnings   []CompareWarning `json:"warnings"`
}

// MirrorVerdict judges one candidate.
type MirrorVerdict struct {
	Candidate string `json:"candidate"`
	Against   string `json:"against"`          // name of the reference: control or primary
	Caveat    string `json:"caveat,omitempty"` // what a reference that answers clients does not hold equal
	// Verdict is faster, slower, fewer errors, more errors, mixed, within the
	// noise floor, within tolerance, same, no evidence, too little data.
	Verdict Verdict `json:"verdict"`
	// Headline is a sentence with its interval; after "mind that" stands what may
	// be the reason for all of it, of which the warnings say more.
	Headline string `json:"headline"`
	// Requests answered in whole, below 500, on both sides.
	Requests uint64          `json:"requests"`
	Measures []MirrorMeasure `json:"measures"` // of everything together
	// Operations and Tenants, the surest first; probabilities adjusted for how
	// many were looked at: OperationsJudged and TenantsJudged.
	Operations       []MirrorRow `json:"operations"`
	Tenants          []MirrorRow `json:"tenants"`
	OperationsJudged int         `json:"operations_judged"`
	TenantsJudged    int         `json:"tenants_judged"`
}

// MirrorMeasure is one figure, of answers that are whole and below 500. Name is
// ratio (the median over requests of the ratio of each request's two durations),
// p50 … p99.9, mean, errors, first_byte (median), bytes (mean).
type MirrorMeasure struct {
	Name string `json:"name"`
	// Effect is candidate / reference, Floor control / primary; both with their
	// intervals. Floor is null without a control. Errors are differences. The
	// reference of a ratio is 1.
	Reference Float `json:"reference"`
	Candidate Float `json:"candidate"`
	Effect    Float `json:"effect"`
	Low       Float `json:"low"`
	High      Float `json:"high"`
	Floor     Float `json:"floor"`
	FloorLow  Float `json:"floor_low"`
	FloorHigh Float `json:"floor_high"`
	// Noise is how far an effect must be from none to be outside the noise floor,
	// as a share: 0.03 is from 1/1.03 to 1.03. Of errors it is a difference.
	Noise Float `json:"noise"`
	// P is the probability of an effect as far out if the true one were within
	// the noise floor and what is allowed, Adjusted the same among all that was looked at.
	P        Float `json:"p"`
	Adjusted Float `json:"adjusted_p"`
	// Verdict is faster, slower, fewer errors, more errors, higher, lower (all
	// claimed at an adjusted probability of 0.05), within the noise floor, within
	// tolerance, same, no evidence, too little data.
	Verdict  Verdict `json:"verdict"`
	Sentence string  `json:"sentence"`
	// Allowed says which change was allowed, if one was.
	Allowed string `json:"allowed,omitempty"`
	// Points of the distribution of the per-request ratio; of the ratio alone,
	// and of everything together alone.
	Points []MirrorPoint `json:"points,omitempty"`
}

// MirrorPoint is a quantile of the ratios of all requests: how unlike two
// answers to one request are.
type MirrorPoint struct {
	Quantile Float `json:"quantile"` // 0..1
	Ratio    Float `json:"ratio"`
	Low      Float `json:"low"`
	High     Float `json:"high"`
}

// MirrorRow is one operation or tenant; Lead is the measure that says most.
type MirrorRow struct {
	Name     string          `json:"name"`
	Requests uint64          `json:"requests"`
	Verdict  Verdict         `json:"verdict"`
	Lead     string          `json:"lead"`
	Measures []MirrorMeasure `json:"measures"` // ratio, p50, p95, p99, errors
}

package api

// ChangesResponse answers GET /api/v1/changes?match&start&end&operations&status:
// moments at which the durations of a service's or an operation's requests, the
// share of them that fails, a service's rate, or what its requests call changed, found without being told where to look. The same data and range give
// the same answer.
type ChangesResponse struct {
	Range
	Misnamed
	Slot     int64    `json:"slot"`     // seconds; the moment is never known closer
	Searched int      `json:"searched"` // series that were searched
	Changes  []Change `json:"changes"`  // by time
	// Events are moments at which several changes are, by time. Of each, the change that is
	// Under no other leads.
	Events []ChangeEvent `json:"events"`
	// Unsearched are stretches of the range for which there was no time, also said in Notes.
	// The next question goes on with them.
	Unsearched []Range `json:"unsearched,omitempty"`
	// Kept says that some of it was found up to ten minutes ago: of a question with known, the
	// same one without it searches that anew; of any other, there was no time to do so.
	Kept  bool     `json:"kept,omitempty"`
	Notes []string `json:"notes"`
}

// ChangeEvent is changes that may be of one moment: their intervals meet.
type ChangeEvent struct {
	Time Float `json:"time" nullable:"false"` // Unix seconds, of its clearest change
	Low  Float `json:"low" nullable:"false"`  // what the intervals of all have in common, or lies between them
	High Float `json:"high" nullable:"false"`
	// Changes are the ids, in the order of Services.
	Changes []string `json:"changes"`
	// Services are those that changed: what surely came first before what came later, and
	// of what came together the called before its callers.
	Services []ChangeService `json:"services"`
	Sentence string          `json:"sentence"`
}

// ChangeService is a service of an event.
type ChangeService struct {
	Service     string `json:"service"`
	Environment string `json:"environment,omitempty"`
	// CalledBy are services of the event whose requests call it, directly or by way of
	// others.
	CalledBy []string `json:"called_by"`
}

// ChangePart names a part of a service's requests: an operation of one component and
// service, at one system.
type ChangePart struct {
	Service   string `json:"service"`
	Component string `json:"component"`
	Operation string `json:"operation"`
	System    string `json:"system,omitempty"`
}

// ChangeWho is who moved at a change of a service.
type ChangeWho struct {
	// Tenants, Cohorts and Operations surely moved, the most changed first; as many of the
	// heaviest could be judged. A cohort is named where not all did, and it was not a few of
	// its tenants.
	Tenants          []string `json:"tenants"`
	TenantsJudged    int      `json:"tenants_judged"`
	Cohorts          []string `json:"cohorts"`
	CohortsJudged    int      `json:"cohorts_judged"`
	Operations       []string `json:"operations"`
	OperationsJudged int      `json:"operations_judged"`
	Sentence         string   `json:"sentence"`
}

// Change is a change point. It concerns a service in one of its environments, or one of
// its operations there.
type Change struct {
	// ID stays the same while the moment found stays within its interval.
	ID      string `json:"id"`
	Time    Float  `json:"time" nullable:"false"` // Unix seconds
	Low     Float  `json:"low" nullable:"false"`  // interval of the moment, 95 %
	High    Float  `json:"high" nullable:"false"`
	Service string `json:"service"`
	// Environment is empty where the service has one only.
	Environment string `json:"environment,omitempty"`
	Operation   string `json:"operation,omitempty"`
	// Family is the metric that changed, empty of requests; Unit is its unit, and Instance
	// the one that changed where no other did.
	Family   string `json:"family,omitempty"`
	Unit     string `json:"unit,omitempty"`
	Instance string `json:"instance,omitempty"`
	// Part is the part of the requests that changed: how often they call it, or how long
	// they spend in it. Of requests themselves it is absent.
	Part *ChangePart `json:"part,omitempty"`
	// OfFew says that it is of the errors of a few tenants, about when the durations of others
	// changed, as with a rollout. Measures are then errors and rate.
	OfFew bool `json:"of_few,omitempty"`
	// Shape is how it moved: a spike that came and went, which is one change, a step, or a
	// drift; absent where none is plainly the best description.
	Shape *Shape `json:"shape,omitempty"`
	// Who moved; of the newest changes of services, and of operations and parts that changed
	// without them.
	Who *ChangeWho `json:"who,omitempty"`
	// Kink says that a slope began, ended or changed at the moment, rather than that the
	// level did. It is told of metrics.
	Kink bool `json:"kink,omitempty"`
	// Found names what changed at the moment: durations, errors, rate; of a metric value;
	// of a part of the requests calls and time, for each request.
	Found []string `json:"found"`
	P     Float    `json:"p"` // of the clearest of them, adjusted for all that was searched
	// Before and After are the stretches around the moment that are alike in
	// themselves; Measures (p50, p95, p99, errors, rate) compare them. Where a mark at the
	// moment says that its service changed they, the verdict and the sentence are the mark's.
	Before   Range            `json:"before"`
	After    Range            `json:"after"`
	Measures []CompareMeasure `json:"measures"`
	// Verdict is as CompareResponse.Verdict, or mix: the operations of a service
	// come in other shares than before, and take as long as they did.
	Verdict Verdict `json:"verdict"`
	// Sentence says what changed and when (UTC), Headline only what, and Name is
	// proposed for the mark that it may become.
	Sentence string `json:"sentence"`
	Headline string `json:"headline"`
	Name     string `json:"name"`
	// Lead names the measure that the headline begins with; absent if it begins with none.
	Lead string `json:"lead,omitempty"`
	// Rate is what the headline says of the rate, where that changed too.
	Rate string `json:"rate,omitempty"`
	// Ended is the moment from which on requests that had become worse, and stayed so, were as
	// before again, Unix seconds; absent while they are not. Headline and sentence then tell
	// of the past.
	Ended int64 `json:"ended,omitempty"`
	// Status is new, confirmed or dismissed; Mark is the id of the mark that a
	// confirmed one became.
	Status string `json:"status" enum:"new,confirmed,dismissed"`
	Mark   string `json:"mark,omitempty"`
	// ToldBy is the id of the mark whose verdict tells the change, absent where none does: the
	// sentence is then the mark's, and of what lasts the sides and figures too.
	ToldBy string `json:"told_by,omitempty"`
	// Under is the id of the change that leads it: of the same event, in the same service or in
	// one that calls it or is called by it, that which was first, or explains this one. It is
	// absent of a change that leads, or stands by itself. What follows from an outage, from
	// another rate or from another mix has the verdict changed.
	Under string `json:"under,omitempty"`
	// Near are marks close enough to be the cause, the nearest first.
	Near []Mark `json:"near"`
	// Operations are those of the service that changed at the same moment, the
	// most changed first; only of a change of the service.
	Operations []string `json:"operations,omitempty"`
}

// ChangeDecision is what POST /api/v1/changes takes: the change as it was
// answered, and what is thought of it. A confirmed one becomes a mark.
type ChangeDecision struct {
	ID          string      `json:"id"`
	Time        Float       `json:"time" nullable:"false"`
	Low         Float       `json:"low" nullable:"false"`
	High        Float       `json:"high" nullable:"false"`
	Service     string      `json:"service"`
	Environment string      `json:"environment,omitempty"`
	Operation   string      `json:"operation,omitempty"`
	Family      string      `json:"family,omitempty"`
	Part        *ChangePart `json:"part,omitempty"`
	OfFew       bool        `json:"of_few,omitempty"`
	Status      string      `json:"status" enum:"new,confirmed,dismissed"` // new takes a decision back
	Name        string      `json:"name,omitempty"`                        // of the mark
	Description string      `json:"description,omitempty"`
}

// ChangeDecided answers POST /api/v1/changes: the id that the change goes by
// from now on, and the id of the mark that it became.
type ChangeDecided struct {
	ID     string `json:"id"`
	Status string `json:"status" enum:"new,confirmed,dismissed"`
	Mark   string `json:"mark,omitempty"`
}

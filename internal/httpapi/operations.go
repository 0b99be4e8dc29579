package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// groups are the tags of operations, each with the first words of their paths after
// /api/v1.
var groups = []struct{ name, doc, paths string }{
	{"measured", "What was measured: services, distributions, heatmaps, timelines, labels.", "services distribution heatmap timeline labels families nearest"},
	{"time", "Where the time of requests goes, and kept traces.", "breakdown operations callers traces"},
	{"tenants", "Who sends the traffic, and what they see.", "tenants"},
	{"changes", "What a change did: comparisons, marks, changes that nobody marked, causes.", "compare marks changes explain"},
	{"objectives", "Apdex, its targets, and the SLA report.", "apdex apdex-targets sla"},
	{"checks", "Checks, incidents and maintenance.", "check checks incidents maintenance"},
	{"experiments", "The log book, the scalability law and simulations.", "sessions scaling leaves simulate"},
	{"server", "The server itself.", "status cluster damage"},
}

// groupOf returns the tag of a path.
func groupOf(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/api/v1/"), "/")
	for _, g := range groups {
		for p := range strings.FieldsSeq(g.paths) {
			if p == first {
				return g.name
			}
		}
	}
	return ""
}

// operationDocs describe operations, by their ids, beyond their summaries.
var operationDocs = map[string]string{
	"get-apdex":                "Answers Apdex over time, of each service or operation, and the target that it is held against.",
	"get-apdex-targets":        "Lists the targets that were set, and the default.",
	"put-apdex-target":         "Sets the duration that satisfies a user, of a service or of one of its operations. It replaces the target that was there.",
	"delete-apdex-target":      "Removes a target. The service's target, or the default, holds from then on.",
	"get-breakdown":            "Divides the time of requests among components, operations and queues, so that the parts sum to it. A band of quantiles or durations is set beside typical requests.",
	"get-operations":           "Lists operations of the application, databases, caches and other services by the time they take.",
	"get-callers":              "Lists the requests that lead to an operation, and how much of its time each accounts for.",
	"get-cluster":              "Answers which servers share the store and what each does, how the nodes of ClickHouse are, which agents send, and what is wrong.",
	"get-changes":              "Lists moments at which requests changed, each with its interval, its effect and the marks that may be the cause. Nobody need have marked them.",
	"post-change":              "Makes a mark of a change that was found, or dismisses it, so that it is not listed again.",
	"get-check":                "Answers the values, thresholds and states of one check over a range, its definition, and the look-ups of its threshold.",
	"post-check-acknowledge":   "Says that somebody takes care of a check. Receivers hear no more of it until it is OK, or until a given time.",
	"delete-check-acknowledge": "Takes an acknowledgement back. Receivers hear of the check again.",
	"post-check-run":           "Runs a check now, besides its schedule, and stores the result.",
	"get-checks":               "Lists checks with their state, value and thresholds, the worst first.",
	"post-checks-backtest":     "Replays a threshold over what was measured, and answers when it would have been broken. Nothing is stored.",
	"post-checks-evaluate":     "Evaluates an expression of thresholds at a moment, and answers each look-up and its value.",
	"get-compare":              "Compares two sides, by windows, days, a mark or two values of a label. It answers each figure's change with an interval, and a verdict.",
	"post-damage-acknowledge":  "Acknowledges damage that was found before. It stays in the log, and the server is not degraded by it any more.",
	"get-distribution":         "Answers count, mean, quantiles and, if asked for, buckets of a range, by labels, and the shares below, at and above a value.",
	"get-explain":              "Finds the labels, and pairs of labels, whose requests became slow or fail in a rectangle of the heatmap, or are slow there.",
	"get-families":             "Lists what is measured: name, kind, unit and description of each family.",
	"get-heatmap":              "Answers counts by time and duration, in columns and rows that fit the width asked for.",
	"get-incidents":            "Lists stretches in which checks were not OK, and those that somebody marked.",
	"post-incident":            "Marks a stretch as an incident that no check saw.",
	"delete-incident":          "Removes an incident that was marked. Those that checks found stay.",
	"get-labels":               "Lists labels and their most frequent values in a range, with counts.",
	"get-leaves":               "Answers how long leaves of a fan-out took, class by class and slot by slot, as a simulation reads them.",
	"get-maintenance":          "Lists windows in which receivers hear nothing.",
	"post-maintenance":         "Adds a window in which receivers hear nothing of the checks it names.",
	"delete-maintenance":       "Removes a window that was posted. Those in files of checks stay.",
	"get-marks":                "Lists marks of a range with their verdicts.",
	"post-mark":                "Names a moment, such as a deploy. It is judged by itself some minutes later.",
	"delete-mark":              "Removes a mark and its verdict. What was measured stays.",
	"get-mark":                 "Answers a mark with its verdict and every finding at it.",
	"get-nearest":              "Answers what was measured nearest to a moment, for each combination of labels.",
	"get-scaling":              "Fits the Universal Scalability Law to throughput and concurrency of a service: contention, coherency and the peak, with intervals.",
	"get-services":             "Lists services with rate, errors, Apdex and quantiles, what each is like now beside what is usual, and its last mark.",
	"get-sessions":             "Lists mirror sessions, runs of load, experiments, searches for capacity and simulations, those that run first.",
	"get-session":              "Answers a session as its program last reported it.",
	"put-session":              "Reports the state of a session. Its program does so every second, and is answered what it is to change.",
	"patch-session":            "Changes the share, the servers and the copies of a mirror session that runs, pauses it, or stops any session.",
	"delete-session":           "Removes a session that has ended from the log book. Its series stay.",
	"get-session-verdict":      "Compares candidates with the control, outside the noise floor, by operation and tenant.",
	"post-simulate":            "Plays queries that ask all shards and wait for the slowest through layouts. Leaves come out of the store, or are given.",
	"get-sla":                  "Answers requests, Apdex, percentiles and errors by day, week or month of a time zone, and whether an objective was met.",
	"get-status":               "Answers version, uptime, addresses, memory and disk, and everything that is degraded or was lost.",
	"get-tenants":              "Lists tenants and their cohorts: shares of traffic, quantiles, and for whom slow requests are not rare.",
	"get-timeline":             "Answers quantiles, mean, rate and errors over time, by labels, or a metric's value.",
	"get-traces":               "Lists requests of kept traces, the slowest first: the slowest of each operation, failed ones, and examples of every duration.",
	"get-trace":                "Answers a kept trace span by span, with each span's own time and the critical path.",
}

// errorDocs describe the statuses of errors, whose body is the same.
var errorDocs = map[int]string{
	http.StatusBadRequest:          "a parameter or the body is wrong; field names it, and message says what to write instead",
	http.StatusNotFound:            "there is no such thing, or nobody ever sent a name that was asked for",
	http.StatusConflict:            "it is too early for an answer, or the state does not allow it",
	http.StatusUnprocessableEntity: "the answer would be too large; message says how to ask for less",
	http.StatusInternalServerError: "the server failed; its log says why",
	http.StatusServiceUnavailable:  "the server is busy or not ready; Retry-After says when to ask again",
}

// describeErrors adds the answers of errors to the document, where operations refer to
// them, and returns the references.
func describeErrors(doc *huma.OpenAPI, errors *huma.Schema) map[string]*huma.Response {
	const prefix = "#/components/responses/"
	of := func(description string) *huma.Response {
		return &huma.Response{Description: description, Content: map[string]*huma.MediaType{"application/json": {Schema: errors}}}
	}
	if doc.Components.Responses == nil {
		doc.Components.Responses = map[string]*huma.Response{}
	}
	refs := map[string]*huma.Response{"default": of("what is wrong and what to write instead")}
	for status, description := range errorDocs {
		name := strings.ReplaceAll(http.StatusText(status), " ", "")
		doc.Components.Responses[name] = of(description)
		refs[strconv.Itoa(status)] = &huma.Response{Ref: prefix + name}
	}
	return refs
}

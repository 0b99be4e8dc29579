package query

import (
	"context"
	"math"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// PerRequest divides by the requests of the same service: the increase of a
// counter, or the sum of a distribution, for each request there was.
const PerRequest = "request"

// checkPer refuses what cannot be divided, and returns the service whose
// requests to count.
func (r *resolved) checkPer(per string) (service string, err error) {
	switch {
	case per == "":
		return "", nil
	case per != PerRequest:
		return "", Invalid("per", "cannot divide by %s; write request", quote(per))
	case r.span:
		return "", Invalid("per", "%s is of requests itself; name a metric, such as process_cpu_time_seconds_total", r.info.Name)
	case r.info.Kind == series.Gauge:
		return "", Invalid("per", "%s is a gauge, which says nothing of single requests; name a counter, such as process_cpu_time_seconds_total", r.info.Name)
	}
	if service := Named(r.q.Matchers, series.LabelService); service != "" {
		return service, nil
	}
	return "", Invalid("match", `requests are counted by service: write match={service="checkout"}`)
}

// countRequests adds the requests of the service in the steps of q, which is of
// the metric they divide.
func (t *timeline) countRequests(ctx context.Context, st store.Store, q store.Query) error {
	m, err := labels.NewMatcher(labels.MatchEqual, series.LabelService, t.service)
	if err != nil {
		return err
	}
	res, err := st.Query(ctx, store.Query{
		Family: series.SpanDuration, View: series.Total, Matchers: []*labels.Matcher{m},
		Start: q.Start, End: q.End, Step: q.Step, By: []string{series.LabelKind}, Measure: store.Moments, Schema: hist.DefaultSchema,
	})
	if err != nil {
		return err
	}
	if t.requests == nil {
		t.requests = make([]float64, t.n)
	}
	for _, g := range onlyRequests(res.Groups) {
		for _, p := range g.Points {
			if i := t.index(p.Start); i >= 0 && p.Hist != nil {
				t.requests[i] += float64(p.Hist.Count)
			}
		}
	}
	return nil
}

// perRequest is what of the increase fell to each request of step i: NaN
// without requests.
func (t *timeline) perRequest(i int, increase float64) float64 {
	if t.requests == nil || t.requests[i] == 0 {
		return math.NaN()
	}
	return increase / t.requests[i]
}

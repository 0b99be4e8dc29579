package query

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// fromSelf answers components only, from span_self_seconds, which has the
// request's tenant, version, variant and status. Requests are counted by their
// own spans.
func (b *breakdown) fromSelf(ctx context.Context) error {
	by := []string{series.LabelComponent}
	sel := b.r.Selection
	sel.Family = series.SpanSelf
	r, err := resolve(ctx, b.st, sel, by)
	if err != nil {
		return err
	}
	r.q.By, r.q.Measure = by, store.Moments
	res, err := b.begin(ctx, r.q)
	if err != nil {
		return err
	}
	type sums struct {
		over    []api.Float
		seconds float64
	}
	byComponent := map[string]*sums{}
	all := 0.0
	for _, g := range res.Groups {
		name := g.Labels.Get(series.LabelComponent)
		s := &sums{over: make([]api.Float, b.n)}
		byComponent[name] = s
		for _, p := range g.Points {
			if i := b.step(p.Start); i >= 0 && p.Hist != nil {
				s.over[i] += api.Float(p.Hist.Sum)
				s.seconds += p.Hist.Sum
			}
		}
		if name != series.ComponentQueue {
			all += s.seconds
		}
	}
	b.out.Seconds = api.Float(all)
	b.out.Note = "parts, the critical path and the band are kept by operation and cohort, not by " + strings.Join(beyond(b.r.Matchers), ", ") + "; leave it out of match to see them"
	for _, name := range sortedComponents(byComponent) {
		s := byComponent[name]
		b.out.Components = append(b.out.Components, api.BreakdownComponent{
			Component: name, Self: s.over, Seconds: api.Float(s.seconds), Share: api.Float(s.seconds / all), CriticalShare: nan,
		})
	}
	if err := b.selfQuantiles(ctx); err != nil {
		return err
	}
	return b.countRequests(ctx)
}

// beyond lists the labels of match that the families of the breakdown lack.
func beyond(ms []*labels.Matcher) []string {
	var out []string
	for _, m := range ms {
		if !slices.Contains(breakdownLabels, m.Name) && !slices.Contains(out, m.Name) {
			out = append(out, m.Name)
		}
	}
	return out
}

// countRequests fills in the requests from the service's own entry spans, or
// from all of its spans if it has none.
func (b *breakdown) countRequests(ctx context.Context) error {
	sel := b.r.Selection
	sel.Family = series.SpanDuration
	r, err := resolve(ctx, b.st, sel, []string{series.LabelKind})
	if err != nil {
		return err
	}
	q := r.q
	q.Start, q.End, q.Step, q.By, q.Measure = b.q.Start, b.q.End, b.q.Step, []string{series.LabelKind}, store.Moments
	res, err := b.st.Query(ctx, q)
	if err != nil {
		return err
	}
	for _, g := range onlyRequests(res.Groups) {
		for _, p := range g.Points {
			if i := b.step(p.Start); i >= 0 && p.Hist != nil {
				b.out.Requests[i] += p.Hist.Count
				b.out.Total += p.Hist.Count
			}
		}
	}
	return nil
}

// selfQuantiles fills in how the exclusive time per request is distributed.
// By cohort that is not kept.
func (b *breakdown) selfQuantiles(ctx context.Context) error {
	if len(b.r.Quantiles) == 0 || named(b.r.Matchers, series.LabelCohort) {
		return nil
	}
	view, ok := ViewOf(series.SpanSelf, matcherNames(b.r.Matchers)...)
	if !ok {
		return nil
	}
	res, err := b.st.Query(ctx, store.Query{
		Family: series.SpanSelf, View: view, Matchers: b.r.Matchers, Start: b.q.Start, End: b.q.End,
		By: []string{series.LabelComponent}, Schema: hist.MaxSchema,
	})
	if err != nil {
		return err
	}
	for _, g := range res.Groups {
		name := g.Labels.Get(series.LabelComponent)
		i := slices.IndexFunc(b.out.Components, func(c api.BreakdownComponent) bool { return c.Component == name })
		if i >= 0 && len(g.Points) > 0 && g.Points[0].Hist != nil {
			h := g.Points[0].Hist
			b.out.Components[i].Quantiles, b.out.Components[i].Error = quantiles(h, b.r.Quantiles), api.Float(h.RelativeError())
		}
	}
	return nil
}

// assembled is how long after a request its breakdown is there: traces wait
// for their last spans, slots for their end, and both for the next flush.
const assembled = 35 * time.Second

// whyEmpty says why there is no breakdown, and what would bring one.
func (b *breakdown) whyEmpty(ctx context.Context) (string, error) {
	spans := func(end int64) (entry, some bool, err error) {
		if end <= b.q.Start {
			return false, false, nil
		}
		res, err := b.st.Query(ctx, store.Query{
			Family: series.SpanDuration, View: series.Total, Start: b.q.Start, End: end, Measure: store.Moments, Schema: hist.DefaultSchema,
			Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, series.LabelService, b.service)},
			By:       []string{series.LabelKind},
		})
		if err != nil {
			return false, false, err
		}
		for _, g := range res.Groups {
			entry = entry || isRequest(g)
		}
		return entry, len(res.Groups) > 0, nil
	}
	entry, some, err := spans(b.q.End)
	if err != nil {
		return "", err
	}
	if !some {
		return "the service " + quote(b.service) + " sent no spans in this range; choose another range or service", nil
	}
	complete := b.q.End
	if !b.r.Now.IsZero() {
		complete = min(complete, series.Base.Slot(b.r.Now.Add(-assembled).Unix()))
	}
	_, before, err := spans(complete)
	if err != nil {
		return "", err
	}
	switch {
	case !before:
		return "traces are broken down about 20 s after their requests ended; ask again in a moment", nil
	case len(b.r.Matchers) > 1:
		return "no request that matches was broken down in this range; match fewer labels or choose a longer range", nil
	case !entry:
		return "the service " + quote(b.service) + " sends no entry spans: requests are its spans of kind server or consumer, or roots of traces; set the kind where requests enter the service", nil
	}
	return "the service sent spans, but none of its requests was broken down in this range: their spans were kept without their traces, or traces are turned off; see traces in the configuration", nil
}

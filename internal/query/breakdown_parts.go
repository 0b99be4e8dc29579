package query

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// partKey names a part: an operation of one component and service, at one system.
type partKey struct{ service, component, operation, system string }

func partOf(l labels.Labels) partKey {
	return partKey{l.Get(series.LabelPartService), l.Get(series.LabelComponent), l.Get(series.LabelPartOperation), l.Get(series.LabelPartSystem)}
}

var partLabels = []string{series.LabelPartService, series.LabelComponent, series.LabelPartOperation, series.LabelPartSystem}

// part is what the families of the breakdown say about a part. Histograms are
// over the duration of the requests and nil where there was nothing.
type part struct {
	partKey
	self, critical, calls *hist.Histogram
	with, repeats         uint64 // requests that called it; ten times or more
}

func (p *part) all() share { return p.in(allBuckets) }

func (p *part) in(b buckets) share {
	return share{b.count(p.self), b.count(p.critical), b.count(p.calls)}
}

func total(h *hist.Histogram) uint64 {
	if h == nil {
		return 0
	}
	return h.Count
}

// Calls repeat when a request makes many that are equal: the N+1 pattern, where
// one query for a list is followed by one for each of its elements.
const (
	repeatedShare = 0.05 // of the requests that call the part at all, that call it series.RepeatedCalls times or more
	repeatedMean  = 5.0  // calls per request that calls it
)

// NPlusOne says whether a part is called many times within one request as a
// rule, or in a good part of the requests: five calls or more per request that
// calls it, or ten calls or more in one of twenty such requests. Only calls to
// other systems count, for a loop within a process costs no round trip.
func NPlusOne(component string, calls, with, repeats uint64) bool {
	switch component {
	case series.ComponentDB, series.ComponentCache, series.ComponentExternal:
	default:
		return false
	}
	return with > 0 && (float64(repeats) >= repeatedShare*float64(with) || float64(calls) >= repeatedMean*float64(with))
}

// maxParts is how many parts are answered.
const maxParts = 1000

// parts reads every part of the requests that q selects, by falling exclusive time.
func parts(ctx context.Context, st store.Store, q store.Query) ([]*part, error) {
	byKey := map[partKey]*part{}
	for _, f := range []struct {
		family  string
		measure store.Measure
		set     func(*part, *hist.Histogram)
	}{
		{series.BreakdownSelf, store.Buckets, func(p *part, h *hist.Histogram) { p.self = h }},
		{series.BreakdownCritical, store.Buckets, func(p *part, h *hist.Histogram) { p.critical = h }},
		{series.BreakdownCalls, store.Buckets, func(p *part, h *hist.Histogram) { p.calls = h }},
		{series.BreakdownWith, store.Moments, func(p *part, h *hist.Histogram) { p.with = h.Count }},
		{series.BreakdownRepeats, store.Moments, func(p *part, h *hist.Histogram) { p.repeats = h.Count }},
	} {
		q.Family, q.Measure, q.By, q.Step = f.family, f.measure, partLabels, 0
		res, err := st.Query(ctx, q)
		if err != nil {
			return nil, err
		}
		if len(res.Groups) > MaxGroups {
			return nil, &Error{Code: CodeTooMany, Field: "match", Message: fmt.Sprintf("the requests have more than %d parts; name an operation in match", MaxGroups)}
		}
		for _, g := range res.Groups {
			if len(g.Points) == 0 || g.Points[0].Hist == nil {
				continue
			}
			k := partOf(g.Labels)
			p := byKey[k]
			if p == nil {
				p = &part{partKey: k}
				byKey[k] = p
			}
			f.set(p, g.Points[0].Hist)
		}
	}
	list := make([]*part, 0, len(byKey))
	for _, p := range byKey {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *part) int {
		return cmp.Or(cmp.Compare(total(b.self), total(a.self)), comparePart(a.partKey, b.partKey))
	})
	return list, nil
}

func comparePart(a, b partKey) int {
	return cmp.Or(strings.Compare(a.service, b.service), strings.Compare(a.component, b.component), strings.Compare(a.operation, b.operation), strings.Compare(a.system, b.system))
}

// ownDurations reads the distributions that the parts' own spans have, from
// whichever request they came, in the environment of ms if it names one.
func ownDurations(ctx context.Context, st store.Store, list []*part, ms []*labels.Matcher, start, end int64) (map[partKey]*hist.Histogram, error) {
	services := map[string]bool{}
	operations := map[string]bool{}
	for _, p := range list {
		services[p.service] = true
		operations[p.operation] = true
	}
	out := map[partKey]*hist.Histogram{}
	if len(list) == 0 {
		return out, nil
	}
	ms = append(only(ms, series.LabelEnvironment), oneOf(series.LabelService, services))
	if len(operations) <= 200 { // beyond, looking for each costs more than reading all
		ms = append(ms, oneOf(series.LabelOperation, operations))
	}
	res, err := st.Query(ctx, store.Query{
		Family: series.SpanDuration, View: series.Marginal, Matchers: ms, Start: start, End: end, Schema: hist.MaxSchema,
		By: []string{series.LabelService, series.LabelComponent, series.LabelOperation, series.LabelSystem},
	})
	if err != nil {
		return nil, err
	}
	for _, g := range res.Groups {
		if len(g.Points) > 0 && g.Points[0].Hist != nil {
			out[partKey{g.Labels.Get(series.LabelService), g.Labels.Get(series.LabelComponent), g.Labels.Get(series.LabelOperation), g.Labels.Get(series.LabelSystem)}] = g.Points[0].Hist
		}
	}
	return out, nil
}

// oneOf matches any of the values.
func oneOf(label string, values map[string]bool) *labels.Matcher {
	quoted := make([]string, 0, len(values))
	for v := range values {
		if len(values) == 1 {
			return labels.MustNewMatcher(labels.MatchEqual, label, v)
		}
		quoted = append(quoted, regexp.QuoteMeta(v))
	}
	slices.Sort(quoted)
	return labels.MustNewMatcher(labels.MatchRegexp, label, strings.Join(quoted, "|"))
}

// renderPart answers a part; requests and micros are those of the whole selection.
func renderPart(p *part, requests, micros, criticals uint64, own *hist.Histogram, qs []Quantile) api.BreakdownPart {
	all := p.all()
	out := api.BreakdownPart{
		Service: p.service, Component: p.component, Operation: p.operation, System: p.system,
		Seconds: api.Float(float64(all.self) * micro), Share: api.Float(float64(all.self) / float64(micros)),
		CriticalShare: api.Float(float64(all.critical) / float64(criticals)),
		Calls:         all.calls, PerRequest: api.Float(float64(all.calls) / float64(requests)),
		Requests: p.with, Repeated: p.repeats, NPlusOne: NPlusOne(p.component, all.calls, p.with, p.repeats),
	}
	if own == nil {
		own = hist.New(hist.DefaultSchema)
	}
	out.Mean, out.Error = api.Float(own.Mean()), api.Float(own.RelativeError())
	out.Quantiles = quantiles(own, qs)
	return out
}

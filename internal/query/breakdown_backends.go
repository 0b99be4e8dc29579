package query

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// maxBackends bounds the backends that are answered, those with the most time.
const maxBackends = 100

// backendKey names what calls go to: a system, such as mysql, and one node of it.
type backendKey struct{ component, system, peer string }

// backends answers the calls of the service by system and peer, from the calls' own
// spans. It answers nothing if match names a label of requests that calls are not kept by.
func (b *breakdown) backends(ctx context.Context) error {
	for _, m := range b.r.Matchers {
		switch m.Name {
		case series.LabelOperation, series.LabelTenant, series.LabelCohort, series.LabelStatus, series.LabelKind:
			return nil
		}
	}
	by := []string{series.LabelComponent, series.LabelSystem, series.LabelPeer, series.LabelStatus}
	ms := append(slices.Clone(b.r.Matchers), oneOf(series.LabelKind, map[string]bool{"client": true, "producer": true}))
	view, err := viewFor(series.SpanDuration, ms, by)
	if err != nil {
		return err
	}
	res, err := b.st.Query(ctx, store.Query{
		Family: series.SpanDuration, View: view, Matchers: ms, Start: b.q.Start, End: b.q.End, By: by, Schema: hist.MaxSchema,
	})
	if err != nil {
		return err
	}
	durations := map[backendKey]*hist.Histogram{}
	errors := map[backendKey]uint64{}
	all := 0.0
	for _, g := range res.Groups {
		k := backendOf(g.Labels)
		if k.system == "" && k.peer == "" || len(g.Points) == 0 || g.Points[0].Hist == nil {
			continue
		}
		h := g.Points[0].Hist
		all += h.Sum
		if g.Labels.Get(series.LabelStatus) == statusError {
			errors[k] += h.Count
		}
		if known := durations[k]; known == nil {
			durations[k] = h
		} else if err := known.Merge(h); err != nil {
			return err
		}
	}
	perRequest := func(calls uint64) api.Float {
		if b.out.Total == 0 {
			return nan
		}
		return api.Float(float64(calls) / float64(b.out.Total))
	}
	for k, h := range durations {
		b.out.Backends = append(b.out.Backends, api.Backend{
			Component: k.component, System: k.system, Peer: k.peer, Calls: h.Count, Effective: Effective(h.Moment()), Errors: errors[k],
			Seconds: api.Float(h.Sum), Share: api.Float(h.Sum / all), PerRequest: perRequest(h.Count),
			Mean: api.Float(h.Mean()), Quantiles: quantiles(h, b.r.Quantiles), Error: api.Float(h.RelativeError()),
		})
	}
	slices.SortFunc(b.out.Backends, func(x, y api.Backend) int {
		return cmp.Or(cmp.Compare(y.Seconds, x.Seconds), strings.Compare(x.System, y.System), strings.Compare(x.Peer, y.Peer), strings.Compare(x.Component, y.Component))
	})
	b.out.Backends = b.out.Backends[:min(len(b.out.Backends), maxBackends)]
	return nil
}

func backendOf(l labels.Labels) backendKey {
	return backendKey{l.Get(series.LabelComponent), l.Get(series.LabelSystem), l.Get(series.LabelPeer)}
}

package query

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// operationPage fills in the rows that are answered.
type operationPage struct {
	st   store.Store
	r    OperationsRequest
	q    store.Query // what is selected; range and step settled by read
	rows []*operation

	measured map[string]float64 // seconds, by service; see Measured
}

// readMeasured reads how long the services of the page were measured.
func (p *operationPage) readMeasured(ctx context.Context) error {
	m, err := NewMeasured(ctx, p.st, p.q.Matchers, time.Unix(p.q.Start, 0), time.Unix(min(p.q.End, lastBase(p.r.End)), 0), p.r.Now, p.r.Newest)
	if err != nil {
		return err
	}
	p.measured = map[string]float64{}
	for _, o := range p.rows {
		if p.measured[o.service] > 0 {
			continue
		}
		if p.measured[o.service], err = m.Seconds(func(service, _ string) bool { return service == o.service }); err != nil {
			return err
		}
	}
	return nil
}

// narrowed adds matchers that leave little but the page's rows.
func (p *operationPage) narrowed(service, operation string) []*labels.Matcher {
	services, operations := map[string]bool{}, map[string]bool{}
	for _, o := range p.rows {
		services[o.service], operations[o.operation] = true, true
	}
	return append(slices.Clone(p.q.Matchers), oneOf(service, services), oneOf(operation, operations))
}

// read fills in steps, and buckets if they were not read before. It settles
// the step, also of a page without rows.
func (p *operationPage) read(ctx context.Context, buckets bool) error {
	q := p.q
	q.By, q.Measure = opLabels, store.Moments
	if len(p.rows) > 0 {
		q.Matchers = p.narrowed(series.LabelService, series.LabelOperation)
	} else {
		q.By = nil
	}
	res, q, err := stepped(ctx, p.st, q, p.r.Start, p.r.End, p.r.Grid, 0)
	if err != nil {
		return err
	}
	p.q.Start, p.q.End, p.q.Step = q.Start, q.End, q.Step
	if len(p.rows) == 0 {
		return nil
	}
	rows := make(map[opKey]*operation, len(p.rows))
	n := int((q.End - q.Start) / q.Step)
	for _, o := range p.rows {
		o.seconds, o.rate = make([]api.Float, n), make([]api.Float, n)
		rows[o.opKey] = o
	}
	grid := p.grid()
	for _, g := range res.Groups {
		if o := rows[opOf(g.Labels)]; o != nil {
			grid.sum(g, o.seconds, o.rate)
		}
	}
	if !buckets || len(p.r.Quantiles) == 0 {
		return nil
	}
	q.Step, q.Measure = 0, store.Buckets
	if res, err = p.st.Query(ctx, q); err != nil {
		return err
	}
	for _, g := range res.Groups {
		if o := rows[opOf(g.Labels)]; o != nil && len(g.Points) > 0 {
			o.hist = g.Points[0].Hist
		}
	}
	return nil
}

func (p *operationPage) grid() *timeline {
	return &timeline{start: p.q.Start, step: p.q.Step, n: int((p.q.End - p.q.Start) / p.q.Step), until: lastBase(p.r.End)}
}

// sum adds a group's points to what was spent and how often per step.
func (t *timeline) sum(g store.Group, seconds, rate []api.Float) {
	for _, pt := range g.Points {
		if i := t.index(pt.Start); i >= 0 && pt.Hist != nil {
			seconds[i] += api.Float(pt.Hist.Sum)
			rate[i] += api.Float(float64(pt.Hist.Count) / t.seconds(i))
		}
	}
}

func (p *operationPage) render(o *operation, all float64) api.Operation {
	out := api.Operation{
		Service: o.service, Operation: o.operation, Component: o.component, Kind: o.kind, System: o.system,
		Calls: o.calls, Rate: api.Float(float64(o.calls) / p.measured[o.service]), Errors: o.errors, ErrorRate: api.Float(float64(o.errors) / float64(o.calls)),
		Seconds: api.Float(o.sum), Share: api.Float(o.sum / all), Mean: api.Float(o.mean()),
		Quantiles: map[string]api.Float{}, SecondsOver: o.seconds, RateOver: o.rate,
	}
	if o.component == series.ComponentDB {
		out.Verb = Verb(o.operation)
	}
	if o.hist != nil {
		out.Quantiles, out.Error = quantiles(o.hist, p.r.Quantiles), api.Float(o.hist.RelativeError())
	}
	return out
}

// fewCallers is how many requests of one operation must call a part before
// what they do counts as a pattern of their own.
const fewCallers = 10

// repeated says which of the page's operations are called in the N+1 pattern:
// by the requests of all services together, or by those of any one operation,
// for a list that is asked for rarely should not hide among other callers.
func (p *operationPage) repeated(ctx context.Context) (map[partKey]bool, error) {
	out := map[partKey]bool{}
	if !slices.ContainsFunc(p.rows, func(o *operation) bool { return NPlusOne(o.component, 1, 1, 1) }) {
		return out, nil
	}
	type caller struct {
		part               partKey
		service, operation string
	}
	by := map[caller]*[3]uint64{}
	all := map[partKey]*[3]uint64{}
	narrow := *p
	narrow.q.Matchers = nil
	for i, family := range []string{series.BreakdownCalls, series.BreakdownWith, series.BreakdownRepeats} {
		res, err := p.st.Query(ctx, store.Query{
			Family: family, Matchers: narrow.narrowed(series.LabelPartService, series.LabelPartOperation),
			Start: p.q.Start, End: p.q.End, By: append(slices.Clone(partLabels), series.LabelService, series.LabelOperation),
			Measure: store.Moments, Schema: hist.DefaultSchema,
		})
		if err != nil {
			return nil, err
		}
		for _, g := range res.Groups {
			c := caller{partOf(g.Labels), g.Labels.Get(series.LabelService), g.Labels.Get(series.LabelOperation)}
			if by[c] == nil {
				by[c] = new([3]uint64)
			}
			if all[c.part] == nil {
				all[c.part] = new([3]uint64)
			}
			n := groupCount(g)
			by[c][i] += n
			all[c.part][i] += n
		}
	}
	for k, n := range all {
		out[k] = NPlusOne(k.component, n[0], n[1], n[2])
	}
	for c, n := range by {
		if n[1] >= fewCallers && NPlusOne(c.part.component, n[0], n[1], n[2]) {
			out[c.part] = true
		}
	}
	return out, nil
}

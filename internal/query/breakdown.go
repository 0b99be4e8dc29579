package query

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// BreakdownRequest asks where the time of a service's requests goes.
type BreakdownRequest struct {
	Selection // Family is ignored
	Grid
	Band
	Quantiles []Quantile
	// Overlay answers an earlier day, at the times of the range.
	Overlay Overlay
	Limit   int       // parts that are answered per step too; default 10
	Now     time.Time // to tell what is missing from what is yet to come
}

// componentOrder is the order in which components are answered; others follow
// by name.
var componentOrder = []string{
	series.ComponentApp, series.ComponentDB, series.ComponentCache, series.ComponentExternal, series.ComponentMessaging, series.ComponentQueue,
}

func compareComponents(a, b string) int {
	rank := func(c string) int {
		if i := slices.Index(componentOrder, c); i >= 0 {
			return i
		}
		return len(componentOrder)
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b))
}

// Labels of requests that the families of the breakdown have, and those that
// only span_self_seconds has.
var (
	breakdownLabels = []string{series.LabelService, series.LabelEnvironment, series.LabelOperation, series.LabelCohort}
	selfLabels      = []string{series.LabelTenant, series.LabelVersion, series.LabelVariant, series.LabelStatus, series.LabelKind, series.LabelInstance}
)

// notBrokenDown lists labels of spans that no family of the breakdown has.
var notBrokenDown = []string{series.LabelNamespace, series.LabelK8s, series.LabelWorkload, series.LabelSystem, series.LabelPeer}

// Breakdown answers the exclusive and critical-path time of a service's
// requests by component and part, over time and in all, and of a band of them
// beside the typical ones. Every request counts, or others count for it.
func Breakdown(ctx context.Context, st store.Store, r BreakdownRequest) (*api.BreakdownResponse, error) {
	if err := r.Band.check(); err != nil {
		return nil, err
	}
	if err := checkLimit(&r.Limit, 10, 100); err != nil {
		return nil, err
	}
	if err := checkRange(r.Start, r.End); err != nil {
		return nil, err
	}
	if err := r.Overlay.check(); err != nil {
		return nil, err
	}
	service, err := oneService(r.Matchers)
	if err != nil {
		return nil, err
	}
	whole, err := wholeBreakdown(r.Matchers)
	if err != nil {
		return nil, err
	}
	cohorts, err := cohortMatchers(r.Matchers)
	if err != nil {
		return nil, err
	}
	r.Matchers = append(without(r.Matchers, series.LabelCohort), cohorts...)
	b := &breakdown{st: r.Overlay.over(st, lastBase(r.End)), r: r, service: service}
	if whole {
		err = b.fromParts(ctx)
	} else {
		err = b.fromSelf(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := b.backends(ctx); err != nil {
		return nil, err
	}
	b.out.Overlay = r.Overlay.describe(r.Start.Unix(), r.End.Unix())
	if b.out.Total == 0 && len(b.out.Components) == 0 {
		if b.out.Note, err = b.whyEmpty(ctx); err != nil {
			return nil, err
		}
	}
	return b.out, nil
}

// oneService finds the service that match names. Requests of two services may
// lie within one another, so their times do not add up.
func oneService(ms []*labels.Matcher) (string, error) {
	if service := Named(ms, series.LabelService); service != "" {
		return service, nil
	}
	return "", Invalid("match", `the breakdown is of one service's requests; write match={service="checkout"}`)
}

// wholeBreakdown says whether the families of the breakdown have every label
// of match, and refuses what no family has.
func wholeBreakdown(ms []*labels.Matcher) (bool, error) {
	whole, cohort := true, false
	for _, m := range ms {
		switch {
		case m.Name == series.LabelComponent || strings.HasPrefix(m.Name, "part_"):
			return false, Invalid("match", "the breakdown answers every component, so %s cannot be matched; leave it out", m.Name)
		case slices.Contains(notBrokenDown, m.Name):
			return false, Invalid("match", "the breakdown is not kept by %s; leave it out", m.Name)
		case m.Name == series.LabelCohort:
			cohort = true
		case !slices.Contains(breakdownLabels, m.Name):
			whole = false
		}
	}
	if !whole && cohort {
		return false, Invalid("match", "cohort is not kept together with %s; leave one of them out", strings.Join(selfLabels, ", "))
	}
	return whole, nil
}

type breakdown struct {
	st      store.Store
	r       BreakdownRequest
	service string
	q       store.Query // range and step settled
	n       int         // steps
	out     *api.BreakdownResponse
	squares []float64 // of the weights of out.Requests, by step
}

// fromParts answers everything, from the families of the breakdown.
func (b *breakdown) fromParts(ctx context.Context) error {
	byComponent := []string{series.LabelComponent}
	selfRes, err := b.begin(ctx, store.Query{Family: series.BreakdownSelf, Matchers: b.r.Matchers, By: byComponent, Measure: store.Moments, Schema: hist.DefaultSchema})
	if err != nil {
		return err
	}
	q := b.q
	q.Family, q.By, q.Measure, q.Schema = series.BreakdownRequests, nil, store.Buckets, hist.MaxSchema
	res, err := b.st.Query(ctx, q)
	if err != nil {
		return err
	}
	b.q.Schema = hist.MaxSchema
	durations := hist.New(hist.MaxSchema)
	b.squares = make([]float64, b.n)
	for _, g := range res.Groups {
		for _, p := range g.Points {
			if i := b.step(p.Start); i >= 0 && p.Hist != nil {
				b.out.Requests[i] += p.Hist.Count
				b.squares[i] += p.Hist.SquaredWeights()
				if err := durations.Merge(p.Hist); err != nil {
					return err
				}
			}
		}
	}
	b.out.Total = durations.Count
	if b.out.Total == 0 {
		return nil
	}
	list, err := parts(ctx, b.st, b.q)
	if err != nil {
		return err
	}
	inBand := b.r.Band.choose(durations)
	typical, _ := upTo(durations, 0.5)

	sums := map[string]*[3]share{} // all, band, typical
	var micros, criticals [3]uint64
	for _, p := range list {
		c := sums[p.component]
		if c == nil {
			c = new([3]share)
			sums[p.component] = c
		}
		for i, s := range [3]share{p.all(), p.in(inBand), p.in(typical)} {
			c[i].add(s)
			if p.component != series.ComponentQueue {
				micros[i] += s.self
				criticals[i] += s.critical
			}
		}
	}
	b.out.Seconds = api.Float(float64(micros[0]) * micro)
	requests := [3]uint64{durations.Count, inBand.count(durations), typical.count(durations)}
	b.out.Band = b.band(inBand, typical, requests, micros)

	over := b.rows(selfRes)
	critical, err := b.over(ctx, series.BreakdownCritical, byComponent)
	if err != nil {
		return err
	}
	for _, name := range sortedComponents(sums) {
		c := sums[name]
		out := api.BreakdownComponent{
			Component: name, Self: over[partKey{component: name}], Critical: critical[partKey{component: name}],
			Seconds: api.Float(float64(c[0].self) * micro), Share: api.Float(float64(c[0].self) / float64(micros[0])),
			CriticalShare: api.Float(float64(c[0].critical) / float64(criticals[0])),
			Services:      b.byService(list, name, micros[0], criticals[0]),
		}
		if out.Self == nil {
			out.Self = make([]api.Float, b.n)
		}
		if out.Critical == nil {
			out.Critical = make([]api.Float, b.n)
		}
		b.out.Components = append(b.out.Components, out)
		b.out.Band.Components = append(b.out.Band.Components, api.BandComponent{
			Component: name, Band: c[1].per(requests[1], micros[1]), Typical: c[2].per(requests[2], micros[2]),
		})
	}
	if err := b.selfQuantiles(ctx); err != nil {
		return err
	}
	if err := b.parts(ctx, list, inBand, typical, requests, micros, criticals[0]); err != nil {
		return err
	}
	if b.out.FanOuts, err = fanOuts(ctx, b.st, b.q, inBand); err != nil {
		return err
	}
	if b.out.Skews, err = skews(ctx, b.st, b.q, b.service, list); err != nil || b.out.Note != "" {
		return err
	}
	b.out.Note, err = b.coverage(ctx)
	return err
}

// byService tells a component's time in the service itself from that in services it called.
func (b *breakdown) byService(list []*part, component string, micros, criticals uint64) []api.ComponentService {
	sums := map[string]*share{}
	for _, p := range list {
		if p.component == component {
			if sums[p.service] == nil {
				sums[p.service] = new(share)
			}
			sums[p.service].add(p.all())
		}
	}
	if len(sums) == 0 || len(sums) == 1 && sums[b.service] != nil {
		return nil
	}
	out := make([]api.ComponentService, 0, len(sums))
	for service, s := range sums {
		out = append(out, api.ComponentService{
			Service: service, Seconds: api.Float(float64(s.self) * micro),
			Share: api.Float(float64(s.self) / float64(micros)), CriticalShare: api.Float(float64(s.critical) / float64(criticals)),
		})
	}
	slices.SortFunc(out, func(x, y api.ComponentService) int {
		return cmp.Or(cmp.Compare(y.Seconds, x.Seconds), strings.Compare(x.Service, y.Service))
	})
	return out
}

func sortedComponents[T any](m map[string]T) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.SortFunc(names, compareComponents)
	return names
}

func (b *breakdown) band(chosen, typical buckets, requests, micros [3]uint64) *api.Band {
	low, high := chosen.seconds()
	out := &api.Band{
		Low: api.Float(low), High: api.Float(high), Above: api.Float(b.r.Above), Requests: requests[1],
		Mean: api.Float(float64(micros[1]) * micro / float64(requests[1])), Components: []api.BandComponent{},
	}
	if b.r.Above == 0 {
		out.Above = api.Float(math.NaN())
	}
	_, high = typical.seconds()
	out.Typical.High = api.Float(high)
	out.Typical.Requests = requests[2]
	out.Typical.Mean = api.Float(float64(micros[2]) * micro / float64(requests[2]))
	return out
}

// over reads seconds per step of each group.
func (b *breakdown) over(ctx context.Context, family string, by []string, more ...*labels.Matcher) (map[partKey][]api.Float, error) {
	q := b.q
	q.Family, q.By, q.Measure = family, by, store.Moments
	q.Matchers = append(slices.Clone(q.Matchers), more...)
	res, err := b.st.Query(ctx, q)
	if err != nil {
		return nil, err
	}
	return b.rows(res), nil
}

// rows turns counts of microseconds into seconds per step.
func (b *breakdown) rows(res *store.Result) map[partKey][]api.Float {
	out := make(map[partKey][]api.Float, len(res.Groups))
	for _, g := range res.Groups {
		row := make([]api.Float, b.n)
		for _, p := range g.Points {
			if i := b.step(p.Start); i >= 0 && p.Hist != nil {
				row[i] += api.Float(float64(p.Hist.Count) * micro)
			}
		}
		out[partOf(g.Labels)] = row
	}
	return out
}

func (b *breakdown) parts(ctx context.Context, list []*part, inBand, typical buckets, requests, micros [3]uint64, criticals uint64) error {
	if len(list) > maxParts {
		b.out.Note = fmt.Sprintf("the %d parts with the least time are left out; name an operation in match to see fewer parts whole", len(list)-maxParts)
		list = list[:maxParts]
	}
	own, err := ownDurations(ctx, b.st, list, b.r.Matchers, b.q.Start, b.q.End)
	if err != nil {
		return err
	}
	first := list[:min(b.r.Limit, len(list))]
	services, operations := map[string]bool{}, map[string]bool{}
	for _, p := range first {
		services[p.service], operations[p.operation] = true, true
	}
	over, err := b.over(ctx, series.BreakdownSelf, partLabels, oneOf(series.LabelPartService, services), oneOf(series.LabelPartOperation, operations))
	if err != nil {
		return err
	}
	b.out.Parts = make([]api.BreakdownPart, 0, len(list))
	for i, p := range list {
		out := renderPart(p, requests[0], micros[0], criticals, own[p.partKey], b.r.Quantiles)
		band, usual := p.in(inBand).per(requests[1], micros[1]), p.in(typical).per(requests[2], micros[2])
		out.Band, out.Typical = &band, &usual
		if i < len(first) {
			out.Self = over[p.partKey]
		}
		b.out.Parts = append(b.out.Parts, out)
	}
	return nil
}

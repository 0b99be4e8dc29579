package query

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// SlotsRequest asks for a family that is not of spans, slot by slot, as what is
// judged by slots needs it. Start and End are multiples of Step.
type SlotsRequest struct {
	Selection
	Step int64 // seconds, a multiple of the base slot
	By   []string
	Per  string // PerRequest, or empty
}

// Slotted is a family slot by slot.
type Slotted struct {
	Counter bool  // its figures are increases
	Slot    int64 // the coarsest slots that were read; if above the step, nothing was answered
	Groups  []SlotGroup
}

// SlotGroup is one group's slots. Of a distribution, unless it is divided by
// requests, Hists has one per slot, nil where nothing was observed; they are
// the caller's. Else each slot has a figure Num/Den:
//
//	counter       increase, over the seconds in which it is known
//	gauge         last values, over how many series gave one
//	per request   increase or sum, over the requests of the service
//
// Den is 0 where nothing is known. Dens of groups add up for gauges only.
type SlotGroup struct {
	Labels   labels.Labels
	Hists    []*hist.Histogram
	Num, Den []float64
	Count    uint64 // observations, or samples
}

// lookBack is how long before a range the last value of a counter is looked
// for, and over how long an increase is spread: several exports, and the slot
// of which only the last is known.
func lookBack(interval, step int64) int64 { return max(300, 4*interval) + step }

// Slots reads a family that is not of spans. A counter's increase is spread
// evenly over the time between its samples, so that it does not matter when
// within a slot they were taken, or whether one is missing. Groups are sorted
// by labels.
func Slots(ctx context.Context, st store.Store, r SlotsRequest) (*Slotted, error) {
	sel, err := resolve(ctx, st, r.Selection, r.By)
	if err != nil {
		return nil, err
	}
	service, err := sel.checkPer(r.Per)
	if err != nil {
		return nil, err
	}
	q := sel.q
	q.Start, q.End, q.Step = r.Start.Unix(), r.End.Unix(), r.Step
	number := sel.info.Kind != series.Distribution
	if q.Each = number; number {
		q.By = nil
	}
	res, err := st.Query(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &Slotted{Slot: slotOf(res), Counter: sel.info.Kind == series.Counter}
	if out.Slot > r.Step {
		return out, nil
	}
	s := &slots{start: q.Start, step: q.Step, n: int((q.End - q.Start) / q.Step), by: r.By, index: map[string]int{}, out: out}
	switch sel.info.Kind {
	case series.Distribution:
		err = s.distributions(res, service != "")
	case series.Gauge:
		s.gauges(res)
	case series.Counter:
		err = s.counters(ctx, st, res, q, lookBack(sel.info.IntervalSeconds, r.Step))
	}
	if err != nil {
		return nil, err
	}
	if service != "" {
		if err := s.perRequest(ctx, st, q, number); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out.Groups, func(a, b SlotGroup) int { return labels.Compare(a.Labels, b.Labels) })
	return out, nil
}

// slots gathers groups.
type slots struct {
	start, step int64
	n           int
	by          []string
	index       map[string]int
	out         *Slotted
}

func (s *slots) group(l labels.Labels, hists bool) *SlotGroup {
	key := groupKey(l, s.by)
	i, ok := s.index[key]
	if !ok {
		i = len(s.out.Groups)
		s.index[key] = i
		g := SlotGroup{Labels: pick(l, s.by)}
		if hists {
			g.Hists = make([]*hist.Histogram, s.n)
		} else {
			g.Num, g.Den = make([]float64, s.n), make([]float64, s.n)
		}
		s.out.Groups = append(s.out.Groups, g)
	}
	return &s.out.Groups[i]
}

func (s *slots) distributions(res *store.Result, sums bool) error {
	for _, sg := range res.Groups {
		g := s.group(sg.Labels, !sums)
		for _, p := range sg.Points {
			i := int((p.Start - s.start) / s.step)
			switch {
			case p.Hist == nil || p.Hist.Count == 0:
				continue
			case sums:
				g.Num[i] += p.Hist.Sum
			case g.Hists[i] == nil:
				g.Hists[i] = p.Hist
			default:
				if err := g.Hists[i].Merge(p.Hist); err != nil {
					return err
				}
			}
			g.Count += p.Hist.Count
		}
	}
	return nil
}

func (s *slots) gauges(res *store.Result) {
	for _, sg := range res.Groups {
		g := s.group(sg.Labels, false)
		for _, p := range sg.Points {
			if p.Number.Count > 0 && !math.IsNaN(p.Number.Last) {
				i := int((p.Start - s.start) / s.step)
				g.Num[i] += p.Number.Last
				g.Den[i]++
				g.Count += p.Number.Count
			}
		}
	}
}

func (s *slots) counters(ctx context.Context, st store.Store, res *store.Result, q store.Query, gap int64) error {
	prev := q
	prev.Start, prev.End, prev.Step = series.Base.Slot(q.Start-gap), q.Start, 0
	pres, err := st.Query(ctx, prev)
	if err != nil {
		return err
	}
	before := map[string]series.Number{}
	for _, g := range pres.Groups {
		if n := len(g.Points); n > 0 {
			before[g.Labels.String()] = g.Points[n-1].Number
		}
	}
	known := make([]float64, s.n) // seconds of one series in which its increase is
	for _, sg := range res.Groups {
		clear(known)
		g := s.group(sg.Labels, false)
		last := before[sg.Labels.String()]
		for _, p := range sg.Points {
			n := p.Number
			if n.Count == 0 || math.IsNaN(n.Last) {
				continue
			}
			g.Count += n.Count
			if last.Count > 0 {
				s.spread(g.Num, known, last.LastTimeMillis, n.LastTimeMillis, increase(last.Last, n), gap)
			}
			last = n
		}
		for i, v := range known {
			g.Den[i] = max(g.Den[i], v)
		}
	}
	return nil
}

// spread lays an increase evenly over (from, to], in milliseconds.
func (s *slots) spread(num, known []float64, from, to int64, inc float64, gap int64) {
	if to <= from || to-from > 1000*gap {
		return
	}
	step, start := 1000*s.step, 1000*s.start
	for i := max(0, (from-start)/step); i < int64(s.n); i++ {
		lo, hi := max(from, start+i*step), min(to, start+(i+1)*step)
		if hi <= lo {
			if lo >= to {
				return
			}
			continue
		}
		num[i] += inc * float64(hi-lo) / float64(to-from)
		known[i] += float64(hi-lo) / 1000
	}
}

// requestLabels are those of metrics that requests have too; so is the tenant,
// though not beside an instance.
var requestLabels = []string{
	series.LabelService, series.LabelVersion, series.LabelVariant, series.LabelInstance,
	series.LabelEnvironment, series.LabelNamespace, series.LabelK8s, series.LabelWorkload,
}

// perRequest puts the requests of the service in the place of what figures are
// divided by. Where the increase of a counter is not known, its requests do not
// count either.
func (s *slots) perRequest(ctx context.Context, st store.Store, q store.Query, counter bool) error {
	sel := Selection{Family: series.SpanDuration, Start: time.Unix(q.Start, 0), End: time.Unix(q.End, 0)}
	for _, m := range q.Matchers {
		if slices.Contains(requestLabels, m.Name) || m.Name == series.LabelTenant && !named(q.Matchers, series.LabelInstance) {
			sel.Matchers = append(sel.Matchers, m)
		}
	}
	found, err := Requests(ctx, st, RequestsRequest{Selection: sel, Grid: Grid{Step: q.Step}, Measure: store.Moments})
	if err != nil {
		return err
	}
	if found.Step != s.step {
		s.out.Slot = found.Step
		return nil
	}
	requests := make([]float64, s.n)
	for _, g := range found.Groups {
		for i := range requests {
			requests[i] += float64(g.Count(i))
		}
	}
	if counter {
		known := make([]float64, s.n) // seconds
		for i := range s.out.Groups {
			for t, v := range s.out.Groups[i].Den {
				known[t] = max(known[t], v)
			}
		}
		for t, v := range known {
			requests[t] *= min(v/float64(s.step), 1)
		}
	}
	for i := range s.out.Groups {
		copy(s.out.Groups[i].Den, requests)
	}
	return nil
}

// Unit of a family by its name: seconds, bytes or empty.
func Unit(family string) string { return unitOf(family) }

// Family looks a family up by its name. An error names the nearest.
func Family(ctx context.Context, st store.Store, name string) (store.FamilyInfo, error) {
	return family(ctx, st, name)
}

// SlotLengths are lengths of slots, in seconds, of a family that is exported
// every so many seconds: none is finer, and each holds equally many exports
// where that can be. They rise.
func SlotLengths(interval int64) []int64 {
	var out []int64
	for _, s := range steps[:11] { // up to an hour
		if s < interval {
			continue
		}
		if len(out) == 0 && interval > 0 && s%interval != 0 && s < 2*interval {
			continue // the next holds two or more
		}
		out = append(out, s)
	}
	return out
}

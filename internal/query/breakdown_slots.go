package query

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// PartSlots holds how often the requests of a service called a part in each slot, and
// the exclusive time that they spent in it.
type PartSlots struct {
	Service, Environment string // of the requests
	Part                 PartName
	Requests, Calls      []float64
	CallsSquares         float64   // of weights, see hist.Moment
	Seconds, OfAll       []float64 // in the part, and in all parts
	// Sums over the slots; Elapsed is that of Seconds.
	TotalRequests, TotalCalls, Elapsed float64
}

// PartName names a part: an operation of one component and service, at one system.
type PartName struct{ Service, Component, Operation, System string }

func (n PartName) key() partKey { return partKey{n.Service, n.Component, n.Operation, n.System} }

// PartsBySlot returns the parts of requests, those with the most calls and those with
// the most time, in slots of step seconds from start to end; most bounds the series that
// are read of each. It returns nil where the breakdown is not kept by the labels of a
// matcher, or not in slots as short.
func PartsBySlot(ctx context.Context, st store.Store, ms []*labels.Matcher, start, end, step int64, most int) ([]PartSlots, error) {
	if whole, err := wholeBreakdown(ms); err != nil || !whole {
		return nil, nil
	}
	n := int((end - start) / step)
	requests := []string{series.LabelService, series.LabelEnvironment}
	read := func(family string, topK int, by []string, add func(labels.Labels, int, hist.Moment)) (bool, error) {
		res, err := st.Query(ctx, store.Query{
			Family: family, Matchers: ms, Start: start, End: end, Step: step, By: by, Measure: store.Moments, Schema: hist.DefaultSchema, TopK: topK,
		})
		if err != nil || slotOf(res) > step || res.Start != start {
			return false, err
		}
		for _, g := range res.Groups {
			for _, p := range g.Points {
				if i := int((p.Start - start) / step); p.Hist != nil && i >= 0 && i < n {
					add(g.Labels, i, p.Hist.Moment())
				}
			}
		}
		return true, nil
	}
	sums := func(family string) (map[serviceIn][]float64, bool, error) {
		out := map[serviceIn][]float64{}
		ok, err := read(family, 0, requests, func(l labels.Labels, i int, m hist.Moment) {
			of := serviceInOf(l)
			if out[of] == nil {
				out[of] = make([]float64, n)
			}
			out[of][i] += float64(m.Count)
		})
		return out, ok, err
	}
	counts, ok, err := sums(series.BreakdownRequests)
	if err != nil || !ok || len(counts) == 0 {
		return nil, err
	}
	all, ok, err := sums(series.BreakdownSelf)
	if err != nil || !ok {
		return nil, err
	}
	for of, micros := range all {
		for i := range micros {
			all[of][i] *= micro
		}
	}
	type key struct {
		of   serviceIn
		part partKey
	}
	byKey := map[key]*PartSlots{}
	at := func(l labels.Labels) *PartSlots {
		k := key{serviceInOf(l), partOf(l)}
		p := byKey[k]
		if p == nil && counts[k.of] != nil && all[k.of] != nil {
			p = &PartSlots{
				Service: k.of.name, Environment: k.of.environment, Part: PartName{k.part.service, k.part.component, k.part.operation, k.part.system}, Requests: counts[k.of], OfAll: all[k.of],
				Calls: make([]float64, n), Seconds: make([]float64, n),
			}
			byKey[k] = p
		}
		return p
	}
	by := slices.Concat(requests, partLabels)
	for family, add := range map[string]func(*PartSlots, int, hist.Moment){
		series.BreakdownCalls: func(p *PartSlots, i int, m hist.Moment) {
			p.Calls[i] += float64(m.Count)
			p.CallsSquares += m.SquaredWeights()
		},
		series.BreakdownSelf: func(p *PartSlots, i int, m hist.Moment) { p.Seconds[i] += float64(m.Count) * micro },
	} {
		if ok, err := read(family, most, by, func(l labels.Labels, i int, m hist.Moment) {
			if p := at(l); p != nil {
				add(p, i, m)
			}
		}); err != nil || !ok {
			return nil, err
		}
	}
	var out []PartSlots
	for _, k := range slices.SortedFunc(maps.Keys(byKey), func(x, y key) int {
		return cmp.Or(cmp.Compare(x.of.name, y.of.name), cmp.Compare(x.of.environment, y.of.environment), comparePart(x.part, y.part))
	}) {
		p := byKey[k]
		for i := range n {
			p.TotalRequests += p.Requests[i]
			p.TotalCalls += p.Calls[i]
			p.Elapsed += p.Seconds[i]
		}
		out = append(out, *p)
	}
	slices.SortStableFunc(out, func(x, y PartSlots) int {
		return cmp.Or(cmp.Compare(y.Elapsed, x.Elapsed), cmp.Compare(y.TotalCalls, x.TotalCalls))
	})
	return out, nil
}

// TakeTogether returns the parts of the requests of a service in any environment, those
// with the most time first.
func TakeTogether(all []PartSlots, service string) []PartSlots {
	add := func(sum *[]float64, of []float64) {
		if *sum == nil {
			*sum = make([]float64, len(of))
		}
		for i, v := range of {
			(*sum)[i] += v
		}
	}
	requests := PartSlots{Service: service}
	counted := map[string]bool{}
	byPart := map[PartName]*PartSlots{}
	for i := range all {
		p := &all[i]
		if p.Service != service {
			continue
		}
		if !counted[p.Environment] {
			counted[p.Environment] = true
			add(&requests.Requests, p.Requests)
			add(&requests.OfAll, p.OfAll)
			requests.TotalRequests += p.TotalRequests
		}
		sum := byPart[p.Part]
		if sum == nil {
			sum = &PartSlots{Service: service, Part: p.Part}
			byPart[p.Part] = sum
		}
		add(&sum.Calls, p.Calls)
		add(&sum.Seconds, p.Seconds)
		sum.CallsSquares += p.CallsSquares
		sum.TotalCalls += p.TotalCalls
		sum.Elapsed += p.Elapsed
	}
	var out []PartSlots
	for _, p := range byPart {
		p.Requests, p.OfAll, p.TotalRequests = requests.Requests, requests.OfAll, requests.TotalRequests
		out = append(out, *p)
	}
	slices.SortFunc(out, func(x, y PartSlots) int {
		return cmp.Or(cmp.Compare(y.Elapsed, x.Elapsed), cmp.Compare(y.TotalCalls, x.TotalCalls), comparePart(x.Part.key(), y.Part.key()))
	})
	return out
}

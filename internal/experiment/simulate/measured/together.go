package measured

import (
	"context"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

const (
	// mostHits bounds the requests of kept traces that are examined.
	mostHits = 20_000
	// fewestTraces are needed to estimate a correlation.
	fewestTraces = 30
	// own is the number of observations that a slot needs to be ranked in.
	own = 100
)

var (
	nan     = api.Float(math.NaN())
	unknown = api.ScalingValue{Value: nan, Low: nan, High: nan}
)

// fan holds leaves of one class that one trace asked at once.
type fan struct {
	root   stratum
	scores []float64 // normal
	weight float64
}

// stratum holds requests of which one is kept as an example: those of an operation,
// of a minute (or longer) and a bucket of durations √2 wide.
type stratum struct {
	service, operation string
	moment             int64
	octave             int // half ones
}

func stratumOf(h *store.TraceHit, every int64) stratum {
	return stratum{h.Service, h.Operation, (h.StartNanos + h.DurationNanos) / 1e9 / every, octave(float64(h.DurationNanos) / 1e9)}
}

func octave(seconds float64) int { return int(math.Floor(2 * math.Log2(max(seconds, 1e-9)))) }

// fewestMoments is the least number of moments that a range is divided into, of a
// minute or more.
const fewestMoments = 120

// together estimates the correlation of leaves of one query beyond class and slot:
// the correlation within groups (Fisher 1925, Statistical Methods for Research
// Workers, VII) of their normal scores, the ranks in their class and slot through the
// normal distribution's inverse, as in a Gaussian copula. Kept traces are not a
// random sample: slow ones are over-represented. So those that are kept as examples
// count for the requests that they stand for: those of their root's operation in
// their minute and bucket of durations. The interval is by the jackknife over traces
// (Efron & Tibshirani 1993, An Introduction to the Bootstrap, 11).
func together(ctx context.Context, st store.Store, r Request, g *gathered, out *api.Leaves) error {
	hits, err := st.Traces(ctx, store.TraceQuery{StartNanos: r.Start.UnixNano(), EndNanos: r.End.UnixNano(), Order: store.Newest, Limit: mostHits})
	if err != nil {
		return fmt.Errorf("kept traces: %w", err)
	}
	traces := map[store.TraceID][]*store.TraceHit{}
	var order []store.TraceID
	for i := range hits {
		id := hits[i].ID
		if traces[id] == nil {
			order = append(order, id)
		}
		traces[id] = append(traces[id], &hits[i])
	}
	classes := map[string]int{}
	for i, c := range g.classes {
		classes[c.name] = i
	}
	fans := make([][]fan, len(g.classes))
	kept := map[stratum]int{}
	every := int64(series.Minute)
	for every*fewestMoments < r.End.Unix()-r.Start.Unix() {
		every *= 10
	}
	for _, id := range order {
		of := traces[id]
		root := slices.MaxFunc(of, func(a, b *store.TraceHit) int { return int(min(max(a.DurationNanos-b.DurationNanos, -1), 1)) })
		if root.Why&store.WhyExemplar == 0 {
			continue
		}
		s := stratumOf(root, every)
		kept[s]++
		for class, leaves := range fanned(of, r.Service, classes) {
			fans[class] = append(fans[class], fan{root: s, scores: g.scores(class, leaves)})
		}
	}
	stands, err := standFor(ctx, st, r, kept, every)
	if err != nil {
		return err
	}
	for i := range fans {
		c := &out.Classes[i]
		for j := range fans[i] {
			fans[i][j].weight = stands[fans[i][j].root]
		}
		fans[i] = slices.DeleteFunc(fans[i], func(f fan) bool { return !(f.weight > 0) })
		if c.Traces = len(fans[i]); c.Traces == 0 {
			continue
		}
		leaves := 0
		for _, f := range fans[i] {
			leaves += len(f.scores)
		}
		c.FanOut = api.Float(float64(leaves) / float64(c.Traces))
		if c.Traces >= fewestTraces {
			c.Together = jackknife(fans[i])
		}
	}
	return nil
}

// fanned returns the leaves of a trace by class, if several were asked at once.
func fanned(of []*store.TraceHit, service string, classes map[string]int) map[int][]*store.TraceHit {
	out := map[int][]*store.TraceHit{}
	for _, h := range of {
		if class, ok := classes[h.Operation]; ok && h.Service == service && !h.Failed {
			out[class] = append(out[class], h)
		}
	}
	for class, leaves := range out {
		slices.SortFunc(leaves, func(a, b *store.TraceHit) int { return int(min(max(a.StartNanos-b.StartNanos, -1), 1)) })
		// The largest group that overlaps: a second round of leaves is another query.
		var best []*store.TraceHit
		from, end := 0, int64(0)
		for i, h := range leaves {
			if h.StartNanos >= end {
				from = i
			}
			end = max(end, h.StartNanos+h.DurationNanos)
			if i+1-from > len(best) {
				best = leaves[from : i+1]
			}
		}
		if out[class] = best; len(best) < 2 {
			delete(out, class)
		}
	}
	return out
}

// scores ranks leaves in their class and slot.
func (g *gathered) scores(class int, leaves []*store.TraceHit) []float64 {
	c := g.classes[class]
	out := make([]float64, len(leaves))
	for i, h := range leaves {
		in := c.whole
		end := (h.StartNanos + h.DurationNanos) / 1e9
		if slot := (end - g.start) / g.step; end >= g.start && slot < int64(g.n) && c.slots[slot] != nil && c.slots[slot].Count >= own {
			in = c.slots[slot]
		}
		out[i] = score(in, float64(h.DurationNanos)/1e9)
	}
	return out
}

func score(in *hist.Histogram, v float64) float64 {
	rank := in.Rank(v)
	all := rank.Below + rank.Same + rank.Above
	p := (rank.Below + rank.Same/2) / all
	edge := 0.5 / float64(in.Count)
	return math.Sqrt2 * math.Erfinv(2*min(max(p, edge), 1-edge)-1)
}

// standFor returns the number of requests that each kept trace stands for.
func standFor(ctx context.Context, st store.Store, r Request, kept map[stratum]int, every int64) (map[stratum]float64, error) {
	out := map[stratum]float64{}
	if len(kept) == 0 {
		return out, nil
	}
	roots := map[string]bool{}
	for s := range kept {
		roots[regexp.QuoteMeta(s.service)] = true
	}
	of, err := labels.NewMatcher(labels.MatchRegexp, series.LabelService, strings.Join(slices.Sorted(maps.Keys(roots)), "|"))
	if err != nil {
		return nil, fmt.Errorf("services of kept traces: %w", err)
	}
	found, err := query.Requests(ctx, st, query.RequestsRequest{
		Selection: query.Selection{Start: r.Start, End: r.End, Matchers: []*labels.Matcher{of}},
		Grid:      query.Grid{Step: every}, By: []string{series.LabelOperation}, Measure: store.Buckets,
	})
	if err != nil {
		return nil, err
	}
	for _, g := range found.Groups {
		for i := range g.Good {
			for _, h := range []*hist.Histogram{g.Good[i], g.Failed[i]} {
				if h == nil {
					continue
				}
				for b := range h.All() {
					s := stratum{g.Labels.Get(series.LabelService), g.Labels.Get(series.LabelOperation), (found.Start + int64(i)*found.Step) / every, octave((max(0, b.Lower) + b.Upper) / 2)}
					if n := kept[s]; n > 0 {
						out[s] += float64(b.Count) / float64(n)
					}
				}
			}
		}
	}
	return out, nil
}

// alike holds weighted sums over traces for the correlation within groups.
type alike struct{ weight, sum, squares, pairs float64 }

func (a alike) plus(f fan, times float64) alike {
	w, k := f.weight*times, float64(len(f.scores))
	sum, squares := 0.0, 0.0
	for _, z := range f.scores {
		sum, squares = sum+z, squares+z*z
	}
	a.weight += w
	a.sum += w * sum / k
	a.squares += w * squares / k
	a.pairs += w * (sum*sum - squares) / (k * (k - 1))
	return a
}

func (a alike) value() float64 {
	mean := a.sum / a.weight
	variance := a.squares/a.weight - mean*mean
	return (a.pairs/a.weight - mean*mean) / variance
}

func jackknife(fans []fan) api.ScalingValue {
	var all alike
	for _, f := range fans {
		all = all.plus(f, 1)
	}
	value := all.value()
	if math.IsNaN(value) {
		return unknown
	}
	n, mean := float64(len(fans)), 0.0
	without := make([]float64, len(fans))
	for i, f := range fans {
		without[i] = all.plus(f, -1).value()
		mean += without[i] / n
	}
	spread := 0.0
	for _, v := range without {
		spread += (v - mean) * (v - mean)
	}
	const z975 = 1.959963984540054
	half := z975 * math.Sqrt(spread*(n-1)/n)
	within := func(v float64) api.Float { return api.Float(min(max(v, 0), 1)) }
	return api.ScalingValue{Value: within(value), Low: within(value - half), High: within(value + half)}
}

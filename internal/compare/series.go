package compare

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/stat"
)

// kind is what sides are made of.
type kind int

const (
	ofSpans        kind = iota // requests, or parts of them
	ofObservations             // a distribution that came as a metric
	ofNumbers                  // a counter, a gauge, or what falls to each request
)

// settleFamily finds out what is measured.
func (c *comparison) settleFamily(ctx context.Context) error {
	if query.IsSpanFamily(c.Family) {
		c.unit = "seconds"
		if c.Per != "" {
			return query.Invalid("per", "%s is of requests itself; leave per out, or name a metric, such as process_cpu_time_seconds_total", c.Family)
		}
		return nil
	}
	info, err := query.Family(ctx, c.st, c.Family)
	if err != nil {
		return err
	}
	if len(query.SlotLengths(info.IntervalSeconds)) == 0 {
		return query.Invalid("family", "%s is exported every %d s, and slots longer than an hour are not compared; export it more often", c.Family, info.IntervalSeconds)
	}
	c.interval, c.unit, c.number = info.IntervalSeconds, query.Unit(c.Family), info.Kind
	if c.kind = ofNumbers; info.Kind == series.Distribution && c.Per == "" {
		c.kind = ofObservations
	}
	return nil
}

// what sides are made of, in a word.
func (c *comparison) what() string {
	switch c.kind {
	case ofObservations:
		return "observation"
	case ofNumbers:
		return "sample"
	}
	return "request"
}

// notStrata are labels that say who measured, not what: a rollout changes them.
var notStrata = []string{series.LabelInstance, series.LabelVersion, series.LabelVariant}

// settleSeries finds the series there are, and which of their labels are strata.
func (c *comparison) settleSeries(ctx context.Context, sides []where) error {
	values := map[string]map[string]bool{}
	for i, w := range sides {
		c.seen[i] = map[string]bool{}
		for _, r := range w.ranges(int64(series.Base)) {
			res, err := c.st.Query(ctx, store.Query{Family: c.Family, Matchers: c.Matchers, Start: r.start, End: r.end, Each: true, Measure: store.Moments, Schema: hist.DefaultSchema})
			if err != nil {
				return err
			}
			for _, g := range res.Groups {
				if c.Label != "" {
					switch g.Labels.Get(c.Label) {
					case c.ValueA:
						c.seen[0] = noted(c.seen[0], g.Labels, c.Label)
					case c.ValueB:
						c.seen[1] = noted(c.seen[1], g.Labels, c.Label)
					default:
						continue
					}
				} else {
					c.seen[i] = noted(c.seen[i], g.Labels)
				}
				g.Labels.Range(func(l labels.Label) {
					if values[l.Name] == nil {
						values[l.Name] = map[string]bool{}
					}
					values[l.Name][l.Value] = true
				})
			}
		}
	}
	c.nobodys = len(values) > 0 && values[series.LabelService] == nil
	names := slices.Sorted(maps.Keys(values))
	for _, name := range names {
		if name != c.Label && name != series.LabelService && !slices.Contains(notStrata, name) && len(values[name]) > 1 {
			c.by = append(c.by, name)
		}
	}
	// More would be read than can be judged one by one.
	kinds := map[string]bool{}
	for _, seen := range c.seen {
		for key := range seen {
			kinds[key] = true
		}
	}
	if len(kinds) > mostSeries {
		c.by = nil
	}
	return nil
}

// mostSeries bounds the series that are told apart by their labels.
const mostSeries = 5000

func noted(seen map[string]bool, l labels.Labels, without ...string) map[string]bool {
	if seen == nil {
		seen = map[string]bool{}
	}
	seen[labels.NewBuilder(l).Del(without...).Labels().String()] = true
	return seen
}

// gatherSeries reads a family that is not of spans.
func (c *comparison) gatherSeries(ctx context.Context, w where, step int64, more ...*labels.Matcher) (*side, error) {
	s := w.side(step)
	by := slices.Clone(c.by)
	if !c.nobodys {
		by = append(by, series.LabelService)
	}
	for _, p := range s.places() {
		found, err := query.Slots(ctx, c.st, query.SlotsRequest{Selection: c.within(span{p.start, p.start + int64(p.n)*step}, more...), Step: step, By: by, Per: c.Per})
		if err != nil {
			return nil, err
		}
		if found.Slot > step {
			return newSide(w.span, found.Slot), nil
		}
		if len(found.Groups) > 0 {
			s.found(p)
		}
		for i := range found.Groups {
			g := &found.Groups[i]
			x := s.stratum(c.labelled(g.Labels), g.Den != nil)
			if g.Hists == nil {
				x.seen.Count += g.Count
			}
			for t := range g.Hists {
				x.seen.Merge(moment(g.Hists[t]))
				if err := mergeInto(&x.good[p.first+t], g.Hists[t]); err != nil {
					return nil, err
				}
			}
			for t := range g.Den {
				x.num[p.first+t] += g.Num[t]
				x.den[p.first+t] += g.Den[t]
			}
		}
	}
	return s, nil
}

// labelled names a stratum by its labels.
func (c *comparison) labelled(l labels.Labels) operation {
	var words []string
	for _, name := range c.by {
		if v := l.Get(name); v != "" {
			words = append(words, name+"="+v)
		}
	}
	o := operation{service: l.Get(series.LabelService), operation: strings.Join(words, " ")}
	if c.Label == series.LabelService {
		o.service = ""
	}
	return o
}

// tally takes strata of numbers together. Gauges are means over their series,
// so what they are divided by adds up; seconds and requests do not.
func (c *comparison) tally(s *side, names []operation) stat.Tally {
	out := stat.Tally{Num: make([]float64, s.slots()), Den: make([]float64, s.slots())}
	for _, name := range names {
		x := s.strata[name]
		if x == nil {
			continue
		}
		for t, d := range x.den {
			out.Num[t] += x.num[t]
			if c.number == series.Gauge {
				out.Den[t] += d
			} else {
				out.Den[t] = max(out.Den[t], d)
			}
		}
	}
	return out
}

// numbers are the sides of numbers as package stat takes them: all strata
// together, and each by itself.
func (c *comparison) numbers() (whole *strata, each []*strata, names []operation) {
	names = namesOf(c.a, c.b)
	of := func(names []operation) *strata {
		return &strata{valuesA: []stat.Tally{c.tally(c.a, names)}, valuesB: []stat.Tally{c.tally(c.b, names)}}
	}
	whole = of(names)
	for _, name := range names {
		each = append(each, of([]operation{name}))
	}
	return whole, each, names
}

// warnSeries says when the sides are not of the same series: what is added up,
// or averaged, is then not the same.
func (c *comparison) warnSeries() {
	var came, went []string
	for key := range c.seen[1] {
		if !c.seen[0][key] {
			came = append(came, key)
		}
	}
	for key := range c.seen[0] {
		if !c.seen[1][key] {
			went = append(went, key)
		}
	}
	if len(came)+len(went) == 0 {
		return
	}
	some := func(keys []string) string {
		slices.Sort(keys)
		const few = 2
		out := strings.Join(keys[:min(few, len(keys))], ", ")
		if more := len(keys) - few; more > 0 {
			out += fmt.Sprintf(" and %d more", more)
		}
		return out
	}
	var words []string
	if len(went) > 0 {
		words = append(words, "only A has "+some(went))
	}
	if len(came) > 0 {
		words = append(words, "only B has "+some(came))
	}
	c.warning("series", "the sides are not of the same series, %d and %d of them: %s", len(c.seen[0]), len(c.seen[1]), strings.Join(words, "; "))
}

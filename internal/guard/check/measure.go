package check

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"tailscope/hist"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// lastWhole returns the end of the last slot that is surely whole at a moment.
func lastWhole(at time.Time) time.Time { return time.Unix(query.LastWhole(at), 0) }

// measurer measures queries by the store. One query measures all groups of by.
type measurer struct {
	store  store.Store
	target func(ctx context.Context, service string) float64
}

// cacheTargets keeps the targets of services for the length of one question.
func (a measurer) cacheTargets() measurer {
	known := map[string]float64{}
	of := a.target
	a.target = func(ctx context.Context, service string) float64 {
		t, ok := known[service]
		if !ok {
			t = of(ctx, service)
			known[service] = t
		}
		return t
	}
	return a
}

// tally counts the spans or values of one group in the window.
type tally struct {
	labels labels.Labels
	// Good and failed are spans without and with status="error"; of measures that
	// do not tell them apart all is good. Entry are those of kind server or
	// consumer alone, kept by apdex.
	good, failed, entryGood, entryFailed *hist.Histogram
	n                                    series.Number
	num, den                             float64 // of a counter
}

// measure measures q over the window that ends at end. The result is keyed by the labels
// of by, in the order given, joined by joinValues. A group of which nothing was
// seen is absent.
func (a *measurer) measure(ctx context.Context, q *spec.Query, by []string, end time.Time) (map[string]event.Reading, error) {
	over := q.Over
	if over <= 0 {
		over = 5 * time.Minute
	}
	over = (over + 9*time.Second) / (10 * time.Second) * (10 * time.Second)
	family := q.Series.Family
	if family == "" {
		family = series.SpanDuration
	}
	start := end.Add(-over)
	matchers := q.Series.Matchers
	if q.Cohort != "" { // whose tenants are found anew each time
		of, err := labels.NewMatcher(labels.MatchEqual, series.LabelCohort, q.Cohort)
		if err != nil {
			return nil, err
		}
		if matchers, err = query.MatchTenants(ctx, a.store, family, append(slices.Clone(matchers), of), start.Unix(), end.Unix()); err != nil {
			return nil, err
		}
	}
	m := q.Measure
	if m == "apdex" {
		own := a.cacheTargets()
		a = &own
	}
	group := slices.Clone(by)
	failures := query.IsSpanFamily(family) && (m == "errors" || m == "apdex")
	if failures {
		group = append(group, series.LabelStatus)
	}
	if m == "apdex" {
		group = append(group, series.LabelKind, series.LabelService)
		slices.Sort(group)
		group = slices.Compact(group)
	}
	names := slices.Clone(group)
	for _, m := range matchers {
		names = append(names, m.Name)
	}
	view, ok := query.ViewOf(family, names...)
	if !ok {
		return nil, errors.New("tenant and instance are not kept together; name one of the two")
	}
	sq := store.Query{Family: family, View: view, Matchers: matchers, Start: start.Unix(), End: end.Unix(), By: group, Schema: hist.MaxSchema}
	if m == "rate" || m == "count" || m == "mean" || m == "min" || m == "max" || m == "sum" || m == "errors" {
		sq.Measure = store.Moments
	}
	res, err := a.store.Query(ctx, sq)
	if err != nil {
		return nil, err
	}
	tallies := map[string]*tally{}
	counter := false
	for _, g := range res.Groups {
		if len(g.Points) == 0 {
			continue
		}
		if g.Kind == series.Counter && m == "rate" {
			counter = true
			break
		}
		if err := addPoint(tallies, by, g.Labels, g.Points[0]); err != nil {
			return nil, err
		}
	}
	if counter {
		if tallies, err = a.measureIncreases(ctx, family, matchers, by, start, end); err != nil {
			return nil, err
		}
	}
	out := make(map[string]event.Reading, max(1, len(tallies)))
	for key, t := range tallies {
		out[key] = a.readTally(ctx, q, t, over)
	}
	if _, ok := out[""]; !ok && len(by) == 0 {
		out[""] = emptyReading(q.Measure)
	}
	return out, nil
}

// emptyReading returns the reading of a group without data: 0 for a measure that counts,
// null otherwise.
func emptyReading(measure string) event.Reading {
	if measure == "count" || measure == "rate" {
		return event.Reading{Text: "nothing was seen"}
	}
	return event.Reading{Null: true, Value: math.NaN(), Text: "nothing was seen"}
}

func addPoint(tallies map[string]*tally, by []string, l labels.Labels, p store.MergedPoint) error {
	key := joinValues(l, by)
	t := tallies[key]
	if t == nil {
		t = &tally{labels: l}
		tallies[key] = t
	}
	if p.Hist == nil {
		t.n.Merge(p.Number)
		return nil
	}
	into, entry := &t.good, &t.entryGood
	if l.Get(series.LabelStatus) == "error" {
		into, entry = &t.failed, &t.entryFailed
	}
	if series.IsRequest(l.Get(series.LabelKind)) {
		if err := add(entry, p.Hist.Clone()); err != nil {
			return err
		}
	}
	return add(into, p.Hist)
}

func add(into **hist.Histogram, h *hist.Histogram) error {
	if *into == nil {
		*into = h
		return nil
	}
	return (*into).Merge(h)
}

// measureIncreases measures counters, whose increase lies between samples.
func (a *measurer) measureIncreases(ctx context.Context, family string, matchers []*labels.Matcher, by []string, start, end time.Time) (map[string]*tally, error) {
	s, err := query.Slots(ctx, a.store, query.SlotsRequest{
		Selection: query.Selection{Family: family, Matchers: matchers, Start: start, End: end}, Step: int64(series.Base), By: by,
	})
	if err != nil {
		return nil, err
	}
	if s.Slot > int64(series.Base) { // exported or kept more coarsely
		step := s.Slot
		from := start.Unix() / step * step
		to := max(from+step, end.Unix()/step*step)
		if s, err = query.Slots(ctx, a.store, query.SlotsRequest{
			Selection: query.Selection{Family: family, Matchers: matchers, Start: time.Unix(from, 0), End: time.Unix(to, 0)}, Step: step, By: by,
		}); err != nil {
			return nil, err
		}
	}
	tallies := map[string]*tally{}
	for _, g := range s.Groups {
		t := &tally{labels: g.Labels}
		for i := range g.Num {
			t.num, t.den = t.num+g.Num[i], t.den+g.Den[i]
		}
		if t.den > 0 {
			tallies[joinValues(g.Labels, by)] = t
		}
	}
	return tallies, nil
}

// readTally returns the reading of a group's tally.
func (a *measurer) readTally(ctx context.Context, q *spec.Query, t *tally, over time.Duration) event.Reading {
	if t.good == nil && t.failed == nil {
		return numberReading(q.Measure, t)
	}
	all := t.good
	count := func(h *hist.Histogram) uint64 {
		if h == nil {
			return 0
		}
		return h.Count
	}
	n := count(t.good) + count(t.failed)
	if n == 0 {
		return emptyReading(q.Measure)
	}
	var m hist.Moment
	for _, h := range []*hist.Histogram{t.good, t.failed} {
		if h != nil {
			m.Merge(h.Moment())
		}
	}
	value := math.NaN()
	switch q.Measure {
	case "errors":
		value = float64(count(t.failed)) / float64(n)
	case "apdex":
		good, failed := t.good, t.failed
		if count(t.entryGood)+count(t.entryFailed) > 0 {
			good, failed = t.entryGood, t.entryFailed
		}
		target := q.T
		if target <= 0 {
			target = query.DefaultApdexT
			if service := t.labels.Get(series.LabelService); service != "" {
				target = a.target(ctx, service)
			}
		}
		value = query.ScoreApdex(good, count(failed), target).Score
	case "mean":
		value = all.Mean()
	case "min":
		value = all.Min
	case "max":
		value = all.Max
	case "sum":
		value = all.Sum
	case "count":
		value = float64(n)
	case "rate":
		value = float64(n) / over.Seconds()
	case "above", "below":
		within, _, _ := all.AtMost(q.T)
		if value = within / float64(n); q.Measure == "above" {
			value = 1 - value
		}
	default:
		p, ok := percentile(q.Measure)
		if !ok {
			return event.Reading{Null: true, Value: value, Err: fmt.Errorf("measure %q is not known of a distribution; write p99, mean, rate, errors, apdex, above or below", q.Measure)}
		}
		value = all.Quantile(p)
	}
	seen := "of " + strconv.FormatUint(n, 10) + " observed"
	if worth := query.Effective(m); worth > 0 {
		seen += ", worth " + strconv.FormatUint(worth, 10)
	}
	return reading(value, seen)
}

// percentile reads p99 and p99.9 as quantiles.
func percentile(measure string) (float64, bool) {
	digits, ok := strings.CutPrefix(measure, "p")
	if !ok {
		return 0, false
	}
	p, err := strconv.ParseFloat(digits, 64)
	return p / 100, err == nil && p >= 0 && p <= 100
}

func numberReading(measure string, t *tally) event.Reading {
	n := t.n
	if n.Count == 0 && t.den == 0 {
		return emptyReading(measure)
	}
	switch measure {
	case "last", "":
		return reading(n.Last, "")
	case "mean":
		return reading(n.Sum/float64(n.Count), "")
	case "min":
		return reading(n.Min, "")
	case "max":
		return reading(n.Max, "")
	case "sum":
		return reading(n.Sum, "")
	case "count":
		return reading(float64(n.Count), "")
	case "rate":
		if t.den > 0 {
			return reading(t.num/t.den, "")
		}
		return event.Reading{Null: true, Value: math.NaN(), Err: errors.New("rate needs a counter, this is a gauge; write last, mean, min, max or sum")}
	}
	return event.Reading{Null: true, Value: math.NaN(), Err: fmt.Errorf("measure %q is not known of a number; write last, mean, min, max, sum or rate", measure)}
}

// reading is null where the value is not a number.
func reading(v float64, text string) event.Reading {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return event.Reading{Null: true, Value: math.NaN(), Text: text}
	}
	return event.Reading{Value: v, Text: text}
}

// joinValues returns the values of labels, in that order, in one string.
func joinValues(l labels.Labels, by []string) string {
	switch len(by) {
	case 0:
		return ""
	case 1:
		return l.Get(by[0])
	}
	var b strings.Builder
	for _, name := range by {
		b.WriteString(l.Get(name))
		b.WriteByte(0)
	}
	return b.String()
}

// promQL evaluates a scalar, or a vector of one element.
func promQL(ctx context.Context, e *query.PromEngine, text string, at time.Time) event.Reading {
	null := func(err error) event.Reading { return event.Reading{Null: true, Value: math.NaN(), Err: err} }
	if e == nil {
		return null(errors.New("promql is not available here"))
	}
	q, err := e.Instant(ctx, promql.NewPrometheusQueryOpts(false, 0), text, at)
	if err != nil {
		return null(err)
	}
	defer q.Close()
	res := q.Exec(ctx)
	if res.Err != nil {
		return null(res.Err)
	}
	switch v := res.Value.(type) {
	case promql.Scalar:
		return reading(v.V, "")
	case promql.Vector:
		if len(v) == 0 {
			return event.Reading{Null: true, Value: math.NaN(), Text: "the vector is empty"}
		}
		if len(v) > 1 {
			return null(fmt.Errorf("the vector has %d elements; aggregate it, for example by sum(…), or use each", len(v)))
		}
		if v[0].H != nil {
			return null(errors.New("the answer is a histogram; take histogram_quantile, histogram_avg or histogram_count of it"))
		}
		return reading(v[0].F, "")
	}
	return null(fmt.Errorf("the answer is a %s; write an expression of a scalar or a vector", res.Value.Type()))
}

package query

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// topBytes is what the engine holds of a series that topk may keep.
const topBytes = 48

// flushDelay is how long after a slot's end the store may not yet have it.
const flushDelay = 20 * time.Second

// promQueryable shows a store to Prometheus' engine: each distribution is a
// series of gauge histograms, one per slot in which something happened, at the
// slot's end; counters and gauges are their raw samples.
type promQueryable struct {
	store     store.Store
	now       func() time.Time
	maxSeries int
	shift     int64 // seconds that the store's time is ahead of the engine's; only tests have any
	kept      *promKept

	grow, longer int   // see counter
	top          int64 // likewise
}

// promKept keeps what a query has selected, for its next run. It is used by one
// goroutine.
type promKept struct {
	ctx  context.Context // of all runs
	sets map[string]*promSet
}

func keptKey(hints *storage.SelectHints, sorted bool, ms []*labels.Matcher) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v %v", *hints, sorted)
	for _, m := range ms {
		b.WriteByte(0)
		b.WriteString(m.String())
	}
	return b.String()
}

func (q *promQueryable) Querier(mint, maxt int64) (storage.Querier, error) {
	return &promQuerier{q, mint, maxt}, nil
}

type promQuerier struct {
	*promQueryable
	mint, maxt int64
}

func (q *promQuerier) Close() error { return nil }

func (q *promQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	if hints == nil {
		hints = &storage.SelectHints{Start: q.mint, End: q.maxt}
	}
	key := ""
	if q.kept != nil {
		key = keptKey(hints, sorted, ms)
		if set := q.kept.sets[key]; set != nil {
			again := *set
			again.next = 0
			return &again
		}
	}
	set := &promSet{ctx: ctx, budget: store.BudgetOf(ctx), grow: q.grow, longer: q.longer}
	if q.kept != nil {
		set.ctx = q.kept.ctx
	}
	before := set.budget.Used()
	if err := q.selectInto(ctx, set, hints, ms); err != nil {
		return storage.ErrSeriesSet(AsError(err))
	}
	// What the store answered has been made into samples.
	set.budget.Release(set.budget.Used() - before - set.held)
	n := int64(len(set.series))
	if err := set.hold(int(min(n, q.top) * n * topBytes)); err != nil {
		return storage.ErrSeriesSet(AsError(err))
	}
	if sorted {
		sort.Slice(set.series, func(i, j int) bool { return labels.Compare(set.series[i].labels, set.series[j].labels) < 0 })
	}
	if q.kept != nil {
		q.kept.sets[key] = set
	}
	return set
}

func (q *promQuerier) selectInto(ctx context.Context, set *promSet, hints *storage.SelectHints, ms []*labels.Matcher) error {
	families, err := familiesByName(ctx, q.store)
	if err != nil {
		return err
	}
	var m marker
	var rest []*labels.Matcher
	marked := false
	for _, lm := range ms {
		switch lm.Name {
		case markerName:
			if m, err = parseMarker(lm.Value); err != nil {
				return err
			}
			marked = true
		case labels.MetricName:
		default:
			rest = append(rest, lm)
		}
	}
	if !marked {
		// Not through the rewriter, or a selector whose matchers must stay as they are.
		if _, c, others, ok := classicOf(families, ms, named(ms, labelJob) || slices.Contains(hints.Grouping, labelJob)); ok {
			m.classic, ms, rest = c, others, without(others, labels.MetricName)
		}
		if m.classic.suffix == "_info" {
			m.sum, m.by = true, infoBy
		}
		names := append(append(matcherNames(rest), m.by...), series.LabelOperation)
		var ok bool
		if m.view, ok = ViewOf(series.SpanDuration, names...); !ok {
			return Invalid("query", "tenant and instance are not kept together; name one of the two")
		}
	}
	selected := selectFamilies(families, ms)
	for _, f := range selected {
		set.as = m.classic
		q, err := q.settled(ctx, f.Name, rest, m.by)
		if err != nil {
			return err
		}
		if set.listed = hints.Func == seriesHint; set.listed {
			if err := q.labelSets(ctx, set, f, m, rest); err != nil {
				return err
			}
			continue
		}
		if f.Kind == series.Distribution {
			err = q.distributions(ctx, set, f, m, hints, rest)
		} else {
			err = q.numbers(ctx, set, f, hints, rest)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settled returns q with the cohorts of its whole range where a selector of the family names
// them: the store is asked for a range in parts.
func (q *promQuerier) settled(ctx context.Context, family string, ms []*labels.Matcher, by []string) (*promQuerier, error) {
	if !byCohort(family, append(matcherNames(ms), by...)) {
		return q, nil
	}
	if _, err := cohortsOf(ms); err != nil {
		return nil, err
	}
	start, end := q.slots()
	of, err := settleCohorts(ctx, q.store, Selection{Family: family, Matchers: ms, Start: time.Unix(max(0, min(start, end-cohortTime)), 0), End: time.Unix(end, 0)})
	if err != nil {
		return nil, AsError(err)
	}
	settled := *q.promQueryable
	settled.store = of
	return &promQuerier{&settled, q.mint, q.maxt}, nil
}

// labelSets lists series without their samples.
func (q *promQuerier) labelSets(ctx context.Context, set *promSet, f store.FamilyInfo, m marker, ms []*labels.Matcher) error {
	view := m.view
	if !IsSpanFamily(f.Name) {
		view = series.Full
	}
	start, end := q.slots()
	res, err := q.store.Query(ctx, store.Query{
		Family: f.Name, View: view, Matchers: ms, Start: start, End: end, By: m.by, Each: !m.sum, Measure: store.Moments, MaxSeries: q.maxSeries,
	})
	if err != nil {
		return AsError(err)
	}
	for _, g := range res.Groups {
		if err := set.keepAs(m.classic, f.Name, g.Labels, []promSample{{}}); err != nil {
			return err
		}
	}
	return nil
}

// distributions reads a distribution: its slots, one sample at each one's end,
// or the sums of windows if the marker says so.
func (q *promQuerier) distributions(ctx context.Context, set *promSet, f store.FamilyInfo, m marker, hints *storage.SelectHints, ms []*labels.Matcher) error {
	sq := store.Query{Family: f.Name, Matchers: ms, By: m.by, Each: !m.sum, Schema: hist.MaxSchema, MaxSeries: q.maxSeries}
	if IsSpanFamily(f.Name) {
		sq.View = m.view
	}
	if m.moments {
		sq.Measure = store.Moments
	}
	if m.window > 0 {
		return q.windows(ctx, set, f, m, hints, sq)
	}
	step := int64(series.Base)
	sq.Start, sq.End = floorTo(ceilDiv(hints.Start, 1000)-1, step)+q.shift, floorTo(hints.End, 1000*step)/1000+q.shift
	if sq.Start >= sq.End {
		return nil
	}
	sq.Step = step
	res, err := q.store.Query(ctx, sq)
	if err != nil {
		return AsError(err)
	}
	if kept := int64(res.Resolution); kept > step {
		step, sq.Step = kept, kept
		sq.Start, sq.End = series.Resolution(kept).Slot(sq.Start), series.Resolution(kept).Slot(sq.End+kept-1)
		if res, err = q.store.Query(ctx, sq); err != nil {
			return AsError(err)
		}
		set.warn("%s is kept only by %s this far back", f.Name, durationText(time.Duration(kept)*time.Second))
	}
	gap := step
	if f.IntervalSeconds > 0 {
		gap = max(gap, (f.IntervalSeconds+step-1)/step*step+step)
	}
	for _, g := range res.Groups {
		samples := make([]promSample, 0, len(g.Points)+1)
		for _, p := range g.Points {
			if p.Hist != nil && p.Hist.Count > 0 {
				samples = append(samples, promSample{t: (p.Start - q.shift + step) * 1000, h: m.convert(p.Hist)})
			}
		}
		if hints.Range == 0 && m.classic.suffix != "_info" {
			samples = q.endings(samples, gap*1000)
		}
		if err := set.keepAs(m.classic, f.Name, g.Labels, samples); err != nil {
			return err
		}
	}
	return nil
}

// endings puts a stale marker where the first slot is empty, so that an
// instant selector does not show what is long past. The end of the data is an
// ending only once a further slot would have been flushed.
func (q *promQuerier) endings(samples []promSample, gap int64) []promSample {
	if len(samples) == 0 {
		return samples
	}
	out := make([]promSample, 0, len(samples)+4)
	for i, s := range samples {
		out = append(out, s)
		next := s.t + gap
		ended := false
		if i+1 < len(samples) {
			ended = samples[i+1].t > next
		} else {
			ended = next+flushDelay.Milliseconds()+q.shift*1000 <= q.now().UnixMilli()
		}
		if ended {
			out = append(out, promSample{t: next, h: staleHistogram})
		}
	}
	return out
}

var staleHistogram = &histogram.FloatHistogram{Sum: math.Float64frombits(value.StaleNaN)}

// numbers reads raw samples; before the oldest of them, the last value of each slot.
func (q *promQuerier) numbers(ctx context.Context, set *promSet, f store.FamilyInfo, hints *storage.SelectHints, ms []*labels.Matcher) error {
	shift := q.shift * 1000
	raw, err := q.store.Samples(ctx, store.SampleQuery{
		Family: f.Name, Matchers: ms, StartMillis: hints.Start + shift, EndMillis: hints.End + shift, MaxSeries: q.maxSeries,
	})
	if err != nil {
		return AsError(err)
	}
	oldest := make(map[string]int, len(raw)) // by labels, index into raw
	late := len(raw) == 0
	for i, s := range raw {
		oldest[string(s.Labels.Bytes(nil))] = i
		late = late || len(s.Samples) == 0 || s.Samples[0].TimeMillis > hints.Start+shift+60_000
	}
	older := map[string][]promSample{}
	var alone []store.Group
	if late {
		a, b := floorTo(hints.Start+shift, 10_000)/1000, ceilDiv(hints.End+shift+1, 10_000)*10
		res, err := q.store.Query(ctx, store.Query{Family: f.Name, Matchers: ms, Start: a, End: b, Step: int64(series.Base), Each: true, MaxSeries: q.maxSeries})
		if err != nil {
			return AsError(err)
		}
		for _, g := range res.Groups {
			key := string(g.Labels.Bytes(nil))
			until := int64(math.MaxInt64)
			i, ok := oldest[key]
			if ok && len(raw[i].Samples) > 0 {
				until = raw[i].Samples[0].TimeMillis
			}
			samples := make([]promSample, 0, len(g.Points))
			for _, p := range g.Points {
				if t := p.Number.LastTimeMillis; p.Number.Count > 0 && t < until && t >= hints.Start+shift && t <= hints.End+shift {
					samples = append(samples, promSample{t: t - shift, v: p.Number.Last})
				}
			}
			older[key] = samples
			if !ok {
				alone = append(alone, g)
			}
		}
	}
	for _, s := range raw {
		samples := older[string(s.Labels.Bytes(nil))]
		samples = slices.Grow(samples, len(s.Samples))
		for _, v := range s.Samples {
			samples = append(samples, promSample{t: v.TimeMillis - shift, v: v.Value})
		}
		if err := set.keep(f.Name, s.Labels, samples); err != nil {
			return err
		}
	}
	for _, g := range alone {
		if err := set.keep(f.Name, g.Labels, older[string(g.Labels.Bytes(nil))]); err != nil {
			return err
		}
	}
	return nil
}

func ceilDiv(a, b int64) int64 { return -(floorTo(-a, b) / b) }

// LabelValues lists the values of a label among the families and series the matchers select.
func (q *promQuerier) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	families, err := familiesByName(ctx, q.store)
	if err != nil {
		return nil, nil, err
	}
	suffix, asked := "", ms
	if family, c, others, ok := classicOf(families, ms, false); ok {
		if ms, suffix = others, c.suffix; name == labels.BucketLabel {
			return c.texts(family), nil, nil
		}
	}
	var out []string
	if ok, err := q.listed(ctx, families, name, asked, func(l labels.Labels) {
		if v := l.Get(name); v != "" {
			out = append(out, v)
		}
	}); ok || err != nil {
		sort.Strings(out)
		return limited(slices.Compact(out), hints), nil, err
	}
	rest := without(without(ms, labels.MetricName), markerName)
	start, end := q.slots()
	for _, f := range selectFamilies(families, ms) {
		if name == labels.MetricName && len(rest) == 0 {
			out = append(out, f.Name+suffix)
			continue
		}
		for _, v := range labelViews(f.Name, append(matcherNames(rest), name)) {
			if name == labels.MetricName {
				names, err := q.store.LabelNames(ctx, f.Name, v, rest, start, end)
				if err != nil {
					return nil, nil, err
				}
				if len(names) > 0 {
					out = append(out, f.Name+suffix)
				}
				continue
			}
			values, err := q.store.LabelValues(ctx, f.Name, v, name, rest, start, end)
			if err != nil {
				return nil, nil, err
			}
			out = append(out, values...)
		}
	}
	sort.Strings(out)
	return limited(slices.Compact(out), hints), nil, nil
}

// LabelNames lists the labels of the families and series the matchers select.
func (q *promQuerier) LabelNames(ctx context.Context, hints *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	families, err := familiesByName(ctx, q.store)
	if err != nil {
		return nil, nil, err
	}
	var out []string
	if ok, err := q.listed(ctx, families, "", ms, func(l labels.Labels) {
		l.Range(func(l labels.Label) { out = append(out, l.Name) })
	}); ok || err != nil {
		sort.Strings(out)
		return limited(slices.Compact(out), hints), nil, err
	}
	if _, c, others, ok := classicOf(families, ms, false); ok {
		if ms = others; c.suffix == "_bucket" {
			out = append(out, labels.BucketLabel)
		}
	}
	rest := without(without(ms, labels.MetricName), markerName)
	start, end := q.slots()
	for _, f := range selectFamilies(families, ms) {
		views := labelViews(f.Name, matcherNames(rest))
		if IsSpanFamily(f.Name) && !named(rest, series.LabelTenant) && !besideTenant(rest) {
			views = []series.View{series.Full, series.Marginal}
		}
		for _, v := range views {
			names, err := q.store.LabelNames(ctx, f.Name, v, rest, start, end)
			if err != nil {
				return nil, nil, err
			}
			if len(names) > 0 {
				out = append(append(out, labels.MetricName), names...)
			}
			if IsSpanFamily(f.Name) && slices.Contains(names, series.LabelTenant) {
				out = append(out, series.LabelCohort)
			}
		}
	}
	sort.Strings(out)
	return limited(slices.Compact(out), hints), nil, nil
}

// labelViews returns the view that has the labels, none if no view has them all.
func labelViews(family string, names []string) []series.View {
	v, ok := ViewOf(family, names...)
	if !ok {
		return nil
	}
	return []series.View{v}
}

func limited(s []string, hints *storage.LabelHints) []string {
	if hints != nil && hints.Limit > 0 && len(s) > hints.Limit {
		return s[:hints.Limit]
	}
	return s
}

// slots returns the querier's range in the store's time, widened to base slots.
func (q *promQuerier) slots() (start, end int64) {
	start = max(floorTo(q.mint, 10_000)/1000+q.shift, 0)
	return start, max(min(floorTo(q.maxt, 10_000)/1000+q.shift+10, farFuture), start+10)
}

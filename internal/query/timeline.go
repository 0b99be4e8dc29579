package query

import (
	"context"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// TimelineRequest asks for figures per step.
type TimelineRequest struct {
	Selection
	Grid
	By        []string
	Quantiles []Quantile
	// Offset reads the data that much earlier and moves it forward, to lay
	// yesterday over today. Whole seconds.
	Offset time.Duration
	// Overlay reads the data of an earlier day by wall clock, instead of Offset.
	Overlay Overlay
	Per     string // PerRequest, or empty
	Limit   int    // > 0 keeps the groups with the most observations
	// Slide, if above 0, makes the figures of a step those of the window of
	// that length that ends with it, rounded up to whole steps.
	Slide time.Duration
}

const statusError = series.StatusError

// Timeline answers quantiles, mean, rate and error ratio per step and group;
// for number families their value.
func Timeline(ctx context.Context, st store.Store, r TimelineRequest) (*api.TimelineResponse, error) {
	if byCohort(r.Family, r.By) {
		var err error
		if st, err = settleNamed(ctx, st, &r.Selection); err != nil {
			return nil, err
		}
	}
	if r.Offset%time.Second != 0 {
		return nil, Invalid("offset", "offset %s is not whole seconds; write 1d or 90s", r.Offset)
	}
	if err := r.Overlay.check(); err != nil {
		return nil, err
	}
	if r.Overlay.Name != "" && r.Offset != 0 {
		return nil, Invalid("overlay", "overlay and offset both move the data; write one of them")
	}
	r.Start, r.End = r.Start.Add(-r.Offset), r.End.Add(-r.Offset)
	shown := r.Start
	r.Start = r.Start.Add(-max(0, r.Slide))
	sel, err := resolve(ctx, st, r.Selection, r.By)
	if err != nil {
		return nil, err
	}
	q := sel.q
	number := sel.info.Kind != series.Distribution
	// A span's status is read along with its time, so that one pass answers both.
	split := sel.span && !slices.Contains(r.By, series.LabelStatus)
	switch {
	case number:
		q.Each = true
	case split:
		q.By = append(slices.Clone(r.By), series.LabelStatus)
	case r.Limit > 0:
		q.TopK = r.Limit
	}
	t := &timeline{until: lastBase(r.End), kind: sel.info.Kind, span: sel.span, by: r.By, quantiles: len(r.Quantiles)}
	if err := r.checkSlide(number); err != nil {
		return nil, err
	}
	if t.service, err = sel.checkPer(r.Per); err != nil {
		return nil, err
	}
	off := int64(r.Offset / time.Second)
	var slot int64
	if r.Overlay.Name != "" {
		slot, err = t.overlay(ctx, st, q, r, sel.info.IntervalSeconds)
	} else {
		slot, err = t.shown(ctx, st, q, r, sel.info.IntervalSeconds)
	}
	if err != nil {
		return nil, err
	}
	if err := checkGroups(len(t.order)); err != nil {
		return nil, err
	}
	if r.Slide > 0 {
		if err := t.slide(r.Slide, shown.Unix()); err != nil {
			return nil, err
		}
	}
	out := &api.TimelineResponse{
		Range: api.Range{Start: t.start + off, End: t.start + int64(t.n)*t.step + off}, Family: sel.info.Name, Step: t.step, Slot: slot,
		Offset: off, Per: r.Per, Times: make([]int64, t.n), Groups: make([]api.TimelineGroup, 0, len(t.order)),
	}
	out.Slide = int64(t.window) * t.step
	out.Overlay = r.Overlay.describe(shown.Unix(), r.End.Unix())
	for i := range out.Times {
		out.Times[i] = t.start + off + int64(i)*t.step
	}
	if r.Limit > 0 {
		sort.SliceStable(t.order, func(i, j int) bool { return t.order[i].total > t.order[j].total })
		t.order = t.order[:min(len(t.order), r.Limit)]
	}
	for _, g := range t.order {
		out.Groups = append(out.Groups, t.render(g, r.Quantiles))
	}
	return out, nil
}

// shown fills t with what the range holds.
func (t *timeline) shown(ctx context.Context, st store.Store, q store.Query, r TimelineRequest, interval int64) (slot int64, err error) {
	r.exact = r.Offset == 0 // earlier data go on beyond the end
	res, q, err := stepped(ctx, st, q, r.Start, r.End, r.Grid, interval)
	if err != nil {
		return 0, err
	}
	t.reset(q.Start, q.Step, int((q.End-q.Start)/q.Step))
	if r.Offset > 0 {
		t.until = max(t.until, min(q.End, t.until+int64(r.Offset/time.Second)))
	}
	return slotOf(res), t.fill(ctx, st, res, r.cut(q, r.End))
}

// fill takes the answer of q in.
func (t *timeline) fill(ctx context.Context, st store.Store, res *store.Result, q store.Query) error {
	if t.service != "" {
		if err := t.countRequests(ctx, st, q); err != nil {
			return err
		}
	}
	if err := t.reserve(ctx, res); err != nil {
		return err
	}
	if t.kind != series.Distribution {
		return t.numbers(ctx, st, res, q)
	}
	return t.distributions(res)
}

// timelineCellBytes is what a step of a group takes: its cell, its figures and
// their text in the answer.
const (
	timelineCellBytes   = 320
	timelineFigureBytes = 30 // of each quantile
)

// reserve takes the memory for the groups that res adds, most of whose steps may
// be empty.
func (t *timeline) reserve(ctx context.Context, res *store.Result) error {
	fresh := map[string]bool{}
	for _, g := range res.Groups {
		if key := groupKey(g.Labels, t.by); t.groups[key] == nil {
			fresh[key] = true
		}
	}
	if err := checkGroups(len(fresh)); err != nil {
		return err
	}
	return store.BudgetOf(ctx).Reserve(int64(len(fresh)) * int64(t.n) * int64(timelineCellBytes+timelineFigureBytes*t.quantiles))
}

// timeline gathers merged points into one cell per group and step.
type timeline struct {
	start, step int64
	shift       int64 // how far slots are moved forward before they are placed
	n           int
	window      int   // steps that a figure is of, 0 for its own alone
	until       int64 // end of the range asked for, where the last step may not have ended
	kind        series.Kind
	span        bool
	by          []string
	quantiles   int // of each step
	groups      map[string]*timelineGroup
	order       []*timelineGroup
	service     string    // whose requests divide; empty: nothing is divided
	requests    []float64 // of service, per step
}

type timelineGroup struct {
	labels labels.Labels
	total  uint64
	cells  []timelineCell
}

type timelineCell struct {
	hist   *hist.Histogram // nil where nothing happened
	owned  bool            // hist may be merged into
	errors uint64
	number series.Number
	value  float64 // number series: summed over series
	series int     // how many series gave value
}

func (t *timeline) group(l labels.Labels) *timelineGroup {
	key := groupKey(l, t.by)
	g := t.groups[key]
	if g == nil {
		g = &timelineGroup{labels: pick(l, t.by), cells: make([]timelineCell, t.n)}
		t.groups[key] = g
		t.order = append(t.order, g)
	}
	return g
}

func groupKey(l labels.Labels, by []string) string {
	if len(by) == 1 {
		return l.Get(by[0])
	}
	return string(appendGroupKey(nil, l, by))
}

// appendGroupKey appends a key of the labels named by, which ends with each value.
func appendGroupKey(b []byte, l labels.Labels, by []string) []byte {
	for _, n := range by {
		b = append(append(b, l.Get(n)...), 0xff)
	}
	return b
}

func pick(l labels.Labels, by []string) labels.Labels {
	b := labels.NewScratchBuilder(len(by))
	for _, n := range by {
		if v := l.Get(n); v != "" {
			b.Add(n, v)
		}
	}
	b.Sort()
	return b.Labels()
}

// lastBase is the end of the base slot that holds the last moment before end.
func lastBase(end time.Time) int64 {
	_, b := Base(end.Add(-1), end)
	return b
}

// seconds is how much of step i lies before the end of the range.
func (t *timeline) seconds(i int) float64 {
	from := t.start + int64(i)*t.step
	before := float64(max(0, t.window-1)) * float64(t.step)
	if d := t.until - from; d > 0 && d < t.step {
		return before + float64(d)
	}
	return before + float64(t.step)
}

// index returns the cell of a slot's start, -1 outside the range.
func (t *timeline) index(slot int64) int {
	slot += t.shift
	i := (slot - t.start) / t.step
	if slot < t.start || i >= int64(t.n) {
		return -1
	}
	return int(i)
}

func (t *timeline) distributions(res *store.Result) error {
	for _, sg := range res.Groups {
		g := t.group(sg.Labels)
		failed := sg.Labels.Get(series.LabelStatus) == statusError
		for _, p := range sg.Points {
			i := t.index(p.Start)
			if i < 0 || p.Hist == nil || p.Hist.Count == 0 {
				continue
			}
			c := &g.cells[i]
			g.total += p.Hist.Count
			if failed {
				c.errors += p.Hist.Count
			}
			switch {
			case c.hist == nil:
				c.hist = p.Hist
			default:
				if !c.owned {
					c.hist, c.owned = c.hist.Clone(), true
				}
				if err := c.hist.Merge(p.Hist); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// numbers fills values: a gauge's last, averaged over the group's series; a
// counter's increase per second, summed over them. An increase needs the point
// before the range, which is read first.
func (t *timeline) numbers(ctx context.Context, st store.Store, res *store.Result, q store.Query) error {
	before := map[string]float64{}
	if t.kind == series.Counter {
		prev := q
		prev.Start, prev.End = q.Start-q.Step, q.Start
		pres, err := st.Query(ctx, prev)
		if err != nil {
			return err
		}
		for _, g := range pres.Groups {
			if n := len(g.Points); n > 0 {
				before[g.Labels.String()] = g.Points[n-1].Number.Last
			}
		}
	}
	for _, sg := range res.Groups {
		g := t.group(sg.Labels)
		last, known := before[sg.Labels.String()]
		for _, p := range sg.Points {
			i := t.index(p.Start)
			if i < 0 || p.Number.Count == 0 {
				continue
			}
			c := &g.cells[i]
			c.number.Merge(p.Number)
			g.total += p.Number.Count
			switch {
			case t.kind == series.Gauge:
				c.value += p.Number.Last
				c.series++
			case known:
				c.value += increase(last, p.Number) / t.seconds(i)
				c.series++
			}
			last, known = p.Number.Last, true
		}
	}
	return nil
}

// increase is what a counter rose by from its last value before a slot to the
// last in it. A fall says that it began again from zero, once.
func increase(before float64, n series.Number) float64 {
	switch {
	case n.Max > n.Last: // within the slot
		return max(n.Max-before, 0) + n.Last
	case n.Min < before:
		return n.Last
	}
	return n.Last - before
}

func (t *timeline) render(g *timelineGroup, qs []Quantile) api.TimelineGroup {
	out := api.TimelineGroup{
		Labels: labelMap(g.labels), Count: make([]uint64, t.n), Rate: nans(t.n), Mean: nans(t.n),
		Quantiles: make(map[string][]api.Float, len(qs)),
	}
	number := t.kind != series.Distribution
	if number || t.service != "" {
		out.Value = nans(t.n)
	}
	out.ErrorRate = nans(t.n)
	cols := make([][]api.Float, len(qs))
	if !number {
		for i, q := range qs {
			cols[i] = nans(t.n)
			out.Quantiles[q.Key] = cols[i]
		}
	}
	worst := 0.0
	for i := range g.cells {
		c := &g.cells[i]
		if number {
			if n := c.number; n.Count > 0 {
				out.Count[i] = n.Count
				out.Rate[i] = api.Float(float64(n.Count) / t.seconds(i))
				out.Mean[i] = api.Float(n.Sum / float64(n.Count))
			}
			if c.series > 0 {
				v := c.value
				if t.kind == series.Gauge {
					v /= float64(c.series)
				}
				if t.service != "" {
					v = t.perRequest(i, v*t.seconds(i))
				}
				out.Value[i] = api.Float(v)
			}
			continue
		}
		h := c.hist
		if h == nil {
			continue
		}
		out.Count[i] = h.Count
		out.Rate[i] = api.Float(float64(h.Count) / t.seconds(i))
		out.Mean[i] = api.Float(h.Mean())
		if t.service != "" {
			out.Value[i] = api.Float(t.perRequest(i, h.Sum))
		}
		if t.span {
			out.ErrorRate[i] = api.Float(float64(c.errors) / float64(h.Count))
		}
		for j, q := range qs {
			cols[j][i] = api.Float(h.Quantile(q.Q))
		}
		if len(qs) > 0 {
			worst = max(worst, h.RelativeError())
		}
	}
	out.Error = api.Float(worst)
	return out
}

func nans(n int) []api.Float {
	s := make([]api.Float, n)
	for i := range s {
		s[i] = api.Float(math.NaN())
	}
	return s
}

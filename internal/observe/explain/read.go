package explain

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

const (
	// slotsWanted is the least number of slots that the rectangle's time, and the rest
	// of the range, are cut into where shorter slots are kept. Many more would add
	// little evidence, and cost reading.
	slotsWanted = 30
	// mostSeries bounds the series that are read one by one, and pointsAtOnce the
	// distributions that are held at a time.
	mostSeries   = 20_000
	pointsAtOnce = 40_000
)

// lengths holds the possible lengths of slots, in seconds, multiples of those kept; the
// longest are a week, half a year, and between, so that no range has many slots.
var lengths = []int64{10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400,
	2 * 86400, 7 * 86400, 21 * 86400, 63 * 86400, 189 * 86400}

// slotLength returns the longest length that cuts a span into the slots wanted.
func slotLength(seconds int64) int64 {
	best := lengths[0]
	for _, l := range lengths {
		if seconds/l >= slotsWanted {
			best = l
		}
	}
	return best
}

// rectangle widens the request to whole slots and whole buckets. It returns nil if
// nothing was observed in the rectangle's time.
func (q *question) rectangle(ctx context.Context) (*hist.Histogram, error) {
	start, end := query.Base(q.Start, q.End)
	ask, h, err := q.values(ctx)
	if err != nil {
		return nil, err
	}
	ask.Start, ask.End, ask.Step, ask.Measure = start, end, slotLength(end-start), store.Moments
	whole, err := q.st.Query(ctx, ask)
	if err != nil {
		return nil, err
	}
	q.out.Start, q.out.End = min(whole.Start, q.out.From), max(whole.End, q.out.To)
	first, last, err := q.trim(ctx, ask, whole)
	if err != nil {
		return nil, err
	}
	from, to := max(q.out.From, first), min(q.out.To, last)
	q.cut(from, to, true)
	q.cut(first, from, false)
	q.cut(to, last, false)
	return h, nil
}

// values widens the rectangle's values to whole buckets of what was observed in its time,
// which is nil if nothing was, and its time to whole slots. It returns the query of them.
func (q *question) values(ctx context.Context) (store.Query, *hist.Histogram, error) {
	ask := store.Query{Family: q.Family, Matchers: q.Matchers, Schema: hist.DefaultSchema}
	names := make([]string, 0, len(q.Matchers))
	for _, m := range q.Matchers {
		names = append(names, m.Name)
	}
	var ok bool
	if ask.View, ok = query.ViewOf(q.Family, names...); !ok {
		return ask, nil, query.Invalid("match", "tenant and instance are not kept together; name one of the two")
	}
	ask.Start, ask.End = query.Base(q.From, q.To)
	res, err := q.st.Query(ctx, ask)
	if err != nil {
		return ask, nil, err
	}
	q.out.From, q.out.To = res.Start, res.End
	var h *hist.Histogram
	for _, g := range res.Groups {
		if len(g.Points) > 0 && g.Points[0].Hist != nil {
			h = g.Points[0].Hist
		}
	}
	if h == nil || h.Count == 0 {
		q.band = band{low: q.Low, high: q.High}
		q.note("no %s were measured in the rectangle's time: draw another, or take a filter off", q.what)
	} else {
		q.band = bandOf(h, q.Low, q.High)
		q.weigh(h)
	}
	q.out.Low, q.out.High = api.Float(q.band.low), api.Float(q.band.high)
	return ask, h, nil
}

// weigh learns how many observations one independent one stands for (Kish 1965).
func (q *question) weigh(h *hist.Histogram) { q.each = max(q.each, float64(h.Count)/h.Effective()) }

// counted returns how many observations so many independent ones stand for.
func (q *question) counted(n float64) uint64 { return uint64(math.Round(n * q.each)) }

// cut adds [from, to) to what is read.
func (q *question) cut(from, to int64, window bool) {
	pieces, n := cutSlots(from, to, q.window+q.rest)
	for i := range pieces {
		// Against the time before, values count everywhere.
		if pieces[i].measure = store.Moments; window || q.Against != Rest {
			pieces[i].measure = store.Buckets
		}
	}
	if q.pieces = append(q.pieces, pieces...); window {
		q.window += n
	} else {
		q.rest += n
	}
}

// trim returns the times of the first and last observations within the range: only the
// time between is cut into slots, or few would hold anything. res is the answer to ask.
func (q *question) trim(ctx context.Context, ask store.Query, res *store.Result) (start, end int64, err error) {
	start, end = q.out.Start, q.out.End
	for {
		first, last := end, start
		coarse := max(0, int64(res.Resolution-series.Base)) // a slot may reach over a step's ends
		for _, g := range res.Groups {
			for _, x := range g.Points {
				if x.Hist != nil && x.Hist.Count > 0 {
					first, last = min(first, x.Start-coarse), max(last, x.Start+ask.Step+coarse)
				}
			}
		}
		if last <= first {
			return start, end, nil
		}
		long := end - start
		start, end = max(start, first), min(end, last)
		if 2*(end-start) > long {
			return start, end, nil
		}
		ask.Start, ask.End, ask.Step = start, end, slotLength(end-start)
		if res, err = q.st.Query(ctx, ask); err != nil {
			return start, end, err
		}
	}
}

// table holds counts by slot of series: the slots of the rectangle's time first, then
// those of the rest of the range, or of the time before.
type table struct {
	window, rest int
	both         bool // values count in all slots
	slots        []span
	labels       []labels.Labels
	rows         []counts
	index        map[string]int
	values       [][]int32 // by row: numbers of its labels' values
}

// span is [start, end), in Unix seconds.
type span struct{ start, end int64 }

// counts holds observations by slot: in those within the rectangle's values, for the
// slots of its time or, against the time before, for every slot; all those of every slot.
type counts struct{ in, all []float64 }

func sum(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

func (c *counts) inside() float64  { return sum(c.in) }
func (c *counts) outside() float64 { return sum(c.all) - sum(c.in) }

func (t *table) empty() counts {
	in := t.window
	if t.both {
		in += t.rest
	}
	return counts{make([]float64, in), make([]float64, t.window+t.rest)}
}

func (c *counts) add(o counts, sign float64) {
	for i, v := range o.in {
		c.in[i] += sign * v
	}
	for i, v := range o.all {
		c.all[i] += sign * v
	}
}

func (t *table) row(l labels.Labels, buf []byte) (*counts, []byte) {
	buf = l.Bytes(buf)
	i, ok := t.index[string(buf)]
	if !ok {
		i = len(t.rows)
		t.index[string(buf)] = i
		t.labels, t.rows = append(t.labels, l), append(t.rows, t.empty())
	}
	return &t.rows[i], buf
}

func (t *table) total() counts {
	out := t.empty()
	for _, r := range t.rows {
		out.add(r, 1)
	}
	return out
}

// drop removes the slots that are empty in total.
func (t *table) drop(total counts) {
	window := 0
	var keep []int
	for i, v := range total.all {
		if v > 0 {
			keep = append(keep, i)
			if i < t.window {
				window++
			}
		}
	}
	if len(keep) == len(total.all) {
		return
	}
	t.window, t.rest = window, len(keep)-window
	for to, at := range keep {
		t.slots[to] = t.slots[at]
	}
	t.slots = t.slots[:len(keep)]
	for i, r := range t.rows {
		c := t.empty()
		for to, at := range keep {
			if c.all[to] = r.all[at]; to < len(c.in) {
				c.in[to] = r.in[at]
			}
		}
		t.rows[i] = c
	}
}

// piece is a sequence of slots of one length; step 0 is one slot.
type piece struct {
	start, end, step int64
	first            int // number of its first slot
	measure          store.Measure
}

func (p *piece) slots() int {
	if p.step == 0 {
		return 1
	}
	return int((p.end - p.start + p.step - 1) / p.step)
}

// cutSlots cuts [from, to) into slots that begin at round times, as longer kept slots do; the
// first and the last may be shorter.
func cutSlots(from, to int64, first int) (out []piece, n int) {
	if to <= from {
		return nil, 0
	}
	step := slotLength(to - from)
	add := func(a, b, s int64) {
		if b > a {
			p := piece{start: a, end: b, step: s, first: first + n}
			out, n = append(out, p), n+p.slots()
		}
	}
	head := min(to, (from+step-1)/step*step)
	tail := max(head, to/step*step)
	add(from, head, 0)
	add(head, tail, step)
	add(tail, to, 0)
	return out, n
}

// matches reports whether the selection says anything about a label.
func (q *question) matches(name string) bool {
	return slices.ContainsFunc(q.Matchers, func(m *labels.Matcher) bool { return m.Name == name })
}

// read reads all series: main has every label but tenant, or with tenant if that is the
// only one; tenants has tenant, and may lack some of them.
func (q *question) read(ctx context.Context) (main, tenants *table, err error) {
	ask := store.Query{Family: q.Family, Matchers: q.Matchers, Each: true, Schema: hist.DefaultSchema, MaxSeries: q.most}
	if q.band.schema != hist.Explicit {
		ask.Schema = q.band.schema
	}
	if !q.span {
		ask.View = series.Full
		main, err = q.load(ctx, ask)
		return main, main, err
	}
	wants := func(name string) bool { return len(q.Labels) == 0 || slices.Contains(q.Labels, name) }
	if q.matches(series.LabelTenant) {
		ask.View = series.Full
		if len(q.Labels) > 0 && (wants(series.LabelInstance) || wants(series.LabelPeer)) {
			q.note("instances and peers are not kept together with tenants: leave tenant out of match to look at them")
		}
		main, err = q.load(ctx, ask)
		return main, main, err
	}
	ask.View = series.Marginal
	if main, err = q.load(ctx, ask); err != nil {
		return nil, nil, err
	}
	if q.matches(series.LabelInstance) || q.matches(series.LabelPeer) || !wants(series.LabelTenant) {
		if wants(series.LabelTenant) {
			q.note("tenants are not kept together with instances and peers: leave those out of match to look at them")
		}
		return main, nil, nil
	}
	ask.View = series.Full
	if tenants, err = q.load(ctx, ask); !errors.Is(err, store.ErrTooMany) {
		return main, tenants, err
	}
	for _, most := range []int{200, 50, 10} {
		if tenants, err = q.heaviest(ctx, ask, most); !errors.Is(err, store.ErrTooMany) {
			q.note("of tenants only the %d with the most %s were looked at: add a label to match to look at more", most, q.what)
			return main, tenants, err
		}
	}
	q.note("there are too many series of tenants to look at them: add a label to match")
	return main, nil, nil
}

// heaviest reads the series of the tenants with the most observations.
func (q *question) heaviest(ctx context.Context, ask store.Query, most int) (*table, error) {
	res, err := q.st.Query(ctx, store.Query{Family: q.Family, View: ask.View, Matchers: q.Matchers, Start: q.out.Start, End: q.out.End,
		By: []string{series.LabelTenant}, Measure: store.Moments, TopK: most, Schema: hist.DefaultSchema})
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(res.Groups))
	for _, g := range res.Groups {
		names = append(names, g.Labels.Get(series.LabelTenant))
	}
	m, err := labels.NewMatcher(labels.MatchRegexp, series.LabelTenant, series.Either(names...))
	if err != nil {
		return nil, err
	}
	ask.Matchers = append(slices.Clone(ask.Matchers), m)
	return q.load(ctx, ask)
}

// load reads the counts of every series: buckets where values count, and only counts
// elsewhere.
func (q *question) load(ctx context.Context, ask store.Query) (*table, error) {
	t := &table{window: q.window, rest: q.rest, both: q.Against != Rest, index: map[string]int{}}
	for _, p := range q.pieces {
		for at := range p.slots() {
			start := p.start + int64(at)*p.step
			end := p.end
			if p.step > 0 {
				end = min(end, start+p.step)
			}
			t.slots = append(t.slots, span{start, end})
		}
		ask.Measure = p.measure
		if err := q.loadPiece(ctx, t, ask, p); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// loadPiece reads a piece in parts that fit the memory.
func (q *question) loadPiece(ctx context.Context, t *table, ask store.Query, p piece) error {
	var buf []byte
	for at := 0; at < p.slots(); {
		slots := 1
		if len(t.rows) > 0 {
			slots = max(1, min(p.slots()-at, pointsAtOnce/len(t.rows)))
		}
		ask.Start, ask.End, ask.Step = p.start, p.end, p.step
		if p.step > 0 {
			ask.Start = p.start + int64(at)*p.step
			ask.End = min(p.end, ask.Start+int64(slots)*p.step)
		}
		res, err := q.st.Query(ctx, ask)
		if err != nil {
			return err
		}
		q.out.Slot = max(q.out.Slot, int64(res.Resolution))
		if len(t.rows)+len(res.Groups) > 2*q.most {
			return store.ErrTooMany
		}
		for _, g := range res.Groups {
			if g.Kind != series.Distribution {
				continue
			}
			var row *counts
			row, buf = t.row(g.Labels, buf)
			b := q.bandOf(g.Labels)
			for _, x := range g.Points {
				if x.Hist == nil {
					continue
				}
				slot := p.first + at
				if p.step > 0 {
					slot += int((x.Start - ask.Start) / p.step)
				}
				if row.all[slot] += float64(x.Hist.Count) / q.each; ask.Measure == store.Buckets {
					row.in[slot] += float64(b.count(x.Hist)) / q.each
				}
			}
		}
		at += slots
	}
	return nil
}

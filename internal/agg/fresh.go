package agg

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Fresh returns st with what was accepted and is not stored yet: what a Commit has
// acknowledged is in the next answer. Each observation is counted once, also in an answer
// that is read while a generation is stored.
//
// Of a question with TopK, groups that are not among the greatest of what is stored are
// left out until they are stored. Nearest and traces answer what is stored: a trace is kept
// seconds after its last span, with its own generation. Checks and verdicts of
// marks ask the store itself, for they wait until the slots that they read are flushed.
func (a *Aggregator) Fresh(st store.Store) store.Store { return &fresh{st, a} }

type fresh struct {
	store.Store
	a *Aggregator
}

// Query reads the generations in memory first, then the store, and drops those that the
// store's answer holds by then.
func (f *fresh) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	q.Writer = f.a.o.Writer
	for try := 0; ; try++ {
		open, err := f.a.unstored(ctx, &q)
		if err != nil {
			return nil, err
		}
		shown, err := f.Store.Flushed(ctx, q.Writer)
		if err != nil {
			return nil, err
		}
		res, err := f.Store.Query(ctx, q)
		if err != nil || len(open) == 0 {
			return res, err
		}
		if res.Flushed <= shown || try == publishTries {
			return res, addUnstored(res, open, &q)
		}
		// The store answers with points of a generation whose new series it does not know
		// yet, and will in a moment.
		store.BudgetOf(ctx).Release(held(open))
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// publishTries bounds how often a question is asked again while the store publishes a
// generation.
const publishTries = 50

// unstored is what a generation in memory adds to an answer.
type unstored struct {
	generation uint64
	groups     map[string]*unstoredGroup // by labels and kind
	series     int                       // that matched
	points     int
	bytes      int64 // reserved of the question's budget
}

type unstoredGroup struct {
	labels labels.Labels
	kind   series.Kind
	points map[int64]*unstoredPoint // by start
}

type unstoredPoint struct {
	hist   *hist.Histogram
	moment hist.Moment
	number series.Number
}

// unstoredBytes estimates the memory of a group with a point.
const unstoredBytes = 600

func held(open []*unstored) (n int64) {
	for _, u := range open {
		n += u.bytes
	}
	return n
}

// unstored reads the generations that are not stored, oldest first. A generation that is
// stored meanwhile may be missing.
func (a *Aggregator) unstored(ctx context.Context, q *store.Query) ([]*unstored, error) {
	var out []*unstored
	for _, g := range a.generations() {
		u := &unstored{generation: g.number, groups: map[string]*unstoredGroup{}}
		r := freshReader{a: a, g: g, q: q, u: u, by: slices.Compact(slices.Sorted(slices.Values(q.By))), budget: store.BudgetOf(ctx)}
		err := a.readGeneration(ctx, g, q.Family, q.View, q.Matchers, r.series)
		if err == nil && q.View == series.Full {
			err = a.readMembers(ctx, g, q.Family, q.Matchers, r.member)
		}
		out = append(out, u)
		if err != nil {
			r.budget.Release(held(out))
			return nil, fmt.Errorf("query %s: %w", q.Family, err)
		}
	}
	return slices.DeleteFunc(out, func(u *unstored) bool { return len(u.groups) == 0 }), nil
}

// generations returns the generations that are not stored, oldest first.
func (a *Aggregator) generations() []*generation {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	return append(slices.Clone(a.frozen), a.open)
}

// Reading a generation blocks ingest for at most readAtOnce units: a series that is passed
// over is one, and one that matches, or one of its cells, is readMatch.
const (
	readAtOnce = 8192
	readMatch  = 64
)

// letIngest counts a unit of reading under mu, and returns mu for a moment after each
// readAtOnce of them.
func (a *Aggregator) letIngest(ctx context.Context, units *int) error {
	if *units++; *units <= readAtOnce {
		return nil
	}
	*units = 0
	a.mu.Unlock()
	defer a.mu.Lock()
	return ctx.Err()
}

// readGeneration calls yield with each matching series that has cells in g: the number of
// the series whose cells are to be read, and the series that they are counted under, which
// differ where Total cells are not made yet. Of the registry it reads the lists of series
// that may match. It holds mu meanwhile, and returns it between calls. It ends early when g
// is stored.
func (a *Aggregator) readGeneration(ctx context.Context, g *generation, family string, view series.View, matchers []*labels.Matcher,
	yield func(number uint32, s *series.Series) (cells int, err error)) error {
	g.reading.RLock()
	defer g.reading.RUnlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if g.stored {
		return nil
	}
	g.cells.observeMarginals() // less than a slab of durations
	units := 0
	// each calls of with the numbers of a list that have cells. A series that is numbered
	// meanwhile may be missing; those with cells in g keep their numbers.
	each := func(list []uint32, of func(n uint32) (cells int, err error)) error {
		for _, n := range slices.Clone(list) {
			if err := a.letIngest(ctx, &units); err != nil {
				return err
			}
			if g.stored {
				return nil
			}
			if int(n) >= len(g.cells.heads) || g.cells.heads[n] == 0 {
				continue
			}
			cells, err := of(n)
			if err != nil {
				return err
			}
			units += readMatch * cells
		}
		return nil
	}
	whole := func(n uint32) (int, error) {
		s := a.reg.meta.at(n)
		if total := a.reg.series.at(n).total; view == series.Total && !g.totals && total != 0 {
			s = a.reg.meta.at(total)
		}
		if s.View != view || family != "" && s.Family != family || !series.Matches(s.Labels, matchers) {
			return 0, nil
		}
		cells, err := yield(n, s)
		return 1 + cells, err
	}
	families := []string{family}
	if family == "" {
		families = slices.Collect(maps.Keys(a.reg.families))
	}
	ofTenant, ofRest := splitTenant(matchers)
	for _, name := range families {
		of := view
		if view == series.Total && !g.totals {
			of = series.Marginal
		}
		if err := each(a.reg.listed[listKey{family: name, view: of}], whole); err != nil {
			return err
		}
		if view != series.Full {
			continue
		}
		// Series that share their labels are matched once but for the tenant.
		for _, marginal := range slices.Clone(a.reg.listed[listKey{family: name, view: series.Marginal}]) {
			list := a.reg.listed[listKey{like: marginal}]
			if units++; len(list) == 0 {
				continue
			}
			shared := a.reg.common(marginal)
			if !series.Matches(shared.Labels, ofRest) {
				continue
			}
			err := each(list, func(n uint32) (int, error) {
				r := a.reg.series.at(n)
				if r.like != marginal {
					return 0, nil
				}
				tenant := a.reg.tenants.at(r.tenant).name
				if slices.ContainsFunc(ofTenant, func(m *labels.Matcher) bool { return !m.Matches(tenant) }) {
					return 0, nil
				}
				s := shared.WithTenant(tenant)
				cells, err := yield(n, &s)
				return 1 + cells, err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// splitTenant tells the matchers of the tenant from the others.
func splitTenant(matchers []*labels.Matcher) (tenant, rest []*labels.Matcher) {
	for _, m := range matchers {
		if m.Name == series.LabelTenant {
			tenant = append(tenant, m)
		} else {
			rest = append(rest, m)
		}
	}
	return tenant, rest
}

// freshReader adds the cells of a generation to what it adds to an answer.
type freshReader struct {
	a      *Aggregator
	g      *generation
	q      *store.Query
	u      *unstored
	by     []string
	budget *store.Budget
	labels labels.ScratchBuilder
	key    []byte
	h      hist.Histogram
}

func (r *freshReader) series(number uint32, s *series.Series) (cells int, err error) {
	c, group := r.g.cells, (*unstoredGroup)(nil)
	for i := c.heads[number]; i != 0; i = c.at(i).next {
		cells++
		x := c.at(i)
		p, err := r.point(s, &group, x.key>>2)
		if err != nil {
			return cells, err
		}
		if p == nil {
			continue
		}
		if err := r.add(p, x); err != nil {
			return cells, err
		}
	}
	return cells, nil
}

// member adds a duration of the log.
func (r *freshReader) member(s *matchedMember, m memberTime) error {
	p, err := r.point(&s.series, &s.group, m.slot)
	if p == nil || err != nil {
		return err
	}
	var x cell
	r.g.cells.observe(&x, m.nanos, m.weight, noBucket) // has no page after one duration
	return r.add(p, &x)
}

// point returns the point that a slot of a series adds to, or nil if it adds to none. group is
// the series' group, nil before its first point.
func (r *freshReader) point(s *series.Series, group **unstoredGroup, number uint32) (*unstoredPoint, error) {
	slot := int64(number) * int64(series.Base)
	if slot < r.q.Start || slot >= r.q.End {
		return nil, nil
	}
	start := r.q.Start
	if r.q.Step > 0 {
		start += (slot - start) / r.q.Step * r.q.Step
	}
	if *group == nil {
		*group = r.group(s)
		r.u.series++
	}
	r.u.points++
	p := (*group).points[start]
	if p == nil {
		p = &unstoredPoint{}
		(*group).points[start] = p
		if err := r.budget.Reserve(unstoredBytes); err != nil {
			return nil, err
		}
		r.u.bytes += unstoredBytes
	}
	return p, nil
}

// group returns the group of a series.
func (r *freshReader) group(s *series.Series) *unstoredGroup {
	ls := s.Labels
	if !r.q.Each {
		r.labels.Reset()
		for _, name := range r.by {
			if v := ls.Get(name); v != "" {
				r.labels.Add(name, v)
			}
		}
		ls = r.labels.Labels()
	}
	r.key = groupKey(r.key, ls, s.Kind)
	g := r.u.groups[string(r.key)]
	if g == nil {
		g = &unstoredGroup{labels: ls.Copy(), kind: s.Kind, points: map[int64]*unstoredPoint{}}
		r.u.groups[string(r.key)] = g
	}
	return g
}

func groupKey(buf []byte, l labels.Labels, k series.Kind) []byte {
	return append(l.Bytes(buf), byte(k))
}

// add adds a cell to a point. A histogram that cannot be merged is left out, and counted
// when it is stored.
func (r *freshReader) add(p *unstoredPoint, x *cell) error {
	c := r.g.cells
	switch x.mode() {
	case modeNumber:
		p.number.Merge(x.asNumber())
		return nil
	case modeDurations:
		c.histogram(&r.h, x)
		return r.merge(p, &r.h)
	}
	for i := range int(x.n) {
		r.h.Reset(cellSchema)
		if err := r.h.UnmarshalBinary(c.blobBytes(x.w[i])); err == nil {
			if err := r.merge(p, &r.h); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *freshReader) merge(p *unstoredPoint, h *hist.Histogram) error {
	if r.q.Measure == store.Moments {
		p.moment.Merge(h.Moment())
		return nil
	}
	if p.hist == nil {
		p.hist = hist.New(r.q.Schema)
	}
	had := cap(p.hist.Positive.Counts) + cap(p.hist.Negative.Counts)
	if p.hist.Merge(h) != nil {
		return nil
	}
	more := 8 * int64(cap(p.hist.Positive.Counts)+cap(p.hist.Negative.Counts)-had)
	if more <= 0 {
		return nil
	}
	r.u.bytes += more
	return r.budget.Reserve(more)
}

// addUnstored adds to the store's answer the generations that it does not hold.
func addUnstored(res *store.Result, open []*unstored, q *store.Query) error {
	index := make(map[string]int, len(res.Groups))
	var key []byte
	for i := range res.Groups {
		key = groupKey(key, res.Groups[i].Labels, res.Groups[i].Kind)
		index[string(key)] = i
	}
	full := q.TopK > 0 && len(res.Groups) >= q.TopK
	for _, u := range open {
		if u.generation <= res.Flushed {
			continue
		}
		res.PointsRead += u.points
		res.Series = max(res.Series, u.series)
		for k, g := range u.groups {
			i, ok := index[k]
			if !ok {
				if full {
					continue
				}
				i = len(res.Groups)
				index[k] = i
				res.Groups = append(res.Groups, store.Group{Labels: g.labels, Kind: g.kind})
			}
			if err := addPoints(&res.Groups[i], g, q); err != nil {
				return fmt.Errorf("query %s: %w", q.Family, err)
			}
		}
	}
	if q.Each {
		res.Series = len(res.Groups)
	}
	if q.MaxSeries > 0 && res.Series > q.MaxSeries {
		return fmt.Errorf("query %s: %d series match, the limit is %d: %w", q.Family, res.Series, q.MaxSeries, store.ErrTooMany)
	}
	slices.SortFunc(res.Groups, func(x, y store.Group) int {
		if q.TopK > 0 {
			if c := cmp.Compare(countOf(&y), countOf(&x)); c != 0 {
				return c
			}
		}
		return cmp.Or(labels.Compare(x.Labels, y.Labels), cmp.Compare(x.Kind, y.Kind))
	})
	if q.TopK > 0 && len(res.Groups) > q.TopK {
		res.Groups = res.Groups[:q.TopK]
	}
	return nil
}

// countOf returns the number of observations or samples of a group.
func countOf(g *store.Group) (n uint64) {
	for i := range g.Points {
		if h := g.Points[i].Hist; h != nil {
			n += h.Count
		}
		n += g.Points[i].Number.Count
	}
	return n
}

// addPoints adds the points of a group.
func addPoints(to *store.Group, g *unstoredGroup, q *store.Query) error {
	for start, p := range g.points {
		i, ok := slices.BinarySearchFunc(to.Points, start, func(p store.MergedPoint, t int64) int { return cmp.Compare(p.Start, t) })
		if !ok {
			to.Points = slices.Insert(to.Points, i, store.MergedPoint{Start: start})
		}
		at := &to.Points[i]
		switch {
		case g.kind != series.Distribution:
			at.Number.Merge(p.number)
		case q.Measure == store.Moments:
			m := p.moment
			if at.Hist != nil {
				m.Merge(at.Hist.Moment())
			}
			at.Hist = &hist.Histogram{Schema: q.Schema, Count: m.Count, Sum: m.Sum, Min: m.Min, Max: m.Max, Weighted: m.Weighted, Squares: m.Squares}
		case at.Hist == nil:
			at.Hist = p.hist
		default:
			if err := at.Hist.Merge(p.hist); err != nil {
				return err
			}
		}
	}
	return nil
}

// each calls yield with the matching series of spans of tenants in a log that is not stored,
// and with those that have cells in a generation that is not stored and may have series that
// the store does not list. It blocks ingest for a
// moment at a time.
func (f *fresh) each(ctx context.Context, family string, view series.View, matchers []*labels.Matcher, yield func(*series.Series)) error {
	for _, g := range f.a.generations() {
		if view == series.Full && (family == "" || family == series.SpanDuration) {
			err := f.a.readMembers(ctx, g, series.SpanDuration, matchers, func(m *matchedMember, _ memberTime) error {
				if !m.listed {
					m.listed = true
					yield(&m.series)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		if !f.a.hasNewSeries(g) {
			continue
		}
		err := f.a.readGeneration(ctx, g, family, view, matchers, func(_ uint32, s *series.Series) (int, error) {
			yield(s)
			return 0, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// hasNewSeries reports whether a series was numbered since the generation before g was cut.
func (a *Aggregator) hasNewSeries(g *generation) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	to := a.reg.added
	if g != a.open {
		to = g.added
	}
	return to > g.addedBefore
}

// overlaps reports whether a series with unstored points may lie in [start, end), Unix
// seconds: such points are of about now.
func (f *fresh) overlaps(start, end int64) bool {
	now := f.a.o.Now()
	return start <= now.Add(f.a.o.MaxAhead).Unix() && end > start
}

// LabelNames lists what the store does, and the labels of series not stored yet.
func (f *fresh) LabelNames(ctx context.Context, family string, view series.View, matchers []*labels.Matcher, start, end int64) ([]string, error) {
	out, err := f.Store.LabelNames(ctx, family, view, matchers, start, end)
	if err != nil || !f.overlaps(start, end) {
		return out, err
	}
	return f.union(ctx, out, family, view, matchers, func(s *series.Series, add func(string)) {
		s.Labels.Range(func(l labels.Label) { add(l.Name) })
	})
}

// LabelValues lists what the store does, and the values of series not stored yet.
func (f *fresh) LabelValues(ctx context.Context, family string, view series.View, name string, matchers []*labels.Matcher, start, end int64) ([]string, error) {
	out, err := f.Store.LabelValues(ctx, family, view, name, matchers, start, end)
	if err != nil || !f.overlaps(start, end) {
		return out, err
	}
	return f.union(ctx, out, family, view, matchers, func(s *series.Series, add func(string)) {
		if v := s.Labels.Get(name); v != "" {
			add(v)
		}
	})
}

// union adds to a sorted list what a function adds of each series.
func (f *fresh) union(ctx context.Context, list []string, family string, view series.View, matchers []*labels.Matcher, of func(s *series.Series, add func(string))) ([]string, error) {
	more := map[string]bool{}
	err := f.each(ctx, family, view, matchers, func(s *series.Series) {
		of(s, func(v string) {
			if _, ok := slices.BinarySearch(list, v); !ok && !more[v] {
				more[strings.Clone(v)] = true
			}
		})
	})
	if err != nil || len(more) == 0 {
		return list, err
	}
	list = slices.AppendSeq(list, maps.Keys(more))
	slices.Sort(list)
	return list, nil
}

// Series lists what the store does, and then the series not stored yet.
func (f *fresh) Series(ctx context.Context, family string, view series.View, matchers []*labels.Matcher, start, end int64) ([]series.Series, error) {
	out, err := f.Store.Series(ctx, family, view, matchers, start, end)
	if err != nil || !f.overlaps(start, end) {
		return out, err
	}
	known := make(map[series.ID]bool, len(out))
	var buf []byte
	var id series.ID
	add := func(s *series.Series) bool {
		id, buf = s.ID(buf)
		had := known[id]
		known[id] = true
		return !had
	}
	for i := range out {
		add(&out[i])
	}
	err = f.each(ctx, family, view, matchers, func(s *series.Series) {
		if add(s) {
			out = append(out, series.Series{Family: s.Family, View: s.View, Kind: s.Kind, Labels: s.Labels.Copy()})
		}
	})
	return out, err
}

// Families lists what the store does, and the other families that have active series.
func (f *fresh) Families(ctx context.Context) ([]store.FamilyInfo, error) {
	out, err := f.Store.Families(ctx)
	if err != nil {
		return nil, err
	}
	known := make(map[string]bool, len(out))
	for i := range out {
		known[out[i].Name] = true
	}
	a := f.a
	a.mu.Lock()
	for _, n := range a.reg.families {
		if !known[n.name] {
			out = append(out, store.FamilyInfo{Name: n.name, Kind: n.kind, IntervalSeconds: a.families[n.name].IntervalSeconds})
		}
	}
	a.mu.Unlock()
	if len(out) > len(known) {
		slices.SortFunc(out, func(x, y store.FamilyInfo) int { return strings.Compare(x.Name, y.Name) })
	}
	return out, nil
}

// Samples answers what the store does, and the samples not stored yet. Those of one time
// are one sample, so that it does not matter if the store has them by then.
func (f *fresh) Samples(ctx context.Context, q store.SampleQuery) ([]store.SampleSeries, error) {
	recent, err := f.samples(ctx, &q)
	if err != nil {
		return nil, err
	}
	out, err := f.Store.Samples(ctx, q)
	if err != nil || len(recent) == 0 {
		return out, err
	}
	index := make(map[string]int, len(out))
	for i := range out {
		index[string(out[i].Labels.Bytes(nil))] = i
	}
	for k, s := range recent {
		if i, ok := index[k]; ok {
			out[i].Samples = mergeSamples(out[i].Samples, s.Samples)
		} else {
			out = append(out, *s)
		}
	}
	slices.SortFunc(out, func(x, y store.SampleSeries) int { return labels.Compare(x.Labels, y.Labels) })
	if q.MaxSeries > 0 && len(out) > q.MaxSeries {
		return nil, fmt.Errorf("samples of %s: %d series match, the limit is %d: %w", q.Family, len(out), q.MaxSeries, store.ErrTooMany)
	}
	return out, nil
}

// samples returns the matching samples that are not stored, by labels, ascending in time.
func (f *fresh) samples(ctx context.Context, q *store.SampleQuery) (map[string]*store.SampleSeries, error) {
	var ids map[series.ID]bool
	matchers := q.Matchers
	if q.IDs != nil {
		matchers, ids = nil, make(map[series.ID]bool, len(q.IDs))
		for _, id := range q.IDs {
			ids[id] = true
		}
	}
	if !f.overlaps(q.StartMillis/1000, q.EndMillis/1000+1) {
		return nil, nil
	}
	out := map[string]*store.SampleSeries{}
	for _, g := range f.a.generations() {
		of := map[uint32]*store.SampleSeries{}
		err := f.a.readGeneration(ctx, g, q.Family, series.Full, matchers, func(n uint32, s *series.Series) (int, error) {
			if s.Kind == series.Distribution || ids != nil && !ids[f.a.reg.ids[n]] {
				return 0, nil
			}
			k := string(s.Labels.Bytes(nil))
			if out[k] == nil {
				out[k] = &store.SampleSeries{Labels: s.Labels.Copy(), Kind: s.Kind}
			}
			of[n] = out[k]
			return 0, nil
		})
		if err != nil {
			return nil, err
		}
		if len(of) > 0 {
			f.a.readSamples(g, func(s rawSample) {
				if to := of[s.series]; to != nil && s.millis >= q.StartMillis && s.millis <= q.EndMillis {
					to.Samples = append(to.Samples, series.Sample{TimeMillis: s.millis, Value: s.value})
				}
			})
		}
	}
	for k, s := range out {
		if s.Samples = mergeSamples(nil, s.Samples); len(s.Samples) == 0 {
			delete(out, k)
		}
	}
	return out, nil
}

// readSamples calls yield with the samples of a generation, in the order in which those of
// one series and time came.
func (a *Aggregator) readSamples(g *generation, yield func(rawSample)) {
	g.reading.RLock()
	defer g.reading.RUnlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := 0; i < len(g.cells.samples); i++ {
		if yield(g.cells.samples[i]); i%readAtOnce == readAtOnce-1 {
			a.mu.Unlock()
			a.mu.Lock()
		}
	}
}

// mergeSamples adds newer samples, in the order in which they came, to samples in ascending
// time. Of one time the last that came stays.
func mergeSamples(to, newer []series.Sample) []series.Sample {
	all := append(to, newer...)
	slices.SortStableFunc(all, func(x, y series.Sample) int { return cmp.Compare(x.TimeMillis, y.TimeMillis) })
	out := all[:0]
	for _, s := range all {
		if k := len(out) - 1; k >= 0 && out[k].TimeMillis == s.TimeMillis {
			out[k] = s
		} else {
			out = append(out, s)
		}
	}
	return out
}

package pebblestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/runcodec"
	"tailscope/internal/store/tier"
)

// view is what a call reads: one snapshot and the horizon that fits it.
type view struct {
	s    *Store
	snap *pebble.Snapshot
	horizon
}

// openView opens a view of a scope. Retention raises the floors before it deletes, under the same lock,
// so a snapshot holds everything within its horizon.
func (s *Store) openView(sc scope) *view {
	s.mu.RLock()
	defer s.mu.RUnlock()
	v := &view{s: s, snap: s.db.NewSnapshot()}
	v.floor, v.ready = s.floor, s.ready
	v.direct = make(map[partID]bool, len(s.direct)+len(s.coarse[sc]))
	maps.Copy(v.direct, s.direct)
	maps.Copy(v.direct, s.coarse[sc])
	return v
}

func (v *view) close() { v.snap.Close() }

// flushed returns the highest generation of a writer that the snapshot holds, or 0.
// Store.Flushed may lag behind it: a write is visible before it is published.
func (v *view) flushed(writer string) (uint64, error) {
	if writer == "" {
		return 0, nil
	}
	b, closer, err := v.snap.Get(append([]byte{tableWriter}, writer...))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, classify(err)
	}
	defer closer.Close()
	w, err := decodeWriter(b)
	return w.flushed, err
}

// extent returns the bounds of the partitions that hold points; first >= last if there
// are none.
func (v *view) extent() (first, last int64, err error) {
	it, err := v.snap.NewIter(&pebble.IterOptions{})
	if err != nil {
		return 0, 0, classify(err)
	}
	defer it.Close()
	first, last = math.MaxInt64, math.MinInt64
	for tier := range tierSamples {
		prefix := tierPrefix(nil, tier)
		it.SetBounds(prefix, prefixEnd(prefix))
		if it.First() && len(it.Key()) >= 6 {
			first = min(first, dayOf(readTime(it.Key()[2:])))
		}
		// The next move clears an error.
		if err := it.Error(); err != nil {
			return 0, 0, classify(err)
		}
		if it.Last() && len(it.Key()) >= 6 {
			last = max(last, readTime(it.Key()[2:])+tierPart[tier])
		}
		if err := it.Error(); err != nil {
			return 0, 0, classify(err)
		}
	}
	return first, last, nil
}

func (s *Store) family(name string) *family {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.families[name]
}

// Query reads the coarsest slots that fit. See store.Store.
func (s *Store) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if q.Step < 0 {
		return nil, fmt.Errorf("query %s: step %d s is negative", q.Family, q.Step)
	}
	if !store.InRange(q.Start) || !store.InRange(q.End) {
		return nil, fmt.Errorf("query %s: range [%d, %d) is beyond what can be stored", q.Family, q.Start, q.End)
	}
	res := &store.Result{Start: q.Start, End: q.End, Resolution: series.Base}
	f := s.family(q.Family)
	if f == nil || q.End <= q.Start {
		return res, nil
	}
	sc := makeScope(f.number, q.View)
	v := s.openView(sc)
	defer v.close()
	if res.Flushed, err = v.flushed(q.Writer); err != nil {
		return nil, fmt.Errorf("query %s: %w", q.Family, err)
	}
	x := &execution{view: v, ctx: ctx, q: &q, scope: sc, selections: map[int64]*daySelection{}}
	defer func() { store.BudgetOf(ctx).Release(x.passing.Load()) }()
	if err := x.run(res); err != nil {
		return nil, fmt.Errorf("query %s: %w", q.Family, err)
	}
	return res, nil
}

// execution is one query in progress.
type execution struct {
	*view
	ctx   context.Context
	q     *store.Query
	scope scope

	selections map[int64]*daySelection // by day
	grouping   grouping
	steps      int
	held       atomic.Int64 // bytes of the answer so far; see sums.hold
	passing    atomic.Int64 // bytes reserved until the query has ended
}

type daySelection struct {
	selection
	kinds []series.Kind
}

func (x *execution) run(res *store.Result) error {
	first, last, err := x.extent()
	if err != nil || first >= last {
		return err
	}
	spans, from, to := x.cover(x.q.Start, x.q.End, x.q.Step, first, last)
	res.Start, res.End = from, to
	x.steps = 1
	if x.q.Step > 0 {
		x.steps = int((x.q.End - x.q.Start + x.q.Step - 1) / x.q.Step)
	}
	areas := x.areas(spans)
	for _, a := range areas {
		if r := series.Resolutions[a.tier]; r > res.Resolution {
			res.Resolution = r
		}
	}
	for _, a := range areas {
		if err := x.selectDay(dayOf(a.part)); err != nil {
			return err
		}
		res.Series = max(res.Series, len(x.selections[dayOf(a.part)].numbers))
	}
	if x.q.Each {
		res.Series = len(x.grouping.groups)
	}
	if x.q.MaxSeries > 0 && res.Series > x.q.MaxSeries {
		return fmt.Errorf("%d series match, the limit is %d: %w", res.Series, x.q.MaxSeries, store.ErrTooMany)
	}
	measure := x.q.Measure
	if x.q.TopK > 0 && len(x.grouping.groups) > x.q.TopK && measure != store.Moments {
		// Counts are cheap: find the heaviest groups first, then read the buckets of
		// those alone.
		counts, err := x.accumulate(areas, store.Moments, true)
		if err != nil {
			return err
		}
		x.keepHeaviest(counts)
		store.BudgetOf(x.ctx).Release(x.held.Load()) // of the counts
	}
	acc, err := x.accumulate(areas, measure, false)
	if err != nil {
		return err
	}
	res.PointsRead = acc.points
	return x.finish(res, acc)
}

// areas cuts spans into partitions.
func (x *execution) areas(spans []tier.Span) []area {
	var out []area
	add := func(tier int, from, to int64, directOnly bool) {
		for part := partOf(tier, from); part < to; part += tierPart[tier] {
			lo := max(from, part) - part
			hi := min(to, part+tierPart[tier]) - part
			out = append(out, area{tier: tier, part: part, directOnly: directOnly,
				lo: int(lo / tierSlot[tier]), hi: int((hi + tierSlot[tier] - 1) / tierSlot[tier])})
		}
	}
	for _, sp := range spans {
		add(sp.Tier, sp.From, sp.To, false)
		// Slots put directly to coarser tiers that are not rolled up to yet are part of
		// no other answer.
		for t := sp.Tier + 1; t < tierSamples; t++ {
			for part := partOf(t, sp.From); part < sp.To; part += tierPart[t] {
				if !x.direct[partID{t, part}] {
					continue
				}
				from := max(ceilTo(sp.From, tierSlot[t]), part, x.ready[t])
				if to := min(ceilTo(sp.To, tierSlot[t]), part+tierPart[t]); from < to {
					add(t, from, to, true)
				}
			}
		}
	}
	return out
}

// selectDay evaluates the matchers on a day's index.
func (x *execution) selectDay(day int64) error {
	if x.selections[day] != nil {
		return nil
	}
	if err := x.ctx.Err(); err != nil {
		return err
	}
	u, err := x.s.units.get(day, x.scope)
	if err != nil {
		return err
	}
	cols := u.columnsNow()
	sel, err := cols.match(x.ctx, x.q.Matchers)
	if err != nil {
		return err
	}
	if err := x.hold(int64(len(sel)) * selectedBytes); err != nil {
		return err
	}
	d := &daySelection{kinds: cols.kinds}
	d.group = make([]int32, len(sel))
	n := 0
	for _, ok := range sel {
		if ok {
			n++
		}
	}
	d.numbers = make([]uint32, 0, n)
	for i, ok := range sel {
		d.group[i] = -1
		if ok {
			d.numbers = append(d.numbers, uint32(i))
		}
	}
	x.grouping.budget = store.BudgetOf(x.ctx)
	if err := x.grouping.assign(cols, x.q, d); err != nil {
		return err
	}
	x.selections[day] = d
	return nil
}

// selectedBytes is the memory of a selected series of a day, and groupBytes that of a
// group with its labels.
const (
	selectedBytes = 10
	groupBytes    = 400
)

// hold reserves memory that the question needs only during this query.
func (x *execution) hold(bytes int64) error {
	if err := store.BudgetOf(x.ctx).Reserve(bytes); err != nil {
		return err
	}
	x.passing.Add(bytes)
	return nil
}

// grouping numbers the groups of a query, the same in every unit.
type grouping struct {
	byKey  map[string]int32
	groups []groupInfo
	budget *store.Budget
}

type groupInfo struct {
	labels labels.Labels
	kind   series.Kind
	drop   bool // not among the heaviest
}

func (g *grouping) id(kind series.Kind, ls labels.Labels, buf []byte) (int32, []byte, error) {
	if g.byKey == nil {
		g.byKey = map[string]int32{}
	}
	buf = append(ls.Bytes(buf), byte(kind))
	id, ok := g.byKey[string(buf)]
	if !ok {
		if err := g.budget.Reserve(groupBytes); err != nil {
			return 0, buf, err
		}
		id = int32(len(g.groups))
		g.groups = append(g.groups, groupInfo{labels: ls, kind: kind})
		g.byKey[string(buf)] = id
	}
	return id, buf, nil
}

// assign assigns each selected series to its group.
func (g *grouping) assign(u *columns, q *store.Query, d *daySelection) (err error) {
	var b labels.ScratchBuilder
	var buf []byte
	if q.Each {
		for _, n := range d.numbers {
			if d.group[n], buf, err = g.id(u.kinds[n], u.labels(n, &b), buf); err != nil {
				return err
			}
		}
		return nil
	}
	var cols []*column
	by := slices.Compact(slices.Sorted(slices.Values(q.By)))
	for _, name := range by {
		if c := u.find(name); c != nil {
			cols = append(cols, c)
		}
	}
	name := func(n uint32) labels.Labels {
		b.Reset()
		for _, c := range cols {
			if code := c.code(n); code != 0 {
				b.Add(c.name, c.values[code])
			}
		}
		return b.Labels()
	}
	if len(cols) <= 1 {
		// By no label or one: a table by code.
		size := 1
		if len(cols) == 1 {
			size = len(cols[0].values)
		}
		var table [series.Counter + 1][]int32
		for _, n := range d.numbers {
			k := u.kinds[n]
			if table[k] == nil {
				table[k] = make([]int32, size)
			}
			code := uint32(0)
			if len(cols) == 1 {
				code = cols[0].code(n)
			}
			if table[k][code] == 0 {
				var id int32
				if id, buf, err = g.id(k, name(n), buf); err != nil {
					return err
				}
				table[k][code] = id + 1
			}
			d.group[n] = table[k][code] - 1
		}
		return nil
	}
	// There may be a group for each tenant: a map that grows to those is copied many times.
	most := 1
	for _, c := range cols {
		most = min(len(d.numbers), most*len(c.values))
	}
	seen := make(map[string]int32, most)
	if g.byKey == nil {
		g.byKey, g.groups = make(map[string]int32, most), make([]groupInfo, 0, most)
	}
	var key []byte
	for _, n := range d.numbers {
		key = append(key[:0], byte(u.kinds[n]))
		for _, c := range cols {
			code := c.code(n)
			key = append(key, byte(code), byte(code>>8), byte(code>>16), byte(code>>24))
		}
		id, ok := seen[string(key)]
		if !ok {
			if id, buf, err = g.id(u.kinds[n], name(n), buf); err != nil {
				return err
			}
			seen[string(key)] = id
		}
		d.group[n] = id
	}
	return nil
}

// keepHeaviest drops the series of all but the k groups with the greatest counts.
func (x *execution) keepHeaviest(acc *sums) {
	counts := acc.counts(x.grouping.groups)
	order := x.heaviest(counts)
	for _, g := range order[x.q.TopK:] {
		x.grouping.groups[g].drop = true
	}
	for _, d := range x.selections {
		kept := d.numbers[:0]
		for _, n := range d.numbers {
			if x.grouping.groups[d.group[n]].drop {
				d.group[n] = -1
			} else {
				kept = append(kept, n)
			}
		}
		d.numbers = kept
	}
}

// heaviest orders groups by falling count, then by labels.
func (x *execution) heaviest(counts []uint64) []int {
	order := make([]int, len(counts))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), compareGroups(&x.grouping.groups[a], &x.grouping.groups[b]))
	})
	return order
}

func compareGroups(a, b *groupInfo) int {
	return cmp.Or(labels.Compare(a.labels, b.labels), cmp.Compare(a.kind, b.kind))
}

// accumulate reads the areas with as many goroutines as are worthwhile. whole merges all
// steps into one.
func (x *execution) accumulate(areas []area, measure store.Measure, whole bool) (*sums, error) {
	steps := x.steps
	if whole {
		steps = 1
	}
	x.held.Store(0)
	workers := x.s.opts.Parallelism
	weight := 0
	for _, a := range areas {
		weight += len(x.selections[dayOf(a.part)].numbers) * (a.hi - a.lo)
	}
	if weight < 2000 {
		workers = 1
	}
	tasks := areas
	if workers > 1 {
		// All goroutines read a few, large areas.
		tasks = nil
		for _, a := range areas {
			n := len(x.selections[dayOf(a.part)].numbers) * (a.hi - a.lo)
			a.shards = 1
			if n > weight/(2*workers) && n > 2000 {
				a.shards = workers
			}
			for a.shard = 0; a.shard < a.shards; a.shard++ {
				tasks = append(tasks, a)
			}
		}
	}
	workers = max(1, min(workers, len(tasks)))
	all := make([]*sums, workers)
	var next atomic.Int64
	work := func(ctx context.Context, w int) error {
		acc := newSums(len(x.grouping.groups), steps, measure, x.q.Schema)
		acc.held, acc.limit, acc.budget = &x.held, x.s.opts.AnswerBytes, store.BudgetOf(x.ctx)
		if err := x.hold(int64(8 * len(acc.dense))); err != nil {
			return err
		}
		all[w] = acc
		c, err := x.s.newScanner(ctx, x.snap)
		if err != nil {
			return err
		}
		defer c.close()
		for {
			i := int(next.Add(1)) - 1
			if i >= len(tasks) {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := x.read(ctx, c, tasks[i], acc, steps); err != nil {
				return err
			}
		}
	}
	if workers == 1 {
		if err := work(x.ctx, 0); err != nil {
			return nil, err
		}
		return all[0], nil
	}
	g, ctx := errgroup.WithContext(x.ctx)
	for w := range workers {
		g.Go(func() error { return work(ctx, w) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for _, o := range all[1:] {
		if err := all[0].merge(o); err != nil {
			return nil, err
		}
	}
	return all[0], nil
}

// read adds up the points of one area.
func (x *execution) read(ctx context.Context, c *scanner, a area, acc *sums, steps int) error {
	d := x.selections[dayOf(a.part)]
	stepOf := make([]int32, a.hi)
	if steps > 1 {
		for slot := a.lo; slot < a.hi; slot++ {
			t := a.part + int64(slot)*tierSlot[a.tier]
			stepOf[slot] = int32(min(max((t-x.q.Start)/x.q.Step, 0), int64(steps-1)))
		}
	}
	n := 0
	c.direct = func(number uint32, slot int, dec *runcodec.Decoder) error {
		if n++; n%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return acc.addPacked(int(d.group[number])*steps+int(stepOf[slot]), dec)
	}
	return c.scan(a, x.scope, &d.selection, func(number uint32, slot int, data []byte) error {
		if n++; n%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return acc.add(int(d.group[number])*steps+int(stepOf[slot]), d.kinds[number], data)
	})
}

// finish turns sums into groups in the requested order.
func (x *execution) finish(res *store.Result, acc *sums) error {
	groups := x.grouping.groups
	type at struct {
		i int
		c *cell
	}
	n, of := 0, make([]int, len(groups))
	acc.each(func(i int, _ *cell) error {
		n++
		of[i/x.steps]++
		return nil
	})
	cells := make([]at, 0, n)
	acc.each(func(i int, c *cell) error {
		cells = append(cells, at{i, c})
		return nil
	})
	all, points := make([]store.MergedPoint, n), make([][]store.MergedPoint, len(groups))
	for g, n := range of {
		points[g], all = all[:0:n], all[n:]
	}
	var moments []hist.Histogram
	if acc.measure == store.Moments {
		moments = make([]hist.Histogram, n)
	}
	if acc.sparse != nil {
		slices.SortFunc(cells, func(a, b at) int { return cmp.Compare(a.i, b.i) })
	}
	for _, a := range cells {
		g := a.i / x.steps
		p := store.MergedPoint{Start: x.q.Start + int64(a.i%x.steps)*x.q.Step}
		switch {
		case groups[g].kind != series.Distribution:
			p.Number = a.c.number
		case acc.measure == store.Moments:
			p.Hist, moments = &moments[0], moments[1:]
			*p.Hist = hist.Histogram{Schema: x.q.Schema, Count: a.c.moment.Count, Sum: a.c.moment.Sum,
				Min: a.c.moment.Min, Max: a.c.moment.Max, Weighted: a.c.moment.Weighted, Squares: a.c.moment.Squares}
		default:
			p.Hist = a.c.hist
		}
		points[g] = append(points[g], p)
	}
	var order []int
	if x.q.TopK > 0 {
		order = x.heaviest(acc.counts(groups))
	} else {
		order = make([]int, len(groups))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int { return compareGroups(&groups[a], &groups[b]) })
	}
	for _, g := range order {
		if len(points[g]) == 0 {
			continue
		}
		if x.q.TopK > 0 && len(res.Groups) == x.q.TopK {
			break
		}
		res.Groups = append(res.Groups, store.Group{Labels: groups[g].labels, Kind: groups[g].kind, Points: points[g]})
	}
	return nil
}

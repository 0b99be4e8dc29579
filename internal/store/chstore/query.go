package chstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/tier"
)

// mostSpans bounds the ranges of slots that one statement names. A step that cuts longer
// slots again and again is answered from shorter ones instead.
const mostSpans = 40

// Query has the shards select, group and add up, and merges what they come to. See
// store.Store.
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
	m, err := s.readMeta(ctx)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", q.Family, err)
	}
	res := &store.Result{Start: q.Start, End: q.End, Resolution: series.Base, Flushed: m.flushed(q.Writer)}
	first, last := m.extent()
	if _, known := m.families[q.Family]; !known || q.End <= q.Start || first >= last {
		return res, nil
	}
	x := &question{s: s, m: m, q: &q, steps: 1, groups: map[groupKey]*group{}}
	if q.Step > 0 {
		x.steps = (q.End - q.Start + q.Step - 1) / q.Step
	}
	for coarsest := tier.Count - 1; coarsest >= 0; coarsest-- {
		x.spans, res.Start, res.End = m.horizon(q.Family, q.View).Cover(q.Start, q.End, q.Step, first, last, coarsest)
		if len(x.spans) <= mostSpans {
			break
		}
	}
	if len(x.spans) == 0 {
		return res, nil
	}
	for _, sp := range x.spans {
		res.Resolution = max(res.Resolution, series.Resolutions[sp.Tier])
	}
	// What the shards answer is held until the result is made of it.
	passing, passed := store.Passing(ctx)
	defer passed()
	if err := x.ask(passing, res); err != nil {
		return nil, fmt.Errorf("query %s: %w", q.Family, err)
	}
	if err := x.finish(ctx, res); err != nil {
		return nil, fmt.Errorf("query %s: %w", q.Family, err)
	}
	return res, nil
}

// question is one query in progress.
type question struct {
	s     *Store
	m     *meta
	q     *store.Query
	spans []tier.Span
	steps int64

	selected string        // condition on rows of series: those that are asked for
	names    []string      // of the labels to group by
	grouped  string        // expression of the group in rows of series; empty if there is one
	only     string        // condition on groups, beginning with AND
	few      []namedSeries // by shard: the series that are asked for, if they are few everywhere; else nil

	mu     sync.Mutex
	groups map[groupKey]*group
	labels map[uint64]labels.Labels // by hash; nil if there is one group
}

type groupKey struct {
	hash uint64
	kind series.Kind
}

type group struct {
	labels labels.Labels
	kind   series.Kind
	count  uint64
	cells  map[cellKey]*cell
}

type cellKey struct {
	step int64
	form form
}

// cell is what the points of a group, a step and a form come to.
type cell struct {
	sum     sum
	buckets []bucket
}

type bucket struct {
	number int32
	count  uint64
}

func (x *question) ask(ctx context.Context, res *store.Result) error {
	if err := x.prepare(); err != nil {
		return err
	}
	if err := x.listFew(ctx, res); err != nil {
		return err
	}
	if x.few == nil && x.q.MaxSeries > 0 {
		if err := x.countSeries(ctx, res); err != nil {
			return err
		}
	}
	if x.q.TopK > 0 {
		if err := x.chooseHeaviest(ctx); err != nil {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	if x.few == nil {
		if x.q.MaxSeries <= 0 {
			g.Go(func() error { return x.countSeries(ctx, res) })
		}
		g.Go(func() error { return x.readLabels(ctx) })
	}
	g.Go(func() error { return x.readSums(ctx) })
	if x.q.Measure == store.Buckets {
		g.Go(func() error { return x.readBuckets(ctx) })
	}
	return g.Wait()
}

// prepare sets the parts of all statements.
func (x *question) prepare() error {
	c, err := condition(x.q.Matchers)
	if err != nil {
		return err
	}
	x.selected = fmt.Sprintf("family = %s AND view = %d AND day >= %d AND day <= %d", quote(x.q.Family), x.q.View,
		dayOf(x.spans[0].From), dayOf(x.spans[len(x.spans)-1].To-1)) + c
	if x.q.Each {
		return nil
	}
	x.names = groupNames(x.q.By)
	if len(x.names) > 0 {
		values := make([]string, len(x.names))
		for i, n := range x.names {
			values[i] = label(n)
		}
		x.grouped = "cityHash64(" + strings.Join(values, ", ") + ")"
	}
	return nil
}

// eachOf is the group of a series of its own. Identities are hashes.
const eachOf = "reinterpretAsUInt64(id)"

// column is an expression with a name.
type column struct{ name, is string }

func define(all []column) string {
	out := make([]string, len(all))
	for i, c := range all {
		out[i] = c.is + " AS " + c.name
	}
	return strings.Join(out, ", ")
}

func namesOf(all []column) string {
	out := make([]string, len(all))
	for i, c := range all {
		out[i] = c.name
	}
	return strings.Join(out, ", ")
}

// statement adds up rows of points on a shard by their group, g, and by keys. columns are those
// that the aggregates need, where those of a condition of its own.
func (x *question) statement(shard int, keys []column, aggregates, columns, where string) string {
	rows := x.s.local("points") + x.rows(shard, where)
	if x.few != nil || x.grouped == "" {
		// Without another query inside: the oldest dialect analyses those again and again.
		return "SELECT " + x.groupAs(shard) + " AS g, " + define(keys) + ", " + aggregates + " FROM " + rows + " GROUP BY g, " + namesOf(keys)
	}
	return "SELECT g, " + namesOf(keys) + ", " + aggregates + " FROM (SELECT id, " + define(keys) + ", " + columns + " FROM " + rows + ") " + x.join() + " GROUP BY g, " + namesOf(keys)
}

// read asks a shard. The questions of one answer ask for the same once, while nothing is
// committed.
func (x *question) read(ctx context.Context, shard int, n *node, query string) (*rows, error) {
	b, err := store.Once(ctx, fmt.Sprint(x.m.revision, " ", shard, " ", query), func() ([]byte, error) {
		r, err := x.s.client.read(ctx, n, query)
		return r.b, err
	})
	return &rows{b: b}, err
}

// rows returns the condition on rows of points on a shard, from WHERE on.
func (x *question) rows(shard int, where string) string {
	c := " WHERE family = " + quote(x.q.Family) + fmt.Sprintf(" AND view = %d AND ", x.q.View) + inSpans(x.spans) + " AND " + x.m.visible.rows(true) + where
	if x.few != nil {
		return c + " AND id IN (" + x.few[shard].ids() + ")"
	}
	if len(x.q.Matchers) > 0 || x.only != "" {
		c += " AND id IN (SELECT id FROM " + x.s.local("series") + " WHERE " + x.selected + x.only + ")"
	}
	return c
}

// groupAs is the group of a row of points on a shard, without what is in the table series.
func (x *question) groupAs(shard int) string {
	switch {
	case x.q.Each:
		return eachOf
	case x.few != nil:
		return x.few[shard].group()
	}
	return "toUInt64(0)"
}

// join adds the group to rows, by their identity.
func (x *question) join() string {
	return "ANY LEFT JOIN (SELECT id, " + x.grouped + " AS g FROM " + x.s.local("series") + " WHERE " + x.selected + x.only + ") USING id"
}

// stepOf is the number of the step that a row of points belongs to.
func (x *question) stepOf() string {
	if x.steps <= 1 {
		return "toInt64(0)"
	}
	return fmt.Sprintf("toInt64(least(greatest(intDiv(slot - %d, %d), 0), %d))", x.q.Start, x.q.Step, x.steps-1)
}

// formAs is the form that a row of points is added up in: the schema that is asked for, if it
// is finer.
func (x *question) formAs() string {
	return fmt.Sprintf("if(form < %d, least(form, toUInt64(%d)), form)", schemaForms, schemaForm(min(max(x.q.Schema, hist.MinSchema), hist.MaxSchema)))
}

// readSums reads everything but the buckets.
func (x *question) readSums(ctx context.Context) error {
	f := "toUInt64(0)"
	if x.q.Measure == store.Buckets {
		f = x.formAs()
	}
	return x.eachShard(ctx, func(ctx context.Context, shard int, n *node) error {
		r, err := x.read(ctx, shard, n, x.statement(shard, []column{{"k", "kind"}, {"f", f}, {"step", x.stepOf()}}, sumColumns,
			"count, flags, nanos, rest, low, high, squares, error, zero, latest, latestms", ""))
		if err != nil {
			return err
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		for r.next() {
			k := groupKey{r.uint64(), series.Kind(r.uint8())}
			at := cellKey{form: r.uint64(), step: r.int64()}
			sum := r.sum()
			c, fresh, err := x.cell(ctx, k, at)
			if err != nil {
				return err
			}
			if fresh {
				c.sum = sum
			} else {
				c.sum.merge(&sum)
			}
		}
		return r.err
	})
}

// cellBytes is the memory of a cell, and of its point in the answer without buckets.
const cellBytes = 500

// cell finds a cell; fresh is whether its sum is not set. The caller holds mu.
func (x *question) cell(ctx context.Context, k groupKey, at cellKey) (c *cell, fresh bool, err error) {
	g := x.groups[k]
	if g == nil {
		g = &group{kind: k.kind, cells: map[cellKey]*cell{}}
		x.groups[k] = g
	}
	c = g.cells[at]
	if c == nil {
		if err := store.BudgetOf(ctx).Reserve(cellBytes); err != nil {
			return nil, false, err
		}
		c = &cell{}
		g.cells[at] = c
	}
	return c, c.sum.rows == 0, nil
}

// Widths of what a packed key has above a bucket's 32 bits.
const (
	stepBits = 24
	formBits = 8
)

// defaultPackedForms is the number of forms that are not schemas for which keys are packed.
const defaultPackedForms = 1<<formBits - schemaForms

// readBuckets reads the buckets.
func (x *question) readBuckets(ctx context.Context) error {
	// Most of the time goes into the hash table of what is grouped by, which one number in
	// place of three makes cheaper. In it forms that are not schemas are numbered after those.
	forms := slices.Sorted(maps.Keys(x.m.forms))
	packed := len(forms) <= x.s.packedForms && x.steps <= 1<<stepBits
	finer, as := column{"finer", "toFloat64(1)"}, x.formAs()
	if x.q.Schema < hist.MaxSchema {
		finer.is = fmt.Sprintf("if(form < %d, exp2(toFloat64(form) - toFloat64(%s)), toFloat64(1))", schemaForms, as)
	}
	row := []column{{"row_form", as}, {"row_step", x.stepOf()}}
	if packed {
		if len(forms) > 0 {
			numbers := make([]uint64, len(forms))
			for i := range numbers {
				numbers[i] = uint64(schemaForms + i)
			}
			as = "transform(" + as + ", CAST([" + list(forms) + "], 'Array(UInt64)'), CAST([" + list(numbers) + "], 'Array(UInt64)'), " + as + ")"
		}
		row = []column{{"row_key", fmt.Sprintf("bitOr(bitShiftLeft(toUInt64(%s), %d), bitShiftLeft(toUInt64(%s), 32))", as, 32+stepBits, x.stepOf())}}
	}
	statement := func(shard int) string {
		// Without groups there is no query inside, see statement, and so no names.
		from, g := x.s.local("points")+" ARRAY JOIN buckets AS b, counts AS c"+x.rows(shard, " AND kind = 0"), x.groupAs(shard)+" AS g"
		use := func(c column) string { return "(" + c.is + ")" }
		if x.few == nil && x.grouped != "" {
			inner := append(slices.Clone(row), finer) // shards are asked side by side
			from = "(SELECT g, " + namesOf(inner) + ", buckets, counts FROM (SELECT id, " + define(inner) + ", buckets, counts FROM " +
				x.s.local("points") + x.rows(shard, " AND kind = 0") + ") " + x.join() + ") ARRAY JOIN buckets AS b, counts AS c"
			g, use = "g", func(c column) string { return c.name }
		}
		bucketOf := "b"
		if x.q.Schema < hist.MaxSchema {
			// A bucket of a schema finer by d is, coarser, ceil(k/2^d).
			bucketOf = fmt.Sprintf("toInt32(multiIf(%[1]s <= 1, b, b < %[2]d, toInt32(ceil((b + %[3]d) / %[1]s)) - %[3]d, toInt32(ceil(b / %[1]s))))", use(finer), negativeBuckets/2, -negativeBuckets)
		}
		keys := []column{{"k", bucketOf}}
		if packed {
			keys[0].is = "bitOr(" + use(row[0]) + ", toUInt64(toUInt32(" + bucketOf + ")))"
		} else {
			keys = []column{{"f", use(row[0])}, {"step", use(row[1])}, keys[0]}
		}
		return "SELECT " + g + ", " + define(keys) + ", sum(c) FROM " + from + " GROUP BY g, " + namesOf(keys)
	}
	return x.eachShard(ctx, func(ctx context.Context, shard int, n *node) error {
		r, err := x.read(ctx, shard, n, statement(shard))
		if err != nil {
			return err
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		for r.next() {
			k := groupKey{r.uint64(), series.Distribution}
			var at cellKey
			var number int32
			if packed {
				p := r.uint64()
				at, number = cellKey{form: p >> (32 + stepBits), step: int64(p >> 32 & (1<<stepBits - 1))}, int32(uint32(p))
				if at.form >= schemaForms {
					at.form = forms[at.form-schemaForms]
				}
			} else {
				at, number = cellKey{form: r.uint64(), step: r.int64()}, r.int32()
			}
			c, _, err := x.cell(ctx, k, at)
			if err != nil {
				return err
			}
			if len(c.buckets) == cap(c.buckets) {
				if err := store.BudgetOf(ctx).Reserve(int64(16 * max(4, cap(c.buckets)))); err != nil {
					return err
				}
				c.buckets = slices.Grow(c.buckets, max(4, cap(c.buckets)))
			}
			c.buckets = append(c.buckets, bucket{number, r.uint64()})
		}
		return r.err
	})
}

// readLabels reads the labels of the groups.
func (x *question) readLabels(ctx context.Context) error {
	columns := ""
	switch {
	case x.q.Each:
		columns = eachOf + " AS g, any(names), any(values)"
	case x.grouped == "":
		return nil
	default:
		values := make([]string, len(x.names))
		for i, n := range x.names {
			values[i] = "any(" + label(n) + ")"
		}
		columns = x.grouped + " AS g, [" + strings.Join(values, ", ") + "]"
	}
	query := "SELECT " + columns + " FROM " + x.s.local("series") + " WHERE " + x.selected + x.only + " GROUP BY g"
	x.labels = map[uint64]labels.Labels{}
	return x.s.eachShard(ctx, func(ctx context.Context, shard int, n *node) error {
		r, err := x.read(ctx, shard, n, query)
		if err != nil {
			return err
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		var b labels.ScratchBuilder
		for r.next() {
			hash, names := r.uint64(), x.names
			if x.q.Each {
				names = r.strings()
			}
			values := r.strings()
			if r.err == nil && len(values) != len(names) {
				return fmt.Errorf("%d names of labels, %d values: %w", len(names), len(values), store.ErrCorrupt)
			}
			if r.err == nil {
				x.labels[hash] = labelsOf(&b, names, values)
			}
		}
		return r.err
	})
}

// countSeries counts the series that match, and refuses too many.
func (x *question) countSeries(ctx context.Context, res *store.Result) error {
	query := "SELECT uniqExact(id, kind) AS n FROM " + x.s.local("series") + " WHERE " + x.selected + " AND " + x.m.visible.rows(false)
	if !x.q.Each {
		// No more than on one day are read at once.
		query = "SELECT max(n) FROM (" + query + " GROUP BY day)"
	}
	var mu sync.Mutex
	err := x.s.eachShard(ctx, func(ctx context.Context, shard int, n *node) error {
		r, err := x.read(ctx, shard, n, query)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for r.next() {
			res.Series += int(r.uint64())
		}
		return r.err
	})
	if err != nil {
		return err
	}
	return x.refuse(res)
}

// refuse returns an error if more series match than may.
func (x *question) refuse(res *store.Result) error {
	if x.q.MaxSeries > 0 && res.Series > x.q.MaxSeries {
		return fmt.Errorf("%d series match, the limit is %d: %w", res.Series, x.q.MaxSeries, store.ErrTooMany)
	}
	return nil
}

// chooseHeaviest restricts the question to the groups with the greatest counts.
func (x *question) chooseHeaviest(ctx context.Context) error {
	if x.grouped == "" && !x.q.Each {
		return nil
	}
	counts := map[groupKey]uint64{}
	for limit := 2*x.q.TopK + 100; ; limit *= 10 {
		clear(counts)
		end := ""
		if len(x.s.shards) == 1 {
			// Equal counts are told apart by labels, so those equal to the last come too.
			end = fmt.Sprintf(" ORDER BY n DESC LIMIT %d", limit)
		}
		var mu sync.Mutex
		err := x.eachShard(ctx, func(ctx context.Context, shard int, n *node) error {
			r, err := x.read(ctx, shard, n, x.statement(shard, []column{{"k", "kind"}}, "sum(count) AS n", "count", "")+end)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for r.next() {
				k := groupKey{r.uint64(), series.Kind(r.uint8())}
				counts[k] += r.uint64()
			}
			return r.err
		})
		if err != nil {
			return err
		}
		if len(counts) <= x.q.TopK {
			return nil
		}
		order := slices.Collect(maps.Keys(counts))
		slices.SortFunc(order, func(a, b groupKey) int { return cmp.Compare(counts[b], counts[a]) })
		n := x.q.TopK
		for n < len(order) && counts[order[n]] == counts[order[x.q.TopK-1]] {
			n++
		}
		if n == len(order) && len(order) == limit && len(x.s.shards) == 1 {
			continue
		}
		hashes := make([]uint64, n)
		for i, k := range order[:n] {
			hashes[i] = k.hash
		}
		if x.few != nil {
			for shard := range x.few {
				x.few[shard] = x.few[shard].only(hashes)
			}
			return nil
		}
		of := x.grouped
		if x.q.Each {
			of = eachOf
		}
		x.only = " AND " + of + " IN (" + list(hashes) + ")"
		return nil
	}
}

// finish makes the result of what was read.
func (x *question) finish(ctx context.Context, res *store.Result) error {
	var all []*group
	for k, g := range x.groups {
		if x.labels != nil {
			ls, ok := x.labels[k.hash]
			if !ok {
				return fmt.Errorf("points of a series that is not listed: %w", store.ErrCorrupt)
			}
			g.labels = ls
		}
		for _, c := range g.cells {
			g.count += c.sum.count
		}
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *group) int {
		if x.q.TopK > 0 && a.count != b.count {
			return cmp.Compare(b.count, a.count)
		}
		return cmp.Or(labels.Compare(a.labels, b.labels), cmp.Compare(a.kind, b.kind))
	})
	if x.q.TopK > 0 && len(all) > x.q.TopK {
		all = all[:x.q.TopK]
	}
	for _, g := range all {
		out := store.Group{Labels: g.labels, Kind: g.kind}
		keys := slices.SortedFunc(maps.Keys(g.cells), func(a, b cellKey) int {
			return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.form, b.form))
		})
		for len(keys) > 0 {
			n := 1
			for n < len(keys) && keys[n].step == keys[0].step {
				n++
			}
			p := store.MergedPoint{Start: x.q.Start + keys[0].step*x.q.Step}
			for _, k := range keys[:n] {
				res.PointsRead += int(g.cells[k].sum.rows)
			}
			if err := x.point(ctx, &p, g, keys[:n]); err != nil {
				return err
			}
			out.Points = append(out.Points, p)
			keys = keys[n:]
		}
		res.Groups = append(res.Groups, out)
	}
	return nil
}

// point makes a point of the cells of its step, one of each form.
func (x *question) point(ctx context.Context, p *store.MergedPoint, g *group, keys []cellKey) error {
	budget := store.BudgetOf(ctx)
	if err := budget.Reserve(cellBytes); err != nil {
		return err
	}
	c := g.cells[keys[0]]
	switch {
	case g.kind != series.Distribution:
		p.Number = c.sum.number()
		return nil
	case x.q.Measure == store.Moments:
		p.Hist = &hist.Histogram{Schema: x.q.Schema}
		c.sum.total(p.Hist)
		p.Hist.Error = 0
		return nil
	}
	p.Hist = hist.New(x.q.Schema)
	for _, k := range keys {
		c := g.cells[k]
		h, err := x.m.newHistogram(k.form)
		if err != nil {
			return err
		}
		c.fill(h)
		if err := budget.Reserve(int64(8 * len(h.Positive.Counts))); err != nil {
			return err
		}
		if len(keys) == 1 && k.form < schemaForms && h.Count > 0 {
			p.Hist = h
		} else if err := p.Hist.Merge(h); errors.Is(err, hist.ErrInvalid) {
			x.s.stats.leftOut.Add(1) // more than can be counted
		} else if err != nil {
			return err
		}
	}
	return nil
}

// fill sets an empty histogram to what the cell holds.
func (c *cell) fill(h *hist.Histogram) {
	fillSide := func(to *hist.Buckets, all []bucket, shift int32) {
		if len(all) == 0 {
			return
		}
		if len(to.Counts) == 0 { // explicit buckets are there
			first, last := all[0].number, all[0].number
			for _, b := range all {
				first, last = min(first, b.number), max(last, b.number)
			}
			to.Offset = first - shift
			to.Counts = make([]uint64, last-first+1)
		}
		for _, b := range all {
			if i := int(b.number - shift - to.Offset); i >= 0 && i < len(to.Counts) {
				to.Counts[i] += b.count
			}
		}
	}
	slices.SortFunc(c.buckets, func(a, b bucket) int { return cmp.Compare(a.number, b.number) })
	n, _ := slices.BinarySearchFunc(c.buckets, negativeBuckets/2, func(b bucket, k int32) int { return cmp.Compare(b.number, k) })
	fillSide(&h.Negative, c.buckets[:n], negativeBuckets)
	fillSide(&h.Positive, c.buckets[n:], 0)
	h.ZeroCount = c.sum.zero
	c.sum.total(h)
}

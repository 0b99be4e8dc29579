package chstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"tailscope/internal/backoff"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/tier"
)

// putter puts the batches of one writer, one after the other.
type putter struct {
	s      *Store
	writer string

	mu      sync.Mutex
	epoch   uint32 // 0: not given yet
	last    uint32 // number of the last insertion
	aborted []putNumber
	void    []putNumber // those of aborted that are surely not committed
	states  int         // rows of state since they were folded; see foldState
}

func (s *Store) putterOf(writer string) *putter {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.puts[writer]
	if p == nil {
		p = &putter{s: s, writer: writer}
		s.puts[writer] = p
	}
	return p
}

// Put stores a batch: its rows on all shards first, then one row of the log, from which on
// they count. What fails before that row leaves rows that never do.
func (s *Store) Put(ctx context.Context, b *store.Batch) error {
	done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := b.Check(); err != nil {
		return fmt.Errorf("put generation %d of %s: %w", b.Generation, b.Writer, err)
	}
	if len(b.Points) > 0 && b.Resolution != series.Base && !s.copying {
		return fmt.Errorf("put generation %d of %s: slots of %d s cannot be put into ClickHouse: put slots of %d s, the store makes longer ones of them", b.Generation, b.Writer, b.Resolution, series.Base)
	}
	p := s.putterOf(b.Writer)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.put(ctx, b); err != nil {
		return fmt.Errorf("put generation %d of %s: %w", b.Generation, b.Writer, err)
	}
	s.stats.puts.Add(1)
	s.stats.points.Add(uint64(len(b.Points)))
	return nil
}

// errMoved reports that a batch has to be placed anew, as slots were rolled up or expired
// in the meantime, or that another process writes under the same name.
var errMoved = errors.New("slots were rolled up in the meantime")

// put inserts and commits a batch. After a failure of the moment it begins anew, under
// another number: rows that did arrive do not count then.
func (p *putter) put(ctx context.Context, b *store.Batch) error {
	for n := 1; ; {
		err := waitForQuorum(ctx, func() error {
			number, err := p.try(ctx, b, n-1)
			if err != nil && number != 0 {
				p.aborted = append(p.aborted, number)
			}
			return err
		})
		if err == nil {
			return nil
		}
		if errors.Is(err, errMoved) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		if n == attempts || !passing(ctx, err) {
			return err
		}
		if werr := backoff.Sleep(ctx, pauseBefore(n)); werr != nil {
			return werr
		}
		n++
	}
}

// try puts a batch once, by the nth replica of each shard. It returns the number of its
// rows, if it has inserted any.
func (p *putter) try(ctx context.Context, b *store.Batch, nth int) (putNumber, error) {
	m, err := p.s.readMeta(ctx)
	if err != nil {
		return 0, err
	}
	if m, err = p.claim(ctx, m); err != nil {
		return 0, err
	}
	// A commit whose answer was lost may have been done. One that comes yet is void, as it
	// expects another revision of the writer.
	p.aborted = slices.DeleteFunc(p.aborted, m.visible.has)
	again, err := p.putBefore(ctx, m, b.Generation)
	if err != nil {
		return 0, err
	}
	p.last++
	number := numberOf(p.epoch, p.last)
	x := newBatchRows(p.s, m, b, number)
	if again != nil {
		if err := x.compare(ctx, again); err != nil {
			return 0, err
		}
	}
	if err := x.build(ctx); err != nil {
		return 0, err
	}
	if err := x.insert(ctx, nth); err != nil {
		p.void = append(p.void, number)
		return number, err
	}
	if err := p.commit(ctx, m, x); err != nil {
		if errors.Is(err, errMoved) {
			p.void = append(p.void, number)
		}
		return number, err
	}
	p.s.known.add(x.newSeries)
	p.aborted, p.void = nil, nil
	p.foldState(ctx, x)
	return number, nil
}

// claim gives the process its epoch for the writer, once.
func (p *putter) claim(ctx context.Context, m *meta) (*meta, error) {
	if w := m.writers[p.writer]; p.epoch != 0 && w != nil && w.present() == p.epoch {
		return m, nil
	} else if p.epoch != 0 && (w == nil || w.present() != 0) && !strings.HasPrefix(p.writer, store.AgentPrefix) {
		p.s.opts.Logger.Warn("another process writes under the name of this server: give each its own data directory", "writer", p.writer)
	}
	l := p.s.log(metaKind)
	for {
		w := writerMeta{}
		if have := m.writers[p.writer]; have != nil {
			w = *have
		}
		epoch := m.epochs + 1
		// Of an epoch without a commit nothing counts, and nothing will: a commit expects the
		// writer as it was before this one.
		w.Epochs = slices.DeleteFunc(slices.Clone(w.Epochs), func(e epochMeta) bool { return e.Last == 0 })
		w.Epochs, w.Ended, w.At = append(w.Epochs, epochMeta{Number: epoch}), false, p.s.opts.Now().Unix()
		// A process that stood still while its epoch ended may insert rows after it was folded.
		w.Aborted = w.Aborted.with(p.void...)
		l.mu.Lock()
		_, err := p.s.appendLog(ctx, l, []logWrite{
			{keyEpochs, encodeMeta(epoch), m.of[keyEpochs]},
			{prefixWriter + p.writer, encodeMeta(&w), m.of[prefixWriter+p.writer]},
		})
		next, derr := p.s.decodeMeta(l)
		l.mu.Unlock()
		if derr != nil {
			return nil, derr
		}
		m = next
		if err == nil {
			p.epoch, p.last, p.aborted, p.void = epoch, 0, nil, nil
			return m, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return nil, fmt.Errorf("begin as %s: %w", p.writer, err)
		}
	}
}

// commit makes the rows count, with all that the batch says beside them.
func (p *putter) commit(ctx context.Context, m *meta, x *batchRows) error {
	l := p.s.log(metaKind)
	l.mu.Lock()
	defer l.mu.Unlock()
	of := m.of[prefixWriter+p.writer]
	for {
		w := *m.writers[p.writer]
		w.Epochs = slices.Clone(w.Epochs)
		w.Epochs[len(w.Epochs)-1].Last = p.last
		w.Aborted = w.Aborted.with(p.aborted...)
		w.Replaced = slices.Concat(w.Replaced, x.replaced)
		w.Flushed, w.At = max(w.Flushed, x.batch.Generation), p.s.opts.Now().Unix()
		if x.first < x.last {
			if w.First >= w.Last {
				w.First, w.Last = x.first, x.last
			}
			w.First, w.Last = min(w.First, x.first), max(w.Last, x.last)
		}
		writes := []logWrite{{prefixWriter + p.writer, encodeMeta(&w), of}, {keyTiers, checkOnly, m.of[keyTiers]}}
		writes = append(writes, x.declare(m)...)
		_, err := p.s.appendLog(ctx, l, writes)
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		next, err := p.s.decodeMeta(l)
		if err != nil {
			return err
		}
		if next.of[prefixWriter+p.writer] != of || !x.placedAlike(next) {
			return errMoved
		}
		m = next
	}
}

// declare returns the families and forms of the batch that are new, or changed.
func (x *batchRows) declare(m *meta) (out []logWrite) {
	for _, name := range slices.Sorted(maps.Keys(x.families)) {
		f := x.families[name]
		have, known := m.families[name]
		if known && have.Interval >= f.Interval {
			continue
		}
		if known { // the longest interval is kept, and the first kind
			have.Interval = f.Interval
			f = have
		}
		out = append(out, logWrite{prefixFamily + name, encodeMeta(&f), m.of[prefixFamily+name]})
	}
	for n, f := range x.forms {
		key := fmt.Sprintf("%s%016x", prefixForm, n)
		if _, known := m.of[key]; !known {
			out = append(out, logWrite{key, encodeMeta(f), 0})
		}
	}
	return out
}

// knownSeries holds which series are in the table series for which day.
type knownSeries struct {
	mu   sync.Mutex
	days map[int32]map[seriesKey]struct{}
	n    int
}

type seriesKey struct {
	id   series.ID
	kind series.Kind
}

type daySeries struct {
	day int32
	seriesKey
}

// mostKnown bounds the series held, of all days: beyond it they are written again.
const mostKnown = 2 << 20

func (k *knownSeries) has(d daySeries) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.days[d.day][d.seriesKey]
	return ok
}

func (k *knownSeries) add(all []daySeries) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.days == nil || k.n+len(all) > mostKnown {
		k.days, k.n = map[int32]map[seriesKey]struct{}{}, 0
	}
	for _, d := range all {
		if k.days[d.day] == nil {
			k.days[d.day] = map[seriesKey]struct{}{}
		}
		k.days[d.day][d.seriesKey] = struct{}{}
	}
	k.n += len(all)
}

// insert inserts all rows, on all nodes at the same time.
func (x *batchRows) insert(ctx context.Context, nth int) error {
	s := x.s
	g, ctx := errgroup.WithContext(ctx)
	send := func(n *node, name, columns string, rows *packedRows) {
		if !rows.empty() {
			g.Go(func() error { return s.client.insertPacked(ctx, n, name, columns, rows) })
		}
	}
	for i := range x.shards {
		of := &x.shards[i]
		n := s.replica(i, nth)
		send(n, s.local("points"), pointColumns, &of.points)
		send(n, s.local("series"), seriesColumns, &of.series)
		send(n, s.local("samples"), sampleColumns, &of.samples)
	}
	for i, carry := range x.carry {
		if carry != "" {
			n := s.replica(i, nth)
			g.Go(func() error { return s.client.insertSelected(ctx, n, s.local("points"), carry) })
		}
	}
	send(s.first(), s.qualified("state"), stateColumns, &x.state)
	row := appendUint64(appendUint64(appendString(nil, x.batch.Writer), x.batch.Generation), x.number)
	first, last := x.first, x.last
	if first >= last {
		first, last = 0, 0
	}
	send(s.first(), s.qualified("puts"), putColumns, &packedRows{rows: appendInt64(appendInt64(row, first), last)})
	return g.Wait()
}

var (
	pointColumns  = columnsOf("points")
	seriesColumns = columnsOf("series")
	sampleColumns = columnsOf("samples")
	stateColumns  = columnsOf("state")
	putColumns    = columnsOf("puts")
)

// earlier holds the rows of an earlier Put of the same generation.
type earlier struct {
	numbers     []putNumber // ascending
	first, last int64       // range of the slots, in seconds
}

// putBefore finds what was put under a generation, or returns nil.
func (p *putter) putBefore(ctx context.Context, m *meta, generation uint64) (*earlier, error) {
	if generation > m.flushed(p.writer) {
		return nil, nil
	}
	r, err := p.s.client.read(ctx, p.s.first(), "SELECT put, first, last FROM "+p.s.qualified("puts")+
		" WHERE writer = "+quote(p.writer)+fmt.Sprintf(" AND generation = %d", generation)+" AND "+m.visible.rows(true)+" ORDER BY put")
	if err != nil {
		return nil, err
	}
	e := earlier{first: math.MaxInt64, last: math.MinInt64}
	for r.next() {
		e.numbers = append(e.numbers, r.uint64())
		first, last := r.int64(), r.int64()
		if first < last {
			e.first, e.last = min(e.first, first), max(e.last, last)
		}
	}
	if r.err != nil || len(e.numbers) == 0 {
		return nil, r.err
	}
	return &e, nil
}

// placedAlike reports whether the batch's points belong into the same tiers by another state of them.
func (x *batchRows) placedAlike(m *meta) bool {
	for slot := range x.slots {
		if placeOf(&x.meta.tiers, slot) != placeOf(&m.tiers, slot) {
			return false
		}
	}
	return true
}

// place is the set of tiers that a base slot's points are written to.
type place uint8

func (p place) has(t int) bool { return p&(1<<t) != 0 }

// finest returns the finest tier, or -1 if the slot has expired.
func (p place) finest() int {
	for t := range tier.Count {
		if p.has(t) {
			return t
		}
	}
	return -1
}

// placeOf returns where the points of a base slot go: to the finest tier that is still kept,
// and to each coarser one that has been made of the finer one already.
func placeOf(m *tiersMeta, slot int64) (p place) {
	if slot >= m.Floor[0] {
		p |= 1
	}
	for t := 1; t < tier.Count; t++ {
		if up := tier.Floor(slot, tier.Slot(t)); up >= m.Floor[t] && up < m.Ready[t] {
			p |= 1 << t
		}
	}
	return p
}

package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Put stores a batch in one synced write. See the package comment for a repeated
// address. It returns early when ctx is done, but not once the write itself has begun.
// It drops points older than every retention, and counts them in Stats.Expired.
func (s *Store) Put(ctx context.Context, b *store.Batch) error { return s.put(ctx, b, nil) }

func (s *Store) put(ctx context.Context, b *store.Batch, restoring *restoring) error {
	done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	tier, err := checkBatch(b)
	if err != nil {
		return fmt.Errorf("put generation %d of %s: %w", b.Generation, b.Writer, err)
	}
	s.write.Lock()
	defer s.write.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.room(); err != nil {
		return fmt.Errorf("put generation %d of %s: %w", b.Generation, b.Writer, err)
	}
	p := putter{
		s: s, b: b, tier: tier, restoring: restoring, wb: s.db.NewBatchWithSize(sizeHint(b)),
		scopes: make([]scope, len(b.Series)),
		days:   map[int64]*dayPut{}, families: map[string]*family{}, fresh: map[scopeID]freshState{},
		direct: map[partID]bool{}, late: map[lateKey]*[]placed{}, perScope: map[scope]int{}, merger: s.newMerger(),
		runs: map[scopeID]*runPut{}, orders: map[scope]*runOrder{},
		breakdown: map[scope]bool{}, old: s.oldBreakdown(), coarse: map[scopeID]bool{},
	}
	defer p.wb.Close()
	err = p.put(ctx)
	if p.it != nil {
		err = errors.Join(err, classify(p.it.Close()))
	}
	if err != nil {
		return fmt.Errorf("put generation %d of %s: %w", b.Generation, b.Writer, err)
	}
	s.stats.puts.Add(1)
	s.stats.points.Add(uint64(len(b.Points)))
	return nil
}

// putter turns one batch into one write. It changes nothing in memory before the write
// has succeeded.
type putter struct {
	s     *Store
	b     *store.Batch
	tier  int
	wb    *pebble.Batch
	w     writer
	isNew bool // the writer
	retry bool // the generation may have been put before

	restoring *restoring // nil for a Put

	ready, floor [numTiers]int64

	breakdown map[scope]bool   // scopes of the breakdown; see coarse.go
	old       int64            // what is broken down of before is old
	coarse    map[scopeID]bool // partitions to be marked

	scopes []scope // by index into b.Series
	idBuf  []byte

	days     map[int64]*dayPut
	at       int64    // the day of day
	day      *dayPut  // the last one used
	unit     *unitPut // likewise, of the day
	entries  []entry
	families map[string]*family // new or changed
	nextFam  uint32
	fresh    map[scopeID]freshState
	direct   map[partID]bool
	pts      []store.Point // in order of slot
	late     map[lateKey]*[]placed
	spare    []*[]placed   // of late, already written
	perScope map[scope]int // series of the batch
	merger   *merger
	merged   []byte // of addLate
	parts    [][]byte
	sorting  []placed

	runs      map[scopeID]*runPut // nil: written as chunks
	spareRuns []*runPut
	orders    map[scope]*runOrder
	ranks     []uint32 // by index into b.Series: the rank plus one, or 0 if unknown
	compactor compactor
	it        *pebble.Iterator // of what is stored; nil until it is needed

	keyBuf, valBuf []byte
}

func (p *putter) put(ctx context.Context) error {
	s := p.s
	p.sortPoints()
	if len(p.pts) > 0 && p.tier == 0 && !s.opts.Copy {
		if err := s.passOld(ctx, p.newest()); err != nil {
			return err
		}
	}
	s.mu.RLock()
	p.ready, p.floor = s.ready, s.floor
	p.nextFam = uint32(len(s.byNumber))
	if w := s.writers[p.b.Writer]; w != nil {
		p.w = *w
	} else {
		p.w.number, p.isNew = s.freeNumber(), true
	}
	s.mu.RUnlock()
	p.retry = p.b.Generation <= p.w.flushed

	for i := range p.b.Families {
		f := &p.b.Families[i]
		p.family(f.Name, f.Kind, f.IntervalSeconds)
	}
	var f *family
	for i := range p.b.Series {
		sr := &p.b.Series[i]
		if f == nil || f.name != sr.Family {
			f = p.family(sr.Family, sr.Kind, 0)
		}
		sc := makeScope(f.number, sr.View)
		p.scopes[i] = sc
		if p.perScope[sc] == 0 && series.IsBreakdown(f.name) {
			p.breakdown[sc] = true
		}
		p.perScope[sc]++
	}
	if err := p.points(ctx); err != nil {
		return err
	}
	if err := p.samples(ctx); err != nil {
		return err
	}
	if err := p.writeLate(math.MaxInt64); err != nil {
		return err
	}
	if err := p.writeIndex(ctx); err != nil {
		return err
	}
	for _, r := range p.b.State {
		k := append(binary.BigEndian.AppendUint32([]byte{tableState}, p.w.number), r.Key...)
		var err error
		if len(r.Value) == 0 {
			err = p.wb.Delete(k, nil)
		} else {
			err = p.wb.Set(k, r.Value, nil)
		}
		if err != nil {
			return err
		}
	}
	for _, f := range p.families {
		v := binary.AppendUvarint(nil, uint64(f.number))
		v = binary.AppendVarint(append(v, byte(f.kind)), f.interval)
		if err := p.wb.Set(append([]byte{tableFamily}, f.name...), v, nil); err != nil {
			return err
		}
	}
	for id := range p.direct {
		if err := p.wb.Set(directKey(nil, id.tier, id.part), nil, nil); err != nil {
			return err
		}
	}
	for id := range p.coarse {
		if err := p.wb.Set(coarseKey(nil, id.tier, id.part, id.scope), nil, nil); err != nil {
			return err
		}
	}
	p.w.flushed = max(p.w.flushed, p.b.Generation)
	p.w.points = p.w.points || len(p.b.Points)+len(p.b.Samples) > 0
	if err := p.wb.Set(append([]byte{tableWriter}, p.b.Writer...), p.w.encode(), nil); err != nil {
		return err
	}
	if err := s.commit(p.wb, pebble.Sync); err != nil {
		return err
	}
	p.publish()
	return nil
}

// freeNumber returns a number that no writer has. The caller holds mu.
func (s *Store) freeNumber() (n uint32) {
	for _, w := range s.writers {
		n = max(n, w.number+1)
	}
	return n
}

// commit applies a batch whole or not at all.
func (s *Store) commit(wb *pebble.Batch, o *pebble.WriteOptions) error {
	return classify(wb.Commit(o))
}

// publish makes what was written visible to queries.
func (p *putter) publish() {
	var codes tenantCodes
	for _, d := range p.days {
		for _, up := range d.units {
			if len(up.series) > 0 {
				up.u.addEach(len(up.series), func(i int) newSeries { return p.newSeries(up.series[i]) }, up.ids[1:], &codes)
			}
		}
	}
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range p.families {
		s.addFamily(f)
	}
	for id := range p.direct {
		s.direct[id] = true
	}
	for id := range p.coarse {
		s.addCoarse(id)
	}
	w := p.w
	s.writers[p.b.Writer] = &w
	for id, a := range p.fresh {
		s.addFresh(id, a)
	}
}

package pair

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"tailscope/hist"
	"tailscope/internal/series"
)

const shards = 16

const slotNanos = int64(series.Base) * 1e9

// The distributions of one variant and status.
const (
	duration = iota
	firstByte
	answerBytes
	perStatus
)

// recorder holds what was measured and not flushed yet.
//
// The histograms of an accumulator lie in this order: for the primary, each shadow,
// and the primary's requests that were not chosen, those of ok and then those of
// error; after them the ratios.
type recorder struct {
	o          *Options
	unmirrored int // the variant of requests that were not chosen
	ratios     []ratio
	firstRatio int
	width      int // histograms of an accumulator
	seed       maphash.Seed
	names      atomic.Int64
	folded     atomic.Uint64
	shards     [shards]shard
}

// ratio names two variants: 0 is the primary, 1+i shadow i.
type ratio struct{ over, under int }

type shard struct {
	mu      sync.Mutex
	entries map[Names]*entry
	dirty   []*slot // what the next flush takes
	free    []*slot
	_       [64]byte
}

// entry holds the slots of one pair of names.
type entry struct {
	names Names
	shard *shard
	open  int   // exchanges; an entry with some is not dropped
	seen  int64 // Unix nanoseconds
	slots []*slot
	tags  []tags // by the flusher alone
}

// slot holds the requests of 10 s under one pair of names.
type slot struct {
	entry *entry
	start int64
	hists []*hist.Histogram // nil, or empty, where nothing was
}

func (r *recorder) init(o *Options) {
	r.o = o
	r.unmirrored = 1 + len(o.Shadows)
	r.firstRatio = (r.unmirrored + 1) * 2 * perStatus
	for i, s := range o.Shadows {
		if s.Role == Candidate {
			for j, c := range o.Shadows {
				if c.Role == Control {
					r.ratios = append(r.ratios, ratio{1 + i, 1 + j})
				}
			}
		}
		r.ratios = append(r.ratios, ratio{1 + i, 0})
	}
	r.width = r.firstRatio + len(r.ratios)
	r.seed = maphash.MakeSeed()
	for i := range r.shards {
		r.shards[i].entries = map[Names]*entry{}
	}
}

func (r *recorder) shardOf(n Names) *shard {
	return &r.shards[(maphash.String(r.seed, n.Operation)^maphash.String(r.seed, n.Tenant)<<1)%shards]
}

// open returns the names' entry for an exchange, which must close it.
func (r *recorder) open(n Names, now int64) *entry {
	if r.o.Sink == nil {
		return nil
	}
	if e := r.find(n, now, false); e != nil {
		return e
	}
	if e := r.makeEntry(n, now, r.o.MaxNames); e != nil {
		return e
	}
	r.folded.Add(1)
	if n.Tenant != "" {
		if e := r.makeEntry(Names{n.Operation, series.Other}, now, 2*r.o.MaxNames); e != nil {
			return e
		}
		n.Tenant = series.Other
	}
	return r.find(Names{series.Other, n.Tenant}, now, true)
}

func (r *recorder) makeEntry(n Names, now int64, bound int) *entry {
	return r.find(n, now, int(r.names.Load()) < bound)
}

func (r *recorder) find(n Names, now int64, add bool) *entry {
	s := r.shardOf(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[n]
	if e == nil {
		if !add {
			return nil
		}
		e = &entry{names: n, shard: s}
		s.entries[n] = e
		r.names.Add(1)
	}
	e.open++
	e.seen = now
	return e
}

// leg records one leg, and adds it to its side if ratios are made of it. A leg that
// was broken off without a fault of the server is only counted: its duration would
// look like an error, or like a quick answer.
func (r *recorder) leg(x *Exchange, variant int, l *Leg, side *side) {
	if r.o.Sink == nil || l.Cause != None && !l.Cause.Fault() {
		return
	}
	end, status := l.End, 1
	if l.Cause == None && l.Status < 500 {
		status = 0
		if l.End > l.Start {
			side.add(hist.Seconds(l.End - l.Start))
		}
	}
	if l.Cause != None && end == 0 {
		end = r.o.Steady() // when it was given up
	}
	first := (2*variant + status) * perStatus
	s := x.entry.shard
	s.mu.Lock()
	at := s.slot(x.entry, x.began, r.width)
	record(at, first+duration, max(end-l.Start, 0))
	if l.FirstByte >= l.Start && l.FirstByte != 0 {
		record(at, first+firstByte, l.FirstByte-l.Start)
	}
	if l.Cause == None {
		h := at.hist(first + answerBytes)
		_ = h.Record(float64(max(l.Bytes, 0))) // neither NaN nor infinite
	}
	s.mu.Unlock()
}

func record(at *slot, i int, nanos int64) {
	_ = at.hist(i).RecordNanos(nanos, 1) // a count cannot overflow by ones within 10 s
}

// close records the ratios of an exchange all of whose legs have ended.
func (r *recorder) close(x *Exchange) {
	if r.o.Sink == nil {
		return
	}
	s := x.entry.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	x.entry.open--
	if !x.chosen {
		return
	}
	for i, q := range r.ratios {
		over, under := x.side(q.over).middle(), x.side(q.under).middle()
		if over > 0 && under > 0 {
			_ = s.slot(x.entry, x.began, r.width).hist(r.firstRatio + i).Record(over / under)
		}
	}
}

func (x *Exchange) side(variant int) *side {
	if variant == 0 {
		return &x.primary
	}
	return &x.copies[variant-1].side
}

// slot returns the entry's slot of a moment. Needs mu.
func (s *shard) slot(e *entry, nanos int64, width int) *slot {
	start := nanos - nanos%slotNanos
	for i := len(e.slots) - 1; i >= 0; i-- {
		if e.slots[i].start == start {
			return e.slots[i]
		}
	}
	var at *slot
	if n := len(s.free); n > 0 {
		at, s.free = s.free[n-1], s.free[:n-1]
	} else {
		at = &slot{hists: make([]*hist.Histogram, width)}
	}
	at.entry, at.start = e, start
	e.slots = append(e.slots, at)
	s.dirty = append(s.dirty, at)
	return at
}

func (at *slot) hist(i int) *hist.Histogram {
	h := at.hists[i]
	if h == nil {
		h = hist.New(hist.DefaultSchema)
		at.hists[i] = h
	}
	return h
}

func (r *recorder) stats() (names int, folded uint64) {
	return int(r.names.Load()), r.folded.Load()
}

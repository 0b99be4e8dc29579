package pair

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// pointsAPut bounds the points of one Put.
const pointsAPut = 2000

// flusher puts the counts of the recorder and the accounts into the sink. It holds
// them until a Put has succeeded.
type flusher struct {
	b *Ledger

	mu      sync.Mutex // over what is held
	held    map[heldKey]*slot
	order   []*slot // of held, as they came; some may have been sent since
	dists   int     // distributions held
	numbers numbers
	swept   int64 // when idle names were last dropped
	refused uint64
	lost    uint64
	err     error

	putting sync.Mutex // one Put at a time; over what follows
	points  []Point
	slots   []*slot
}

type heldKey struct {
	entry *entry
	start int64
}

func (f *flusher) init(b *Ledger) {
	f.b = b
	f.held = map[heldKey]*slot{}
	f.swept = b.o.Now()
	f.numbers.init(b)
}

// Run flushes the ledger until ctx ends, and once more then. It returns the error of
// that last flush. No exchange should be open by then.
func (b *Ledger) Run(ctx context.Context) error {
	if b.o.Sink == nil {
		<-ctx.Done()
		return nil
	}
	f := &b.flusher
	lasting := context.WithoutCancel(ctx)
	due := make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range due {
			_ = f.putHeld(lasting) // kept, counted, and put again
		}
	}()
	timer := time.NewTimer(f.untilNext())
	defer timer.Stop()
	for running := true; running; {
		select {
		case <-ctx.Done():
			running = false
		case <-timer.C:
			f.collect()
			select {
			case due <- struct{}{}:
			default: // a slow Put is under way
			}
			timer.Reset(f.untilNext())
		}
	}
	close(due)
	<-done
	if err := b.Flush(lasting); err != nil {
		f.giveUp()
		return err
	}
	return nil
}

// untilNext returns the time to the next whole multiple of the interval, so that
// flushes do not straddle slots.
func (f *flusher) untilNext() time.Duration {
	every := int64(f.b.o.FlushEvery)
	return time.Duration(every - f.b.o.Now()%every)
}

// Flush puts what was collected. What the sink refuses is held for the next time.
func (b *Ledger) Flush(ctx context.Context) error {
	if b.o.Sink == nil {
		return nil
	}
	b.flusher.collect()
	return b.flusher.putHeld(ctx)
}

// collect takes over what was recorded.
func (f *flusher) collect() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.b.o.Now()
	r := &f.b.records
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		dirty := s.dirty
		s.dirty = nil
		for _, at := range dirty {
			at.entry.slots = at.entry.slots[:0]
		}
		s.mu.Unlock()
		for _, at := range dirty {
			f.hold(at)
		}
	}
	f.numbers.collect(now)
	f.bound()
	if now-f.swept >= int64(f.b.o.IdleAfter)/8 {
		f.swept = now
		r.dropIdle(now - int64(f.b.o.IdleAfter))
	}
}

// hold adds a slot to what is held. Needs mu.
func (f *flusher) hold(at *slot) {
	key := heldKey{at.entry, at.start}
	have := f.held[key]
	if have == nil {
		f.held[key] = at
		f.order = append(f.order, at)
		f.dists += at.size()
		return
	}
	f.dists -= have.size()
	for i, h := range at.hists {
		if h != nil && h.Count > 0 {
			_ = have.hist(i).Merge(h) // of one schema; counts of one session do not overflow
		}
	}
	f.dists += have.size()
	f.b.records.recycle(at)
}

// bound drops the oldest slots if too much is held. Needs mu.
func (f *flusher) bound() {
	for f.dists > f.b.o.MaxHeld && len(f.order) > 0 {
		f.dropFirst()
	}
}

func (f *flusher) dropFirst() {
	at := f.order[0]
	f.order = f.order[1:]
	delete(f.held, heldKey{at.entry, at.start})
	f.dists -= at.size()
	f.lost += at.observations()
	f.b.records.recycle(at)
}

func (f *flusher) giveUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.order) > 0 {
		f.dropFirst()
	}
}

// putHeld gives the sink what is held, a part at a time.
func (f *flusher) putHeld(ctx context.Context) error {
	f.putting.Lock()
	defer f.putting.Unlock()
	for {
		taken := f.takePoints()
		if len(f.points) == 0 {
			return nil
		}
		limited, cancel := context.WithTimeout(ctx, f.b.o.PutTimeout)
		err := f.b.o.Sink.Put(limited, f.points)
		cancel()
		f.finishPut(taken, err)
		if err != nil {
			return fmt.Errorf("put %d points of experiment %s: %w", len(f.points), f.b.o.Experiment, err)
		}
	}
}

// takePoints moves up to pointsAPut points out of what is held, into points and slots.
func (f *flusher) takePoints() []number {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.points)
	f.points, f.slots = f.points[:0], f.slots[:0]
	r := &f.b.records
	n := 0
	for _, at := range f.order {
		if len(f.points)+r.width > pointsAPut && n > 0 {
			break
		}
		n++
		delete(f.held, heldKey{at.entry, at.start})
		f.dists -= at.size()
		f.slots = append(f.slots, at)
		f.points = r.appendPoints(f.points, at)
	}
	f.order = f.order[n:]
	if len(f.order) == 0 {
		f.order = nil
	}
	var taken []number
	f.points, taken = f.numbers.takePoints(f.points)
	return taken
}

// finishPut ends a Put: what the sink has refused is held again.
func (f *flusher) finishPut(taken []number, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	if err == nil {
		for _, at := range f.slots {
			f.b.records.recycle(at)
		}
		return
	}
	f.refused++
	later := f.order
	f.order = nil
	for _, at := range f.slots {
		f.hold(at)
	}
	// What was collected meanwhile may be of the same slots.
	for _, at := range later {
		if f.held[heldKey{at.entry, at.start}] == at {
			f.order = append(f.order, at)
		}
	}
	f.numbers.restore(taken)
	f.bound()
}

func (f *flusher) stats(s *Stats) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.Held, s.Refused, s.Lost, s.Err = f.dists, f.refused, f.lost, f.err
}

// size returns the number of distributions.
func (at *slot) size() int {
	n := 0
	for _, h := range at.hists {
		if h != nil && h.Count > 0 {
			n++
		}
	}
	return n
}

func (at *slot) observations() uint64 {
	var n uint64
	for _, h := range at.hists {
		if h != nil {
			n += h.Count
		}
	}
	return n
}

// recycle empties a slot for later use.
func (r *recorder) recycle(at *slot) {
	s := at.entry.shard
	for _, h := range at.hists {
		if h != nil {
			h.Reset(h.Schema)
		}
	}
	at.entry = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) < 2*len(s.entries) {
		s.free = append(s.free, at)
	}
}

// dropIdle deletes names that were last seen before a moment.
func (r *recorder) dropIdle(before int64) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		for n, e := range s.entries {
			if e.open == 0 && len(e.slots) == 0 && e.seen < before {
				delete(s.entries, n)
				r.names.Add(-1)
			}
		}
		if spare := len(s.free) - 2*len(s.entries); spare > 0 {
			clear(s.free[len(s.free)-spare:])
			s.free = s.free[:len(s.free)-spare]
		}
		s.mu.Unlock()
	}
}

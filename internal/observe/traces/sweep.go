package traces

import (
	"context"
	"slices"
	"time"
)

// sweepTraces is the number of traces closed at a time: their memory is free again after
// each.
const sweepTraces = 1024

// run sweeps each second until ctx is done. Only sweeps ends a sweep in progress.
func (a *Assembler) run(ctx, sweeps context.Context) {
	defer close(a.done)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	// Errors are counted, and logged where they cause a loss.
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = a.sweep(sweeps, a.o.Now(), false)
		case <-a.full:
			_ = a.keep.handOver(sweeps, a.o.Now().UnixNano(), false)
		}
	}
}

// sweep closes what is due, or everything, and hands over the results.
func (a *Assembler) sweep(ctx context.Context, now time.Time, all bool) error {
	nanos := now.UnixNano()
	for _, s := range [...]traceState{ready, rooted, rootless} {
		wait := int64(0)
		switch s {
		case rooted:
			wait = int64(a.o.Grace)
		case rootless:
			wait = int64(a.o.Idle)
		}
		due := func(t *openTrace) bool { return all || nanos-t.since >= wait }
		// The shards take turns, so that traces are closed about in order of time: those of
		// one slot then share their cells.
		for more := slices.Clone(a.shards); len(more) > 0 && ctx.Err() == nil; {
			more = slices.DeleteFunc(more, func(sh *shard) bool {
				return a.closeSome(ctx, sh, sweepTraces, false, due, s) < sweepTraces
			})
		}
	}
	return a.handOverDue(ctx, now, all, all)
}

// handOver hands over the breakdown of what is closed.
func (a *Assembler) handOver(ctx context.Context) error {
	return a.handOverDue(ctx, a.o.Now(), true, false)
}

// closeEarly closes an eighth of a shard's traces early: those added whole, then those that
// have their root, then the others, the oldest first.
func (a *Assembler) closeEarly(sh *shard) {
	sh.mu.Lock()
	n := max(min(sh.open/8, sweepTraces), 1)
	sh.mu.Unlock()
	due := func(*openTrace) bool { return true }
	a.closeSome(context.Background(), sh, n, true, due, ready, rooted, rootless)
}

// closeSome closes at most n traces of a shard and returns their number.
func (a *Assembler) closeSome(ctx context.Context, sh *shard, n int, early bool, due func(*openTrace) bool, states ...traceState) int {
	c := &a.closer
	c.mu.Lock()
	defer c.mu.Unlock()
	sh.mu.Lock()
	c.batch = c.batch[:0]
	for _, s := range states {
		c.batch = sh.detach(c.batch, s, n-len(c.batch), early, due)
	}
	c.view(sh)
	sh.mu.Unlock()
	if len(c.batch) == 0 {
		return 0
	}
	c.snapshot()
	for from := 0; from < len(c.batch); from += fetchTraces {
		some := c.batch[from:min(from+fetchTraces, len(c.batch))]
		c.fetch(some)
		for _, i := range some {
			c.close(ctx, i)
		}
	}
	sh.mu.Lock()
	sh.release(c.batch, c.usedBlocks, c.usedExtras)
	sh.mu.Unlock()
	c.traces, c.blocks, c.extras = slab[openTrace]{}, slab[block]{}, slab[extra]{} // else the view keeps what was released
	c.usedBlocks, c.usedExtras = c.usedBlocks[:0], c.usedExtras[:0]
	return len(c.batch)
}

package agg

import (
	"context"
	"errors"
	"time"
)

// Flush cuts the generation now and stores it. Tests, shutdown and imports use it.
func (a *Aggregator) Flush(ctx context.Context) error {
	a.collect(ctx)
	a.putMu.Lock()
	defer a.putMu.Unlock()
	a.cut(a.o.Now())
	err := a.putFrozen(ctx)
	a.flushError.Store(&err)
	a.prune(ctx)
	a.retireIdle(a.o.Now())
	return err
}

// collect calls what BeforeCut was given, while what it commits would be accepted.
func (a *Aggregator) collect(ctx context.Context) {
	a.mu.Lock()
	all := a.beforeCut
	if a.closed {
		all = nil
	}
	a.mu.Unlock()
	for _, f := range all {
		f(ctx)
	}
}

// FlushError returns why the last Flush stored nothing, or nil.
func (a *Aggregator) FlushError() error {
	if err := a.flushError.Load(); err != nil {
		return *err
	}
	return nil
}

// runFlusher cuts and stores generations until ctx is done. Only flushes ends a flush in
// progress: a generation whose Put is cut short is built and put once more.
func (a *Aggregator) runFlusher(ctx, flushes context.Context) {
	var backoff time.Duration
	at := nextCut(a.o.Now(), a.o.FlushInterval)
	for {
		timer := time.NewTimer(at.Sub(a.o.Now()))
		var kick <-chan struct{}
		if backoff == 0 {
			kick = a.kick // while the store refuses, only time helps
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-kick:
			timer.Stop()
		}
		if ctx.Err() != nil {
			return
		}
		err := a.Flush(flushes)
		now := a.o.Now()
		at = nextCut(now, a.o.FlushInterval)
		if err == nil || flushes.Err() != nil {
			backoff = 0
			continue
		}
		a.o.Logger.Error("generation not stored, will retry", "err", err)
		backoff = min(max(2*backoff, time.Second), 30*time.Second)
		if retry := now.Add(backoff); retry.Before(at) || backoff > a.o.FlushInterval {
			at = retry
		}
	}
}

// runSyncer syncs the journals to disk every sync interval until ctx is done.
func (a *Aggregator) runSyncer(ctx context.Context) {
	tick := time.NewTicker(a.o.SyncInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := a.syncJournals(); err != nil {
			a.o.Logger.Error("journal not synced: a power failure before the next flush would lose its observations", "err", err)
		}
		a.reclaimSoon()
	}
}

// syncJournals syncs to disk what was written since its last success. A generation whose
// journal cannot be synced is cut, and soon stored by the flusher: what is accepted
// meanwhile is in a new file. A failed sync is tried again.
func (a *Aggregator) syncJournals() error {
	a.mu.Lock()
	var list []*journal
	for _, g := range append(a.frozen[:len(a.frozen):len(a.frozen)], a.open) {
		if g.journal != nil && g.journal.dirty {
			g.journal.dirty = false
			list = append(list, g.journal)
		}
	}
	dir, ack := a.newFiles, a.ack.dirty
	a.newFiles, a.ack.dirty = false, false
	a.mu.Unlock()
	var err error
	failed := func(e error, again func()) {
		if e == nil {
			return
		}
		err = errors.Join(err, e)
		a.mu.Lock()
		defer a.mu.Unlock()
		again()
	}
	for _, j := range list {
		failed(j.sync(), func() { j.dirty, j.unsynced = true, true })
	}
	if ack { // after the journals, which should hold what it acknowledges
		failed(a.ack.f.SyncData(), func() { a.ack.dirty = true })
	}
	if dir {
		failed(syncDir(a.o.FS, a.o.Dir), func() { a.newFiles = true })
	}
	if err == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stats.SyncErrors++
	if j := a.open.journal; j != nil && j.unsynced {
		a.nudge()
	}
	return err
}

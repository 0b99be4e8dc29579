package agg

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tailscope/internal/series"
)

// cut freezes the open generation, if it holds anything, and opens the next.
func (a *Aggregator) cut(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.open
	if hour := now.Unix() / 3600; hour != a.hour {
		a.hour = hour
		a.reg.updateSketches()
		if a.reg.turn() {
			a.advance()
		}
		a.saveTenants()
		a.stored = now
	} else if now.Sub(a.stored) >= 5*time.Minute {
		a.saveTenants()
		a.stored = now
	}
	if now.Sub(a.expiry) >= time.Hour {
		a.expiry = now
		a.streams.expire()
	}
	if g.entries == 0 && !g.derived && len(g.records) == 0 && len(a.declared) == 0 && len(a.streams.expired) == 0 {
		if g.journal != nil && g.journal.torn { // continue in a fresh file under a fresh number
			a.frozen = append(a.frozen, g)
			a.openGeneration(g.number+1, now)
		}
		return
	}
	g.records = append(g.records, a.streams.cut()...)
	if g.entries > 0 {
		g.records = append(g.records, positionRecord(a.position))
		a.lastJournal = g.number
	}
	size := 0
	for _, r := range g.records {
		size += 48 + len(r.Key) + len(r.Value)
	}
	g.cells.grew(int64(size))
	for _, f := range a.declared {
		g.infos = append(g.infos, f)
	}
	clear(a.declared)
	g.cells.observeMarginals() // what is frozen changes under generation.reading alone
	a.frozen = append(a.frozen, g)
	a.openGeneration(g.number+1, now)
}

// putFrozen stores the frozen generations, oldest first, and deletes their journals.
func (a *Aggregator) putFrozen(ctx context.Context) error {
	for {
		a.mu.Lock()
		if len(a.frozen) == 0 {
			a.mu.Unlock()
			return nil
		}
		g := a.frozen[0]
		tables := a.reg.tables
		a.mu.Unlock()

		// The part of the tables that this generation uses does not change until it is
		// stored.
		g.reading.Lock()
		lost := g.complete(&tables)
		g.reading.Unlock()
		batch := a.build.batch(g, &tables)
		batch.Writer, batch.Generation, batch.Resolution = a.o.Writer, g.number, series.Base
		if lost += a.build.lost; lost > 0 {
			a.o.Logger.Error("histograms that cannot be merged were left out", "generation", g.number, "cells", lost, "err", a.build.err)
		}
		a.built.Store(a.build.bytes())
		err := a.st.Put(ctx, batch)
		a.build.reset()
		a.built.Store(a.build.bytes())
		a.mu.Lock()
		a.stats.Unmergeable += uint64(lost)
		if err != nil {
			a.stats.FlushErrors++
			a.mu.Unlock()
			return fmt.Errorf("store generation %d: %w", g.number, err)
		}
		a.frozen = slices.Delete(a.frozen, 0, 1)
		a.stats.Generations++
		g.release()
		a.full.Store(a.memory() > a.o.MemoryBytes)
		a.mu.Unlock()
		if g.journal != nil {
			a.keep(g.number, g.journal)
		}
	}
}

// complete makes a frozen generation ready to be stored. It returns how many cells could not
// be added to their Totals.
func (g *generation) complete(t *tables) (lost int) {
	g.cells.observeMarginals()
	lost = makeTotals(g, t.series)
	g.cells.absorbMembers(t)
	g.cells.sortSamples()
	return lost
}

// makeTotals adds the Total cells of a frozen generation, made from its Marginals. It
// returns how many could not be added.
func makeTotals(g *generation, recs list[seriesRec]) (lost int) {
	if g.totals {
		return 0
	}
	g.totals = true
	c := g.cells
	n := c.count
	for i := uint32(1); i < n; i++ {
		m := c.at(i)
		t := recs.at(m.series).total
		if t == 0 {
			continue
		}
		total, _ := c.cell(t, m.key)
		if err := c.absorb(total, m); err != nil {
			lost++
		}
	}
	return lost
}

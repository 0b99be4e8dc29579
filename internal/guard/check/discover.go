package check

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"tailscope/internal/figure"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

const (
	discoverEvery = time.Minute
	// discoverBack bounds how far a look goes back: further than the one before, and
	// than what is not yet whole.
	discoverBack = 3 * time.Minute
	// discoverWhole is how often a look goes back as far as the first one of a
	// definition: data may come late, by an import or a slow exporter.
	discoverWhole = 5 * time.Minute
	eachWithin    = time.Hour
	eachMost      = 1000
	eachGrace     = 5 * time.Minute // after a start nothing leaves
)

// discover finds the series of every Each, again and again until ctx is done.
func (e *Engine) discover(ctx context.Context) {
	looked := map[*definition]time.Time{} // when as far back as it goes
	failing := map[string]bool{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-e.defined:
		}
		e.mu.Lock()
		defs := slices.Clone(e.definitions)
		e.mu.Unlock()
		maps.DeleteFunc(looked, func(d *definition, _ time.Time) bool { return !slices.Contains(defs, d) })
		wait := time.Hour
		for _, d := range defs {
			if d.c.Each == nil {
				continue
			}
			wait = discoverEvery
			now := e.o.Now()
			whole := now.Sub(looked[d]) >= discoverWhole
			err := e.discoverOf(ctx, d, now, whole)
			if ctx.Err() != nil {
				return
			}
			if err != nil && !failing[d.c.Name] {
				e.o.Logger.Error("find the series of a check", "check", d.c.Name, "error", err)
			}
			failing[d.c.Name] = err != nil
			if whole && err == nil {
				looked[d] = now
			}
		}
		timer.Reset(wait)
	}
}

// discoverOf finds the series of one Each, as far back as it goes, or those of
// the last minutes.
func (e *Engine) discoverOf(ctx context.Context, d *definition, now time.Time, whole bool) error {
	each := d.c.Each
	within := each.Within
	if within <= 0 {
		within = eachWithin
	}
	back := discoverBack
	if whole {
		back = within
	}
	found, err := e.seriesOf(ctx, d, now.Add(-max(back, discoverBack)), now)
	if err != nil {
		return err
	}
	most := each.Most
	if most <= 0 {
		most = eachMost
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byName[d.c.Name] != d {
		return nil // replaced meanwhile
	}
	d.beyond = 0
	for _, f := range found {
		if in := d.byKey[keyOf(d.c.Name, f.labels).Labels]; in != nil && f.seen.After(in.seen) {
			in.seen = f.seen
		}
	}
	// Right after a start that nothing was heard of a series says nothing of it: it
	// is this process that was not there. Nor does it while the clock has leapt
	// ahead of the data.
	complete := now.Sub(e.since) > eachGrace && e.o.Leapt() == 0
	for _, in := range slices.Clone(d.instances) {
		if complete && now.Sub(in.seen) > within {
			e.leave(in.condition, now, "no data of it for "+figure.Span(within.Seconds()))
		}
	}
	for _, f := range found {
		if d.byKey[keyOf(d.c.Name, f.labels).Labels] != nil || now.Sub(f.seen) > within {
			continue
		}
		if len(d.instances) >= most {
			d.beyond++
			continue
		}
		e.enter(d, f.labels, f.seen)
	}
	d.instances = slices.Clone(d.instances) // runs under way read the old one
	slices.SortFunc(d.instances, func(a, b *instance) int { return cmp.Compare(a.key.Labels, b.key.Labels) })
	return nil
}

// seenSeries is a series, and when it last had data, to a sixth of the while.
type seenSeries struct {
	labels map[string]string
	seen   time.Time
}

// seriesOf are the groups of an Each that had data in a while, sorted.
func (e *Engine) seriesOf(ctx context.Context, d *definition, start, end time.Time) ([]seenSeries, error) {
	each := d.c.Each
	names := slices.Clone(d.by)
	for _, m := range each.Series.Matchers {
		names = append(names, m.Name)
	}
	view, ok := query.ViewOf(family(each.Series.Family), names...)
	if !ok {
		return nil, query.Invalid("each", "tenant and instance are not kept together; name one of the two")
	}
	from, to := query.Base(start, end)
	step := max(10, (to-from)/60*10)
	res, err := e.o.Store.Query(ctx, store.Query{
		Family: family(each.Series.Family), View: view, Matchers: each.Series.Matchers, Start: from, End: to, By: d.by, Measure: store.Moments, Step: step,
	})
	if err != nil {
		return nil, err
	}
	var out []seenSeries
	for _, g := range res.Groups {
		if len(g.Points) == 0 {
			continue
		}
		m := make(map[string]string, len(d.by))
		whole := true
		for _, name := range d.by {
			m[name] = g.Labels.Get(name)
			whole = whole && m[name] != ""
		}
		if whole { // a series without one of the labels is not meant
			last := time.Unix(g.Points[len(g.Points)-1].Start+step, 0)
			if last.After(end) {
				last = end
			}
			out = append(out, seenSeries{m, last})
		}
	}
	slices.SortFunc(out, func(a, b seenSeries) int {
		for _, name := range d.by {
			if c := strings.Compare(a.labels[name], b.labels[name]); c != 0 {
				return c
			}
		}
		return 0
	})
	return out, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

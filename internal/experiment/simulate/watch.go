package simulate

import (
	"context"
	"slices"

	"tailscope/api"
)

// watch keeps the work of a few queries, and what was still under way when the first
// of them arrived. Methods of nil do nothing.
type watch struct {
	from, to int32 // queries
	nodes    int32 // of the first ones
	left     int   // queries that are not done
	since    float64
	units    []api.SimulationWork
	limit    int
}

// watched plays a short stretch and returns its work in order of start: at most limit
// units. It keeps to the first nodes if one query alone has too many leaves.
func (p *plan) watched(ctx context.Context, limit int) ([]api.SimulationWork, error) {
	if limit <= 0 {
		return nil, nil
	}
	each := 2 // the aggregator's
	w := &watch{limit: limit}
	most := max(1, limit/8)
	for w.nodes < int32(p.Nodes) {
		more := 0
		for s := range p.Shards {
			if p.home(s, 0) == int(w.nodes) {
				more++
			}
		}
		if w.nodes > 0 && each+more > most {
			break
		}
		each += more
		w.nodes++
	}
	w.from = int32(min(p.total/2, max(20, 20_000/p.Shards)))
	w.to = min(int32(p.total), w.from+int32(max(1, limit*3/4/each)))
	w.left = int(w.to - w.from)
	short := *p
	if _, err := short.playEvents(ctx, w); err != nil {
		return nil, err
	}
	return w.cut(), nil
}

func (w *watch) full() bool { return w.left <= 0 }

func (w *watch) answered(n int32) {
	if w != nil && n >= w.from && n < w.to {
		w.left--
	}
}

// asked notes when the first query arrived.
func (w *watch) asked(e *engine, n int32) {
	if w != nil && n == w.from {
		w.since = e.now
		w.units = slices.DeleteFunc(w.units, func(u api.SimulationWork) bool { return float64(u.End) <= w.since })
	}
}

var kinds = [...]string{leafTask: "leaf", hedgeTask: "hedge", beforeTask: "merge", afterTask: "merge"}

func (w *watch) done(e *engine, t *task) {
	if w == nil || t.query >= w.to || t.node >= w.nodes && t.node < int32(e.Nodes) {
		return
	}
	if t.query < w.from && len(e.queries) <= int(w.from) {
		return // done before the first watched query came
	}
	node := t.node
	if node >= int32(e.Nodes) {
		node = -1
	}
	thread := t.thread
	if node < 0 { // aggregators' cores are numbered through
		thread += (t.node - int32(e.Nodes)) * int32(e.servers[t.node].threads)
	}
	w.units = append(w.units, api.SimulationWork{
		Kind: kinds[t.what], Query: int(t.query), Shard: int(t.shard), Node: int(node), Thread: int(thread),
		Ready: api.Float(t.ready), Start: api.Float(t.start), End: api.Float(e.now),
	})
}

func (w *watch) paused(_ *engine, node int32, from, to float64) {
	if w == nil || node >= w.nodes {
		return
	}
	w.units = append(w.units, api.SimulationWork{
		Kind: "pause", Query: -1, Shard: -1, Node: int(node), Ready: api.Float(from), Start: api.Float(from), End: api.Float(to),
	})
}

// cut orders units, from time 0 and query 0 on.
func (w *watch) cut() []api.SimulationWork {
	units := slices.DeleteFunc(w.units, func(u api.SimulationWork) bool { return float64(u.End) <= w.since })
	slices.SortStableFunc(units, func(a, b api.SimulationWork) int {
		switch {
		case a.Start < b.Start:
			return -1
		case a.Start > b.Start:
			return 1
		}
		return 0
	})
	units = units[:min(len(units), w.limit)]
	if len(units) == 0 {
		return nil
	}
	first, zero := int(w.from), units[0].Start
	for _, u := range units {
		zero = min(zero, u.Ready)
		if u.Query >= 0 {
			first = min(first, u.Query)
		}
	}
	for i := range units {
		u := &units[i]
		u.Ready, u.Start, u.End = u.Ready-zero, u.Start-zero, u.End-zero
		if u.Query >= 0 {
			u.Query -= first
		}
	}
	return units
}

package query

import (
	"context"
	"errors"
	"time"

	"tailscope/api"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// How many points one question per step may read before its step grows: of base
// slots, which are kept small, not fast, and of others. A service has a series
// for each part, operation and cohort. Where coarser slots would make fewer
// than fewColumns, ten times as many; fewer than fewestColumns are never made.
const (
	breakdownBasePoints = 5_000
	breakdownPoints     = 300_000
	fewColumns          = 30
	fewestColumns       = 10
)

// begin settles range and step by the first query, which should be one that
// reads many series, and returns its result.
func (b *breakdown) begin(ctx context.Context, q store.Query) (*store.Result, error) {
	res, q, err := b.stepped(ctx, q)
	if err != nil {
		return nil, err
	}
	b.q, b.n = q, int((q.End-q.Start)/q.Step)
	b.out = &api.BreakdownResponse{
		Range: api.Range{Start: q.Start, End: q.End}, Step: q.Step, Slot: slotOf(res), Times: stepStarts(q),
		Requests: make([]uint64, b.n), Components: []api.BreakdownComponent{},
	}
	return res, nil
}

func (b *breakdown) stepped(ctx context.Context, q store.Query) (*store.Result, store.Query, error) {
	r := b.r
	if r.Step != 0 {
		return stepped(ctx, b.st, q, r.Start, r.End, r.Grid, 0)
	}
	seconds := int64(r.End.Sub(r.Start) / time.Second)
	for i := 0; ; i++ {
		step, err := r.Grid.choose(r.Start, r.End, int64(series.Resolutions[i]))
		if err != nil {
			return nil, q, err
		}
		q.MaxSeries = 0
		columns := int64(0) // of the next coarser slots
		if i+1 < len(series.Resolutions) {
			columns = seconds / int64(series.Resolutions[i+1])
		}
		if columns >= fewestColumns {
			points := int64(breakdownPoints)
			if i == 0 {
				points = breakdownBasePoints
			}
			if columns < fewColumns {
				points *= 10
			}
			q.MaxSeries = int(max(1, points*int64(slotsFor(step))/seconds))
		}
		res, got, err := stepped(ctx, b.st, q, r.Start, r.End, Grid{Step: step, Width: r.Width}, 0)
		got.MaxSeries = 0
		if q.MaxSeries == 0 || !errors.Is(err, store.ErrTooMany) {
			return res, got, err
		}
	}
}

// slotsFor is the resolution that a question of the step reads.
func slotsFor(step int64) series.Resolution {
	best := series.Base
	for _, r := range series.Resolutions {
		if step%int64(r) == 0 {
			best = r
		}
	}
	return best
}

func stepStarts(q store.Query) []int64 {
	out := make([]int64, (q.End-q.Start)/q.Step)
	for i := range out {
		out[i] = q.Start + int64(i)*q.Step
	}
	return out
}

// step returns the index of the step that begins at slot, -1 outside the range.
func (b *breakdown) step(slot int64) int {
	i := (slot - b.q.Start) / b.q.Step
	if slot < b.q.Start || i >= int64(b.n) {
		return -1
	}
	return int(i)
}

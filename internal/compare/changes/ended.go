package changes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/compare"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/store"
	"tailscope/stat"
)

// mostEnds bounds the changes whose end is looked for, the latest of those that lead.
const mostEnds = 10

// nameEnds says of what made requests worse, and lasts in what was compared, since when it is
// as before, if it is. That takes some slots, long before the end is a change by itself.
// Once half of the time of ctx has passed, or knownWithin for what is known, it looks for no
// further end.
func nameEnds(ctx context.Context, st store.Store, r *Request, out *api.ChangesResponse) error {
	if len(out.Changes) == 0 { // there may be no slots either
		return nil
	}
	looking := ctx
	deadline, ok := ctx.Deadline()
	within := time.Until(deadline) / 2
	if r.Known && (!ok || within > knownWithin) {
		within, ok = knownWithin, true
	}
	if ok {
		var stop context.CancelFunc
		looking, stop = context.WithTimeout(ctx, within)
		defer stop()
	}
	end := out.End
	if !r.Now.IsZero() {
		end = min(end, r.Now.Add(-unfinished).Unix()/out.Slot*out.Slot)
	}
	n := 0
	for i := range slices.Backward(out.Changes) {
		c := &out.Changes[i]
		if n == mostEnds {
			return nil
		}
		if lead := worsened(c); lead != nil {
			n++
			err := nameEnd(looking, st, r, c, lead, untilWorse(out.Changes[i+1:], c, end), out.Slot)
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// untilWorse returns end, or the moment from which on one of the later changes made the same
// requests worse again: what follows that is of another change.
func untilWorse(later []api.Change, c *api.Change, end int64) int64 {
	for i := range later {
		x := &later[i]
		if x.Service == c.Service && x.Environment == c.Environment && x.Operation == c.Operation && worsened(x) != nil {
			end = min(end, int64(x.Low))
		}
	}
	return end
}

// worsened returns the measure by which a change that leads made requests worse for as long as
// it was compared; nil if it did not.
func worsened(c *api.Change) *api.CompareMeasure {
	if c.Under != "" || c.Part != nil || c.Family != "" || isSpike(c) || c.Verdict != judge.Regression && c.Verdict != judge.Mixed {
		return nil
	}
	return compare.Lead(c.Measures, func(m *api.CompareMeasure) bool {
		return m.Change == judge.Worse && m.Name != judge.Rate && m.Name != judge.Apdex
	}, compare.DefaultWithin)
}

// nameEnd looks for the end of a change in its newest slots, and says it.
func nameEnd(ctx context.Context, st store.Store, r *Request, c *api.Change, lead *api.CompareMeasure, end, slot int64) error {
	counts := failedIn
	if lead.Name != judge.ErrorShare {
		a, b := float64(lead.Raw.A), float64(lead.Raw.B)
		if !(a > 0 && b > a) {
			return nil
		}
		counts = func(m *query.Requested) stat.Tally { return slowerIn(m, math.Sqrt(a*b)) }
	}
	from := (int64(c.High) + slot - 1) / slot * slot
	if end <= from || c.Before.End <= c.Before.Start {
		return nil
	}
	read := func(from, to int64) (t stat.Tally, ok bool, err error) {
		sel := r.Selection
		part := compare.Part{Service: c.Service, Environment: c.Environment, Operation: c.Operation, Own: c.Operation != ""}
		sel.Matchers = part.Select(r.Matchers, c.Environment != "")
		sel.Start, sel.End = time.Unix(from, 0), time.Unix(to, 0)
		found, err := query.Requests(ctx, st, query.RequestsRequest{Selection: sel, Grid: query.Grid{Step: slot}})
		if err != nil || found.Step > slot {
			return t, false, err
		}
		return counts(found), true, nil
	}
	usual, ok, err := read(c.Before.Start, c.Before.End)
	if err != nil || !ok {
		return err
	}
	since, ok, err := read(from, end)
	if err != nil || !ok {
		return err
	}
	at, ok, err := stat.FindReturn(usual, since)
	if err != nil || !ok {
		return err
	}
	c.Ended = from + int64(at)*slot
	c.Headline = judge.Past(c.Headline)
	began := time.Unix(int64(c.Time), 0).UTC().Format(time.DateTime)
	c.Sentence = fmt.Sprintf("%s, from %s to %s UTC, normal again since", c.Headline, began, clockOf(int64(c.Time), c.Ended))
	return nil
}

// failedIn counts the requests of each slot that failed.
func failedIn(m *query.Requested) stat.Tally {
	return tallyOf(m, func(h *hist.Histogram, failed bool) float64 {
		if failed {
			return float64(h.Count)
		}
		return 0
	})
}

// slowerIn counts the requests of each slot that took longer than v, in seconds.
func slowerIn(m *query.Requested, v float64) stat.Tally {
	return tallyOf(m, func(h *hist.Histogram, _ bool) float64 {
		atMost, _, _ := h.AtMost(v)
		return float64(h.Count) - atMost
	})
}

// tallyOf counts requests among all of each slot.
func tallyOf(m *query.Requested, count func(h *hist.Histogram, failed bool) float64) stat.Tally {
	n := int((m.End - m.Start) / m.Step)
	t := stat.Tally{Num: make([]float64, n), Den: make([]float64, n)}
	for _, g := range m.Groups {
		for i := range n {
			for _, h := range []*hist.Histogram{g.Good[i], g.Failed[i]} {
				if h != nil {
					t.Num[i], t.Den[i] = t.Num[i]+count(h, h == g.Failed[i]), t.Den[i]+float64(h.Count)
					t.DenSquares += h.SquaredWeights()
				}
			}
		}
	}
	return t
}

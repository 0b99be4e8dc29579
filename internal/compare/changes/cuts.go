package changes

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

// sureCut is the greatest probability of a change at which what is compared ends. Changes
// less sure hardly move what holds them, and each that is none makes a side shorter.
const sureCut = 0.001

// cutOperations bounds the operations that are searched, those with the most requests: marks
// are judged again and again.
const cutOperations = 20

// Cuts answers the changes of a range at which what is compared should end: those that
// surely are of the durations or of errors. A rate ends nothing, since a side that begins
// where requests stopped would be empty. A part of the requests and a mix that moved end
// nothing, since comparisons allow for them, nor does what came and went within fewer slots
// than a side has. What lasted longer is two changes, the second with the opposite verdict.
// It answers none where what there is cannot be searched.
func (f *Finder) Cuts(ctx context.Context, r Request) ([]api.Change, error) {
	r.cuts, r.Operations = true, cutOperations
	found, err := f.Find(ctx, r)
	var invalid *query.Error
	if errors.As(err, &invalid) || errors.Is(err, store.ErrTooMany) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []api.Change
	for _, c := range found.Changes {
		of := slices.Contains(c.Found, Durations) || slices.Contains(c.Found, Errors)
		if !of || c.Part != nil || c.Verdict == Mix || !(c.P <= sureCut) {
			continue
		}
		if c.Shape == nil || c.Shape.Kind != judge.Spike {
			out = append(out, c)
			continue
		}
		if c.Shape.End-c.Shape.Start < fewestSlots*found.Slot {
			continue
		}
		end, wide := c, (c.High-c.Low)/2
		end.Time = api.Float(c.Shape.End)
		end.Low, end.High = end.Time-wide, end.Time+wide
		switch c.Verdict {
		case judge.Regression:
			end.Verdict = judge.Improvement
		case judge.Improvement:
			end.Verdict = judge.Regression
		}
		out = append(out, c, end)
	}
	slices.SortStableFunc(out, func(x, y api.Change) int { return cmp.Compare(x.Time, y.Time) })
	return out, nil
}

package changes

import (
	"context"
	"errors"
	"math"
	"slices"

	"tailscope/internal/compare"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

// mixOperations bounds the operations of a service, those with the most requests, by which
// its parts are held against its mix.
const mixOperations = 20

// withoutMix leaves out what parts of requests changed by for the mix of a service's
// operations alone: each operation makes as many calls, and spends as much time in them, as
// before. That the mix moved is said of the requests.
func withoutMix(ctx context.Context, st store.Store, s *compare.Stretches, found []candidate) ([]candidate, error) {
	byPart := map[compare.Part][][]query.PartSlots{}
	var out []candidate
	for _, c := range found {
		if c.inner == nil || c.part.Own {
			out = append(out, c)
			continue
		}
		operations, known := byPart[c.part]
		if !known {
			var err error
			if operations, err = partsOfOperations(ctx, st, s, c.part); err != nil {
				return nil, err
			}
			byPart[c.part] = operations
		}
		c.point.of = slices.DeleteFunc(slices.Clone(c.point.of), func(of string) bool { return isOfMix(&c, of, operations) })
		if len(c.point.of) > 0 {
			out = append(out, c)
		}
	}
	return out, nil
}

// partsOfOperations returns the parts of each operation of a service; nil if it has one only,
// or they are more than one question reads.
func partsOfOperations(ctx context.Context, st store.Store, s *compare.Stretches, of compare.Part) (out [][]query.PartSlots, err error) {
	ctx, done := store.Passing(ctx)
	defer done()
	for _, p := range s.Parts() {
		if !p.Own || p.Operation == "" || p.Service != of.Service || p.Environment != of.Environment || len(out) == mixOperations {
			continue
		}
		parts, err := query.PartsBySlot(ctx, st, s.Matchers(p), s.Start(0), s.Start(s.Slots()), s.Step(), mostPartsRead)
		if errors.Is(err, store.ErrTooMany) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if len(parts) > 0 {
			out = append(out, parts)
		}
	}
	if len(out) < 2 {
		return nil, nil
	}
	return out, nil
}

// isOfMix reports whether the mix of operations explains that calls or time changed: like for
// like hardly anything is left of it.
func isOfMix(c *candidate, of string, operations [][]query.PartSlots) bool {
	figure := func(p *query.PartSlots) []float64 {
		if of == Calls {
			return p.Calls
		}
		return p.Seconds
	}
	sum := func(v []float64, w compare.Stretch) (n float64) {
		for _, x := range v[w.From:w.To] {
			n += x
		}
		return n
	}
	perRequest := func(p *query.PartSlots, w compare.Stretch) float64 { return sum(figure(p), w) / sum(p.Requests, w) }
	var before, after float64
	for i := range operations {
		all := operations[i]
		a, b := sum(all[0].Requests, c.before), sum(all[0].Requests, c.after)
		if a == 0 || b == 0 {
			continue
		}
		// These weights have the least variance.
		weight := a * b / (a + b)
		for j := range all {
			if p := &all[j]; p.Part == c.inner.of.Part {
				before += weight * perRequest(p, c.before)
				after += weight * perRequest(p, c.after)
			}
		}
	}
	if before == 0 || after == 0 {
		return len(operations) > 0 && before == after
	}
	moved := math.Abs(math.Log(perRequest(c.inner.of, c.after) / perRequest(c.inner.of, c.before)))
	return math.Abs(math.Log(after/before)) < max(leastRate, min(1, moved)/3)
}

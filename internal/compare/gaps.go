package compare

import (
	"context"
	"fmt"

	"tailscope/internal/judge"
	"tailscope/internal/query"
)

// findGaps finds where the sides were not measured, and where requests are missing while
// others come. Without a service that has requests nothing is known of either.
func (c *comparison) findGaps(ctx context.Context) error {
	sides := []*side{c.a, c.b}
	found := make([][][]bool, len(sides))
	known := false
	for i, s := range sides {
		for _, p := range s.places() {
			slots, err := query.Occupied(ctx, c.st, p.start, p.start+int64(p.n)*s.step, s.step)
			if err != nil {
				return err
			}
			for _, any := range slots {
				known = known || any
			}
			found[i] = append(found[i], slots)
		}
	}
	for i, s := range sides {
		for j, p := range s.places() {
			measured := found[i][j]
			for k := range measured {
				measured[k] = measured[k] || s.days == nil && s.has(p.first+k)
			}
			if known || c.kind != ofSpans {
				s.gaps = append(s.gaps, p.gaps(s.step, func(k int) bool { return measured[k] })...)
			}
			// Of days that lie over each other slots tell nothing.
			if s.days == nil && c.kind == ofSpans {
				s.outages = append(s.outages, p.gaps(s.step, func(k int) bool { return s.has(p.first+k) || !measured[k] })...)
			}
		}
	}
	return nil
}

// gaps returns the gaps of a part, given which of its slots have something.
func (p part) gaps(step int64, has func(i int) bool) (out []span) {
	slots := make([]bool, p.n)
	for i := range slots {
		slots[i] = has(i)
	}
	for _, g := range query.Gaps(slots, p.start, step, query.LongestWaitOf(slots, step)) {
		out = append(out, span{g[0], g[1]})
	}
	return out
}

// warnGaps says where a side has no requests.
func (c *comparison) warnGaps() {
	for _, s := range []*side{c.a, c.b} {
		for _, of := range []struct {
			gaps []span
			text string
		}{
			{s.outages, "there are no requests on side %s, %s, while others come: its rate is over all of it"},
			{s.gaps, "no service has requests on side %s, %s: its rate leaves that out"},
		} {
			if len(of.gaps) == 0 {
				continue
			}
			long := int64(0)
			for _, g := range of.gaps {
				long += g.end - g.start
			}
			when := fmt.Sprintf("for %s from %s UTC on", judge.Span(long), clock(of.gaps[0].start))
			if n := len(of.gaps); n > 1 {
				when = fmt.Sprintf("for %s in all, %d times, first at %s UTC", judge.Span(long), n, clock(of.gaps[0].start))
			}
			c.warning("gaps", of.text, s.letter(c), when)
		}
	}
}

// letter names a side in a warning.
func (s *side) letter(c *comparison) string {
	if s == c.a {
		return "A"
	}
	return "B"
}

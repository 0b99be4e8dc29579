package query

import (
	"time"

	"tailscope/hist"
	"tailscope/internal/series"
)

// checkSlide refuses windows that mean nothing.
func (r *TimelineRequest) checkSlide(number bool) error {
	switch {
	case r.Slide == 0:
		return nil
	case r.Slide < 0 || r.Slide%time.Second != 0:
		return Invalid("slide", "a window of %s is not whole seconds above 0; write a duration such as 10m", r.Slide)
	case number:
		return Invalid("slide", "a window slides over distributions; leave slide out for gauges and counters")
	case r.Per != "":
		return Invalid("slide", "slide and per are not answered together; leave one of them out")
	}
	return nil
}

// slide makes every step's figures those of the trailing window that ends with
// it, of whole steps, and drops the steps before from (Unix seconds), which
// were read for their sake.
func (t *timeline) slide(window time.Duration, from int64) error {
	t.window = max(1, int((int64(window/time.Second)+t.step-1)/t.step))
	first := int((series.Resolution(t.step).Slot(from) - t.start) / t.step)
	first = min(max(first, 0), t.n)
	for _, g := range t.order {
		g.total = 0
		for i := first; i < t.n; i++ {
			if h := g.cells[i].hist; h != nil {
				g.total += h.Count
			}
		}
		cells, err := slideCells(g.cells, t.window)
		if err != nil {
			return err
		}
		g.cells = cells[first:]
	}
	t.start += int64(first) * t.step
	t.n -= first
	return nil
}

// slideCells merges each cell with the window−1 before it, in three merges a
// cell whatever the window (van Herk 1992, Gil & Werman 1993): cells are cut
// into blocks as long as the window, so a window is the end of one block and
// the beginning of the next.
func slideCells(cells []timelineCell, window int) ([]timelineCell, error) {
	out := make([]timelineCell, len(cells))
	ends := make([]*hist.Histogram, window+1) // of the block before: its cells from j on
	var failed uint64
	for b := 0; b < len(cells); b += window {
		block := cells[b:min(b+window, len(cells))]
		var begin *hist.Histogram
		for j := range block {
			i := b + j
			failed += cells[i].errors
			if i >= window {
				failed -= cells[i-window].errors
			}
			var err error
			if begin, err = plus(begin, block[j].hist); err != nil {
				return nil, err
			}
			out[i] = timelineCell{errors: failed}
			if out[i].hist, err = plus(begin, ends[j+1]); err != nil {
				return nil, err
			}
		}
		for j := len(block) - 1; j >= 0; j-- {
			var err error
			if ends[j], err = plus(ends[j+1], block[j].hist); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// plus is a new histogram of both, or one of them if the other is empty.
func plus(a, b *hist.Histogram) (*hist.Histogram, error) {
	switch {
	case b == nil || b.Count == 0:
		return a, nil
	case a == nil || a.Count == 0:
		return b, nil
	}
	sum := a.Clone()
	return sum, sum.Merge(b)
}

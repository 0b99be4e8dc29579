package pebblestore

import (
	"fmt"
	"math"
	"sync/atomic"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/runcodec"
)

// sums holds the merged points of a query, by cell: group × steps + step.
type sums struct {
	measure store.Measure
	schema  int8
	steps   int
	points  int
	dense   []*cell
	sparse  map[int]*cell
	slab    []cell
	hists   []hist.Histogram // of cells to come

	held   *atomic.Int64 // shared by all sums of the query
	limit  int64
	budget *store.Budget // of the question
}

type cell struct {
	hist   *hist.Histogram
	moment hist.Moment
	number series.Number
}

const denseCells = 1 << 20

func newSums(groups, steps int, measure store.Measure, schema int8) *sums {
	s := &sums{measure: measure, schema: schema, steps: steps}
	if groups*steps <= denseCells {
		s.dense = make([]*cell, groups*steps)
	} else {
		s.sparse = map[int]*cell{}
	}
	return s
}

// cellBytes estimates the memory of a cell and its point in the answer; histBytes that
// of a histogram without its counts, and momentBytes that of one that never has counts.
const (
	cellBytes   = 240
	histBytes   = 256
	momentBytes = 200
)

// hold counts the memory of the answer and refuses what exceeds the bound: a question
// may ask for every slot of every series.
func (s *sums) hold(bytes int) error {
	if err := s.budget.Reserve(int64(bytes)); err != nil {
		return err
	}
	if s.held.Add(int64(bytes)) > s.limit {
		return fmt.Errorf("the answer takes more than %d MiB: %w", s.limit>>20, store.ErrTooMany)
	}
	return nil
}

func (s *sums) cell(i int) (*cell, error) {
	if s.dense != nil {
		if c := s.dense[i]; c != nil {
			return c, nil
		}
	} else if c := s.sparse[i]; c != nil {
		return c, nil
	}
	if len(s.slab) == 0 {
		s.slab = make([]cell, 64)
	}
	c := &s.slab[0]
	s.slab = s.slab[1:]
	c.moment.Min, c.moment.Max = math.NaN(), math.NaN()
	s.set(i, c)
	if s.measure == store.Moments { // the point has a histogram without buckets
		return c, s.hold(cellBytes + momentBytes)
	}
	return c, s.hold(cellBytes)
}

func (s *sums) set(i int, c *cell) {
	if s.dense != nil {
		s.dense[i] = c
	} else {
		s.sparse[i] = c
	}
}

func (s *sums) add(i int, kind series.Kind, data []byte) error {
	c, err := s.cell(i)
	if err != nil {
		return err
	}
	s.points++
	if kind != series.Distribution {
		n, err := store.DecodeNumber(data)
		if err != nil {
			return err
		}
		c.number.Merge(n)
		return nil
	}
	if s.measure == store.Moments {
		m, err := hist.Moments(data)
		if err != nil {
			return corruptPoint(err)
		}
		c.moment.Merge(m)
		return nil
	}
	before := sizeOf(c.hist)
	if c.hist == nil {
		c.hist = s.newHist()
	}
	if err := c.hist.MergeEncoded(data); err != nil {
		return corruptPoint(err)
	}
	return s.grown(c, before)
}

// newHist returns an empty histogram. A cell of few observations costs less than an allocation.
func (s *sums) newHist() *hist.Histogram {
	if len(s.hists) == 0 {
		s.hists = make([]hist.Histogram, min(64, 1+s.points)) // an answer may have one alone
	}
	h := &s.hists[0]
	s.hists = s.hists[1:]
	h.Reset(s.schema)
	return h
}

// grown holds the growth of a cell's histogram.
func (s *sums) grown(c *cell, before int) error {
	if more := sizeOf(c.hist) - before; more > 0 {
		return s.hold(more)
	}
	return nil
}

func sizeOf(h *hist.Histogram) int {
	if h == nil {
		return 0
	}
	return histBytes + 8*(cap(h.Positive.Counts)+cap(h.Negative.Counts))
}

// addPacked adds the distribution at the decoder.
func (s *sums) addPacked(i int, dec *runcodec.Decoder) error {
	c, err := s.cell(i)
	if err != nil {
		return err
	}
	s.points++
	if s.measure == store.Moments {
		m, err := dec.Moment()
		if err != nil {
			return corruptPoint(err)
		}
		c.moment.Merge(m)
		return nil
	}
	before := sizeOf(c.hist)
	if c.hist == nil {
		c.hist = s.newHist()
	}
	if err := dec.Merge(c.hist); err != nil {
		return corruptPoint(err)
	}
	return s.grown(c, before)
}

func (s *sums) each(fn func(i int, c *cell) error) error {
	if s.sparse != nil {
		for i, c := range s.sparse {
			if err := fn(i, c); err != nil {
				return err
			}
		}
		return nil
	}
	for i, c := range s.dense {
		if c != nil {
			if err := fn(i, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *sums) merge(o *sums) error {
	s.points += o.points
	return o.each(func(i int, c *cell) error {
		to := (*cell)(nil)
		if s.dense != nil {
			to = s.dense[i]
		} else {
			to = s.sparse[i]
		}
		if to == nil {
			s.set(i, c)
			return nil
		}
		to.number.Merge(c.number)
		to.moment.Merge(c.moment)
		switch {
		case c.hist == nil:
		case to.hist == nil:
			to.hist = c.hist
		default:
			return to.hist.Merge(c.hist)
		}
		return nil
	})
}

// count returns the number of observations or samples in a cell.
func (c *cell) count(kind series.Kind) uint64 {
	switch {
	case kind != series.Distribution:
		return c.number.Count
	case c.hist != nil:
		return c.hist.Count
	}
	return c.moment.Count
}

// counts adds up the cells of each group.
func (s *sums) counts(groups []groupInfo) []uint64 {
	out := make([]uint64, len(groups))
	s.each(func(i int, c *cell) error {
		out[i/s.steps] += c.count(groups[i/s.steps].kind)
		return nil
	})
	return out
}

package pebblestore

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// merger adds up stored points of one series into one stored point.
type merger struct {
	h       *hist.Histogram
	buf     []byte
	leftOut *atomic.Uint64 // counts what within drops
}

func (s *Store) newMerger() *merger {
	return &merger{h: hist.New(hist.DefaultSchema), leftOut: &s.stats.leftOut}
}

// merge returns the sum of the points. It may alias the only one; otherwise it
// is valid until the next call.
func (m *merger) merge(kind series.Kind, points [][]byte) ([]byte, error) {
	if len(points) == 1 {
		return points[0], nil
	}
	if kind == series.Distribution {
		sum, err := m.distributions(points)
		if errors.Is(err, hist.ErrInvalid) {
			return m.mergeFitting(points)
		}
		return sum, err
	}
	var n series.Number
	for _, p := range points {
		o, err := store.DecodeNumber(p)
		if err != nil {
			return nil, err
		}
		n.Merge(o)
	}
	m.buf = store.AppendNumber(m.buf[:0], n)
	return m.buf, nil
}

func (m *merger) distributions(points [][]byte) ([]byte, error) {
	if err := m.h.UnmarshalBinary(points[0]); err != nil {
		return nil, corruptPoint(err)
	}
	for _, p := range points[1:] {
		if err := m.h.MergeEncoded(p); err != nil {
			return nil, corruptPoint(err)
		}
	}
	return m.encode()
}

func (m *merger) encode() (_ []byte, err error) {
	if m.buf, err = m.h.AppendBinary(m.buf[:0]); err != nil {
		return nil, fmt.Errorf("encode point: %w", err)
	}
	return m.buf, nil
}

// mergeFitting adds up points whose sum exceeds what a point can count. It drops and counts
// those that do not fit: impossible numbers must not prevent all other series from being
// stored, rolled up and compacted.
func (m *merger) mergeFitting(points [][]byte) ([]byte, error) {
	m.h.Reset(hist.MaxSchema)
	for _, p := range points {
		o, err := hist.Moments(p)
		if err != nil {
			return nil, corruptPoint(err)
		}
		if o.Count > math.MaxInt64-m.h.Count {
			m.leftOut.Add(1)
			continue
		}
		if err := m.h.MergeEncoded(p); err != nil {
			return nil, corruptPoint(err)
		}
	}
	return m.encode()
}

// mergeSampleData unites encoded samples; later arguments win equal times.
func mergeSampleData(points [][]byte) ([]byte, error) {
	if len(points) == 1 {
		return points[0], nil
	}
	var ss []series.Sample
	for _, p := range points {
		var err error
		if ss, err = decodeSamples(ss, p); err != nil {
			return nil, err
		}
	}
	return appendSamples(nil, mergeSamples(ss)), nil
}

func corruptPoint(err error) error {
	return fmt.Errorf("stored point: %w: %w", store.ErrCorrupt, err)
}

// entriesSorted reports whether the numbers ascend strictly.
func entriesSorted(es []entry) bool {
	for i := 1; i < len(es); i++ {
		if es[i].number <= es[i-1].number {
			return false
		}
	}
	return true
}

// unite merges two ascending lists. Where both have a number, pick decides.
func unite(a, b []entry, pick func(a, b entry) (entry, error)) ([]entry, error) {
	out := make([]entry, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].number < b[0].number:
			out, a = append(out, a[0]), a[1:]
		case a[0].number > b[0].number:
			out, b = append(out, b[0]), b[1:]
		default:
			e, err := pick(a[0], b[0])
			if err != nil {
				return nil, err
			}
			out = append(out, e)
			a, b = a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...), nil
}

func contains(es []entry, number uint32) bool {
	_, ok := slices.BinarySearchFunc(es, number, func(e entry, n uint32) int {
		switch {
		case e.number < n:
			return -1
		case e.number > n:
			return 1
		}
		return 0
	})
	return ok
}

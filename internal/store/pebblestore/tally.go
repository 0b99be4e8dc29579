package pebblestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"tailscope/internal/store"
)

// A tally lies beside the run of an hour of raw samples. It holds their counts, which
// saves reading them, and lists the series whose samples of the hour were dropped. It
// outlasts the run, until the hour has expired.
//
//	format byte | the numbers of series without their samples, see appendRanges |
//	series uvarint | samples of each, in the order of the run, uvarint
//
// Runs written before there were tallies have none.
type tally struct {
	gone   ranges
	counts []uint32
}

const tallyFormat = 1

func appendTally(dst []byte, t *tally) []byte {
	dst = appendRanges(append(dst, tallyFormat), t.gone)
	dst = binary.AppendUvarint(dst, uint64(len(t.counts)))
	for _, n := range t.counts {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	return dst
}

// decodeTally decodes a tally; without counts, only the list of dropped series.
func decodeTally(b []byte, counts bool) (*tally, error) {
	r := reader{b: b}
	if r.byte() != tallyFormat {
		return nil, fmt.Errorf("tally of samples: format: %w", store.ErrCorrupt)
	}
	t := &tally{gone: r.ranges()}
	for i, g := range t.gone {
		if g[1] < g[0] || g[1] > math.MaxUint32 || i > 0 && g[0] <= t.gone[i-1][1] {
			r.fail()
		}
	}
	if counts {
		n := r.count(1)
		t.counts = make([]uint32, 0, n)
		for range n {
			v := r.uvarint()
			if v > math.MaxUint32 {
				r.fail()
			}
			t.counts = append(t.counts, uint32(v))
		}
		if len(r.b) != 0 {
			r.fail()
		}
	}
	if r.err != nil {
		return nil, fmt.Errorf("tally of samples: %w", store.ErrCorrupt)
	}
	return t, nil
}

// readTally returns the tally of an hour of samples, or nil if there is none.
func (s *Store) readTally(r pebble.Reader, part int64, sc scope, counts bool) (*tally, error) {
	v, closer, err := r.Get(classPrefix(nil, tierSamples, part, sc, classTally))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, classify(err)
	}
	defer closer.Close()
	return decodeTally(v, counts)
}

// goneOf returns the series whose samples of an hour were dropped, or an error if that
// cannot be read. Queries and Puts use goneIfKnown.
func (s *Store) goneOf(r pebble.Reader, part int64, sc scope) (ranges, error) {
	t, err := s.readTally(r, part, sc, false)
	if err != nil || t == nil {
		return nil, err
	}
	return t.gone, nil
}

// goneIfKnown is goneOf for callers that damage to an old hour must not stop from
// storing new samples, or from reading those of other hours.
func (s *Store) goneIfKnown(r pebble.Reader, part int64, sc scope) (ranges, error) {
	g, err := s.goneOf(r, part, sc)
	if errors.Is(err, store.ErrCorrupt) {
		return nil, nil
	}
	return g, err
}

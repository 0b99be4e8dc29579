package pebblestore

import (
	"context"

	"github.com/cockroachdb/pebble/v2"
	"github.com/prometheus/prometheus/model/labels"

	"encoding/binary"
)

// boundSamples drops the hours of raw samples that all series of a scope have
// enough newer ones of.
func (s *Store) boundSamples(ctx context.Context) error {
	snap := s.db.NewSnapshot()
	defer snap.Close()
	c, err := s.newScanner(ctx, snap)
	if err != nil {
		return err
	}
	defer c.close()
	// Hours with samples, by scope, newest last.
	hours := map[scope][]int64{}
	prefix := tierPrefix(nil, tierSamples)
	c.it.SetBounds(prefix, prefixEnd(prefix))
	for ok := c.it.First(); ok; {
		part, sc := readTime(c.it.Key()[2:]), scope(readUint32(c.it.Key()[6:]))
		hours[sc] = append(hours[sc], part)
		ok = c.it.SeekGE(scopePrefix(nil, tierSamples, part, sc+1))
	}
	if err := c.it.Error(); err != nil {
		return classify(err)
	}
	for sc, parts := range hours {
		counts := map[string]int{}
		for i := len(parts) - 1; i >= 0; i-- {
			if err := ctx.Err(); err != nil {
				return err
			}
			needed, err := s.countSamples(c, parts[i], sc, counts)
			if err != nil {
				return err
			}
			if !needed {
				if err := s.dropSamples(parts[i], sc); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// countSamples adds an hour's samples to the counts by series, and says
// whether any series had fewer than the bound before.
func (s *Store) countSamples(c *scanner, part int64, sc scope, counts map[string]int) (needed bool, err error) {
	u, err := s.units.get(dayOf(part), sc)
	if err != nil {
		return false, err
	}
	u.mu.RLock()
	defer u.mu.RUnlock()
	var b labels.ScratchBuilder
	var buf []byte
	err = c.scan(area{tier: tierSamples, part: part, hi: 1}, sc, everything(len(u.kinds)), func(number uint32, _ int, data []byte) error {
		buf = append(u.labels(number, &b).Bytes(buf), byte(u.kinds[number]))
		n, _ := binary.Uvarint(data)
		had := counts[string(buf)]
		needed = needed || had < s.opts.SampleCount
		counts[string(buf)] = had + int(n)
		return nil
	})
	return needed, err
}

func (s *Store) dropSamples(part int64, sc scope) error {
	s.write.Lock()
	defer s.write.Unlock()
	prefix := scopePrefix(nil, tierSamples, part, sc)
	wb := s.db.NewBatch()
	defer wb.Close()
	if err := wb.DeleteRange(prefix, prefixEnd(prefix), nil); err != nil {
		return err
	}
	if err := s.commit(wb, pebble.NoSync); err != nil {
		return err
	}
	delete(s.fresh, scopeID{partID{tierSamples, part}, sc})
	s.dropHour(sc, part)
	return nil
}

package pebblestore

import (
	"context"

	"tailscope/internal/series"
)

// Usage estimates the bytes on disk of the points of a resolution, all families and
// views, and of the label index that all resolutions share. It does not include data
// that is still in memory.
func (s *Store) Usage(r series.Resolution) (points, index int64, err error) {
	tier, err := tierOf(r)
	if err != nil {
		return 0, 0, err
	}
	from := tierPrefix(nil, tier)
	p, err := s.db.EstimateDiskUsage(from, prefixEnd(from))
	if err != nil {
		return 0, 0, classify(err)
	}
	from = []byte{tableIndex}
	i, err := s.db.EstimateDiskUsage(from, prefixEnd(from))
	return int64(p), int64(i), classify(err)
}

// Compact frees the space of what has been compacted, expired or replaced, which
// otherwise happens in time.
func (s *Store) Compact(ctx context.Context) error {
	return classify(s.db.Compact(ctx, []byte{0}, []byte{0xff}, false))
}

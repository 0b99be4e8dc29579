package pebblestore

import (
	"context"

	"tailscope/internal/series"
)

// Usage estimates the bytes on disk of the points kept at a resolution, all
// families and views, and of the label index that all resolutions share. What
// has not left memory yet is not in it.
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

// Compact frees the space of what has been settled, expired or replaced, which
// otherwise happens by itself in time.
func (s *Store) Compact(ctx context.Context) error {
	return classify(s.db.Compact(ctx, []byte{0}, []byte{0xff}, false))
}

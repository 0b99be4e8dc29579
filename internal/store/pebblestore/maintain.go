package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tailscope/internal/store"
)

// Maintain rolls up the slots that are over, compacts the partitions that are over, and
// drops what has expired at now. It returns when nothing more is due. Puts wait for one
// slot's rollup at a time; queries do not wait. It does nothing on a disk without space
// for that, which Room reports. It uses another moment than now while it does not
// believe the clock; see Options.LeapWait.
func (s *Store) Maintain(ctx context.Context, now time.Time) error {
	done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	s.maintain.Lock()
	defer s.maintain.Unlock()
	wall := now
	s.wall.Store(wall.Unix())
	now, aged := s.believe(wall)
	if err := s.diskRoom(); errors.Is(err, store.ErrFull) {
		return nil
	} else if err != nil {
		return err
	}
	// A failure does not prevent the other work: a damaged file must not let the disk
	// fill up.
	var errs []error
	failed := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	failed("note the moment", s.noteMoment())
	over, err := s.overAt(ctx, now)
	failed("find the newest slot", err)
	for tier := 1; tier < tierSamples; tier++ {
		failed(fmt.Sprintf("roll up to %d s", tierSlot[tier]), s.rollUp(ctx, tier, over))
	}
	samples, err := s.compactDue(ctx, over)
	failed("compact", err)
	if samples || s.boundMore {
		failed("bound samples", s.boundSamples(ctx))
	}
	failed("expire", s.expire(ctx, now, aged))
	failed("expire traces", s.expireTraces(ctx, wall, now, aged))
	s.write.Lock()
	defer s.write.Unlock()
	s.units.evict()
	return errors.Join(errs...)
}

// overAt returns the moment before which slots are over at now. While no moment is
// believed it is at most the newest partition's: the watermark of rollups, which never
// goes back, would otherwise follow a wrong clock.
func (s *Store) overAt(ctx context.Context, now time.Time) (time.Time, error) {
	if s.opts.LeapWait == 0 || s.clock.moment != farPast {
		return now, nil
	}
	c, err := s.newScanner(ctx, s.db)
	if err != nil {
		return time.Unix(farPast, 0), err
	}
	defer c.close()
	prefix := tierPrefix(nil, 0)
	c.it.SetBounds(prefix, prefixEnd(prefix))
	end := int64(farPast)
	if c.it.Last() {
		end = readTime(c.it.Key()[2:]) + tierPart[0]
	}
	return time.Unix(min(now.Unix(), end), 0), classify(c.it.Error())
}

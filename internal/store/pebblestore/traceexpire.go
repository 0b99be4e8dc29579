package pebblestore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// expireTraces drops the hours of kept traces that are older than their age at
// aged, or the oldest while all are more bytes than their bound. Traces are kept
// until a day after what the clock says, wall.
func (s *Store) expireTraces(ctx context.Context, wall, aged time.Time) error {
	evicted, floor, err := s.expireTraceParts(wall, aged)
	if err != nil || evicted == 0 {
		return err
	}
	s.opts.Logger.Info("dropped kept traces to stay within their bound", "traces", evicted,
		"until", time.Unix(floor, 0).UTC(), "bound", s.traceBound())
	// The space is wanted now, not when Pebble finds the time. Who keeps traces
	// does not wait for that, and what stays is not written anew.
	for _, r := range droppedTraces(floor) {
		if err := s.db.Compact(ctx, r[0], r[1], false); err != nil {
			return classify(err)
		}
	}
	return nil
}

// expireTraceParts drops what has to go and says how many traces went for want
// of room, and before which moment.
func (s *Store) expireTraceParts(wall, aged time.Time) (evicted, floor int64, err error) {
	s.traces.mu.Lock()
	defer s.traces.mu.Unlock()
	k := &s.traces
	k.until = wall.Add(24 * time.Hour).Unix()
	floor = max(k.floor, floorTo(max(aged.Add(-s.opts.TraceAge).Unix(), farPast), tracePart))
	expired, bytes := int64(0), int64(0)
	for part, u := range k.parts {
		switch {
		case part < floor:
			expired += u.traces
		case part <= k.until: // what came while the clock had leapt keeps out nothing newer
			bytes += u.bytes
		}
	}
	for _, part := range slices.Sorted(maps.Keys(k.parts)) {
		if bytes <= s.traceBound() {
			break
		}
		if u := k.parts[part]; part >= floor {
			bytes -= u.bytes
			evicted += u.traces
			floor = part + tracePart
		}
	}
	if floor == k.floor {
		return 0, floor, nil
	}
	if err := s.dropTraces(floor); err != nil {
		return 0, floor, err
	}
	s.stats.tracesExpired.Add(uint64(expired))
	s.stats.tracesEvicted.Add(uint64(evicted))
	return evicted, floor, nil
}

// traceBound is TraceBytes, but no more than a quarter of the directory's bound.
func (s *Store) traceBound() int64 {
	if s.opts.MaxBytes > 0 {
		return min(s.opts.TraceBytes, s.opts.MaxBytes/4)
	}
	return s.opts.TraceBytes
}

// dropTraces raises the floor. The caller holds the lock of the traces.
func (s *Store) dropTraces(floor int64) error {
	wb := s.db.NewBatch()
	defer wb.Close()
	var errs []error
	for _, r := range droppedTraces(floor) {
		errs = append(errs, wb.DeleteRange(r[0], r[1], nil))
	}
	errs = append(errs, wb.Set(metaKey(metaTraces, 0), metaTime(floor), nil))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := s.commit(wb, pebble.NoSync); err != nil {
		return err
	}
	s.traces.floor = floor
	maps.DeleteFunc(s.traces.parts, func(part int64, _ traceUsage) bool { return part < floor })
	return nil
}

// droppedTraces are the ranges of keys before the floor.
func droppedTraces(floor int64) [][2][]byte {
	var out [][2][]byte
	for _, table := range []byte{tableTrace, tableTraceEntry, tableTracePart} {
		out = append(out, [2][]byte{{table}, appendTime([]byte{table}, floor)})
	}
	return append(out, [2][]byte{{tableTraceID}, appendTime([]byte{tableTraceID}, dayOf(floor))})
}

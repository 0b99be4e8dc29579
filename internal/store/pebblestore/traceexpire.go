package pebblestore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// expireTraces drops the hours of kept traces that are older than their age, or
// the oldest while all are more bytes than their bound.
func (s *Store) expireTraces(ctx context.Context, now time.Time) error {
	s.traces.mu.Lock()
	defer s.traces.mu.Unlock()
	k := &s.traces
	k.until = now.Add(24 * time.Hour).Unix()
	floor := max(k.floor, floorTo(max(now.Add(-s.opts.TraceAge).Unix(), farPast), tracePart))
	aged, evicted, bytes := int64(0), int64(0), int64(0)
	for part, u := range k.parts {
		if part < floor {
			aged += u.traces
		} else {
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
		return nil
	}
	if err := s.dropTraces(floor); err != nil {
		return err
	}
	s.stats.tracesExpired.Add(uint64(aged))
	s.stats.tracesEvicted.Add(uint64(evicted))
	if evicted == 0 {
		return nil
	}
	s.opts.Logger.Info("dropped kept traces to stay within their bound", "traces", evicted,
		"until", time.Unix(floor, 0).UTC(), "bound", s.traceBound())
	// The space is wanted now, not when Pebble finds the time.
	return classify(s.db.Compact(ctx, []byte{tableTrace}, []byte{tableTraceEnd}, false))
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
	for _, table := range []byte{tableTrace, tableTraceEntry, tableTracePart} {
		errs = append(errs, wb.DeleteRange([]byte{table}, appendTime([]byte{table}, floor), nil))
	}
	errs = append(errs, wb.DeleteRange([]byte{tableTraceID}, appendTime([]byte{tableTraceID}, dayOf(floor)), nil),
		wb.Set(metaKey(metaTraces, 0), metaTime(floor), nil))
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

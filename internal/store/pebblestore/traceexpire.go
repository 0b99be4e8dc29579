package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"tailscope/internal/store"
)

// expireTraces drops the hours of kept traces that are older than their age at aged, and
// more while their bytes exceed the bound: those ahead of now first, then the oldest.
// Traces are kept until a day after wall, the clock's reading.
func (s *Store) expireTraces(ctx context.Context, wall, now, aged time.Time) error {
	d, err := s.expireTraceParts(wall, now, aged)
	if err != nil || d.evicted == 0 {
		return err
	}
	s.opts.Logger.Info("dropped kept traces to stay within their bound", "traces", d.evicted,
		"until", time.Unix(d.floor, 0).UTC(), "hours ahead of the clock", len(d.ahead), "bound", s.traceBound())
	// The space is needed now, not at Pebble's leisure. PutTraces does not wait for it,
	// and the rest is not rewritten.
	ranges := droppedTraces(d.floor)
	for _, part := range d.ahead {
		for _, table := range []byte{tableTrace, tableTraceEntry} {
			ranges = append(ranges, [2][]byte{appendTime([]byte{table}, part), appendTime([]byte{table}, part+tracePart)})
		}
	}
	for _, r := range ranges {
		if err := s.db.Compact(ctx, r[0], r[1], false); err != nil {
			return classify(err)
		}
	}
	return nil
}

// tracesDropped is the result of expireTraceParts.
type tracesDropped struct {
	evicted int64   // traces dropped for the bound
	floor   int64   // the moment before which all are gone
	ahead   []int64 // evicted partitions that lie ahead of the clock
}

// expireTraceParts drops what has expired or exceeds the bound. The floor never passes
// the hour of now: it would refuse new traces once a clock that leapt is right again.
func (s *Store) expireTraceParts(wall, now, aged time.Time) (d tracesDropped, err error) {
	s.traces.mu.Lock()
	defer s.traces.mu.Unlock()
	k := &s.traces
	k.until = wall.Add(24 * time.Hour).Unix()
	floor := max(k.floor, floorTo(max(aged.Add(-s.opts.TraceAge).Unix(), farPast), tracePart))
	d.floor = floor
	expired, bytes := int64(0), int64(0)
	for part, u := range k.parts {
		switch {
		case part < floor:
			expired += u.traces
		case part <= k.until: // traces that came while the clock had leapt do not expire newer ones
			bytes += u.bytes
		}
	}
	current := floorTo(now.Unix(), tracePart)
	parts := slices.Sorted(maps.Keys(k.parts))
	for _, part := range parts {
		if u := k.parts[part]; part > current && part >= floor && part <= k.until && bytes > s.traceBound() {
			if err := s.forgetTraces(part); err != nil {
				return d, err
			}
			bytes -= u.bytes
			d.evicted += u.traces
			d.ahead = append(d.ahead, part)
			s.stats.tracesEvicted.Add(uint64(u.traces))
		}
	}
	evicted := int64(0)
	for _, part := range parts {
		if bytes <= s.traceBound() || part > current {
			break
		}
		if u := k.parts[part]; part >= floor {
			bytes -= u.bytes
			evicted += u.traces
			floor = part + tracePart
		}
	}
	if floor == k.floor {
		return d, nil
	}
	if err := s.dropTraces(floor); err != nil {
		return d, err
	}
	s.stats.tracesExpired.Add(uint64(expired))
	s.stats.tracesEvicted.Add(uint64(evicted))
	d.floor, d.evicted = floor, d.evicted+evicted
	return d, nil
}

// forgetTraces deletes the traces whose bodies are in the partition, and leaves the
// floor. The caller holds the lock of the traces.
func (s *Store) forgetTraces(part int64) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: appendTime([]byte{tableTrace}, part), UpperBound: appendTime([]byte{tableTrace}, part+tracePart)})
	if err != nil {
		return classify(err)
	}
	defer it.Close()
	var ids []store.TraceID
	for ok := it.First(); ok; ok = it.Next() {
		if key := it.Key(); len(key) == traceBodyLen {
			ids = append(ids, store.TraceID(key[traceBodyLen-len(store.TraceID{}):]))
		}
	}
	if err := it.Error(); err != nil {
		return classify(err)
	}
	return s.writeTraces(pebble.NoSync, func(p *tracePutter) error {
		for _, id := range ids {
			if err := p.forget(id); err != nil {
				return fmt.Errorf("trace %x: %w", id, err)
			}
		}
		return nil
	})
}

// traceBound returns TraceBytes, at most a quarter of MaxBytes.
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

// droppedTraces returns the ranges of keys before the floor.
func droppedTraces(floor int64) [][2][]byte {
	var out [][2][]byte
	for _, table := range []byte{tableTrace, tableTraceEntry, tableTracePart} {
		out = append(out, [2][]byte{{table}, appendTime([]byte{table}, floor)})
	}
	return append(out, [2][]byte{{tableTraceID}, appendTime([]byte{tableTraceID}, dayOf(floor))})
}

package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"tailscope/internal/store"
)

// keptTraces holds totals of the kept traces. Its lock orders the writes of traces;
// readers do not lock.
type keptTraces struct {
	mu    sync.Mutex
	parts map[int64]traceUsage
	floor int64 // traces that start before it have expired
	until int64 // traces that start after it, a day ahead of the clock, are not kept
}

// traceUsage counts the content of a partition: bodies, and the bytes of keys and values
// before compression.
type traceUsage struct{ traces, bytes int64 }

func (s *Store) loadTraces() error {
	k := &s.traces
	k.parts, k.until = map[int64]traceUsage{}, math.MaxInt64
	return s.each([]byte{tableTracePart}, func(key, v []byte) error {
		r := reader{b: v}
		u := traceUsage{r.varint(), r.varint()}
		if len(key) != 5 || r.err != nil {
			return fmt.Errorf("partition %x of kept traces: %w", key, store.ErrCorrupt)
		}
		k.parts[readTime(key[1:])] = u
		return nil
	})
}

// traceBatchBytes is the approximate size of one write of PutTraces.
const traceBatchBytes = 1 << 20

// PutTraces keeps traces, each whole or not at all. It syncs the last write of a call:
// Pebble leaves unsynced writes in the memory of the process until a block of its log is
// full. It drops and counts traces that have expired already, or start more than a day
// ahead of Maintain's clock.
func (s *Store) PutTraces(ctx context.Context, traces []store.Trace) error {
	done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := s.putTraces(ctx, traces); err != nil {
		return fmt.Errorf("keep traces: %w", err)
	}
	return nil
}

func (s *Store) putTraces(ctx context.Context, traces []store.Trace) error {
	for i := range traces {
		if err := traces[i].Check(); err != nil {
			return err
		}
	}
	if err := s.room(); err != nil {
		return err
	}
	s.traces.mu.Lock()
	defer s.traces.mu.Unlock()
	for len(traces) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, size, seen := 0, 0, map[store.TraceID]bool{}
		for n < len(traces) && size < traceBatchBytes && !seen[traces[n].ID] {
			seen[traces[n].ID] = true
			size += len(traces[n].Data)
			n++
		}
		sync := pebble.NoSync
		if n == len(traces) {
			sync = pebble.Sync
		}
		if err := s.putTraceBatch(traces[:n], sync); err != nil {
			return err
		}
		traces = traces[n:]
	}
	return nil
}

// tracePutter turns traces into one write. It changes nothing in memory before the write
// has succeeded.
type tracePutter struct {
	s     *Store
	wb    *pebble.Batch
	ids   *pebble.Iterator // over tableTraceID
	parts map[int64]traceUsage
	kept  uint64
	late  uint64

	key, value []byte
}

// putTraceBatch keeps traces of different ids.
func (s *Store) putTraceBatch(traces []store.Trace, sync *pebble.WriteOptions) error {
	return s.writeTraces(sync, func(p *tracePutter) error {
		for i := range traces {
			if err := p.put(&traces[i]); err != nil {
				return fmt.Errorf("trace %x: %w", traces[i].ID, err)
			}
		}
		return nil
	})
}

// writeTraces commits the changes of change. The caller holds the lock of the traces.
func (s *Store) writeTraces(sync *pebble.WriteOptions, change func(*tracePutter) error) error {
	ids, err := s.traceIDs(s.db)
	if err != nil {
		return err
	}
	p := tracePutter{s: s, wb: s.db.NewBatch(), ids: ids, parts: map[int64]traceUsage{}}
	defer p.wb.Close()
	defer p.ids.Close()
	if err := change(&p); err != nil {
		return err
	}
	for part, u := range p.parts {
		if err := setTraceUsage(p.wb, part, u); err != nil {
			return err
		}
	}
	if err := s.commit(p.wb, sync); err != nil {
		return err
	}
	for part, u := range p.parts {
		s.traces.parts[part] = u
	}
	s.stats.tracesKept.Add(p.kept)
	s.stats.tracesLate.Add(p.late)
	return nil
}

func setTraceUsage(wb *pebble.Batch, part int64, u traceUsage) error {
	return wb.Set(tracePartKey(nil, part), binary.AppendVarint(binary.AppendVarint(nil, u.traces), u.bytes), nil)
}

func (p *tracePutter) put(t *store.Trace) error {
	entries := t.EachOnce()
	first, last := entries[0].StartNanos, entries[0].StartNanos
	for i := range entries {
		first, last = min(first, entries[i].StartNanos), max(last, entries[i].StartNanos)
	}
	part := tracePartOf(last)
	if tracePartOf(first) < p.s.traces.floor || part > p.s.traces.until {
		p.late++
		return nil
	}
	if err := p.forget(t.ID); err != nil {
		return err
	}
	p.key = traceKey(p.key[:0], part, t.ID)
	p.value = appendTrace(p.value[:0], t, entries)
	p.account(part, 1, len(p.key)+len(p.value))
	if err := p.wb.Set(p.key, p.value, nil); err != nil {
		return err
	}
	p.key = traceIDKey(p.key[:0], dayOf(part), t.ID)
	p.value = appendTime(p.value[:0], part)
	p.account(part, 0, len(p.key)+len(p.value))
	if err := p.wb.Set(p.key, p.value, nil); err != nil {
		return err
	}
	for i := range entries {
		e := &entries[i]
		p.value = appendNames(p.value[:0], e)
		for _, l := range listsOf(e) {
			p.key = traceEntryKey(p.key[:0], l, t.ID, e)
			p.account(tracePartOf(e.StartNanos), 0, len(p.key)+len(p.value))
			if err := p.wb.Set(p.key, p.value, nil); err != nil {
				return err
			}
		}
	}
	p.kept++
	return nil
}

// forget deletes the trace kept under the id.
func (p *tracePutter) forget(id store.TraceID) error {
	old, part, err := findTrace(p.s.db, p.ids, id)
	if errors.Is(err, store.ErrNoTrace) {
		return nil
	}
	if err != nil {
		return err
	}
	p.key = traceKey(p.key[:0], part, id)
	p.account(part, -1, -len(p.key)-old.size-len(traceIDKey(nil, part, id))-4)
	err = errors.Join(p.wb.Delete(p.key, nil), p.wb.Delete(traceIDKey(nil, dayOf(part), id), nil))
	for i := range old.Entries {
		e := &old.Entries[i]
		p.value = appendNames(p.value[:0], e)
		for _, l := range listsOf(e) {
			p.key = traceEntryKey(p.key[:0], l, id, e)
			p.account(tracePartOf(e.StartNanos), 0, -len(p.key)-len(p.value))
			err = errors.Join(err, p.wb.Delete(p.key, nil))
		}
	}
	return err
}

func (p *tracePutter) account(part int64, traces, size int) {
	if part < p.s.traces.floor {
		return // gone already
	}
	u, ok := p.parts[part]
	if !ok {
		u = p.s.traces.parts[part]
	}
	p.parts[part] = traceUsage{u.traces + int64(traces), u.bytes + int64(size)}
}

func (s *Store) traceIDs(r pebble.Reader) (*pebble.Iterator, error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: []byte{tableTraceID}, UpperBound: []byte{tableTraceID + 1}})
	return it, classify(err)
}

// storedTrace is a kept trace and the bytes of its body.
type storedTrace struct {
	store.Trace
	size int
}

// findTrace searches each day that has traces, of which there are as many as TraceAge
// has.
func findTrace(r pebble.Reader, ids *pebble.Iterator, id store.TraceID) (*storedTrace, int64, error) {
	var key []byte
	for ok := ids.First(); ok; {
		day := readTime(ids.Key()[1:])
		key = traceIDKey(key[:0], day, id)
		if ids.SeekGE(key) && bytes.Equal(ids.Key(), key) {
			v, err := ids.ValueAndErr()
			if err != nil {
				return nil, 0, classify(err)
			}
			if len(v) != 4 {
				return nil, 0, fmt.Errorf("place of trace %x: %w", id, store.ErrCorrupt)
			}
			part := readTime(v)
			t, err := readTrace(r, part, id)
			if err == nil || !errors.Is(err, store.ErrNoTrace) {
				return t, part, err
			}
		}
		if err := ids.Error(); err != nil {
			return nil, 0, classify(err)
		}
		ok = ids.SeekGE(appendTime([]byte{tableTraceID}, day+secondsPerDay))
	}
	if err := ids.Error(); err != nil {
		return nil, 0, classify(err)
	}
	return nil, 0, store.ErrNoTrace
}

func readTrace(r pebble.Reader, part int64, id store.TraceID) (*storedTrace, error) {
	v, closer, err := r.Get(traceKey(nil, part, id))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, store.ErrNoTrace
	}
	if err != nil {
		return nil, classify(err)
	}
	defer closer.Close()
	t, err := decodeTrace(bytes.Clone(v))
	if err != nil {
		return nil, fmt.Errorf("body of trace %x: %w", id, err)
	}
	t.ID = id
	return &storedTrace{t, len(v)}, nil
}

// Trace returns a kept trace, or an error that wraps store.ErrNoTrace.
func (s *Store) Trace(ctx context.Context, id store.TraceID) (*store.Trace, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	snap := s.db.NewSnapshot()
	defer snap.Close()
	ids, err := s.traceIDs(snap)
	if err != nil {
		return nil, fmt.Errorf("trace %x: %w", id, err)
	}
	defer ids.Close()
	t, _, err := findTrace(snap, ids, id)
	if err != nil {
		return nil, fmt.Errorf("trace %x: %w", id, err)
	}
	return &t.Trace, nil
}

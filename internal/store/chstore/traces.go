package chstore

import (
	"context"
	"fmt"
	"math"
	"strings"

	"golang.org/x/sync/errgroup"

	"tailscope/internal/store"
	"tailscope/internal/store/tier"
)

// A kept trace is a row of traces, and one of requests for each of its requests, all with
// the trace's version, on the shard of its id. The version of an id that counts is the
// latest in traces, which is written last: so a trace is replaced at once, wherever in time
// it was.

// nextVersion returns a version later than all before.
func (s *Store) nextVersion() uint64 {
	for {
		last := s.versions.Load()
		v := max(last+1, uint64(s.opts.Now().UnixNano()))
		if s.versions.CompareAndSwap(last, v) {
			return v
		}
	}
}

func tracePartOf(startNanos int64) int32 {
	return int32(tier.FloorDiv(tier.FloorDiv(startNanos, 1e9), tracePart))
}

// PutTraces keeps traces. It drops and counts those that have expired already. See
// store.Traces.
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
	last := map[store.TraceID]int{} // in one call the last of an id counts
	for i := range traces {
		if err := traces[i].Check(); err != nil {
			return err
		}
		last[traces[i].ID] = i
	}
	if len(traces) == 0 {
		return nil
	}
	m, err := s.readMeta(ctx)
	if err != nil {
		return err
	}
	version := s.nextVersion()
	type rowsOf struct{ traces, requests []byte }
	shards := make([]rowsOf, len(s.shards))
	for i := range traces {
		t := &traces[i]
		if last[t.ID] != i {
			continue
		}
		entries := t.EachOnce()
		part := int32(math.MinInt32)
		for k := range entries {
			part = max(part, tracePartOf(entries[k].StartNanos))
		}
		if int64(part)*tracePart < m.tiers.TraceFloor {
			s.stats.tracesLate.Add(1)
			continue
		}
		s.stats.tracesKept.Add(1)
		to := &shards[s.shardOf(t.ID)]
		to.traces = appendTrace(to.traces, part, version, t, entries)
		for k := range entries {
			to.requests = appendRequest(to.requests, part, version, t.ID, &entries[k])
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for i := range shards {
		g.Go(func() error {
			// Rows that are there twice count once.
			return s.client.repeated(ctx, func() error {
				n := s.replica(i, 0)
				if err := s.client.insertAlike(ctx, n, s.local("requests"), requestColumns, shards[i].requests); err != nil {
					return err
				}
				return s.client.insertAlike(ctx, n, s.local("traces"), traceColumns, shards[i].traces)
			})
		})
	}
	return g.Wait()
}

var traceColumns, requestColumns = columnsOf("traces"), columnsOf("requests")

func appendTrace(b []byte, part int32, version uint64, t *store.Trace, entries []store.TraceEntry) []byte {
	b = appendInt32(b, part)
	b = append(b, t.ID[:]...)
	b = appendUint64(b, version)
	b = appendString(b, t.Data)
	each := func(f func(e *store.TraceEntry)) {
		b = appendLength(b, len(entries))
		for i := range entries {
			f(&entries[i])
		}
	}
	each(func(e *store.TraceEntry) { b = append(b, e.Span[:]...) })
	each(func(e *store.TraceEntry) { b = appendString(b, e.Service) })
	each(func(e *store.TraceEntry) { b = appendString(b, e.Operation) })
	each(func(e *store.TraceEntry) { b = appendString(b, e.Tenant) })
	each(func(e *store.TraceEntry) { b = appendBool(b, e.Failed) })
	each(func(e *store.TraceEntry) { b = append(b, byte(e.Why)) })
	each(func(e *store.TraceEntry) { b = appendInt64(b, e.StartNanos) })
	each(func(e *store.TraceEntry) { b = appendInt64(b, e.DurationNanos) })
	return b
}

func appendRequest(b []byte, part int32, version uint64, id store.TraceID, e *store.TraceEntry) []byte {
	b = appendInt32(b, part)
	b = appendString(b, e.Service)
	b = appendString(b, e.Operation)
	b = appendString(b, e.Tenant)
	b = appendInt64(b, e.StartNanos)
	b = appendInt64(b, e.DurationNanos)
	b = append(appendBool(b, e.Failed), byte(e.Why))
	b = append(append(b, id[:]...), e.Span[:]...)
	return appendUint64(b, version)
}

// Trace returns a kept trace. See store.Traces.
func (s *Store) Trace(ctx context.Context, id store.TraceID) (*store.Trace, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	m, err := s.readMeta(ctx)
	if err != nil {
		return nil, fmt.Errorf("trace %x: %w", id, err)
	}
	var t *store.Trace
	shard := s.shardOf(id)
	err = s.askReplicas(ctx, shard, func(ctx context.Context, _ int, n *node) error {
		r, err := s.client.read(ctx, n, "SELECT part, data, spans, services, operations, tenants, failed, why, starts, durations FROM "+s.local("traces")+
			" WHERE id = "+fixed(id[:])+" ORDER BY version DESC LIMIT 1")
		if err != nil || !r.next() {
			return err
		}
		part := r.int32()
		t = r.trace(id)
		if int64(part)*tracePart < m.tiers.TraceFloor {
			t = nil
		}
		return r.err
	})
	if err == nil && t == nil {
		err = store.ErrNoTrace
	}
	if err != nil {
		return nil, fmt.Errorf("trace %x: %w", id, err)
	}
	return t, nil
}

// trace reads a trace from its data on.
func (r *rows) trace(id store.TraceID) *store.Trace {
	t := &store.Trace{ID: id, Data: r.bytes()}
	each := func(least int, f func(e *store.TraceEntry)) {
		n := r.length(least)
		if t.Entries == nil {
			t.Entries = make([]store.TraceEntry, n)
		}
		if r.err == nil && n != len(t.Entries) {
			r.err = fmt.Errorf("trace %x: %d of %d requests: %w", id, n, len(t.Entries), store.ErrCorrupt)
		}
		for i := range t.Entries {
			f(&t.Entries[i])
		}
	}
	each(8, func(e *store.TraceEntry) { copy(e.Span[:], r.take(8)) })
	each(1, func(e *store.TraceEntry) { e.Service = r.string() })
	each(1, func(e *store.TraceEntry) { e.Operation = r.string() })
	each(1, func(e *store.TraceEntry) { e.Tenant = r.string() })
	each(1, func(e *store.TraceEntry) { e.Failed = r.uint8() != 0 })
	each(1, func(e *store.TraceEntry) { e.Why = store.Why(r.uint8()) })
	each(8, func(e *store.TraceEntry) { e.StartNanos = r.int64() })
	each(8, func(e *store.TraceEntry) { e.DurationNanos = r.int64() })
	return t
}

// requestCondition returns the condition on rows of requests that a query selects, but for
// their version.
func requestCondition(m *meta, q *store.TraceQuery) string {
	c := []string{fmt.Sprintf("start >= %d AND start < %d", q.StartNanos, q.EndNanos)}
	// A trace is in the partition of its last request, which is no earlier.
	from := max(int64(tracePartOf(max(q.StartNanos, math.MinInt64/2))), tier.FloorDiv(m.tiers.TraceFloor, tracePart))
	c = append(c, fmt.Sprintf("part >= %d", from))
	for _, e := range [...]struct{ column, value string }{{"service", q.Service}, {"operation", q.Operation}, {"tenant", q.Tenant}} {
		if e.value != "" {
			c = append(c, e.column+" = "+quote(e.value))
		}
	}
	if q.Failed != nil {
		c = append(c, "failed = "+map[bool]string{true: "1", false: "0"}[*q.Failed])
	}
	if q.Why != 0 {
		c = append(c, fmt.Sprintf("bitAnd(why, %d) != 0", q.Why))
	}
	if q.MinNanos != 0 {
		c = append(c, fmt.Sprintf("duration >= %d", q.MinNanos))
	}
	if q.MaxNanos != 0 {
		c = append(c, fmt.Sprintf("duration <= %d", q.MaxNanos))
	}
	return strings.Join(c, " AND ")
}

func requestOrder(o store.TraceOrder) string {
	if o == store.Newest {
		return " ORDER BY start DESC, duration DESC, id, span"
	}
	return " ORDER BY duration DESC, start DESC, id, span"
}

// traceIDs returns literals of identities.
func traceIDs(ids []store.TraceID) string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = fixed(id[:])
	}
	return strings.Join(out, ",")
}

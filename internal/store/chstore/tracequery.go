package chstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"tailscope/internal/store"
)

// defaultTraces is how many requests a query returns by default.
const defaultTraces = 100

// Traces returns requests of kept traces. See store.Traces.
func (s *Store) Traces(ctx context.Context, q store.TraceQuery) ([]store.TraceHit, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if q.Limit == 0 {
		q.Limit = defaultTraces
	}
	if q.EndNanos <= q.StartNanos {
		return nil, nil
	}
	m, err := s.readMeta(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	var out []store.TraceHit
	var mu sync.Mutex
	err = s.eachShard(ctx, func(ctx context.Context, _ int, n *node) error {
		hits, err := s.requestsOn(ctx, n, m, &q)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		out = append(out, hits...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	slices.SortFunc(out, func(a, b store.TraceHit) int {
		slow, late := cmp.Compare(b.DurationNanos, a.DurationNanos), cmp.Compare(b.StartNanos, a.StartNanos)
		if q.Order == store.Newest {
			slow, late = late, slow
		}
		return cmp.Or(slow, late, bytes.Compare(a.ID[:], b.ID[:]), bytes.Compare(a.Span[:], b.Span[:]))
	})
	// A row that was sent twice may be there twice.
	out = slices.CompactFunc(out, func(a, b store.TraceHit) bool { return a.ID == b.ID && a.Span == b.Span })
	return out[:min(len(out), q.Limit)], nil
}

// requestsOn returns the first requests that match on a shard, in any order.
func (s *Store) requestsOn(ctx context.Context, n *node, m *meta, q *store.TraceQuery) ([]store.TraceHit, error) {
	c := requestCondition(m, q)
	// Requests of replaced traces are there yet, so that more are looked at than are wanted.
	for limit := 2*q.Limit + 20; ; limit *= 10 {
		r, err := s.client.read(ctx, n, "SELECT id FROM "+s.local("requests")+" WHERE "+c+requestOrder(q.Order)+fmt.Sprintf(" LIMIT %d", limit))
		if err != nil {
			return nil, err
		}
		found := 0
		seen := map[store.TraceID]bool{}
		var ids []store.TraceID
		for ; r.next(); found++ {
			var id store.TraceID
			copy(id[:], r.take(16))
			if !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
		if r.err != nil || len(ids) == 0 {
			return nil, r.err
		}
		hits, err := s.currentRequests(ctx, n, c, ids, q)
		if err != nil || found < limit || len(hits) >= q.Limit {
			return hits, err
		}
	}
}

// currentRequests returns requests of the latest versions of traces.
func (s *Store) currentRequests(ctx context.Context, n *node, c string, ids []store.TraceID, q *store.TraceQuery) ([]store.TraceHit, error) {
	// The versions are read first, by a statement of their own: what a version has in requests
	// was there before.
	r, err := s.client.read(ctx, n, "SELECT id, max(version) FROM "+s.local("traces")+" WHERE id IN ("+traceIDs(ids)+") GROUP BY id")
	if err != nil {
		return nil, err
	}
	var current []string
	for r.next() {
		current = append(current, "("+fixed(r.take(16))+fmt.Sprintf(", %d)", r.uint64()))
	}
	if r.err != nil || len(current) == 0 {
		return nil, r.err
	}
	r, err = s.client.read(ctx, n, "SELECT DISTINCT id, span, service, operation, tenant, failed, why, start, duration FROM "+s.local("requests")+" WHERE "+c+
		" AND (id, version) IN ("+strings.Join(current, ",")+")"+requestOrder(q.Order)+fmt.Sprintf(" LIMIT %d", q.Limit))
	if err != nil {
		return nil, err
	}
	var out []store.TraceHit
	for r.next() {
		var h store.TraceHit
		copy(h.ID[:], r.take(16))
		copy(h.Span[:], r.take(8))
		h.Service, h.Operation, h.Tenant = r.string(), r.string(), r.string()
		h.Failed, h.Why = r.uint8() != 0, store.Why(r.uint8())
		h.StartNanos, h.DurationNanos = r.int64(), r.int64()
		out = append(out, h)
	}
	return out, r.err
}

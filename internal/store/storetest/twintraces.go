package storetest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"tailscope/internal/store"
)

// PutTraces keeps the traces under their ids.
func (w *Twin) PutTraces(ctx context.Context, traces []store.Trace) error {
	if err := w.enter(ctx); err != nil {
		return err
	}
	defer w.mu.Unlock()
	for _, t := range traces {
		if len(t.Entries) == 0 || len(t.Entries) > store.MaxTraceEntries {
			return fmt.Errorf("trace %x has %d requests", t.ID, len(t.Entries))
		}
		for _, e := range t.Entries {
			if e.DurationNanos < 0 {
				return fmt.Errorf("trace %x lasts %d ns", t.ID, e.DurationNanos)
			}
		}
	}
	for _, t := range traces {
		kept := store.Trace{ID: t.ID, Data: bytes.Clone(t.Data)}
		for _, e := range t.Entries {
			if !slices.ContainsFunc(kept.Entries, func(k store.TraceEntry) bool { return k.Span == e.Span }) {
				kept.Entries = append(kept.Entries, e)
			}
		}
		w.traces[t.ID] = kept
	}
	return nil
}

// Traces looks at every request of every trace.
func (w *Twin) Traces(ctx context.Context, q store.TraceQuery) ([]store.TraceHit, error) {
	if err := w.enter(ctx); err != nil {
		return nil, err
	}
	defer w.mu.Unlock()
	var out []store.TraceHit
	for id, t := range w.traces {
		for _, e := range t.Entries {
			if (q.Service == "" || q.Service == e.Service) && (q.Operation == "" || q.Operation == e.Operation) && (q.Tenant == "" || q.Tenant == e.Tenant) &&
				(q.Failed == nil || *q.Failed == e.Failed) && (q.Why == 0 || q.Why&e.Why != 0) &&
				e.StartNanos >= q.StartNanos && e.StartNanos < q.EndNanos &&
				e.DurationNanos >= q.MinNanos && (q.MaxNanos == 0 || e.DurationNanos <= q.MaxNanos) {
				out = append(out, store.TraceHit{ID: id, TraceEntry: e})
			}
		}
	}
	slices.SortFunc(out, func(a, b store.TraceHit) int {
		slow, late := cmp.Compare(b.DurationNanos, a.DurationNanos), cmp.Compare(b.StartNanos, a.StartNanos)
		if q.Order == store.Newest {
			slow, late = late, slow
		}
		return cmp.Or(slow, late, bytes.Compare(a.ID[:], b.ID[:]), bytes.Compare(a.Span[:], b.Span[:]))
	})
	limit := cmp.Or(q.Limit, 100)
	return out[:min(len(out), limit)], nil
}

// Trace returns the trace kept under the id.
func (w *Twin) Trace(ctx context.Context, id store.TraceID) (*store.Trace, error) {
	if err := w.enter(ctx); err != nil {
		return nil, err
	}
	defer w.mu.Unlock()
	t, ok := w.traces[id]
	if !ok {
		return nil, fmt.Errorf("trace %x: %w", id, store.ErrNoTrace)
	}
	return &t, nil
}

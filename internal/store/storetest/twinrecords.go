package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tailscope/internal/store"
)

type recordKey struct{ kind, key string }

func (w *Twin) GetRecord(ctx context.Context, kind, key string) (store.Record, error) {
	if err := w.enter(ctx); err != nil {
		return store.Record{}, err
	}
	defer w.mu.Unlock()
	r, ok := w.records[recordKey{kind, key}]
	if !ok {
		return store.Record{}, fmt.Errorf("%s %q: %w", kind, key, store.ErrNoRecord)
	}
	r.Value = bytes.Clone(r.Value)
	return r, nil
}

func (w *Twin) ListRecords(ctx context.Context, kind, prefix string, yield func(store.Record) error) error {
	if err := w.enter(ctx); err != nil {
		return err
	}
	var all []store.Record
	for k, r := range w.records {
		if k.kind == kind && strings.HasPrefix(k.key, prefix) {
			all = append(all, r)
		}
	}
	w.mu.Unlock()
	slices.SortFunc(all, func(a, b store.Record) int { return strings.Compare(a.Key, b.Key) })
	for _, r := range all {
		if err := yield(r); err != nil {
			return err
		}
	}
	return nil
}

func (w *Twin) PutRecords(ctx context.Context, kind string, writes ...store.RecordWrite) (uint64, error) {
	if err := w.enter(ctx); err != nil {
		return 0, err
	}
	defer w.mu.Unlock()
	for _, x := range writes {
		if kind == "" || strings.Contains(kind, "\x00") || x.Key == "" {
			return 0, errors.New("record without kind or key")
		}
		if have := w.records[recordKey{kind, x.Key}].Revision; x.IfRevision != store.AnyRevision && x.IfRevision != have {
			return 0, fmt.Errorf("%s %q: %w", kind, x.Key, store.ErrConflict)
		}
	}
	w.revision++
	for _, x := range writes {
		if k := (recordKey{kind, x.Key}); len(x.Value) == 0 {
			delete(w.records, k)
		} else {
			w.records[k] = store.Record{Key: x.Key, Value: bytes.Clone(x.Value), Revision: w.revision}
		}
	}
	return w.revision, nil
}

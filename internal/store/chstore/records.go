package chstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tailscope/internal/store"
)

// recordKind begins the kinds of records in the log; see metaKind.
const recordKind = "record/"

// GetRecord returns one record. See store.Records.
func (s *Store) GetRecord(ctx context.Context, kind, key string) (store.Record, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return store.Record{}, err
	}
	defer done()
	l := s.log(recordKind + kind)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := s.readLog(ctx, l); err != nil {
		return store.Record{}, fmt.Errorf("record %q of %s: %w", key, kind, err)
	}
	r, ok := l.records[key]
	if !ok {
		return store.Record{}, fmt.Errorf("%s %q: %w", kind, key, store.ErrNoRecord)
	}
	r.Value = bytes.Clone(r.Value)
	return r, nil
}

// ListRecords lists the records of a kind as of one moment. See store.Records.
func (s *Store) ListRecords(ctx context.Context, kind, prefix string, yield func(store.Record) error) error {
	done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	all, err := s.recordsOf(ctx, kind, prefix)
	if err != nil {
		return fmt.Errorf("records of %s: %w", kind, err)
	}
	for _, r := range all {
		if err := yield(r); err != nil {
			return err
		}
	}
	return nil
}

// recordsOf returns records in order of keys. Their values are never written to.
func (s *Store) recordsOf(ctx context.Context, kind, prefix string) ([]store.Record, error) {
	l := s.log(recordKind + kind)
	asked := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isRead(ctx, asked) {
		if err := s.readLog(ctx, l); err != nil {
			return nil, err
		}
	}
	var all []store.Record
	for k, r := range l.records {
		if strings.HasPrefix(k, prefix) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b store.Record) int { return strings.Compare(a.Key, b.Key) })
	return all, nil
}

// PutRecords writes records by compare-and-set. See store.Records.
func (s *Store) PutRecords(ctx context.Context, kind string, writes ...store.RecordWrite) (uint64, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	if kind == "" || strings.Contains(kind, "\x00") {
		return 0, fmt.Errorf("a record's kind is %q", kind)
	}
	ws := make([]logWrite, len(writes))
	for i, w := range writes {
		if w.Key == "" {
			return 0, fmt.Errorf("record of %s without a key", kind)
		}
		ws[i] = logWrite{w.Key, string(w.Value), w.IfRevision}
	}
	l := s.log(recordKind + kind)
	l.mu.Lock()
	defer l.mu.Unlock()
	revision, err := s.appendLog(ctx, l, ws)
	if errors.Is(err, store.ErrConflict) {
		return 0, fmt.Errorf("%d records of %s: %w", len(writes), kind, err)
	}
	if err != nil {
		return 0, fmt.Errorf("write %d records of %s: %w", len(writes), kind, err)
	}
	return revision, nil
}

package pebblestore

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"tailscope/internal/store"
)

// storedMark is a mark as it lies in the store, in JSON: there are few.
type storedMark struct {
	ID          string `json:"id"`
	UnixNano    int64  `json:"t"`
	Name        string `json:"name"`
	Service     string `json:"service,omitempty"`
	Revision    string `json:"revision,omitempty"`
	User        string `json:"user,omitempty"`
	Description string `json:"description,omitempty"`
	Link        string `json:"link,omitempty"`
}

func appendMarkTime(dst []byte, nanos int64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, tableMark), uint64(nanos)^1<<63)
}

// PutMark stores a mark; one with the same ID is replaced.
func (s *Store) PutMark(ctx context.Context, m store.Mark) error {
	done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	if m.ID == "" {
		return errors.New("put mark: the mark has no id")
	}
	s.write.Lock()
	defer s.write.Unlock()
	if err := s.room(); err != nil {
		return fmt.Errorf("put mark %s: %w", m.ID, err)
	}
	wb := s.db.NewBatch()
	defer wb.Close()
	if err := s.dropMark(wb, m.ID); err != nil {
		return fmt.Errorf("put mark %s: %w", m.ID, err)
	}
	v, err := json.Marshal(storedMark{m.ID, m.Time.UnixNano(), m.Name, m.Service, m.Revision, m.User, m.Description, m.Link})
	if err != nil {
		return fmt.Errorf("put mark %s: %w", m.ID, err)
	}
	k := append(appendMarkTime(nil, m.Time.UnixNano()), m.ID...)
	err = errors.Join(wb.Set(k, v, nil), wb.Set(append([]byte{tableMarkID}, m.ID...), k, nil))
	if err == nil {
		err = s.commit(wb, pebble.Sync)
	}
	if err != nil {
		return fmt.Errorf("put mark %s: %w", m.ID, err)
	}
	return nil
}

// DeleteMark removes a mark; it is no error if there is none.
func (s *Store) DeleteMark(ctx context.Context, id string) error {
	done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	s.write.Lock()
	defer s.write.Unlock()
	wb := s.db.NewBatch()
	defer wb.Close()
	err = s.dropMark(wb, id)
	if err == nil && wb.Count() > 0 {
		err = s.commit(wb, pebble.Sync)
	}
	if err != nil {
		return fmt.Errorf("delete mark %s: %w", id, err)
	}
	return nil
}

func (s *Store) dropMark(wb *pebble.Batch, id string) error {
	idKey := append([]byte{tableMarkID}, id...)
	k, closer, err := s.db.Get(idKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return classify(err)
	}
	err = errors.Join(wb.Delete(k, nil), wb.Delete(idKey, nil))
	return errors.Join(err, closer.Close())
}

// Marks returns the marks in [start, end), in order of time.
func (s *Store) Marks(ctx context.Context, start, end time.Time) ([]store.Mark, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	var out []store.Mark
	if !start.Before(end) {
		return nil, nil
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: appendMarkTime(nil, unixNano(start)), UpperBound: appendMarkTime(nil, unixNano(end))})
	if err != nil {
		return nil, fmt.Errorf("marks: %w", classify(err))
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		var m storedMark
		if err := json.Unmarshal(it.Value(), &m); err != nil {
			return nil, fmt.Errorf("mark %x: %w: %w", it.Key(), store.ErrCorrupt, err)
		}
		out = append(out, store.Mark{ID: m.ID, Time: time.Unix(0, m.UnixNano).UTC(), Name: m.Name, Service: m.Service,
			Revision: m.Revision, User: m.User, Description: m.Description, Link: m.Link})
	}
	if err := it.Error(); err != nil {
		return nil, fmt.Errorf("marks: %w", classify(err))
	}
	return out, nil
}

// unixNano clamps times beyond what nanoseconds can count (the years 1678 to 2262).
func unixNano(t time.Time) int64 {
	switch s := t.Unix(); {
	case s < -9e9:
		return -1 << 63
	case s > 9e9:
		return 1<<63 - 1
	}
	return t.UnixNano()
}

package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"tailscope/internal/store"
)

// keptRecords orders the writes of records. They are independent of points, so they
// never wait for a Put.
type keptRecords struct {
	mu sync.Mutex
	// revision is the last one given. It is written with each write, so that no revision
	// is given twice; mend finds it again if it was in a lost table.
	revision uint64
}

// recordKey returns the key of a record. Its value is preceded by its revision.
func recordKey(kind, key string) []byte {
	b := make([]byte, 0, 2+len(kind)+len(key))
	return append(append(append(append(b, tableRecord), kind...), 0), key...)
}

func decodeRecord(k, v []byte) (r store.Record, err error) {
	_, key, ok := bytes.Cut(k[1:], []byte{0})
	n := 0
	if r.Revision, n = binary.Uvarint(v); !ok || n <= 0 || r.Revision == 0 {
		return r, fmt.Errorf("record %q: %w", k[1:], store.ErrCorrupt)
	}
	r.Key, r.Value = string(key), v[n:]
	return r, nil
}

// GetRecord returns one record.
func (s *Store) GetRecord(ctx context.Context, kind, key string) (store.Record, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return store.Record{}, err
	}
	defer done()
	r, err := s.record(kind, key)
	if err == nil && r.Revision == 0 {
		err = store.ErrNoRecord
	}
	if err != nil {
		return store.Record{}, fmt.Errorf("%s %q: %w", kind, key, err)
	}
	return r, nil
}

// record returns a record, without a revision if it does not exist.
func (s *Store) record(kind, key string) (store.Record, error) {
	k := recordKey(kind, key)
	v, closer, err := s.db.Get(k)
	if errors.Is(err, pebble.ErrNotFound) {
		return store.Record{}, nil
	}
	if err != nil {
		return store.Record{}, classify(err)
	}
	r, err := decodeRecord(k, slices.Clone(v))
	return r, errors.Join(err, closer.Close())
}

// ListRecords calls yield with records in order of keys.
func (s *Store) ListRecords(ctx context.Context, kind, prefix string, yield func(store.Record) error) error {
	done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	return s.each(recordKey(kind, prefix), func(k, v []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := decodeRecord(k, v)
		if err != nil {
			return err
		}
		return yield(r)
	})
}

// PutRecords writes records in one synced write. On a full disk it still accepts
// deletions.
func (s *Store) PutRecords(ctx context.Context, kind string, writes ...store.RecordWrite) (uint64, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	s.records.mu.Lock()
	defer s.records.mu.Unlock()
	revision, err := s.putRecords(ctx, kind, writes)
	if err != nil {
		return 0, fmt.Errorf("put records of kind %q: %w", kind, err)
	}
	return revision, nil
}

// putRecords is PutRecords for a caller that holds records.mu.
func (s *Store) putRecords(ctx context.Context, kind string, writes []store.RecordWrite) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if kind == "" || strings.Contains(kind, "\x00") {
		return 0, errors.New("a kind is not empty and holds no byte 0")
	}
	if len(writes) == 0 {
		return s.records.revision, nil
	}
	grows := false
	for _, w := range writes {
		if w.Key == "" {
			return 0, errors.New("a record has no key")
		}
		grows = grows || len(w.Value) > 0
		if w.IfRevision == store.AnyRevision {
			continue // checks write thousands at once, and read none of them
		}
		have, err := s.record(kind, w.Key)
		if err != nil {
			return 0, fmt.Errorf("%q: %w", w.Key, err)
		}
		if w.IfRevision != have.Revision {
			return 0, fmt.Errorf("%q is at revision %d, not %d: %w", w.Key, have.Revision, w.IfRevision, store.ErrConflict)
		}
	}
	if grows {
		if err := s.room(); err != nil {
			return 0, err
		}
	}
	next := s.records.revision + 1
	wb := s.db.NewBatch()
	defer wb.Close()
	for _, w := range writes {
		if err := setRecord(wb, kind, w.Key, next, w.Value); err != nil {
			return 0, err
		}
	}
	if err := wb.Set(metaKey(metaRevision, 0), metaTime(int64(next)), nil); err != nil {
		return 0, err
	}
	s.records.revision = next // also after a failure: it may have been written all the same
	return next, s.commit(wb, pebble.Sync)
}

// setRecord adds a record, or its deletion, to a batch.
func setRecord(wb *pebble.Batch, kind, key string, revision uint64, value []byte) error {
	if len(value) == 0 {
		return wb.Delete(recordKey(kind, key), nil)
	}
	return wb.Set(recordKey(kind, key), append(binary.AppendUvarint(nil, revision), value...), nil)
}

// mendRevision finds the last revision again.
func (s *Store) mendRevision(wb *pebble.Batch) error {
	highest := s.records.revision
	err := s.each([]byte{tableRecord}, func(k, v []byte) error {
		if r, err := decodeRecord(k, v); err == nil { // otherwise a question that needs it reports the error
			highest = max(highest, r.Revision)
		}
		return nil
	})
	if err != nil || highest == s.records.revision {
		return err
	}
	s.records.revision = highest
	return wb.Set(metaKey(metaRevision, 0), metaTime(int64(highest)), nil)
}

// movedKinds are the kinds of records that older versions kept as the state of a writer
// of that name.
var movedKinds = []string{"experiments", "experiment-details", "verdicts", "changes", "settings", "checks", "accesslog"}

// moveRecords turns the marks and the state of movedKinds, as written by older versions,
// into records. It continues an interrupted start. A record that exists stays: what
// would be moved reappeared with a lost table.
func (s *Store) moveRecords() error {
	m := recordMover{s: s, wb: s.db.NewBatch()}
	defer func() { m.wb.Close() }()
	for _, kind := range movedKinds {
		w := s.writers[kind]
		if w == nil {
			continue
		}
		prefix := binary.BigEndian.AppendUint32([]byte{tableState}, w.number)
		err := s.each(prefix, func(k, v []byte) error { return m.move(k, kind, string(k[len(prefix):]), v) })
		if err != nil {
			return err
		}
	}
	err := s.each([]byte{tableMark}, func(k, v []byte) error {
		mark, err := decodeOldMark(v)
		if err != nil {
			s.opts.Logger.Error("a mark of an older version does not decode, and stays where it is", "key", fmt.Sprintf("%x", k), "error", err)
			return nil
		}
		value, err := store.AppendMark(nil, mark)
		if err != nil {
			return err
		}
		return errors.Join(m.wb.Delete(append([]byte{tableMarkID}, mark.ID...), nil), m.move(k, store.KindMarks, mark.ID, value))
	})
	if err != nil {
		return err
	}
	if m.moved == 0 {
		return nil
	}
	s.opts.Logger.Info("records of an older version were converted", "records", m.moved)
	return m.commit(pebble.Sync)
}

type recordMover struct {
	s     *Store
	wb    *pebble.Batch
	moved int
}

// move writes the value at key from as a record of a kind under key.
func (m *recordMover) move(from []byte, kind, key string, value []byte) error {
	m.moved++
	if err := m.wb.Delete(from, nil); err != nil {
		return err
	}
	if key == "" || len(value) == 0 {
		return nil
	}
	switch _, closer, err := m.s.db.Get(recordKey(kind, key)); {
	case err == nil:
		return closer.Close()
	case !errors.Is(err, pebble.ErrNotFound):
		return classify(err)
	}
	m.s.records.revision++
	if err := setRecord(m.wb, kind, key, m.s.records.revision, value); err != nil {
		return err
	}
	if m.wb.Len() < 1<<20 {
		return nil
	}
	return m.commit(pebble.NoSync)
}

func (m *recordMover) commit(o *pebble.WriteOptions) error {
	err := m.wb.Set(metaKey(metaRevision, 0), metaTime(int64(m.s.records.revision)), nil)
	if err == nil {
		err = m.s.commit(m.wb, o)
	}
	err = errors.Join(err, m.wb.Close())
	m.wb = m.s.db.NewBatch()
	return err
}

// decodeOldMark decodes a mark as written before records existed.
func decodeOldMark(v []byte) (store.Mark, error) {
	var m struct {
		ID          string `json:"id"`
		UnixNano    int64  `json:"t"`
		Name        string `json:"name"`
		Service     string `json:"service"`
		Revision    string `json:"revision"`
		User        string `json:"user"`
		Description string `json:"description"`
		Link        string `json:"link"`
	}
	if err := json.Unmarshal(v, &m); err != nil {
		return store.Mark{}, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return store.Mark{ID: m.ID, Time: time.Unix(0, m.UnixNano), Name: m.Name, Service: m.Service,
		Revision: m.Revision, User: m.User, Description: m.Description, Link: m.Link}, nil
}

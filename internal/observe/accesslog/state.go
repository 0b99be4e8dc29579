package accesslog

import (
	"context"
	"fmt"

	"tailscope/internal/store"
)

// State saves, across restarts, the positions in files and what was learned of routes.
type State interface {
	// Load calls yield with every record whose key has the prefix. The slice
	// is valid only during the call.
	Load(ctx context.Context, prefix string, yield func(key string, value []byte) error) error
	// Save saves all records or none; an empty value deletes.
	Save(ctx context.Context, records map[string][]byte) error
}

// kind of these records in a store.
const kind = "accesslog"

// In returns a State in the records of one server (store.OwnRecords): files of the same
// name on another machine are others.
func In(st store.Records) State { return stored{st} }

type stored struct{ st store.Records }

func (s stored) Load(ctx context.Context, prefix string, yield func(string, []byte) error) error {
	return s.st.ListRecords(ctx, kind, prefix, func(r store.Record) error { return yield(r.Key, r.Value) })
}

func (s stored) Save(ctx context.Context, records map[string][]byte) error {
	writes := make([]store.RecordWrite, 0, len(records))
	for k, v := range records {
		writes = append(writes, store.RecordWrite{Key: k, Value: v, IfRevision: store.AnyRevision})
	}
	if _, err := s.st.PutRecords(ctx, kind, writes...); err != nil {
		return fmt.Errorf("save positions in access logs: %w", err)
	}
	return nil
}

type discardState struct{}

func (discardState) Load(context.Context, string, func(string, []byte) error) error { return nil }
func (discardState) Save(context.Context, map[string][]byte) error                  { return nil }

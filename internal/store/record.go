package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrNoRecord reports that there is no record of this kind under this key.
	ErrNoRecord = errors.New("no such record")
	// ErrConflict reports that a record is not at the revision that a write expects. The
	// caller reads it again and decides anew, as UpdateRecords does.
	ErrConflict = errors.New("the record was changed in the meantime")
)

// Record is a small value that servers keep beside the points: a mark, a verdict, a
// setting. It belongs to no writer and no generation.
type Record struct {
	Key   string
	Value []byte
	// Revision is positive. It rises with each write of the record, also when the
	// record was deleted in between.
	Revision uint64
}

// AnyRevision is the IfRevision of an unconditional write: the last writer wins.
const AnyRevision = 1<<64 - 1

// RecordWrite is one record to write. An empty Value deletes.
type RecordWrite struct {
	Key   string
	Value []byte
	// IfRevision is the revision that the record must have; 0 if it must not exist.
	IfRevision uint64
}

// ReadEvery is how often servers that share a store read what others have recorded for all: names,
// and learned routes.
const ReadEvery = 5 * time.Second

// Records is the part of a Store that keeps records. Each has a kind, such as "marks",
// and a key within its kind. A kind and a key are non-empty; a kind holds no byte 0.
// Servers that share a store share its records.
type Records interface {
	// GetRecord returns one record, which the caller owns. The error wraps ErrNoRecord
	// if there is none.
	GetRecord(ctx context.Context, kind, key string) (Record, error)
	// ListRecords calls yield with every record of the kind whose key has the prefix, in
	// the order of the keys' bytes, as of one moment. It returns the first error of
	// yield. The value is valid only during the call.
	ListRecords(ctx context.Context, kind, prefix string, yield func(Record) error) error
	// PutRecords writes records of one kind, all or none, in one step: no reader sees a
	// part of it, and of several concurrent calls with the same IfRevision exactly one
	// succeeds. It returns the revision of the written records. When it returns a nil
	// error they survive a crash of the machine. The error wraps ErrConflict, and
	// nothing is written, if one of the records is not at its IfRevision. Deleting a
	// record that does not exist is not an error if IfRevision allows it. Of two writes
	// to one key the later counts. After any other error the records may have been
	// written all the same. The store does not retain the values.
	PutRecords(ctx context.Context, kind string, writes ...RecordWrite) (revision uint64, err error)
}

// UpdateRecords changes records in one step. change gets those of the kind whose keys
// have the prefix, in order of keys, and returns the writes, with keys of that prefix.
// UpdateRecords sets IfRevision: a record must be as change got it, and one that change
// did not get must not exist. If another writer comes between, it calls change again
// with the new records. An error of change ends it, and nothing is written.
func UpdateRecords(ctx context.Context, r Records, kind, prefix string, change func(have []Record) ([]RecordWrite, error)) error {
	for {
		var have []Record
		revisions := map[string]uint64{}
		err := r.ListRecords(ctx, kind, prefix, func(x Record) error {
			x.Value = append([]byte(nil), x.Value...)
			have = append(have, x)
			revisions[x.Key] = x.Revision
			return nil
		})
		if err != nil {
			return err
		}
		writes, err := change(have)
		if err != nil || len(writes) == 0 {
			return err
		}
		for i := range writes {
			if !strings.HasPrefix(writes[i].Key, prefix) {
				return fmt.Errorf("update records of %s with the prefix %q: write to %q", kind, prefix, writes[i].Key)
			}
			writes[i].IfRevision = revisions[writes[i].Key]
		}
		if _, err = r.PutRecords(ctx, kind, writes...); !errors.Is(err, ErrConflict) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

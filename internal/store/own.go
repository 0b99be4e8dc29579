package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// kindServers is the kind of the record that names the first server of a store.
const kindServers = "servers"

// foreign begins the keys of all servers but the first, and no other key.
const foreign = "@"

// OwnRecords returns the records that belong to one server among those that share a
// store, such as how far it has read its files. writer is the server's name, which never
// changes. The first server of a store keeps them under their plain keys, as all did
// before stores were shared; any other under keys with its name. Use the store's records
// beside them for what servers share.
func OwnRecords(ctx context.Context, r Records, writer string) (Records, error) {
	first := writer
	err := UpdateRecords(ctx, r, kindServers, "first", func(have []Record) ([]RecordWrite, error) {
		if len(have) > 0 {
			first = string(have[0].Value)
			return nil, nil
		}
		first = writer
		return []RecordWrite{{Key: "first", Value: []byte(writer)}}, nil
	})
	// A full disk does not prevent a start: the next one records who was first.
	if err != nil && !errors.Is(err, ErrFull) {
		return nil, fmt.Errorf("records of server %s: %w", writer, err)
	}
	if first == writer {
		return ownRecords{r, ""}, nil
	}
	return ownRecords{r, foreign + writer + "/"}, nil
}

type ownRecords struct {
	r      Records
	prefix string
}

func (o ownRecords) GetRecord(ctx context.Context, kind, key string) (Record, error) {
	x, err := o.r.GetRecord(ctx, kind, o.prefix+key)
	x.Key = strings.TrimPrefix(x.Key, o.prefix)
	return x, err
}

func (o ownRecords) ListRecords(ctx context.Context, kind, prefix string, yield func(Record) error) error {
	return o.r.ListRecords(ctx, kind, o.prefix+prefix, func(x Record) error {
		if o.prefix == "" && strings.HasPrefix(x.Key, foreign) {
			return nil
		}
		x.Key = strings.TrimPrefix(x.Key, o.prefix)
		return yield(x)
	})
}

func (o ownRecords) PutRecords(ctx context.Context, kind string, writes ...RecordWrite) (uint64, error) {
	all := make([]RecordWrite, len(writes))
	for i, w := range writes {
		if w.Key == "" || strings.HasPrefix(w.Key, foreign) {
			return 0, fmt.Errorf("record of %s: a server's own key is not %q", kind, w.Key)
		}
		w.Key = o.prefix + w.Key
		all[i] = w
	}
	return o.r.PutRecords(ctx, kind, all...)
}

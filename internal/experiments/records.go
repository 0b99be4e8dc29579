package experiments

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"tailscope/api"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// writer of the records: one JSON object for each experiment, under its id, of
// which the whole report may be elsewhere (details.go).
const writer = "experiments"

// record is what is kept of an experiment.
type record struct {
	ID      string               `json:"id"`
	Report  api.ExperimentReport `json:"report"`
	Updated time.Time            `json:"updated"` // when it was last reported; when it ended, if it has
	// Number is that of the last change that was asked for, and Change what of
	// it and of those before it is not made yet.
	Number   uint64            `json:"number,omitempty"`
	Change   *api.MirrorChange `json:"change,omitempty"`
	Headline string            `json:"headline,omitempty"`
	// Final says that the headline was made when all data had come.
	Final bool `json:"final,omitempty"`
	// Details is how long the whole report is that is kept apart, and Cut what
	// was left out of it.
	Details int      `json:"details,omitempty"`
	Cut     []string `json:"cut,omitempty"`
}

// Load reads what is kept; only the first call that works does anything.
func (r *Registry) Load(ctx context.Context) error {
	if r.isLoaded() { // who asks need not wait for what is being written
		return nil
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	if r.isLoaded() {
		return nil
	}
	known, bytes := map[string]*experiment{}, 0
	err := r.o.Store.State(ctx, writer, nil, func(key, value []byte) error {
		e := &experiment{saved: r.o.Now()}
		if err := json.Unmarshal(value, &e.record); err != nil {
			return fmt.Errorf("experiment %q: %w: %w", key, store.ErrCorrupt, err)
		}
		e.bytes = len(value)
		known[string(key)], bytes = e, bytes+e.bytes
		return nil
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known, r.bytes, r.loaded = known, bytes, true
	return nil
}

func (r *Registry) isLoaded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loaded
}

// save writes an experiment as it is now. The caller holds writing.
func (r *Registry) save(ctx context.Context, id string) error {
	r.mu.Lock()
	e := r.known[id]
	var kept record
	var whole *api.ExperimentReport
	at := r.o.Now()
	if e != nil {
		if e.whole != nil {
			e.Details = e.wholeBytes
		}
		kept, whole = e.record, e.whole
	}
	r.mu.Unlock()
	if e == nil {
		return nil
	}
	writes := []func() error{func() error { return r.put(ctx, writer, id, kept) }}
	if whole != nil {
		writes = append(writes, func() error { return r.put(ctx, detailWriter, id, whole) })
		if !e.saved.IsZero() { // that it has ended is not said before its end is kept
			slices.Reverse(writes)
		}
	}
	for _, w := range writes {
		if err := w(); err != nil {
			return fmt.Errorf("keep experiment %s: %w", id, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e.saved = at
	return nil
}

func (r *Registry) put(ctx context.Context, writer, id string, what any) error {
	value, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	return r.write(ctx, writer, store.Record{Key: []byte(id), Value: value})
}

// write is called with writing held, so one change is made at a time.
func (r *Registry) write(ctx context.Context, writer string, records ...store.Record) error {
	last, err := r.o.Store.Flushed(ctx, writer)
	if err != nil {
		return err
	}
	return r.o.Store.Put(ctx, &store.Batch{Writer: writer, Generation: last + 1, Resolution: series.Base, State: records})
}

// erase deletes what is kept of experiments; no details stay without a record.
// The caller holds writing.
func (r *Registry) erase(ctx context.Context, gone ...*experiment) error {
	var details, records []store.Record
	for _, e := range gone {
		key := store.Record{Key: []byte(e.ID)}
		if records = append(records, key); e.Report.Kind != KindMirror {
			details = append(details, key)
		}
	}
	if len(details) > 0 {
		if err := r.write(ctx, detailWriter, details...); err != nil {
			return err
		}
	}
	return r.write(ctx, writer, records...)
}

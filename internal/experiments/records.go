package experiments

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"tailscope/api"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// writer of the records: one JSON object for each experiment, under its id.
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
	if e != nil {
		kept = e.record
	}
	r.mu.Unlock()
	if e == nil {
		return nil
	}
	value, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("encode experiment %s: %w", id, err)
	}
	if err := r.write(ctx, store.Record{Key: []byte(id), Value: value}); err != nil {
		return fmt.Errorf("keep experiment %s: %w", id, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e.saved = r.o.Now()
	return nil
}

// write is called with writing held, so one change is made at a time.
func (r *Registry) write(ctx context.Context, records ...store.Record) error {
	last, err := r.o.Store.Flushed(ctx, writer)
	if err != nil {
		return err
	}
	return r.o.Store.Put(ctx, &store.Batch{Writer: writer, Generation: last + 1, Resolution: series.Base, State: records})
}

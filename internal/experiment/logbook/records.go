package logbook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"tailscope/api"
	"tailscope/internal/store"
)

// recordKind is the kind of the records: one JSON object for each session, under its
// id; the whole report may be elsewhere (details.go). Servers that share a store
// share them: a session reports to one, and any may change it. So each write expects
// the revision that was last seen. If another server wrote first, its record is read
// and joined with what is known here (catchUp).
const recordKind = "experiments"

// record is a session in the store.
type record struct {
	ID      string            `json:"id"`
	Report  api.SessionReport `json:"report"`
	Updated time.Time         `json:"updated"` // when it was last reported; when it ended, if it has
	// Number is the number of the last change that was asked for; Change holds the
	// parts of it and of earlier ones that are not made yet.
	Number   uint64            `json:"number,omitempty"`
	Change   *api.MirrorChange `json:"change,omitempty"`
	Headline string            `json:"headline,omitempty"`
	// Final reports that the headline was made after all data had arrived.
	Final bool `json:"final,omitempty"`
	// Details is the length of the whole report that is kept apart, and Cut describes
	// what was left out of it.
	Details int      `json:"details,omitempty"`
	Cut     []string `json:"cut,omitempty"`
}

// UnmarshalJSON reads a record of this or an older version.
func (r *record) UnmarshalJSON(b []byte) error {
	type plain record
	var kept struct {
		plain
		Report keptReport `json:"report"`
	}
	if err := json.Unmarshal(b, &kept); err != nil {
		return err
	}
	*r = record(kept.plain)
	r.Report = *kept.Report.report()
	return nil
}

// keptReport is a report as it is in the store. Older versions kept an experiment under
// the key trial, and the session of a setting on live traffic under experiment.
type keptReport struct {
	api.SessionReport
	Trial *struct {
		api.Experiment
		Settings []struct {
			api.ExperimentSetting
			Experiment string `json:"experiment"`
		} `json:"settings"`
	} `json:"trial"`
}

func (k *keptReport) report() *api.SessionReport {
	if k.Trial == nil {
		return &k.SessionReport
	}
	x := k.Trial.Experiment
	x.Settings = make([]api.ExperimentSetting, 0, len(k.Trial.Settings))
	for _, s := range k.Trial.Settings {
		s.Session = s.Experiment
		x.Settings = append(x.Settings, s.ExperimentSetting)
	}
	k.Experiment = &x
	return &k.SessionReport
}

// Load reads the records; after the first successful call it does nothing.
func (r *Registry) Load(ctx context.Context) error {
	if r.isLoaded() { // who asks need not wait for what is being written
		return nil
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	if r.isLoaded() {
		return nil
	}
	known, bytes := map[string]*session{}, 0
	err := r.o.Store.ListRecords(ctx, recordKind, "", func(x store.Record) error {
		e := &session{saved: r.o.Now(), revision: x.Revision}
		if err := json.Unmarshal(x.Value, &e.record); err != nil {
			return fmt.Errorf("session %q: %w: %w", x.Key, store.ErrCorrupt, err)
		}
		e.bytes = len(x.Value)
		known[x.Key], bytes = e, bytes+e.bytes
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

// save writes the current state of a session. The caller holds writing.
func (r *Registry) save(ctx context.Context, id string) error {
	for {
		err := r.saveOnce(ctx, id)
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		if err := r.catchUp(ctx, id); err != nil {
			return err
		}
	}
}

// saveOnce is save, but returns an error that wraps store.ErrConflict if another
// server wrote first.
func (r *Registry) saveOnce(ctx context.Context, id string) error {
	r.mu.Lock()
	e := r.known[id]
	var kept record
	var whole *api.SessionReport
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
	writes := []func() error{func() error { return r.putRecord(ctx, recordKind, id, kept, &e.revision) }}
	if whole != nil {
		writes = append(writes, func() error { return r.putRecord(ctx, detailKind, id, whole, &e.detailed) })
		if !e.saved.IsZero() { // that it has ended is not said before its end is kept
			slices.Reverse(writes)
		}
	}
	for _, w := range writes {
		if err := w(); err != nil {
			return fmt.Errorf("keep session %s: %w", id, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e.saved = at
	return nil
}

// putRecord writes a record at its revision, and raises it. The caller holds writing.
func (r *Registry) putRecord(ctx context.Context, kind, id string, what any, revision *uint64) error {
	value, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	now, err := r.o.Store.PutRecords(ctx, kind, store.RecordWrite{Key: id, Value: value, IfRevision: *revision})
	if err == nil {
		*revision = now
	}
	return err
}

// catchUp reads the record of a session, and joins it with what is known here. The
// caller holds writing.
func (r *Registry) catchUp(ctx context.Context, id string) error {
	x, err := r.o.Store.GetRecord(ctx, recordKind, id)
	if err != nil && !errors.Is(err, store.ErrNoRecord) {
		return fmt.Errorf("read session %s again: %w", id, err)
	}
	whole, err := r.o.Store.GetRecord(ctx, detailKind, id)
	if err != nil && !errors.Is(err, store.ErrNoRecord) {
		return fmt.Errorf("read session %s again: %w", id, err)
	}
	var kept record
	if x.Revision != 0 {
		if err := json.Unmarshal(x.Value, &kept); err != nil {
			return fmt.Errorf("session %q: %w: %w", id, store.ErrCorrupt, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.known[id]
	if e == nil {
		if x.Revision == 0 {
			return nil
		}
		e = &session{}
		r.known[id] = e
	}
	e.revision, e.detailed = x.Revision, whole.Revision
	switch {
	case x.Revision == 0: // another server has forgotten it
	case kept.Updated.After(e.Updated): // it reports to another server
		r.bytes += len(x.Value) - e.bytes - e.wholeBytes
		e.record, e.bytes, e.whole, e.wholeBytes, e.text = kept, len(x.Value), nil, 0, ""
		e.saved = r.o.Now()
	case kept.Number > e.Number && !e.Report.Ended: // another server was asked for a change
		e.Number, e.Change = kept.Number, kept.Change
	}
	return nil
}

// refresh calls catchUp if the session may be another server's: it is not known here,
// or has been silent for long.
func (r *Registry) refresh(ctx context.Context, id string) error {
	r.mu.Lock()
	e := r.known[id]
	own := e != nil && r.state(e, r.o.Now()) != Lost
	r.mu.Unlock()
	if own {
		return nil
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	return r.catchUp(ctx, id)
}

// erase deletes the records of sessions, and their details. It returns an error that
// wraps store.ErrConflict, and deletes nothing, if another server has changed one of
// them: that server writes the details again. The caller holds writing.
func (r *Registry) erase(ctx context.Context, gone ...*session) error {
	var details, records []store.RecordWrite
	for _, e := range gone {
		records = append(records, store.RecordWrite{Key: e.ID, IfRevision: e.revision})
		if e.Report.Kind != KindMirror {
			details = append(details, store.RecordWrite{Key: e.ID, IfRevision: store.AnyRevision})
		}
	}
	if len(details) > 0 {
		if _, err := r.o.Store.PutRecords(ctx, detailKind, details...); err != nil {
			return err
		}
	}
	_, err := r.o.Store.PutRecords(ctx, recordKind, records...)
	if !errors.Is(err, store.ErrConflict) {
		return err
	}
	for _, e := range gone {
		if again := r.catchUp(ctx, e.ID); again != nil {
			return again
		}
	}
	return err
}

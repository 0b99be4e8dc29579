package logbook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"tailscope/api"
	"tailscope/internal/store"
)

// recordKind is the kind of the records: one JSON object for each session,
// under its id, of which the whole report may be elsewhere (details.go). An
// session reports to one server, so no write looks at revisions.
const recordKind = "experiments"

// record is what is kept of a session.
type record struct {
	ID      string            `json:"id"`
	Report  api.SessionReport `json:"report"`
	Updated time.Time         `json:"updated"` // when it was last reported; when it ended, if it has
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

// UnmarshalJSON reads a record, also one of an older version.
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
	known, bytes := map[string]*session{}, 0
	err := r.o.Store.ListRecords(ctx, recordKind, "", func(x store.Record) error {
		e := &session{saved: r.o.Now()}
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

// save writes a session as it is now. The caller holds writing.
func (r *Registry) save(ctx context.Context, id string) error {
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
	writes := []func() error{func() error { return r.put(ctx, recordKind, id, kept) }}
	if whole != nil {
		writes = append(writes, func() error { return r.put(ctx, detailKind, id, whole) })
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

func (r *Registry) put(ctx context.Context, kind, id string, what any) error {
	value, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	_, err = r.o.Store.PutRecords(ctx, kind, store.RecordWrite{Key: id, Value: value, IfRevision: store.AnyRevision})
	return err
}

// erase deletes what is kept of sessions; no details stay without a record.
// The caller holds writing.
func (r *Registry) erase(ctx context.Context, gone ...*session) error {
	var details, records []store.RecordWrite
	for _, e := range gone {
		deletion := store.RecordWrite{Key: e.ID, IfRevision: store.AnyRevision}
		if records = append(records, deletion); e.Report.Kind != KindMirror {
			details = append(details, deletion)
		}
	}
	if len(details) > 0 {
		if _, err := r.o.Store.PutRecords(ctx, detailKind, details...); err != nil {
			return err
		}
	}
	_, err := r.o.Store.PutRecords(ctx, recordKind, records...)
	return err
}

package marks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/store"
)

// kind of the records: one JSON object for each mark, under its id. They are as
// few as marks are.
const kind = "verdicts"

type record struct {
	Mark    string          `json:"mark"`
	Beside  string          `json:"beside"`
	Verdict api.MarkVerdict `json:"verdict"`
	counted
}

// Load reads what is kept; only the first call that works does anything.
func (j *Judge) Load(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.loaded {
		return nil
	}
	revisions := make(map[string]uint64, len(j.read))
	err := j.o.Store.ListRecords(ctx, kind, "", func(x store.Record) error {
		revisions[x.Key] = x.Revision
		if j.read[x.Key] == x.Revision {
			return nil
		}
		r, err := decode(x)
		if err == nil {
			j.known[x.Key] = &known{beside: r.Beside, brief: brief(r.Verdict), counted: r.counted}
		}
		return err
	})
	if err != nil {
		return err
	}
	for id := range j.read {
		if _, there := revisions[id]; !there {
			delete(j.known, id)
		}
	}
	j.read, j.loaded = revisions, true
	return nil
}

// reload reads what has changed of what is kept: another server may have judged in the
// meantime.
func (j *Judge) reload(ctx context.Context) error {
	j.mu.Lock()
	j.loaded = false
	j.mu.Unlock()
	return j.Load(ctx)
}

// Full is the verdict of a mark with all its figures.
func (j *Judge) Full(ctx context.Context, m store.Mark) (*api.MarkVerdict, error) {
	v := j.own(m)
	if v.State != Waiting {
		kept, err := j.kept(ctx, m.ID)
		if err != nil {
			return nil, err
		}
		v = cmp.Or(kept, v)
	}
	return j.withFound(m.ID, v), nil
}

// kept returns the verdict of a mark that is in the store; nil if there is none yet.
func (j *Judge) kept(ctx context.Context, id string) (*api.MarkVerdict, error) {
	x, err := j.o.Store.GetRecord(ctx, kind, id)
	if errors.Is(err, store.ErrNoRecord) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := decode(x)
	return &r.Verdict, err
}

func decode(x store.Record) (r record, err error) {
	if err := json.Unmarshal(x.Value, &r); err != nil {
		return r, fmt.Errorf("verdict of mark %q: %w: %w", x.Key, store.ErrCorrupt, err)
	}
	for i := range r.Verdict.Services {
		s := &r.Verdict.Services[i] // older than cohorts of marks, and marks judged as one
		s.Cohorts, s.Together = append([]api.CompareRow{}, s.Cohorts...), append([]api.MarkName{}, s.Together...)
	}
	if r.Verdict.Step == 0 { // older than slots of one second
		r.Verdict.Step, r.Verdict.First = slot, api.Float(math.NaN())
	}
	r.Open = r.Open || r.Verdict.Verdict == judge.TooLittle // older than what is counted
	return r, nil
}

func (j *Judge) keep(ctx context.Context, r record) error {
	value, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the verdict of mark %s: %w", r.Mark, err)
	}
	_, err = j.o.Store.PutRecords(ctx, kind, store.RecordWrite{Key: r.Mark, Value: value, IfRevision: store.AnyRevision})
	return err
}

// forget drops the verdicts of marks that are gone.
func (j *Judge) forget(ctx context.Context, marks []store.Mark) error {
	there := make(map[string]bool, len(marks))
	for _, m := range marks {
		there[m.ID] = true
	}
	var gone []store.RecordWrite
	j.mu.Lock()
	for id := range j.known {
		if !there[id] {
			gone = append(gone, store.RecordWrite{Key: id, IfRevision: store.AnyRevision})
		}
	}
	j.mu.Unlock()
	if len(gone) == 0 {
		return nil
	}
	if _, err := j.o.Store.PutRecords(ctx, kind, gone...); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range gone {
		delete(j.known, r.Key)
	}
	return nil
}

// brief leaves the figures out.
func brief(v api.MarkVerdict) api.MarkVerdict {
	services := make([]api.ServiceVerdict, len(v.Services))
	for i, s := range v.Services {
		s.Measures, s.Operations, s.Warnings = []api.CompareMeasure{}, []api.CompareRow{}, []api.CompareWarning{}
		s.Tenants, s.Cohorts = []api.CompareRow{}, []api.CompareRow{}
		services[i] = s
	}
	v.Services = services
	return v
}

package verdicts

import (
	"context"
	"encoding/json"
	"fmt"

	"tailscope/api"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// writer of the records: one JSON object for each mark, under its id. They are
// as few as marks are.
const writer = "verdicts"

type record struct {
	Mark    string          `json:"mark"`
	Beside  string          `json:"beside"`
	Verdict api.MarkVerdict `json:"verdict"`
}

// Load reads what is kept; only the first call that works does anything.
func (j *Judge) Load(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.loaded {
		return nil
	}
	err := j.o.Store.State(ctx, writer, nil, func(key, value []byte) error {
		var r record
		if err := json.Unmarshal(value, &r); err != nil {
			return fmt.Errorf("verdict of mark %q: %w: %w", key, store.ErrCorrupt, err)
		}
		j.known[string(key)] = &known{beside: r.Beside, brief: brief(r.Verdict)}
		return nil
	})
	j.loaded = err == nil
	return err
}

// Full is the verdict of a mark with all its figures.
func (j *Judge) Full(ctx context.Context, m store.Mark) (*api.MarkVerdict, error) {
	v := j.Brief(m)
	if v.State == Waiting {
		return v, nil
	}
	err := j.o.Store.State(ctx, writer, []byte(m.ID), func(key, value []byte) error {
		if string(key) != m.ID {
			return nil
		}
		var r record
		if err := json.Unmarshal(value, &r); err != nil {
			return fmt.Errorf("verdict of mark %q: %w: %w", key, store.ErrCorrupt, err)
		}
		v = &r.Verdict
		return nil
	})
	return v, err
}

func (j *Judge) keep(ctx context.Context, r record) error {
	value, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the verdict of mark %s: %w", r.Mark, err)
	}
	return j.write(ctx, store.Record{Key: []byte(r.Mark), Value: value})
}

// forget drops the verdicts of marks that are gone.
func (j *Judge) forget(ctx context.Context, marks []store.Mark) error {
	there := make(map[string]bool, len(marks))
	for _, m := range marks {
		there[m.ID] = true
	}
	var gone []store.Record
	j.mu.Lock()
	for id := range j.known {
		if !there[id] {
			gone = append(gone, store.Record{Key: []byte(id)})
		}
	}
	j.mu.Unlock()
	if len(gone) == 0 {
		return nil
	}
	if err := j.write(ctx, gone...); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range gone {
		delete(j.known, string(r.Key))
	}
	return nil
}

// write is called by Round alone, so one change is made at a time.
func (j *Judge) write(ctx context.Context, records ...store.Record) error {
	last, err := j.o.Store.Flushed(ctx, writer)
	if err != nil {
		return err
	}
	return j.o.Store.Put(ctx, &store.Batch{Writer: writer, Generation: last + 1, Resolution: series.Base, State: records})
}

// brief leaves the figures out.
func brief(v api.MarkVerdict) api.MarkVerdict {
	services := make([]api.ServiceVerdict, len(v.Services))
	for i, s := range v.Services {
		s.Measures, s.Operations, s.Warnings = []api.CompareMeasure{}, []api.CompareRow{}, []api.CompareWarning{}
		services[i] = s
	}
	v.Services = services
	return v
}

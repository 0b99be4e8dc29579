package logbook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"tailscope/api"
	"tailscope/internal/store"
)

// detailKind is the kind of the records that hold the whole reports of runs other
// than mirror sessions, under their ids. Records of recordKind are read at a start
// and stay in memory; of these only those of running sessions do.
const detailKind = "experiment-details"

// briefSettings bounds the settings of an experiment in a list.
const briefSettings = 32

// brief returns a report without its long parts: what a list shows and a search looks
// through. The report of a mirror session is brief.
func brief(p api.SessionReport) api.SessionReport {
	if x := p.Capacity; x != nil {
		p.Capacity = briefCapacity(x)
		fill("capacity", p.Capacity)
	}
	if x := p.Simulation; x != nil {
		p.Simulation = briefSimulation(x)
		fill("simulation", p.Simulation)
	}
	if b := p.Bench; b != nil {
		figures := func(l api.BenchLatency) api.BenchLatency {
			l.Bounds, l.Counts = nil, nil
			return l
		}
		p.Bench = &api.BenchResult{
			Format: b.Format, Name: b.Name, Target: b.Target, Service: b.Service, Variant: b.Variant, Command: b.Command,
			Start: b.Start, End: b.End, Seed: b.Seed, Plan: b.Plan, Account: b.Account, Asked: b.Asked, Rate: b.Rate,
			Latency: figures(b.Latency), Uncorrected: figures(b.Uncorrected), FirstByte: figures(b.FirstByte), Bytes: b.Bytes,
			Thresholds: b.Thresholds, Valid: b.Valid, Invalid: b.Invalid, Aborted: b.Aborted, Headline: b.Headline,
		}
		fill("bench", p.Bench)
	}
	if t := p.Experiment; t != nil {
		p.Experiment = &api.Experiment{
			Format: t.Format, Name: t.Name, Hypothesis: t.Hypothesis, Service: t.Service, Design: t.Design, Variable: t.Variable, Unit: t.Unit,
			Settings: first(t.Settings, briefSettings), Seed: t.Seed, Start: t.Start, End: t.End, Stopping: t.Stopping, Command: t.Command, Again: t.Again,
			Progress: t.Progress, Restored: t.Restored, RestoreError: t.RestoreError, Failed: t.Failed, Verdict: t.Verdict, Headline: t.Headline, Gate: t.Gate,
		}
		fill("experiment", p.Experiment)
	}
	return p
}

// fill sets missing lists and counts to empty ones.
func fill(field string, doc any) {
	_ = new(tidier).walk(reflect.ValueOf(doc), field) // only texts and numbers are refused
}

// words returns the text that a search of a session looks through.
func (e *session) words() string {
	p := &e.Report
	all := []string{e.ID, p.Kind, p.Name, p.Service, e.Headline}
	if m := p.Mirror; m != nil {
		for i := range m.Shadows {
			all = append(all, m.Shadows[i].Name)
		}
	}
	if b := p.Bench; b != nil {
		all = append(all, b.Target, b.Variant, b.Headline, b.Command)
	}
	if x := p.Capacity; x != nil {
		all = append(all, x.Target, x.Mode, x.Unit, x.Objective, string(x.Verdict), x.Headline)
	}
	if x := p.Simulation; x != nil {
		all = append(all, x.Variable, x.Headline)
		for i := range x.Layouts {
			all = append(all, x.Layouts[i].Name)
		}
	}
	if t := p.Experiment; t != nil {
		all = append(all, t.Hypothesis, t.Variable, t.Design, string(t.Verdict), t.Headline)
		for _, s := range t.Settings {
			all = append(all, s.Name)
			for name, value := range s.Values {
				all = append(all, name+"="+value)
			}
		}
	}
	return strings.ToLower(strings.Join(all, "\n"))
}

// matches is called with the registry's mu held.
func (e *session) matches(search string) bool {
	if search == "" {
		return true
	}
	if e.text == "" {
		e.text = e.words()
	}
	return contains(e.text, search)
}

// contains reports whether all words of a search are in a text, in any order.
func contains(text, search string) bool {
	for word := range strings.FieldsSeq(strings.ToLower(search)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// details reads the whole report of a session, or returns nil if there is none.
func (r *Registry) details(ctx context.Context, id string) (*api.SessionReport, error) {
	x, err := r.o.Store.GetRecord(ctx, detailKind, id)
	if errors.Is(err, store.ErrNoRecord) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var kept keptReport
	if err := json.Unmarshal(x.Value, &kept); err != nil {
		return nil, fmt.Errorf("session %q: %w: %w", id, store.ErrCorrupt, err)
	}
	return kept.report(), nil
}

// release drops from memory the whole reports that are in the store and whose
// programs no longer report.
func (r *Registry) release(ctx context.Context) {
	now := r.o.Now()
	var unsaved []string
	r.mu.Lock()
	for id, e := range r.known {
		switch {
		case e.whole == nil || r.state(e, now) == Running:
		case e.saved.Before(e.Updated):
			unsaved = append(unsaved, id)
		default:
			r.bytes -= e.wholeBytes
			e.whole, e.wholeBytes = nil, 0
		}
	}
	r.mu.Unlock()
	for _, id := range unsaved {
		if err := r.writeSession(ctx, id, saveSoon); err != nil {
			return // said by keep, and done again
		}
	}
}

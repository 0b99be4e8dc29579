package check

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/state"
	"tailscope/internal/store"
)

const (
	fenceKey = "f"
	namesKey = "d"
	// lookEvery is how often a server looks whether it guards, and for requests of others.
	lookEvery = time.Second
	// followEvery is how often one that does not reads what has changed.
	followEvery = 5 * time.Second
)

// round guards if that is this server's work, until it no longer is, or else reads what
// the server that guards has found.
func (e *Engine) round(ctx context.Context) error {
	switch did, err := e.o.Once(ctx, e.takeTurn); {
	case errors.Is(err, store.ErrConflict):
		return nil // the turn is another server's
	case did || err != nil:
		return err
	}
	e.keeping.Lock()
	recent := time.Since(e.followed) < followEvery
	e.keeping.Unlock()
	if recent {
		return nil
	}
	return e.follow(ctx)
}

// takeTurn guards until ctx is done, or another server has begun to: then the error is
// store.ErrConflict.
func (e *Engine) takeTurn(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := e.resume(ctx, func() { cancel(store.ErrConflict) })
	if err == nil {
		e.o.Logger.Info("this server guards the checks")
		e.guard(ctx)
		e.o.Logger.Info("this server no longer guards the checks")
		if cause := context.Cause(ctx); errors.Is(cause, store.ErrConflict) {
			err = cause
		}
	}
	failed := err != nil && ctx.Err() == nil
	e.retire()
	if failed {
		e.mu.Lock()
		e.trouble = "the checks are not guarded: " + err.Error()
		e.mu.Unlock()
	}
	return err
}

// resume goes on from what the server has stored that guarded before. That can store nothing
// from here on.
func (e *Engine) resume(ctx context.Context, lose func()) error {
	e.replacing.Lock()
	defer e.replacing.Unlock()
	e.keeping.Lock()
	defer e.keeping.Unlock()
	turn := []byte(e.o.Server + " " + rand.Text())
	fence, err := e.o.Records.PutRecords(ctx, kind, store.RecordWrite{Key: fenceKey, Value: turn, IfRevision: store.AnyRevision})
	if err != nil {
		return fmt.Errorf("take over the checks: %w", err)
	}
	e.decoded = nil // what is read anew is this engine's to change
	if _, err := e.read(ctx); err != nil {
		return fmt.Errorf("take over the checks: %w", err)
	}
	e.fence, e.turn, e.lose = fence, turn, lose
	e.mu.Lock()
	e.guards, e.since, e.trouble = true, e.o.Now(), ""
	e.open, e.records, e.dirty = map[string]*condition{}, map[string][]byte{}, nil
	e.install()
	e.guarded = nil
	e.mu.Unlock()
	e.decoded = nil
	if err := e.replace(e.file); err != nil {
		return fmt.Errorf("take over the checks: %w", err)
	}
	if e.o.Notifier == nil {
		return nil
	}
	e.mu.Lock()
	known := e.knownIncidents()
	e.mu.Unlock()
	return e.o.Notifier.Take(ctx, known, func(ctx context.Context) error {
		f, err := e.o.Records.GetRecord(ctx, kind, fenceKey)
		if err == nil && !bytes.Equal(f.Value, turn) {
			lose()
			err = store.ErrConflict
		}
		if err != nil {
			return fmt.Errorf("see whether this server still guards the checks: %w", err)
		}
		return nil
	})
}

// endSharing goes on alone from what servers have told receivers that shared the store which
// this one was restored from.
func (e *Engine) endSharing(ctx context.Context) error {
	if e.o.Notifier == nil {
		return nil
	}
	_, err := e.o.Records.GetRecord(ctx, kind, fenceKey)
	if errors.Is(err, store.ErrNoRecord) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read who guarded the checks: %w", err)
	}
	e.mu.Lock()
	known := e.knownIncidents()
	e.mu.Unlock()
	if err := e.o.Notifier.Take(context.WithoutCancel(ctx), known, func(context.Context) error { return nil }); err != nil {
		return fmt.Errorf("go on from the servers that shared the store: %w", err)
	}
	verdicts := map[string]*eventJSON{} // by request, nil of others: who asked for those has given up
	err = e.o.Records.ListRecords(ctx, kind, requestPrefix, func(x store.Record) error {
		var r request
		_ = json.Unmarshal(x.Value, &r) // one that cannot be read is forgotten too
		verdicts[x.Key] = r.Verdict
		return nil
	})
	if err != nil {
		return fmt.Errorf("read what servers left that shared the store: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, key := range sortedKeys(verdicts) {
		if v := verdicts[key]; v != nil {
			e.oweVerdict(v)
		}
		e.putRecord(key, nil)
	}
	e.putRecord(fenceKey, nil)
	e.putRecord(namesKey, nil)
	return nil
}

// retire ends the turn of this server. What it has not stored is void: the next one goes on
// from what is stored.
func (e *Engine) retire() {
	e.keeping.Lock()
	defer e.keeping.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.definitions {
		for _, t := range d.tasks {
			e.loop.remove(t)
		}
		d.tasks = nil
	}
	for _, c := range e.dirty {
		c.dirty = false
	}
	e.guards, e.lose, e.decoded, e.followed = false, nil, nil, time.Time{}
	e.asked = map[string]uint64{}
	e.dirty, e.records, e.owed, e.handed, e.unstored, e.trouble = nil, map[string][]byte{}, nil, nil, time.Time{}, ""
}

// follow reads what the server that guards has changed.
func (e *Engine) follow(ctx context.Context) error {
	e.keeping.Lock()
	defer e.keeping.Unlock()
	e.mu.Lock()
	guards := e.guards
	if !guards {
		e.trouble = ""
	}
	e.mu.Unlock()
	if guards {
		return nil
	}
	changed, err := e.read(ctx)
	if err != nil {
		return fmt.Errorf("read the state of checks: %w", err)
	}
	e.followed = time.Now()
	if !changed {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.unlike()
	e.install()
	if now := e.unlike(); now != "" && now != was {
		e.o.Logger.Warn("files of checks differ between servers", "problem", now)
	}
	return nil
}

// unlike returns how the definitions of this server differ from those of the one that guards;
// empty if they do not, or that is not known. Needs mu.
func (e *Engine) unlike() string {
	const remedy = "; make the files of checks alike on all servers of the store, and reload them"
	guarded := map[string]bool{}
	for _, name := range e.guarded {
		if guarded[name] = true; e.byName[name] == nil {
			return fmt.Sprintf("this server lacks the check %q, which the server that guards has%s", name, remedy)
		}
	}
	for _, name := range e.names() {
		if !guarded[name] && len(guarded) > 0 {
			return fmt.Sprintf("nobody guards the check %q: the server that guards lacks it%s", name, remedy)
		}
	}
	return ""
}

// knownIncidents returns, by receiver, the incidents that another server may have told it.
// Needs mu.
func (e *Engine) knownIncidents() map[string][]event.Event {
	known := map[string][]event.Event{}
	add := func(receivers []string, events ...event.Event) {
		for _, r := range receivers {
			known[r] = append(known[r], events...)
		}
	}
	for _, o := range e.owed { // the end of one is still owed
		if k := e.incidents[o.Event.Incident]; k != nil && o.Event.Kind == event.Resolved {
			v := o.Event.decode()
			v.Seq, v.Kind, v.From, v.To = 1, event.Opened, event.OK, levelNamed(k.Worst)
			add(o.Receivers, v)
		}
	}
	for _, id := range sortedKeys(e.open) {
		c := e.open[id]
		i := c.machine.Incident
		if i == nil || i.Notified == event.OK {
			continue
		}
		worst := e.eventOf(c.in, &state.Event{Incident: i.ID, Seq: 1, Kind: event.Opened, Time: i.Opened, Opened: i.Opened, To: i.Worst})
		now := e.eventOf(c.in, &state.Event{Incident: i.ID, Seq: i.Seq, Kind: event.Changed, Time: i.NotifiedAt, Opened: i.Opened, From: i.Worst, To: i.Notified})
		if k := c.events; k != nil && len(k.Events) > 0 {
			now.Text = k.Events[len(k.Events)-1].Text
		}
		add(c.in.c.Receivers, worst, now)
	}
	return known
}

// forgetDelivered notes which receivers have got events, and forgets those that all have. Needs
// keeping.
func (e *Engine) forgetDelivered() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.handed = slices.DeleteFunc(e.handed, func(o *pendingEvents) bool {
		lack := o.lacking()
		if len(lack) == 0 {
			e.putRecord(o.key(), nil)
			return true
		}
		if len(lack) < len(o.Receivers) {
			o.Receivers = lack
			e.putRecord(o.key(), o)
		}
		return false
	})
}

const (
	resultsOver  = 15 * time.Minute
	resultsEvery = 10 * time.Second
)

// readResults reads the last results of checks that another server runs from the series that
// it writes. Where that fails they stay as they are.
func (e *Engine) readResults(ctx context.Context) {
	now := e.o.Now()
	e.mu.Lock()
	fresh := e.guards || now.Sub(e.lastRead) < resultsEvery && !now.Before(e.lastRead)
	names := map[string]bool{}
	if !fresh {
		e.lastRead = now
		for _, c := range e.conditions {
			c.labels.Range(func(l labels.Label) { names[l.Name] = true })
		}
	}
	e.mu.Unlock()
	if fresh || len(names) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, environmentsWait)
	defer cancel()
	results := map[string]*event.Result{}
	end := now.Unix()/10*10 + 10
	for f, name := range familyNames {
		if f == outState {
			continue
		}
		res, err := e.o.Store.Query(ctx, store.Query{
			Family: name, By: sortedKeys(names), Start: end - int64(resultsOver/time.Second), End: end, Step: 10, Schema: hist.DefaultSchema,
		})
		if err != nil {
			e.o.Logger.Warn("values of checks are shown later", "error", err)
			return
		}
		for _, g := range res.Groups {
			if len(g.Points) == 0 {
				continue
			}
			p := g.Points[len(g.Points)-1]
			at := time.Unix(min(p.Start+10, now.Unix()), 0)
			key := g.Labels.WithoutEmpty().String()
			r := results[key]
			switch {
			case f == outValue:
				results[key] = &event.Result{Time: at, Reading: event.Reading{Value: p.Number.Last}, Bands: noBands("")}
			case f == outSeconds && (r == nil || r.Time.Before(at)): // a later run had no value
				results[key] = &event.Result{Time: at, Reading: event.Reading{Null: true}, Bands: noBands("")}
			case f != outSeconds && r != nil && r.Time.Sub(at) <= 2*steady:
				*bandOf(&r.Bands, f) = p.Number.Last
			}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.conditions {
		if r := results[c.labels.String()]; r != nil && c.in != nil && !e.guards && !r.Time.Before(c.last.Time) {
			c.last = *r
			c.last.Level, c.last.State, c.last.Unit = c.machine.Last, c.machine.Hard, c.in.c.Unit
		}
	}
}

// measureOnly runs a check of which another server keeps the state, and changes nothing.
func (e *Engine) measureOnly(in *instance, outcomes []outcome) *instance {
	o := &outcomes[0]
	only, c := *in, *in.condition
	only.condition = &c
	only.machine.Last = o.level
	only.last = only.makeResult(o, e.quietReason(in, o.at))
	return &only
}

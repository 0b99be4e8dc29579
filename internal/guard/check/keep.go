package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tailscope/api"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

const (
	keepEvery = time.Second
	// Receivers are notified of what cannot be stored after this time: a full disk must
	// not make the guard fall silent.
	tellAnyway = 10 * time.Second
)

// runKeeper stores changes, at most once a second, and notifies receivers of what is
// stored. When ctx is done it does so a last time.
func (e *Engine) runKeeper(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			for more := true; more; {
				if err := e.keepOnce(last); err != nil {
					if !errors.Is(err, store.ErrConflict) {
						e.o.Logger.Error("keep the state of checks", "error", err)
					}
					return
				}
				more = e.hasUnsaved()
			}
			return
		case <-e.wake:
		case <-timer.C:
		}
		e.tickIncidents()
		err := e.keepOnce(ctx)
		if err != nil && !failing && ctx.Err() == nil && !errors.Is(err, store.ErrConflict) {
			e.o.Logger.Error("keep the state of checks; tried again until it works", "error", err)
		}
		failing = err != nil
		timer.Reset(e.waitTime(failing))
		select {
		case <-ctx.Done():
		case <-time.After(keepEvery):
		}
	}
}

// hasUnsaved reports whether changes are not stored yet.
func (e *Engine) hasUnsaved() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.dirty) > 0 || len(e.records) > 0
}

// waitTime returns the time until something has to be done although nothing happens.
func (e *Engine) waitTime(failing bool) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if failing || len(e.owed) > 0 || len(e.handed) > 0 || len(e.records) > 0 || len(e.dirty) > 0 {
		return 0
	}
	now := e.o.Now()
	wait := time.Minute
	for _, w := range e.windows {
		if c := w.nextChange(now); !c.IsZero() {
			wait = min(wait, c.Sub(now))
		}
	}
	for _, c := range e.open {
		if a := c.machine.Ack; a != nil && !a.Until.IsZero() {
			wait = min(wait, a.Until.Sub(now))
		}
		if i := c.machine.Incident; i != nil && c.in != nil && c.in.d.c.Remind > 0 && c.machine.Quiet == "" {
			wait = min(wait, i.NotifiedAt.Add(c.in.d.c.Remind).Sub(now))
		}
	}
	return max(0, wait)
}

// keepOnce stores changes, then notifies receivers.
func (e *Engine) keepOnce(ctx context.Context) error {
	e.keeping.Lock()
	defer e.keeping.Unlock()
	e.addStories(ctx)
	e.forgetDelivered()
	err := e.save(ctx)
	if err == nil {
		err = e.sendEvents(ctx, false)
		if errors.Is(err, event.ErrTurnOver) {
			err = nil // they are stored
		}
		e.findStories(ctx)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.unstored, e.trouble = time.Time{}, ""
		if err != nil && ctx.Err() == nil {
			e.trouble = "receivers are not told: " + err.Error()
		}
		return err
	}
	if e.o.Once != nil && errors.Is(err, store.ErrConflict) {
		return err // another server guards, and goes on from what is stored
	}
	e.mu.Lock()
	now := e.o.Now()
	e.stats.PersistErrors++
	if e.unstored.IsZero() {
		e.unstored = now
	}
	long := e.o.Once == nil && now.Sub(e.unstored) >= tellAnyway // another server would tell it too
	e.trouble = fmt.Sprintf("states are not kept since %s: %v", e.unstored.UTC().Format("2006-01-02 15:04:05 MST"), err)
	e.mu.Unlock()
	if !long {
		return err
	}
	return errors.Join(err, e.sendEvents(ctx, true))
}

// save stores changes in one write. Needs keeping.
func (e *Engine) save(ctx context.Context) error {
	e.mu.Lock()
	// All of them: receivers would be notified of an incident whose condition is left
	// for the next write, and after a crash in between nothing would ever end it.
	kept := e.dirty
	e.dirty = nil
	for _, c := range kept {
		c.dirty = false
		if c.removed {
			e.putRecord("c"+c.id, nil)
			continue
		}
		r := conditionRecord{Check: c.key.Check, Each: c.each, Seen: c.seen, Machine: c.machine}
		if c.machine.Incident != nil {
			r.Receivers, r.Labels = c.receivers, c.labels.Map()
		}
		e.putRecord("c"+c.id, r)
	}
	records := e.records
	e.records = map[string][]byte{}
	asked := maps.Clone(e.asked)
	e.mu.Unlock()
	if len(records) == 0 {
		return nil
	}
	writes := make([]store.RecordWrite, 0, len(records))
	for key, value := range records {
		w := store.RecordWrite{Key: key, Value: value, IfRevision: store.AnyRevision}
		if revision, ok := asked[key]; ok {
			w.IfRevision = revision
		}
		writes = append(writes, w)
	}
	if e.o.Once != nil {
		writes = append(writes, store.RecordWrite{Key: fenceKey, Value: e.turn, IfRevision: e.fence})
	}
	fence, err := e.o.Records.PutRecords(ctx, kind, writes...)
	if err == nil {
		e.fence = fence
		e.mu.Lock()
		maps.DeleteFunc(e.asked, func(key string, _ uint64) bool { _, put := records[key]; return put })
		e.mu.Unlock()
	} else {
		if e.lose != nil && errors.Is(err, store.ErrConflict) {
			e.lose() // another server has written the fence, or taken back a request
		}
		e.mu.Lock()
		for key, value := range records { // what was noted since is newer
			if _, ok := e.records[key]; !ok {
				e.records[key] = value
			}
		}
		e.mu.Unlock()
	}
	return err
}

// sendEvents hands events that are kept, or all that there are, to the notifier, in
// their order. Needs keeping.
func (e *Engine) sendEvents(ctx context.Context, all bool) error {
	for {
		e.mu.Lock()
		var events []event.Event
		var receivers []string
		n := 0
		for _, o := range e.owed {
			if _, unkept := e.records[o.key()]; (unkept || o.untold) && !all || n >= 1000 || n > 0 && !slices.Equal(receivers, o.Receivers) {
				break
			}
			receivers = o.Receivers
			events = append(events, o.Event.decode())
			n++
		}
		e.mu.Unlock()
		if n == 0 {
			return nil
		}
		if err := e.o.Notifier.Events(ctx, receivers, events); err != nil {
			return err
		}
		lacking := e.o.Notifier.Lacking(receivers)
		e.mu.Lock()
		for _, o := range e.owed[:n] {
			if e.o.Once == nil {
				e.putRecord(o.key(), nil)
				continue
			}
			o.lacking = lacking
			e.handed = append(e.handed, o)
		}
		e.owed = slices.Delete(e.owed, 0, n)
		e.stats.EventsSent += uint64(n)
		e.mu.Unlock()
	}
}

const (
	// storyWithin bounds how long receivers wait for stories: an alarm without one is better
	// than one that comes late.
	storyWithin = 5 * time.Second
	// storyFor is for how long after its opening an incident without a story has one looked for,
	// each storyEvery: a change is found when slots behind it are over.
	storyFor   = 15 * time.Minute
	storyEvery = time.Minute
)

// subject is what a story is asked for; see Options.Story.
type subject struct {
	service, environment string
	opened, until        time.Time
}

// addStories puts behind the text of events that wait for it what the page tells of their
// service. It does so before they are kept, so that one that is sent again says the same. Needs
// keeping.
func (e *Engine) addStories(ctx context.Context) {
	e.mu.Lock()
	var waiting []*pendingEvents
	for _, o := range e.owed {
		if o.untold {
			waiting = append(waiting, o)
		}
	}
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, storyWithin)
	defer cancel()
	told := map[subject]Story{}
	for _, o := range waiting {
		v := &o.Event
		story := e.story(ctx, told, v.Incident, subject{v.Labels[series.LabelService], v.Labels[series.LabelEnvironment], v.Opened, v.Time})
		e.mu.Lock()
		if o.untold = false; story.Sentence != "" {
			v.Text += ". " + story.Sentence
			v.Since = e.incidents[v.Incident].since(v.Opened)
			e.putRecord(o.key(), o)
		}
		e.mu.Unlock()
	}
}

// findStories looks for the stories of open incidents that have none: of those that nobody is
// told of, and those of which nothing was known when they opened. Needs keeping.
func (e *Engine) findStories(ctx context.Context) {
	if e.o.Story == nil {
		return
	}
	asked := map[string]subject{} // by incident
	now := e.o.Now()
	e.mu.Lock()
	for _, c := range e.open {
		service := c.labels.Get(series.LabelService)
		if k := c.events; k != nil && c.machine.Incident != nil && service != "" && k.Story == "" && now.Sub(k.asked) >= storyEvery {
			opened := c.machine.Incident.Opened
			if now.Sub(opened) <= storyFor {
				k.asked = now
				asked[k.ID] = subject{service, c.labels.Get(series.LabelEnvironment), opened, opened}
			}
		}
	}
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, storyWithin)
	defer cancel()
	told := map[subject]Story{}
	for _, id := range sortedKeys(asked) {
		e.story(ctx, told, id, asked[id])
	}
}

// story returns the story of a subject, which it asks for if it is not told yet, and keeps it with
// an incident: the earliest moment that is told of it is since when it is.
func (e *Engine) story(ctx context.Context, told map[subject]Story, id string, s subject) Story {
	story, known := told[s]
	if !known {
		var err error
		if story, err = e.o.Story(ctx, s.service, s.environment, s.opened, s.until); err != nil {
			e.late.fail(e.o.Logger, e.o.Now(), id, s.service, err)
		} else {
			e.late.found(e.o.Logger, e.o.Now())
		}
		told[s] = story
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.incidents[id]
	if k == nil || story.Sentence == "" {
		return story
	}
	k.Story, k.Since = story.Sentence, min(k.Since, api.UnixTime(story.Since))
	e.putRecord("i"+id, k.Incident)
	return story
}

// tickIncidents looks at open incidents without a run: maintenance may be over.
func (e *Engine) tickIncidents() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.o.Now()
	e.openedAt = 0 // it is called because a window closes
	for id, c := range e.open {
		in := c.in
		if c.removed || in == nil || c.machine.Incident == nil {
			delete(e.open, id)
			continue
		}
		quiet := c.machine.Quiet
		if !c.masked { // a child whose parent has recovered waits for a run of its own
			quiet = e.quietReason(in, now)
		}
		was := c.machine.Ack
		e.said = c.machine.Tick(in.d.c.Rules, now, quiet, e.said[:0])
		e.recordTransition(in, e.said)
		if len(e.said) > 0 || was != c.machine.Ack {
			e.touchCondition(c)
		}
		if c.machine.Incident == nil {
			delete(e.open, id)
		}
	}
}

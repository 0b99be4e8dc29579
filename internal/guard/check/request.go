package check

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/backoff"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

const (
	requestPrefix = "q"
	askWithin     = 20 * time.Second // for an answer
	keepAnswers   = time.Minute      // that nobody fetches
)

// request is a change that somebody asked for. What is not empty says which it is. On a
// server that does not guard it becomes a record, to which the one that does adds the answer,
// in the same write as the change.
type request struct {
	Acknowledge   string              `json:"acknowledge,omitempty"` // id of a check
	Ack           *api.Ack            `json:"ack,omitempty"`
	Unacknowledge string              `json:"unacknowledge,omitempty"` // id of a check
	Maintenance   *api.Maintenance    `json:"maintenance,omitempty"`
	End           string              `json:"end,omitempty"` // id of a window
	Mark          *api.MarkedIncident `json:"mark,omitempty"`
	Forget        string              `json:"forget,omitempty"`  // id of an incident
	Verdict       *eventJSON          `json:"verdict,omitempty"` // of a mark; nobody waits for an answer

	Answer *answer `json:"answer,omitempty"`
}

type answer struct {
	At    time.Time       `json:"at"`
	Value json.RawMessage `json:"value,omitempty"`
	// Of an error; that of the guarding server, where Code is empty.
	Code    string `json:"code,omitempty"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message,omitempty"`
}

// perform makes the change. It returns a pointer to an answer of package api. Needs mu.
func (e *Engine) perform(r *request) (any, error) {
	switch {
	case r.Ack != nil:
		return e.acknowledge(r.Acknowledge, r.Ack)
	case r.Unacknowledge != "":
		return e.unacknowledge(r.Unacknowledge)
	case r.Maintenance != nil:
		return e.addMaintenance(*r.Maintenance)
	case r.End != "":
		return e.endMaintenance(r.End)
	case r.Mark != nil:
		return e.markIncident(r.Mark)
	case r.Forget != "":
		return e.deleteIncident(r.Forget)
	case r.Verdict != nil:
		e.oweVerdict(r.Verdict)
		return nil, nil
	}
	return nil, &query.Error{Code: query.CodeInvalid, Message: "the server that guards the checks does not know this request: run one version of tailscope on all servers of the store"}
}

// oweVerdict has the receivers told that want verdicts. Needs mu.
func (e *Engine) oweVerdict(encoded *eventJSON) {
	same := func(o *pendingEvents) bool { return o.Event.Incident == encoded.Incident && o.Event.Seq == encoded.Seq }
	if e.o.Notifier == nil || slices.ContainsFunc(e.owed, same) || slices.ContainsFunc(e.handed, same) { // tried again
		return
	}
	var names []string
	for _, name := range sortedKeys(e.file.Receivers) {
		if e.file.Receivers[name].Verdicts {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		v := encoded.decode()
		v.Link = e.linkTo(v.Link)
		e.owe(names, &v)
	}
}

// TellVerdict has the receivers told that want verdicts, of an event of a mark whose Link is a
// path of the page. It returns once that is in the store. If another server guards, that tells
// its own receivers; while none does, the next one.
func (e *Engine) TellVerdict(ctx context.Context, v event.Event) error {
	e.mu.Lock()
	guards := e.guards
	e.mu.Unlock()
	if !guards {
		return QueueVerdict(ctx, e.o.Records, v)
	}
	encoded := encodeEvent(&v)
	_, err := e.change(ctx, &request{Verdict: &encoded}, "", 0)
	return err
}

// QueueVerdict is TellVerdict for a server without checks: the server that guards those of the
// store takes the event with the write by which it owes it. Queued again until then, it is the
// same request.
func QueueVerdict(ctx context.Context, records store.Records, v event.Event) error {
	encoded := encodeEvent(&v)
	b, err := json.Marshal(request{Verdict: &encoded})
	if err != nil {
		return err
	}
	_, err = records.PutRecords(ctx, kind, store.RecordWrite{Key: fmt.Sprintf("%s%s %d", requestPrefix, v.Incident, v.Seq), Value: b})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("queue a verdict for the server that guards: %w", err)
	}
	return nil
}

// do makes a change here, or has the server make it that guards, and stores it before it
// returns. T is what perform returns.
func do[T any](ctx context.Context, e *Engine, r *request) (*T, error) {
	e.mu.Lock()
	guards := e.guards
	e.mu.Unlock()
	if guards {
		out, err := e.change(ctx, r, "", 0)
		of, _ := out.(*T)
		return of, err
	}
	value, err := e.ask(ctx, r)
	if err != nil || len(value) == 0 {
		return nil, err
	}
	out := new(T)
	return out, json.Unmarshal(value, out)
}

// change makes a change, with the answer to the record of that key if there is one, and stores
// it; a request whose answer nobody waits for is forgotten instead. If the record is no longer at the revision, who asked has given up: then nothing is
// stored, the error is store.ErrConflict, and the turn ends, as what is in memory is void.
func (e *Engine) change(ctx context.Context, r *request, key string, revision uint64) (any, error) {
	e.mu.Lock()
	out, err := e.perform(r)
	if key != "" {
		if e.asked[key] = revision; r.Verdict != nil {
			e.putRecord(key, nil)
		} else {
			r.Answer = e.answerOf(out, err)
			e.putRecord(key, r)
		}
	}
	e.mu.Unlock()
	if err != nil && key == "" {
		return nil, err
	}
	if err == nil {
		e.tickIncidents()
	}
	e.keeping.Lock()
	defer e.keeping.Unlock()
	if err := e.save(ctx); err != nil {
		return nil, fmt.Errorf("keep the change: %w", err)
	}
	_ = e.sendEvents(ctx, false) // else they are sent later: they are stored
	return out, err
}

func (e *Engine) answerOf(out any, err error) *answer {
	a := &answer{At: e.o.Now()}
	if err == nil && out != nil {
		a.Value, err = json.Marshal(out)
	}
	if q := query.AsError(err); q != nil {
		a.Code, a.Field, a.Message = q.Code, q.Field, q.Message
	}
	return a
}

// ask has the server make a change that guards, and returns its answer.
func (e *Engine) ask(ctx context.Context, r *request) (json.RawMessage, error) {
	key := requestPrefix + rand.Text()
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	asked, err := e.o.Records.PutRecords(waiting, kind, store.RecordWrite{Key: key, Value: b})
	if err != nil {
		return nil, fmt.Errorf("ask the server that guards: %w", err)
	}
	for backoff.Sleep(waiting, lookEvery/2) == nil {
		if a, err := e.fetchAnswer(waiting, key); err != nil || a != nil {
			return e.accept(waiting, a, err)
		}
	}
	last, end := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer end()
	_, err = e.o.Records.PutRecords(last, kind, store.RecordWrite{Key: key, IfRevision: asked})
	if errors.Is(err, store.ErrConflict) { // it was answered just now
		if a, err := e.fetchAnswer(last, key); err != nil || a != nil {
			return e.accept(last, a, err)
		}
	}
	return nil, &query.Error{Code: query.CodeUnavailable, Message: "no server that guards the checks of this store has answered; try again in half a minute", Err: err}
}

// fetchAnswer returns the answer to a request, and forgets both; nil if there is none yet.
func (e *Engine) fetchAnswer(ctx context.Context, key string) (*answer, error) {
	x, err := e.o.Records.GetRecord(ctx, kind, key)
	var r request
	if err == nil {
		err = json.Unmarshal(x.Value, &r)
	}
	if err == nil && r.Answer != nil {
		_, err = e.o.Records.PutRecords(ctx, kind, store.RecordWrite{Key: key, IfRevision: store.AnyRevision})
	}
	if err != nil {
		return nil, fmt.Errorf("read the answer of the server that guards: %w", err)
	}
	return r.Answer, nil
}

// accept returns what was answered, once this server shows it.
func (e *Engine) accept(ctx context.Context, a *answer, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	if a.Code != "" {
		return nil, &query.Error{Code: a.Code, Field: a.Field, Message: a.Message}
	}
	if err := e.follow(ctx); err != nil {
		e.o.Logger.Warn("a change of checks is shown later", "error", err)
	}
	return a.Value, nil
}

// answerRequests makes the changes that other servers ask for, and forgets answers that
// nobody has fetched.
func (e *Engine) answerRequests(ctx context.Context) error {
	asked, revisions := map[string]*request{}, map[string]uint64{}
	now := e.o.Now()
	err := e.o.Records.ListRecords(ctx, kind, requestPrefix, func(x store.Record) error {
		r := &request{}
		if err := json.Unmarshal(x.Value, r); err != nil {
			e.o.Logger.Error("read what another server asks for", "request", strings.TrimPrefix(x.Key, requestPrefix), "error", err)
			r = &request{} // which is refused
		}
		asked[x.Key], revisions[x.Key] = r, x.Revision
		return nil
	})
	if err != nil {
		return err
	}
	for _, key := range sortedKeys(asked) {
		e.mu.Lock()
		_, unkept := e.records[key]
		e.mu.Unlock()
		if unkept {
			continue
		}
		if r := asked[key]; r.Answer == nil {
			if _, err := e.change(ctx, r, key, revisions[key]); err != nil && ctx.Err() != nil {
				return err
			}
		} else if age := now.Sub(r.Answer.At); age > keepAnswers || age < -keepAnswers {
			e.mu.Lock()
			e.putRecord(key, nil)
			e.mu.Unlock()
		}
	}
	return nil
}

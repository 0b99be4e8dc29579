package httpapi

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/internal/query"
	"tailscope/internal/store"
)

// Questions have turns, so that they leave processors to what comes in, and
// memory to each other. Those of the page, those that analyse and PromQL's have
// turns of their own: a dashboard that asks too much does not keep the page
// from its answers.

// maxQueued bounds the questions of a kind that wait for a turn. More are
// refused at once, before their bodies are read.
const maxQueued = 64

// turns are those of one kind of questions.
type turns struct {
	free   chan struct{}
	inside atomic.Int64 // questions that wait or are worked on
	wait   time.Duration
	memory *store.Memory
	bytes  int64 // of one question
}

func (o *Options) newTurns(n int, wait time.Duration, memory *store.Memory) *turns {
	return &turns{free: make(chan struct{}, n), wait: wait, memory: memory, bytes: o.QuestionBytes}
}

var errBusy = &query.Error{Code: query.CodeUnavailable, Message: "too many questions are being worked on; try again in a moment"}

// enter counts a question in, or says that too many wait. leave counts it out.
func (t *turns) enter() (leave func(), err error) {
	if t.inside.Add(1) > int64(cap(t.free)+maxQueued) {
		t.inside.Add(-1)
		return nil, errBusy
	}
	return func() { t.inside.Add(-1) }, nil
}

// take waits for a turn. The question's memory is in the context; done, which
// may be called again, gives the turn back, and end the memory too.
func (t *turns) take(ctx context.Context) (_ context.Context, done, end func(), err error) {
	select {
	case t.free <- struct{}{}:
	default:
		timer := time.NewTimer(t.wait)
		defer timer.Stop()
		select {
		case t.free <- struct{}{}:
		case <-timer.C:
			return nil, nil, nil, errBusy
		case <-ctx.Done():
			return nil, nil, nil, ctx.Err()
		}
	}
	budget := t.memory.Question(t.bytes)
	done = sync.OnceFunc(func() { <-t.free })
	return store.OneAnswer(store.WithBudget(ctx, budget)), done, func() { done(); budget.Close() }, nil
}

// turnWriter gives the turn back when the answer begins to be written: it is
// complete by then, and who reads it slowly keeps nobody waiting.
type turnWriter struct {
	http.ResponseWriter
	done func()
}

func (w *turnWriter) Write(b []byte) (int, error) {
	w.done()
	return w.ResponseWriter.Write(b)
}

func (w *turnWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// analyses are questions that may take seconds.
var analyses = []string{"compare", "explain", "changes", "scaling", "sla", "simulate", "leaves", "verdicts", "checks/", "nearest", "sessions"}

// turnsOf returns the turns of a question of the JSON API.
func (s *server) turnsOf(r *http.Request) *turns {
	rest := strings.TrimPrefix(r.URL.Path, "/api/v1/")
	for _, a := range analyses {
		if strings.HasPrefix(rest, a) {
			return s.slow
		}
	}
	return s.page
}

// writeTime is how long an answer may take to be read.
const writeTime = 30 * time.Second

// hurry bounds the time of a connection's answer. Where the connection has no
// deadlines the server's own hold.
func (s *server) hurry(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.Timeout + writeTime))
}

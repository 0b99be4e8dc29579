package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/judge"
	"tailscope/internal/report"
)

const (
	watchFor   = 30 * time.Minute
	watchEvery = 10 * time.Second
	// sayAgain is how long a watch is silent while nothing changes.
	sayAgain = 5 * time.Minute
	// giveUp is after how many looks in a row without a server to stop.
	giveUp = 5
)

// watch looks at a comparison until there is a verdict.
type watch struct {
	ask   func(context.Context) (*api.CompareResponse, error)
	done  func(*api.CompareResponse) bool // that nothing more will come
	every time.Duration
	until time.Time
	now   func() time.Time
	wait  func(context.Context, time.Duration) error
	say   io.Writer // how it goes

	said   string
	saidAt time.Time
}

// watched asks until there is a verdict, and returns the last answer.
func (f *compareFlags) watched(ctx context.Context, ask func(context.Context) (*api.CompareResponse, error)) (*api.CompareResponse, error) {
	w := watch{ask: ask, every: watchEvery, until: f.now().Add(watchFor), now: f.now, wait: wait, say: f.streams.err, done: f.complete}
	if f.watchFor != "" {
		d, err := parseSince(f.watchFor)
		if err != nil {
			return nil, fmt.Errorf("--for %w", err)
		}
		w.until = f.now().Add(d)
	}
	if f.every != "" {
		d, err := parseSince(f.every)
		if err != nil {
			return nil, fmt.Errorf("--set every %w", err)
		}
		w.every = d
	}
	return w.run(ctx)
}

// leastSlots is how many slots with requests a side needs.
const leastSlots = 20

// complete says that side B is as long as it will be, or no use however long:
// what was before a mark grows no more.
func (f *compareFlags) complete(r *api.CompareResponse) bool {
	switch {
	case f.mark != "" && r.A.Slots < leastSlots:
		return true
	case f.mark != "":
		length := time.Hour
		if d, err := parseSince(f.window); err == nil {
			length = d
		}
		return time.Duration(r.B.End-r.B.Start)*time.Second > length-time.Duration(r.Slot)*time.Second
	case f.label != "":
		return false
	}
	return r.B.End > f.ends.Unix()-r.Slot
}

func (w *watch) run(ctx context.Context) (*api.CompareResponse, error) {
	var last *api.CompareResponse
	failures := 0
	for {
		r, err := w.ask(ctx)
		var said *client.Error
		switch {
		case err == nil:
			last, failures = r, 0
			if judge.Moved(r.Verdict) || r.Verdict == judge.Same {
				return r, nil
			}
			if w.done(r) {
				w.tell("complete", "there is no more to come: "+r.Sentence)
				return r, nil
			}
			w.tell(string(r.Verdict), r.Sentence)
		case errors.As(err, &said) && said.Code == "too_early":
			w.tell(said.Code, said.Message)
		case errors.Is(err, client.ErrUnreachable), said != nil && said.Status == http.StatusServiceUnavailable:
			if failures++; failures >= giveUp {
				return nil, err
			}
			w.tell("unreachable", err.Error()+"; trying again")
		default:
			return nil, err
		}
		if !w.now().Add(w.every).Before(w.until) {
			break
		}
		if err := w.wait(ctx, w.every); err != nil {
			return nil, err
		}
	}
	if last == nil {
		return nil, ended{errors.New("there was nothing to compare as long as it was watched"), exitTooLittle}
	}
	return last, nil
}

// tell says a line if it is another kind of line than the last, or that is long
// ago.
func (w *watch) tell(kind, line string) {
	now := w.now()
	if kind == w.said && now.Sub(w.saidAt) < sayAgain {
		return
	}
	w.said, w.saidAt = kind, now
	fmt.Fprintf(w.say, "%s  %s\n", now.Format(time.TimeOnly), report.Printable(line))
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

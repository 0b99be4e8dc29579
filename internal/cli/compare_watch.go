package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/backoff"
	"tailscope/internal/judge"
	"tailscope/internal/report"
)

const (
	watchFor   = 30 * time.Minute
	watchEvery = 10 * time.Second
	// sayAgain bounds the silence of a watch while nothing changes.
	sayAgain = 5 * time.Minute
	// giveUp is the number of looks in a row without a server after which a watch ends.
	giveUp = 5
)

// watch looks at a comparison until there is a verdict.
type watch struct {
	ask   func(context.Context) (*api.CompareResponse, error)
	done  func(r *api.CompareResponse, now time.Time) bool // that nothing more will come
	every time.Duration
	until time.Time
	now   func() time.Time
	wait  func(context.Context, time.Duration) error
	say   io.Writer // how it goes

	said   string
	saidAt time.Time
}

// watchFlags are the flags that --watch has beside those of the request.
type watchFlags struct {
	For   time.Duration `query:"for" doc:"how long to watch; default 30m" positive:"yes"`
	Every time.Duration `query:"every" doc:"how often to look while watching; default 10s" positive:"yes"`
}

// watchUntil asks until there is a verdict, and returns the last answer.
func (f *compareFlags) watchUntil(ctx context.Context, ask func(context.Context) (*api.CompareResponse, error)) (*api.CompareResponse, error) {
	w := watch{ask: ask, every: cmp.Or(f.watched.Every, watchEvery), until: f.now().Add(cmp.Or(f.watched.For, watchFor)),
		now: f.now, wait: backoff.Sleep, say: f.streams.err, done: f.complete}
	return w.run(ctx)
}

// leastSlots is the number of slots with requests that a side needs.
const leastSlots = 20

// complete reports whether more data would change nothing: side B is as long as it will
// be, or side A is too short, since what lies before a mark does not grow.
func (f *compareFlags) complete(r *api.CompareResponse, now time.Time) bool {
	switch {
	case f.wanted.Mark != "" && r.A.Slots < leastSlots:
		return true
	case f.wanted.Mark != "":
		length := cmp.Or(f.wanted.Window, time.Hour)
		if r.Mark != nil && now.After(r.Mark.Time.Time().Add(length+time.Minute)) {
			return true // it ends earlier, at a mark or at a change that was found
		}
		return time.Duration(r.B.End-r.B.Start)*time.Second > length-time.Duration(r.Slot)*time.Second
	case f.wanted.Label != "":
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
			if judge.Moved(r.Verdict) || r.Verdict == judge.Same || r.Verdict == judge.WithinTolerance {
				return r, nil
			}
			if w.done(r, w.now()) {
				w.printProgress("complete", "there is no more to come: "+r.Sentence)
				return r, nil
			}
			w.printProgress(string(r.Verdict), r.Sentence)
		case errors.As(err, &said) && said.Code == "too_early":
			w.printProgress(said.Code, said.Message)
		case errors.Is(err, client.ErrUnreachable), said != nil && said.Status == http.StatusServiceUnavailable:
			if failures++; failures >= giveUp {
				return nil, err
			}
			w.printProgress("unreachable", err.Error()+"; trying again")
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

// printProgress prints a line if its kind differs from that of the last, or the last is
// sayAgain ago.
func (w *watch) printProgress(kind, line string) {
	now := w.now()
	if kind == w.said && now.Sub(w.saidAt) < sayAgain {
		return
	}
	w.said, w.saidAt = kind, now
	fmt.Fprintf(w.say, "%s  %s\n", now.Format(time.TimeOnly), report.Printable(line))
}

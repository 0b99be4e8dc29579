package logbook

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/judge/legs"
	"tailscope/internal/judge/refresh"
	"tailscope/internal/query"
)

// VerdictRequest asks for the verdict on a session.
type VerdictRequest struct {
	ID         string
	Start, End time.Time // within its time; zero: all of it
	Measures   []string  // all if empty
	Allow      string    // changes that are allowed; empty: what the session itself says
	Limit      int       // operations, and tenants; 0 is 20
}

const defaultRows = 20

// late is the time after a slot until all of it has arrived.
const late = 20 * time.Second

// Verdict returns the verdict on a session, final or so far. It is kept for a slot,
// or for ten times as long as it took to make.
func (r *Registry) Verdict(ctx context.Context, q VerdictRequest) (*api.MirrorVerdictResponse, error) {
	if q.Limit == 0 {
		q.Limit = defaultRows
	}
	if q.Limit < 0 || q.Limit > legs.MostRows {
		return nil, query.Invalid("limit", "limit %d is not between 1 and %d", q.Limit, legs.MostRows)
	}
	if err := legs.CheckMeasures(q.Measures); err != nil {
		return nil, err
	}
	if _, err := legs.Gates(q.Allow); err != nil {
		return nil, err
	}
	x, err := r.Get(ctx, q.ID)
	if err != nil {
		return nil, err
	}
	if x.Kind != KindMirror {
		return nil, query.Invalid("id", "%q is not a mirror session: its verdict is in the answer of /api/v1/sessions/%s, and tailscope report session %s shows it", q.ID, q.ID, q.ID)
	}
	q.Allow = cmp.Or(q.Allow, x.Mirror.Settings.Allow)
	start, end, err := r.span(x, q)
	if err != nil {
		return nil, err
	}
	return r.answers.Get(ctx, fmt.Sprintf("%s %s %d %d %d %s %s", x.ID, x.State, q.Start.Unix(), q.End.Unix(), q.Limit, strings.Join(q.Measures, ","), q.Allow), r.o.Now(), func() (*api.MirrorVerdictResponse, error) {
		return legs.Judge(ctx, r.o.Store, x, legs.Request{Start: start, End: end, Measures: q.Measures, Allow: q.Allow, Limit: q.Limit})
	})
}

// span returns the range that is judged, in Unix seconds: the time of the session, as
// far as all data has come, within the range of the request.
func (r *Registry) span(x *api.Session, q VerdictRequest) (start, end int64, err error) {
	const slot = 10
	now := r.o.Now()
	start, end = int64(x.Start), now.Add(-late).Unix()
	if x.State != Running {
		end = min(int64(math.Ceil(float64(x.End)))+slot-1, now.Unix())
	}
	if !q.Start.IsZero() {
		start = max(start, q.Start.Unix())
	}
	if !q.End.IsZero() {
		end = min(end, q.End.Unix())
	}
	start, end = start-start%slot, end-end%slot
	switch {
	case end > start:
		return start, end, nil
	case q.Start.IsZero() && q.End.IsZero():
		return 0, 0, &query.Error{Code: query.CodeTooEarly, Field: "id", Message: "the session has only just begun; ask again in half a minute"}
	}
	return 0, 0, query.Invalid("start", "the session was not running then: it began at %s; leave start and end out for all of it", timeOf(x.Start).UTC().Format("2006-01-02 15:04:05Z"))
}

const (
	// settled is the time after its end at which a session is judged for good.
	settled = 40 * time.Second
	// rest is the pause after making a headline, as a multiple of the time that it
	// took: at most a twentieth of a processor is spent on headlines.
	rest = 20
)

// Run makes headlines until ctx is done: every half minute or so of running sessions,
// and once more of those that have ended.
func (r *Registry) Run(ctx context.Context) {
	refresh.Run(ctx, r.o.Every, r.o.Logger, "judge sessions; tried again until it works", r.Round)
}

// Round makes the headlines that are due, and drops whole reports of sessions that
// are over. Of two calls at a time one does nothing.
func (r *Registry) Round(ctx context.Context) error {
	if !r.judging.TryLock() {
		return nil
	}
	defer r.judging.Unlock()
	if err := r.Load(ctx); err != nil {
		return err
	}
	r.release(ctx)
	var first error
	for _, id := range r.due(r.o.Now()) {
		if err := r.headline(ctx, id); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if first == nil {
				first = fmt.Errorf("judge session %s: %w", id, err)
			}
		}
	}
	return first
}

func (r *Registry) due(now time.Time) (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, e := range r.known {
		state := r.state(e, now)
		switch {
		case e.Report.Kind != KindMirror: // it brings its headline along
		case e.Final && state != Running:
		case state != Running && now.Sub(e.Updated) >= settled:
			ids = append(ids, id)
		case now.Sub(e.judged) >= max(30*time.Second, rest*e.took):
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// headline makes the headline of a session, and writes it if it is the last.
func (r *Registry) headline(ctx context.Context, id string) error {
	begin := r.o.Now()
	clock := time.Now()
	v, err := r.Verdict(ctx, VerdictRequest{ID: id})
	took := time.Since(clock)
	if e := query.AsError(err); err != nil && (e.Code == query.CodeTooEarly || e.Code == query.CodeNotFound) {
		v, err = &api.MirrorVerdictResponse{}, nil
	}
	r.mu.Lock()
	e := r.known[id]
	if e == nil {
		r.mu.Unlock()
		return nil
	}
	e.judged, e.took = begin, took
	if err != nil {
		r.stats.Failures++
		r.mu.Unlock()
		return err
	}
	r.stats.Verdicts++
	e.Headline, e.text = headlineOf(v), ""
	e.Final = r.state(e, begin) != Running && begin.Sub(e.Updated) >= settled
	final := e.Final
	r.mu.Unlock()
	if !final {
		return nil
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	return r.save(ctx, id)
}

// headlineOf returns the headlines of the candidates, with their names if there are
// several.
func headlineOf(v *api.MirrorVerdictResponse) string {
	var words []string
	for _, c := range v.Candidates {
		text := c.Headline
		if len(v.Candidates) > 1 {
			text = c.Candidate + ": " + text
		}
		words = append(words, text)
	}
	return strings.Join(words, " · ")
}

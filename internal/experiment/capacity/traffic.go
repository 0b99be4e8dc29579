package capacity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/capacity/objective"
	"tailscope/internal/experiment/mirror"
	"tailscope/internal/experiment/mirror/observe"
)

// Units of a search on live traffic.
const (
	Copies   = "copies"     // of each live request that was chosen
	Servers  = "servers"    // of the candidate's pool
	Requests = "requests/s" // that the candidate is sent, whatever clients send
)

// traffic is the live requests that a mirror copies to a candidate, whose amount can
// be changed.
type traffic interface {
	// set sends x copies of each request, or uses x servers, from now on.
	set(ctx context.Context, x float64) error
	// rest restores everything at once: added copies that have not been sent are
	// dropped.
	rest(ctx context.Context) error
	// sample returns what happened since it was last called.
	sample(ctx context.Context) (sight, error)
	// every returns the interval of samples, within the longest time from when the
	// load was seen to be too much until it has ended.
	every() time.Duration
	within() time.Duration
	// settlingTime returns the time until a load that was set has arrived in full.
	settlingTime() time.Duration
	// shadow returns the candidate as it was before the search.
	shadow() *api.MirrorTarget
	// close gives the session back.
	close(ctx context.Context) error
}

// sight holds what was seen of live traffic in a moment.
type sight struct {
	from, to           time.Time
	candidate, primary observe.Target
	late               uint64 // copies that the mirror sent late
}

// sessionTraffic is the traffic of a session in this process.
type sessionTraffic struct {
	s       *mirror.Session
	sampler *mirror.Sampler
	index   int    // of the shadow
	name    string // of the candidate
	unit    string
	before  api.MirrorTarget // the search
	late    uint64

	// Of Requests, for which the number of copies is adjusted over and over.
	target   float64 // 0 at rest
	followed time.Time
	chosen   []chosen // of the last seconds
}

// chosen is the number of requests that were chosen up to a moment.
type chosen struct {
	at time.Time
	n  uint64
}

// candidateOf finds the shadow that is searched, by name or as the only candidate.
func candidateOf(state *api.MirrorState, name string) (int, error) {
	var candidates []string
	for i, s := range state.Shadows {
		if s.Name == name {
			return i, nil
		}
		if s.Role == "candidate" {
			candidates = append(candidates, s.Name)
		}
	}
	switch {
	case name != "":
		return 0, fmt.Errorf("there is no shadow %q (hint: name one of %s)", name, strings.Join(candidates, ", "))
	case len(candidates) == 0:
		return 0, errors.New("the session has no candidate (hint: a search sends more copies to one: give it with --candidate)")
	case len(candidates) > 1:
		return 0, fmt.Errorf("there are %d candidates (hint: name one of %s)", len(candidates), strings.Join(candidates, ", "))
	}
	return slices.IndexFunc(state.Shadows, func(s api.MirrorTarget) bool { return s.Role == "candidate" }), nil
}

// newSessionTraffic samples a session, until close.
func newSessionTraffic(s *mirror.Session, candidate, unit string) (*sessionTraffic, error) {
	state := s.State()
	i, err := candidateOf(&state, candidate)
	if err != nil {
		return nil, err
	}
	sampler, err := s.NewSampler()
	if err != nil {
		return nil, err
	}
	t := state.Shadows[i]
	return &sessionTraffic{
		s: s, sampler: sampler, index: i, name: t.Name, unit: unit,
		before: t, late: t.Late,
	}, nil
}

func (t *sessionTraffic) close(context.Context) error {
	t.sampler.Close()
	return nil
}

// recent is the time over which the rate of live requests is taken, adjusted the
// interval at which the number of copies follows it.
const (
	recent   = 5 * time.Second
	adjusted = time.Second
)

func (t *sessionTraffic) set(ctx context.Context, x float64) error {
	if t.unit == Requests {
		for n := len(t.chosen); n == 0 || t.chosen[n-1].at.Sub(t.chosen[0].at) < adjusted; n = len(t.chosen) {
			state := t.s.State()
			t.note(time.Now(), &state)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(t.every()):
			}
		}
		t.target = x
		return t.follow(time.Now())
	}
	return t.s.Apply(api.MirrorChange{Shadows: map[string]api.ShadowChange{t.name: changeTo(t.unit, x)}})
}

// changeTo returns the change to x of a unit.
func changeTo(unit string, x float64) api.ShadowChange {
	if unit == Servers {
		n := int(x)
		return api.ShadowChange{Using: &n}
	}
	a := api.Float(x)
	return api.ShadowChange{Amplify: &a}
}

// follow sets the number of copies of each request that make the target rate.
func (t *sessionTraffic) follow(now time.Time) error {
	first, last := t.chosen[0], t.chosen[len(t.chosen)-1]
	rate := float64(last.n-first.n) / last.at.Sub(first.at).Seconds()
	if !(rate > 0) {
		return nil // nothing comes; what is sent of each does not matter
	}
	t.followed = now
	return t.s.Apply(api.MirrorChange{Shadows: map[string]api.ShadowChange{t.name: changeTo(Copies, min(t.target/rate, mostCopies))}})
}

// note counts the requests that were chosen up to now.
func (t *sessionTraffic) note(now time.Time, state *api.MirrorState) {
	n := state.Requests
	for _, k := range state.Skipped {
		n -= k
	}
	t.chosen = append(t.chosen, chosen{now, n})
	for len(t.chosen) > 2 && now.Sub(t.chosen[1].at) >= recent {
		t.chosen = t.chosen[1:]
	}
}

func (t *sessionTraffic) rest(context.Context) error {
	t.target = 0
	err := t.s.Apply(api.MirrorChange{Shadows: map[string]api.ShadowChange{t.name: {Using: &t.before.Using, Amplify: &t.before.Amplify}}})
	if t.unit != Servers {
		t.s.Shed(t.index)
	}
	return err
}

func (t *sessionTraffic) sample(context.Context) (sight, error) {
	select {
	case <-t.s.Done():
		return sight{}, errors.New("the mirror session has ended")
	default:
	}
	l := t.sampler.Sample()
	s := sight{from: l.Since, to: l.At, candidate: l.Shadows[t.index], primary: l.Primary}
	state := t.s.State()
	late := state.Shadows[t.index].Late
	s.late, t.late = late-t.late, late
	if t.unit == Requests {
		if t.note(l.At, &state); t.target > 0 && l.At.Sub(t.followed) >= adjusted {
			if err := t.follow(l.At); err != nil {
				return sight{}, err
			}
		}
	}
	return s, nil
}

func (t *sessionTraffic) every() time.Duration        { return 100 * time.Millisecond }
func (t *sessionTraffic) within() time.Duration       { return 200 * time.Millisecond }
func (t *sessionTraffic) shadow() *api.MirrorTarget   { return &t.before }
func (t *sessionTraffic) settlingTime() time.Duration { return t.s.Spread() }

// batcher turns sights into batches for an objective.
type batcher struct {
	parts []objective.Part
	start time.Time
	under map[objective.Part]uint64 // at the last sample
}

func newBatcher(o objective.Objective) *batcher {
	parts := o.Parts()
	if !slices.Contains(parts, objective.Part{}) {
		parts = append(parts, objective.Part{})
	}
	return &batcher{parts: parts, under: map[objective.Part]uint64{}}
}

// batch returns a sample as a batch. Samples come one after the other, whether they
// belong to a step or lie between two.
func (b *batcher) batch(s *sight) objective.Batch {
	out := objective.Batch{
		At:    s.to.Sub(b.start),
		Ended: map[objective.Part]objective.Ended{}, Waiting: map[objective.Part]objective.Waiting{},
	}
	for _, p := range b.parts {
		t := &s.candidate
		if p.Side == objective.Primary {
			t = &s.primary
		}
		ended, waiting, lost := partOf(t, p.Query)
		// What came due is what ended and the growth of what is under way.
		now := waiting.UnderWay
		if due := ended.Requests + lost + now; due > b.under[p] {
			waiting.Due = due - b.under[p]
		}
		b.under[p] = now
		out.Ended[p], out.Waiting[p] = ended, waiting
	}
	return out
}

// refusedAs is the latency, in seconds, of a copy that was not even sent because the
// candidate fell behind: beyond any limit, as a client would wait.
const refusedAs = 60

// skip leaves out a sample that is not to be judged: the step goes on after it as if
// it had not been.
func (b *batcher) skip(s *sight) {
	b.batch(s)
	b.start = b.start.Add(s.to.Sub(s.from))
}

// partOf returns what was seen of one operation, or of all.
func partOf(t *observe.Target, operation string) (e objective.Ended, w objective.Waiting, lost uint64) {
	seen, under := t.Seen[operation], t.Under[operation]
	if operation == "" {
		seen, under = t.All(), t.AllUnder()
	}
	w.UnderWay, w.Oldest = under.N, under.Oldest
	if seen == nil {
		return e, w, 0
	}
	e.Requests, e.Errors = seen.Ended, seen.Errors
	e.Latency = seen.Latency.Clone()
	_ = e.Latency.Merge(seen.Failed)
	_ = e.Latency.RecordN(refusedAs, seen.Refused)
	return e, w, seen.Lost
}

package capacity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tailscope/api"
	"tailscope/client"
	"tailscope/hist"
	"tailscope/internal/experiment/mirror/observe"
)

// leaseSeconds is the time for which a session elsewhere is borrowed at once. If this
// program dies, its pools and copies are restored after that.
const leaseSeconds = 10

// farTraffic samples a session in another process by its server. A change gets there
// with the session's next report, and its effect here with the one after that.
type farTraffic struct {
	c      *client.Client
	id     string
	index  int
	unit   string
	apart  []string // operations that the objective has conditions on
	name   string
	before api.MirrorTarget
	spread time.Duration

	asked      time.Time // when it was last borrowed
	lastAnswer time.Time // of it
	last       *api.MirrorSeen
	late       uint64
	now        func() time.Time
}

// newFarTraffic borrows a session that runs, until close.
func newFarTraffic(ctx context.Context, c *client.Client, id, candidate, unit string, apart []string) (*farTraffic, error) {
	x, err := c.Session(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case x.Mirror == nil:
		return nil, fmt.Errorf("session %s is not a mirror session (hint: tailscope session list --kind mirror)", id)
	case x.State != "running":
		return nil, fmt.Errorf("mirror session %s is %s (hint: a search needs one that runs)", id, x.State)
	case x.Mirror.Seen != nil:
		return nil, fmt.Errorf("somebody searches on mirror session %s already (hint: wait until that has ended)", id)
	}
	i, err := candidateOf(x.Mirror, candidate)
	if err != nil {
		return nil, err
	}
	t := &farTraffic{c: c, id: id, index: i, unit: unit, apart: apart, before: x.Mirror.Shadows[i], late: x.Mirror.Shadows[i].Late, now: time.Now}
	t.name, t.spread = t.before.Name, time.Duration(float64(x.Mirror.Settings.Spread)*1e9)
	if err := t.change(ctx, nil, leaseSeconds); err != nil {
		return nil, err
	}
	for wait := time.NewTimer(borrowWithin); ; {
		s, err := t.sample(ctx)
		if err != nil {
			wait.Stop()
			return nil, errors.Join(err, t.close(context.WithoutCancel(ctx)))
		}
		if !s.to.IsZero() {
			wait.Stop()
			return t, nil
		}
		select {
		case <-wait.C:
			return nil, errors.Join(fmt.Errorf("mirror session %s does not let itself be looked at (hint: is its program of this version?)", id), t.close(context.WithoutCancel(ctx)))
		case <-ctx.Done():
			wait.Stop()
			return nil, errors.Join(ctx.Err(), t.close(context.WithoutCancel(ctx)))
		case <-time.After(t.every()):
		}
	}
}

// borrowWithin bounds the time until a session confirms that it is sampled.
const borrowWithin = 8 * time.Second

func (t *farTraffic) change(ctx context.Context, s *api.ShadowChange, look int) error {
	change := api.MirrorChange{Look: &look}
	if look > 0 {
		change.Apart = t.apart
	}
	if s != nil {
		change.Shadows = map[string]api.ShadowChange{t.name: *s}
	}
	t.asked = t.now()
	wanted, err := t.c.ChangeSession(ctx, t.id, change)
	if err != nil {
		return fmt.Errorf("mirror session %s: %w", t.id, err)
	}
	if s == nil && look > 0 {
		return nil // it only goes on
	}
	limit := time.NewTimer(borrowWithin)
	defer limit.Stop()
	for {
		x, err := t.c.Session(ctx, t.id)
		if err != nil {
			return fmt.Errorf("mirror session %s: %w", t.id, err)
		}
		if x.State == "ended" || x.Mirror != nil && x.Mirror.Applied >= wanted.Number {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return fmt.Errorf("mirror session %s has not done what was asked for within %v", t.id, borrowWithin)
		case <-time.After(t.every() / 4):
		}
	}
}

func (t *farTraffic) set(ctx context.Context, x float64) error {
	s := changeTo(t.unit, x)
	return t.change(ctx, &s, leaseSeconds)
}

func (t *farTraffic) rest(ctx context.Context) error {
	using, amplify := t.before.Using, t.before.Amplify
	return t.change(ctx, &api.ShadowChange{Using: &using, Amplify: &amplify}, leaseSeconds)
}

// close gives the session back, as it was.
func (t *farTraffic) close(ctx context.Context) error { return t.change(ctx, nil, 0) }

// sample asks the server. A sight without times has nothing new.
func (t *farTraffic) sample(ctx context.Context) (sight, error) {
	if t.now().Sub(t.asked) > leaseSeconds*time.Second/3 {
		_ = t.change(ctx, nil, leaseSeconds) // if that goes wrong asking does too
	}
	x, err := t.c.Session(ctx, t.id)
	if err != nil && ctx.Err() == nil && t.now().Sub(t.lastAnswer) < leaseSeconds*time.Second/2 {
		return sight{}, nil // the server may be back before the session is
	}
	if err != nil {
		return sight{}, fmt.Errorf("mirror session %s: %w", t.id, err)
	}
	t.lastAnswer = t.now()
	if x.State != "running" || x.Mirror == nil {
		return sight{}, fmt.Errorf("mirror session %s is %s", t.id, x.State)
	}
	seen := x.Mirror.Seen
	switch {
	case seen == nil && t.last == nil:
		return sight{}, nil // the session has not got the change yet
	case seen == nil || t.last != nil && seen.Since != t.last.Since:
		return sight{}, fmt.Errorf("mirror session %s was given back: it was out of reach for %d s, and its pools and copies are as before", t.id, leaseSeconds)
	case len(seen.Targets) != 1+len(x.Mirror.Shadows) || t.index >= len(x.Mirror.Shadows):
		return sight{}, fmt.Errorf("mirror session %s has other shadows than before", t.id)
	}
	for _, operation := range t.apart {
		if _, ok := seen.Targets[0].Operations[operation]; !ok {
			return sight{}, fmt.Errorf("mirror session %s does not tell of %s (hint: is its program of this version?)", t.id, operation)
		}
	}
	if t.last == nil {
		t.last = seen
		return sight{}, nil
	}
	if seen.At == t.last.At {
		return sight{}, nil
	}
	s := sight{from: unixTime(t.last.At), to: unixTime(seen.At)}
	late := x.Mirror.Shadows[t.index].Late
	s.late, t.late = late-t.late, late
	if s.primary, err = between(&t.last.Targets[0], &seen.Targets[0]); err == nil {
		s.candidate, err = between(&t.last.Targets[1+t.index], &seen.Targets[1+t.index])
	}
	if err != nil {
		return sight{}, fmt.Errorf("mirror session %s: %w", t.id, err)
	}
	t.last = seen
	return s, nil
}

func (t *farTraffic) every() time.Duration { return 200 * time.Millisecond }

func (t *farTraffic) shadow() *api.MirrorTarget { return &t.before }

func (t *farTraffic) settlingTime() time.Duration { return t.spread }

// within covers a report that shows the overload, one that fetches the change, and
// the network.
func (t *farTraffic) within() time.Duration { return time.Second }

// between returns what was seen of a target between two times: operations that are
// counted apart by their names, and all others together under no name.
func between(a, b *api.MirrorSight) (observe.Target, error) {
	t := observe.Target{Seen: map[string]*observe.Seen{}, Under: map[string]observe.Under{}}
	rest, err := grewTo(a, b)
	if err != nil {
		return t, err
	}
	under := underOf(b)
	for name, now := range b.Operations {
		before := a.Operations[name]
		s, err := grewTo(&before, &now)
		if err == nil {
			err = rest.Without(s)
		}
		if err != nil {
			return t, fmt.Errorf("%s: %w", b.Name, err)
		}
		u := underOf(&now)
		under.N, under.Waits = under.N-u.N, under.Waits-u.Waits
		t.Seen[name], t.Under[name] = s, u
	}
	t.Seen[""], t.Under[""] = rest, under
	return t, nil
}

func underOf(s *api.MirrorSight) observe.Under {
	return observe.Under{N: s.UnderWay, Waits: s.Waiting, Oldest: time.Duration(float64(s.Oldest) * 1e9)}
}

// grewTo returns what was added to a sight between a and b.
func grewTo(a, b *api.MirrorSight) (*observe.Seen, error) {
	s := &observe.Seen{
		Begun: b.Begun - a.Begun, Ended: b.Ended - a.Ended, Errors: b.Errors - a.Errors, Refused: b.Refused - a.Refused, Lost: b.Lost - a.Lost,
	}
	var err error
	for _, d := range []struct {
		to   **hist.Histogram
		a, b []byte
	}{{&s.Latency, a.Latency, b.Latency}, {&s.Service, a.Service, b.Service}, {&s.Failed, a.Failed, b.Failed}} {
		if *d.to, err = grown(d.a, d.b); err != nil {
			return nil, fmt.Errorf("what it has seen of %s: %w", b.Name, err)
		}
	}
	return s, nil
}

// grown returns the growth of an encoded distribution.
func grown(before, now []byte) (*hist.Histogram, error) {
	h, old := hist.New(hist.DefaultSchema), hist.New(hist.DefaultSchema)
	if len(now) > 0 {
		if err := h.UnmarshalBinary(now); err != nil {
			return nil, err
		}
	}
	if len(before) > 0 {
		if err := old.UnmarshalBinary(before); err != nil {
			return nil, err
		}
	}
	if err := h.Subtract(old); err != nil {
		return nil, err
	}
	return h, nil
}

func unixTime(s api.Float) time.Time { return time.UnixMicro(int64(float64(s) * 1e6)) }

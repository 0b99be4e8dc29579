package capacity

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/capacity/objective"
	"tailscope/internal/experiment/capacity/search"
	"tailscope/internal/experiment/mirror"
	"tailscope/internal/experiment/mirror/observe"
)

// playedTraffic is live traffic of 100 requests a second to a candidate that does 400
// copies a second with each of its servers: what is beyond that queues.
type playedTraffic struct {
	before api.MirrorTarget
	unit   string
	x      float64
	last   time.Time
	queue  float64 // copies
	r      *rand.Rand

	silent  bool
	fails   time.Time // when looking begins to fail; zero: never
	primary time.Duration
	rests   []float64 // X when rest was called
	closed  int
}

func newPlayed(unit string, servers int) *playedTraffic {
	t := &playedTraffic{unit: unit, last: time.Now(), r: rand.New(rand.NewPCG(1, 2)), primary: 5 * time.Millisecond}
	t.before = api.MirrorTarget{Name: "new", Using: servers, Amplify: 1, Servers: make([]api.MirrorServer, servers)}
	t.x = t.atRest()
	return t
}

func (t *playedTraffic) atRest() float64 {
	if t.unit == Servers {
		return float64(t.before.Using)
	}
	return float64(t.before.Amplify)
}

func (t *playedTraffic) set(_ context.Context, x float64) error {
	t.x = x
	return nil
}

func (t *playedTraffic) rest(context.Context) error {
	t.rests = append(t.rests, t.x)
	t.x = t.atRest()
	return nil
}

func (t *playedTraffic) close(context.Context) error {
	t.closed++
	return nil
}

var errEnded = errors.New("it is gone")

func (t *playedTraffic) sample(context.Context) (sight, error) {
	now := time.Now()
	if !t.fails.IsZero() && now.After(t.fails) {
		return sight{}, errEnded
	}
	s := sight{from: t.last, to: now, candidate: seenTarget(), primary: seenTarget()}
	took := now.Sub(t.last).Seconds()
	t.last = now
	if t.silent {
		return s, nil
	}
	live := 100 * took
	add(&s.primary, live, func() time.Duration { return t.primary })
	s.primary.Seen["GET /"].Begun = uint64(live)
	copies, can := live, 400*took
	if t.unit == Copies {
		copies *= t.x
	} else {
		copies, can = 12*live, can*t.x
	}
	done := min(t.queue+copies, can)
	t.queue += copies - done
	wait := time.Duration(t.queue / can * took * 1e9)
	load := copies / can
	service := func() time.Duration { // as M/M/1 has it, and what waits before
		return wait + time.Duration(5e6*t.r.ExpFloat64()/max(1-load, 0.1))
	}
	add(&s.candidate, done, service)
	s.candidate.Under["GET /"] = observe.Under{N: uint64(t.queue), Waits: uint64(t.queue), Oldest: wait}
	return s, nil
}

func seenTarget() observe.Target {
	return observe.Target{Seen: map[string]*observe.Seen{"GET /": observe.NewSeen()}, Under: map[string]observe.Under{}}
}

func add(t *observe.Target, n float64, took func() time.Duration) {
	s := t.Seen["GET /"]
	for range int(math.Round(n)) {
		s.Ended++
		_ = s.Latency.RecordNanos(int64(took()), 1)
		_ = s.Service.RecordNanos(int64(time.Millisecond), 1)
	}
}

func (t *playedTraffic) every() time.Duration        { return 100 * time.Millisecond }
func (t *playedTraffic) within() time.Duration       { return 200 * time.Millisecond }
func (t *playedTraffic) settlingTime() time.Duration { return time.Second }
func (t *playedTraffic) shadow() *api.MirrorTarget   { return &t.before }

// searchPlayed searches on played traffic, in no time.
func searchPlayed(t *testing.T, ctx context.Context, p *playedTraffic, text string, lowest, highest float64) *api.Capacity {
	t.Helper()
	o, err := objective.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	l := &Live{t: p, o: o, unit: p.unit, bounds: DefaultBounds(), batches: newBatcher(o), quiet: 10 * time.Second, now: time.Now, lastRequest: time.Now()}
	l.usage = func(from, to time.Time) (float64, map[string]float64) {
		if !to.After(from) {
			t.Errorf("what was used from %v to %v", from, to)
		}
		return 0.25, map[string]float64{"target cpu_cores": 0.25}
	}
	run := Options{Search: search.Options{Lowest: lowest, Highest: highest}}
	l.Options(&run)
	c, err := Run(ctx, l, run)
	if err != nil {
		t.Fatal(err)
	}
	if p.closed != 1 || p.x != p.atRest() || !c.Restored {
		t.Errorf("after the search: %v %s, given back %d times, restored %v", p.x, p.unit, p.closed, c.Restored)
	}
	return c
}

func TestLiveCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlayed(Copies, 1)
		c := searchPlayed(t, t.Context(), p, "p99 < 200ms and primary p99 < 50ms", 1, 32)
		if c.Verdict != search.Found || c.Failed != "" || c.Mode != "mirror" || c.Unit != "copies" || c.Arrivals != "live" {
			t.Fatalf("%s %s %s %s: %s", c.Verdict, c.Failed, c.Mode, c.Unit, c.Headline)
		}
		// 99 % wait less than 5 ms · ln 100 / (1 − load), which is 200 ms at 0.885 of 400.
		if v := float64(c.Answer.Value); v < 3.4 || v > 3.68 {
			t.Errorf("%v copies, want about 3.54: %s", v, c.Headline)
		}
		if r := float64(c.Answer.Rate); r < 340 || r > 368 {
			t.Errorf("%v requests/s at the answer, want about 354", r)
		}
		stopped := 0
		for _, s := range c.Steps {
			if float64(s.X) > 6 && s.Stopped == "" {
				t.Errorf("%v copies were borne to the end: %+v", s.X, s.Objectives)
			}
			if s.Stopped != "" {
				stopped++
				if s.Kept != search.Broken || float64(s.StoppedAfter) > 0.2 || float64(s.X) > 6 && float64(s.End)-float64(s.Start) > 3 {
					t.Errorf("%s at %v copies, stopped after %v s", s.Kept, s.X, s.StoppedAfter)
				}
			}
			if s.CPU != 0.25 || s.Resources["target cpu_cores"] != 0.25 {
				t.Errorf("%v cores, %v at %v copies", s.CPU, s.Resources, s.X)
			}
			if n := float64(s.Concurrency); s.Valid && !(n > 0) || len(s.Slots) == 0 || len(s.Slots[0].Counts) != len(c.Bounds)-1 {
				t.Errorf("a step of concurrency %v with %d slots", n, len(s.Slots))
			}
		}
		if stopped == 0 || len(c.Events) != stopped {
			t.Errorf("%d steps were stopped, %d events", stopped, len(c.Events))
		}
	})
}

func TestLiveServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlayed(Servers, 11)
		c := searchPlayed(t, t.Context(), p, "p99 < 200ms", 1, 11)
		if c.Verdict != search.Found || c.Mode != "servers" || c.Unit != "servers" {
			t.Fatalf("%s %s %s: %s", c.Verdict, c.Mode, c.Unit, c.Headline)
		}
		// 1,200 copies a second need three servers with nothing to spare.
		if v := float64(c.Answer.Value); v != 4 {
			t.Errorf("%v servers, want 4: %s", v, c.Headline)
		}
		for _, s := range c.Steps {
			if s.X != api.Float(math.Trunc(float64(s.X))) || s.X < 1 || s.X > 11 {
				t.Errorf("a step of %v servers", s.X)
			}
		}
	})
}

// The primary's clients are protected by a condition of their own.
func TestLiveProtectsThePrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlayed(Copies, 1)
		p.primary = 80 * time.Millisecond
		c := searchPlayed(t, t.Context(), p, "p99 < 200ms and primary p99 < 50ms", 1, 32)
		if c.Verdict != search.Below || c.Answer.Limit != "primary p99 < 50ms" {
			t.Errorf("%s: %s", c.Verdict, c.Headline)
		}
	})
}

// However a search ends, everything is as it was.
func TestLiveEnds(t *testing.T) {
	for name, f := range map[string]struct {
		do   func(p *playedTraffic, cancel context.CancelFunc)
		want string
	}{
		"interrupted":  {func(_ *playedTraffic, cancel context.CancelFunc) { time.AfterFunc(7*time.Second, cancel) }, "it was ended"},
		"session gone": {func(p *playedTraffic, _ context.CancelFunc) { p.fails = time.Now().Add(9 * time.Second) }, "it is gone"},
		"nobody there": {func(p *playedTraffic, _ context.CancelFunc) { p.silent = true }, "no live requests came"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				p := newPlayed(Copies, 1)
				f.do(p, cancel)
				begun := time.Now()
				c := searchPlayed(t, ctx, p, "p99 < 200ms", 1, 32)
				if !strings.Contains(c.Failed, f.want) || c.End != c.End {
					t.Errorf("failed: %q", c.Failed)
				}
				if took := time.Since(begun); took > 15*time.Second {
					t.Errorf("ended after %v", took)
				}
			})
		})
	}
}

// What cannot be asked of a session is said before anything is changed.
func TestLiveCheck(t *testing.T) {
	one, three := make([]api.MirrorServer, 1), make([]api.MirrorServer, 3)
	for _, c := range []struct {
		unit, candidate, objective string
		mode                       string
		near                       bool
		shadows                    []api.MirrorTarget
		highest                    float64
		want                       string
	}{
		{Copies, "", "p99 < 1s", "http", true, []api.MirrorTarget{{Name: "a", Role: "candidate", Servers: one}}, 300, "300 copies of each request cannot be sent"},
		{Servers, "", "p99 < 1s", "http", true, []api.MirrorTarget{{Name: "a", Role: "candidate", Servers: three}}, 11, "the pool of a has 3 servers, not 11"},
		{Servers, "", "p99 < 1s", "http", true, []api.MirrorTarget{{Name: "a", Role: "candidate", Servers: one}}, 1, "none can be taken away"},
		{Copies, "", "p99 < 1s", "tcp", true, []api.MirrorTarget{{Name: "a", Role: "candidate", Servers: one}}, 3, "knows of no requests"},
		{Copies, "", "p99 < 1s", "http", true, []api.MirrorTarget{{Name: "a", Role: "candidate"}, {Name: "b", Role: "candidate"}}, 3, "name one of a, b"},
		{Copies, "c", "p99 < 1s", "http", true, []api.MirrorTarget{{Name: "a", Role: "candidate"}}, 3, `no shadow "c"`},
		{Copies, "", "p99 < 1s", "http", true, []api.MirrorTarget{{Name: "a", Role: "control"}}, 3, "no candidate"},
		{Requests, "", "p99 < 1s", "http", false, []api.MirrorTarget{{Name: "a", Role: "candidate", Servers: one}}, 3, "where the mirror runs"},
		{Copies, "", "p99{GET /} < 1s", "http", false, []api.MirrorTarget{{Name: "a", Role: "candidate", Servers: one}}, 3, ""},
		{Copies, "b", "p99{GET /} < 1s", "http", true, []api.MirrorTarget{{Name: "a", Role: "candidate", Servers: one}, {Name: "b", Role: "candidate", Servers: one}}, 3, ""},
	} {
		o, err := objective.Parse(c.objective)
		if err != nil {
			t.Fatal(err)
		}
		l := LiveOptions{Objective: o, Unit: c.unit, Candidate: c.candidate}
		if c.near {
			l.Session = &mirror.Session{}
		}
		err = l.Check(&api.MirrorState{Mode: c.mode, Shadows: c.shadows}, c.highest)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A moment in which the mirror itself did not run says nothing of the candidate: what
// waited meanwhile is left out, and the step is as long as any other.
func TestLivePause(t *testing.T) {
	at := time.Now()
	p := pause{most: 250 * time.Millisecond}
	see := func(took time.Duration, oldest time.Duration) bool {
		s := sight{from: at, to: at.Add(took), candidate: seenTarget()}
		s.candidate.Under["GET /"] = observe.Under{N: 1, Oldest: oldest}
		at = s.to
		return p.missed(&s, 200*time.Millisecond)
	}
	ms := time.Millisecond
	for i, c := range []struct {
		took, oldest time.Duration
		want         bool
	}{
		{100 * ms, 300 * ms, false}, // old, and looked at all the time
		{400 * ms, 300 * ms, true},
		{100 * ms, 300 * ms, true}, // what waited meanwhile
		{100 * ms, 50 * ms, false},
		{100 * ms, 300 * ms, false},
		{300 * ms, 0, true},
		{250 * ms, 900 * ms, true},
		{100 * ms, 900 * ms, true},
		{100 * ms, 900 * ms, true},
		{100 * ms, 900 * ms, false}, // that is no pause any more
	} {
		if got := see(c.took, c.oldest); got != c.want {
			t.Errorf("look %d: missed %v", i, got)
		}
	}
	if p.n != 2 {
		t.Errorf("%d pauses", p.n)
	}
}

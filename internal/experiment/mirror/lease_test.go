package mirror

import (
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/hist"
)

func pointer[T any](v T) *T { return &v }

// Whoever has a session looked at sees what happened, may change pools and copies,
// and leaves them as they were, whether it says that it is done or goes away.
func TestLease(t *testing.T) {
	primary, one, two := newBackend(t, "h1", newAnswers()), newBackend(t, "h1", newAnswers()), newBackend(t, "h1", newAnswers())
	s := newSession(t, "h1", primary.URL, func(o *Options) {
		o.Candidates = []Pool{{Servers: []string{one.URL, two.URL}}}
		o.Amplify = 2
		o.Spread = 0
	})
	c := newClient(t, "h1", s.Addr().String())
	get := func(n int) {
		t.Helper()
		for range n {
			r, err := c.Get("http://" + s.Addr().String() + "/")
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
		}
	}
	apply := func(c api.MirrorChange) {
		t.Helper()
		if err := s.Apply(c); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(using int, amplify float64) {
		t.Helper()
		if x := s.State().Shadows[0]; x.Using != using || float64(x.Amplify) != amplify {
			t.Errorf("%d servers and %v copies, want %d and %v", x.Using, x.Amplify, using, amplify)
		}
	}
	get(2)
	// Their copies end before anybody looks.
	waitFor(t, func() bool { return s.ledger.Stats().Open == 0 }, func() any { return s.ledger.Stats() })
	if seen := s.State().Seen; seen != nil {
		t.Errorf("nobody looks, and it has seen %+v", seen)
	}
	apply(api.MirrorChange{Look: pointer(10), Apart: []string{"GET /", "GET /never"}, Shadows: map[string]api.ShadowChange{"candidate": {Using: pointer(1), Amplify: pointer(api.Float(3))}}})
	holds(1, 3)
	if e := s.reportsEvery(); e != sampleEvery {
		t.Errorf("reports every %v while it is looked at", e)
	}
	get(4)
	var seen *api.MirrorSeen
	waitFor(t, func() bool {
		seen = s.State().Seen
		return seen != nil && seen.Targets[0].Ended == 4 && seen.Targets[1].Ended == 12
	}, func() any { return seen })
	h := hist.New(hist.DefaultSchema)
	if p := seen.Targets[0]; p.Name != "primary" || p.Begun != 4 || p.Errors != 0 || p.UnderWay != 0 || h.UnmarshalBinary(p.Latency) != nil || h.Count != 4 {
		t.Errorf("the primary: %+v, %d latencies", p, h.Count)
	}
	if x := seen.Targets[1]; x.Name != "candidate" || h.UnmarshalBinary(x.Service) != nil || h.Count != 12 || x.Failed != nil {
		t.Errorf("the candidate: %+v, %d times of service", x, h.Count)
	}
	for i, want := range []uint64{4, 12} {
		of := seen.Targets[i].Operations
		if len(of) != 2 || of["GET /"].Ended != want || of["GET /never"].Ended != 0 || h.UnmarshalBinary(of["GET /"].Latency) != nil || h.Count != want {
			t.Errorf("target %d by operation: %+v", i, of)
		}
	}
	if _, err := s.NewSampler(); err != ErrSampled {
		t.Errorf("a second one who looks: %v", err)
	}
	// Asked again, it goes on; nothing is forgotten.
	apply(api.MirrorChange{Look: pointer(20)})
	s.giveBack(time.Now().Add(15 * time.Second))
	holds(1, 3)
	if n := s.State().Seen.Targets[1].Ended; n != 12 {
		t.Errorf("%d copies are remembered", n)
	}
	apply(api.MirrorChange{Look: pointer(0)})
	holds(2, 2)
	if s.State().Seen != nil || s.reportsEvery() != reportEvery {
		t.Error("it is still looked at")
	}

	apply(api.MirrorChange{Look: pointer(10), Shadows: map[string]api.ShadowChange{"candidate": {Using: pointer(1)}}})
	if n := s.State().Seen.Targets[0].Begun; n != 0 {
		t.Errorf("another one who looks sees %d requests of before", n)
	}
	s.giveBack(time.Now().Add(11 * time.Second))
	holds(2, 2)
	if s.State().Seen != nil {
		t.Error("nobody asked again, and it is still looked at")
	}

	l, err := s.NewSampler()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(api.MirrorChange{Look: pointer(10)}); err == nil || !strings.Contains(err.Error(), "look: somebody looks") {
		t.Errorf("a search from outside beside one from inside: %v", err)
	}
	l.Close()
}

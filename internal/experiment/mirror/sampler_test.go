package mirror

import (
	"net/http"
	"testing"
	"time"

	"tailscope/api"
)

// A session is looked at while requests and copies are under way, after they have
// ended, and no more.
func TestSampler(t *testing.T) {
	hold := make(chan struct{})
	slow := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { <-hold })
	primary, candidate := newBackend(t, "h1", newAnswers()), newBackend(t, "h1", slow)
	s := newSession(t, "h1", primary.URL, func(o *Options) {
		o.Candidates = []Pool{{Servers: []string{candidate.URL}}}
		o.Connections = 2
		o.Amplify, o.Spread = 3, 0
	})
	l, err := s.NewSampler()
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, "h1", s.Addr().String())
	r, err := c.Get("http://" + s.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	begun, ended := uint64(0), uint64(0)
	var sample Sample
	waitFor(t, func() bool {
		sample = l.Sample()
		p := sample.Primary.All()
		begun, ended = begun+p.Begun, ended+p.Ended
		u := sample.Shadows[0].AllUnder()
		return begun == 1 && ended == 1 && u.N == 3 && u.Waits == 1
	}, func() any { return sample })
	if n := s.Shed(0); n != 1 {
		t.Errorf("%d copies were shed, want the one that waits", n)
	}
	close(hold)
	var answered uint64
	waitFor(t, func() bool {
		sample = l.Sample()
		answered += sample.Shadows[0].All().Ended
		return answered == 2
	}, func() any { return sample })
	if sample.At.Before(sample.Since) || time.Since(sample.At) > time.Minute {
		t.Errorf("a look from %v to %v", sample.Since, sample.At)
	}
	l.Close()
	one := api.Float(1)
	if err := s.Apply(api.MirrorChange{Shadows: map[string]api.ShadowChange{"candidate": {Amplify: &one}}}); err != nil {
		t.Fatal(err)
	}
	if r, err = c.Get("http://" + s.Addr().String() + "/"); err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if p := l.Sample().Primary; len(p.Seen) != 0 {
		t.Errorf("nobody looks, and there is %+v", p)
	}
}

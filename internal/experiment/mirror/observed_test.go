package mirror

import (
	"net/http"
	"testing"
	"time"

	"tailscope/api"
)

// A session is looked at while requests and copies are under way, after they have
// ended, and no more.
func TestLooker(t *testing.T) {
	hold := make(chan struct{})
	slow := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { <-hold })
	primary, candidate := newBackend(t, "h1", newAnswers()), newBackend(t, "h1", slow)
	s := newSession(t, "h1", primary.URL, func(o *Options) {
		o.Candidates = []Pool{{Servers: []string{candidate.URL}}}
		o.Connections = 2
		o.Amplify, o.Spread = 3, 0
	})
	l, err := s.Looker()
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
	var look Look
	waitFor(t, func() bool {
		look = l.Look()
		p := look.Primary.All()
		begun, ended = begun+p.Begun, ended+p.Ended
		u := look.Shadows[0].AllUnder()
		return begun == 1 && ended == 1 && u.N == 3 && u.Waits == 1
	}, func() any { return look })
	if n := s.Shed(0); n != 1 {
		t.Errorf("%d copies were shed, want the one that waits", n)
	}
	close(hold)
	var answered uint64
	waitFor(t, func() bool {
		look = l.Look()
		answered += look.Shadows[0].All().Ended
		return answered == 2
	}, func() any { return look })
	if look.At.Before(look.Since) || time.Since(look.At) > time.Minute {
		t.Errorf("a look from %v to %v", look.Since, look.At)
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
	if p := l.Look().Primary; len(p.Seen) != 0 {
		t.Errorf("nobody looks, and there is %+v", p)
	}
}

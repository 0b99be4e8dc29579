package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/mirror/choose"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/listen"
)

// ledger is a sink that adds up what it is given.
type ledger struct {
	mu     sync.Mutex
	counts map[string]float64 // by family, variant and outcome; distributions by their counts
}

func (l *ledger) Put(_ context.Context, points []pair.Point) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts = map[string]float64{}
	}
	for _, p := range points {
		key := strings.TrimSpace(strings.Join([]string{p.Family, p.Labels.Get("variant"), p.Labels.Get("against"), p.Labels.Get("outcome")}, " "))
		key = strings.Join(strings.Fields(key), " ")
		if p.Hist != nil {
			l.counts[key] += float64(p.Hist.Count)
		} else {
			l.counts[key] += p.Value
		}
	}
	return nil
}

func (l *ledger) of(key string) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[key]
}

// closes checks the identities of an account.
func closes(t *testing.T, a *api.MirrorAccount) {
	t.Helper()
	sum := func(m map[string]uint64) (n uint64) {
		for _, v := range m {
			n += v
		}
		return n
	}
	if a.Offered != a.Queued+sum(a.Dropped)+a.Mirrored || a.Mirrored != a.Waiting+sum(a.Failed)+a.Answered || a.Answered != a.Pairing+a.Paired+a.Unpaired {
		t.Errorf("the account does not close: %+v", a)
	}
}

// TestCopies has requests of every kind copied to a control and a candidate that
// speak what the primary speaks.
func TestCopies(t *testing.T) {
	for _, to := range protocols {
		for _, from := range []string{"h1", "h2-tls"} { // TLS makes no other copies
			t.Run(from+" to "+to, func(t *testing.T) {
				primary, control, candidate := newBackend(t, to, newAnswers()), newBackend(t, to, &collector{}), &collector{}
				taker := newBackend(t, to, candidate)
				sink := &ledger{}
				s := newSession(t, from, primary.URL, func(o *Options) {
					o.Control = []string{control.URL}
					o.Candidates = []Pool{{Name: "new", Servers: []string{taker.URL}}}
					o.Unsafe = true
					o.Sink = sink
					o.Tenant = "header:X-Tenant"
					o.BodyLimit = 8 << 20
					o.Rewrites = []string{"^/=/new/"}
					o.SetHeaders = []string{"X-Copy: 1"}
					o.DropHeaders = []string{"Cookie"}
				})
				c := newClient(t, from, s.Addr().String())
				n := 0
				for _, a := range asks {
					if strings.HasPrefix(a.name, "expect, refused") {
						continue // the body may or may not be sent
					}
					n++
					if _, err := a.do(t, c, schemeOf(from)); err != nil {
						t.Fatalf("%s: %v", a.name, err)
					}
				}
				waitFor(t, func() bool {
					st := s.State()
					return st.Shadows[0].Account.Paired == uint64(n) && st.Shadows[1].Account.Paired == uint64(n)
				}, func() any {
					st := s.State()
					return []any{n, st.Requests, st.Failed, st.Shadows[0].Account, st.Shadows[1].Account}
				})
				st := s.State()
				if n := st.Primary.Servers[0].Connections; n == 0 {
					t.Error("no connection to the primary is counted")
				}
				for _, sh := range st.Shadows {
					closes(t, sh.Account)
				}
				c.CloseIdleConnections()
				if err := s.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := sink.of("mirror_duration_seconds new"); got != float64(n) {
					t.Errorf("got %v durations of the candidate, want %d: %v", got, n, sink.counts)
				}
				candidate.check(t)
			})
		}
	}
}

// collector is a candidate that remembers what it was sent.
type collector struct {
	mu   sync.Mutex
	seen []seen
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := see(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, s)
}

// check compares what came with what was asked.
func (c *collector) check(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.seen {
		if s.Header.Get(markField) == "" || !strings.Contains(s.Header.Get(markField), "; variant=new; copy=0") {
			t.Errorf("%s %s carries no mark: %v", s.Method, s.Target, s.Header)
		}
		if !strings.HasPrefix(s.Target, "/new/") || s.Header.Get("X-Copy") != "1" || s.Header.Get("Cookie") != "" {
			t.Errorf("%s %s is not rewritten: %v", s.Method, s.Target, s.Header)
		}
		if s.Host != "shop.test" {
			t.Errorf("host %q", s.Host)
		}
	}
	for _, a := range asks {
		if a.name != "post with trailers" {
			continue
		}
		want := fmt.Sprintf("%d bytes", len(a.body))
		found := false
		for _, s := range c.seen {
			found = found || strings.HasPrefix(s.Body, want) && s.Trailer.Get("X-Sum") == "7" && len(s.Trailer["X-More"]) == 2
		}
		if !found {
			t.Errorf("no copy has the trailers")
		}
	}
}

// TestApply changes a session while it runs.
func TestApply(t *testing.T) {
	primary := newBackend(t, "h1", newAnswers())
	taker := &collector{}
	pool := []string{newBackend(t, "h1", taker).URL, newBackend(t, "h1", taker).URL}
	s := newSession(t, "h1", primary.URL, func(o *Options) { o.Candidates = []Pool{{Servers: pool}} })
	c := newClient(t, "h1", s.Addr().String())
	get := func() {
		t.Helper()
		if _, err := (ask{method: "GET", target: "/bytes?n=1"}).do(t, c, "http"); err != nil {
			t.Fatal(err)
		}
	}
	float := func(f float64) *api.Float { v := api.Float(f); return &v }
	yes, one := true, 1
	apply := func(c api.MirrorChange, want string) {
		t.Helper()
		err := s.Apply(c)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", c, err, want)
		}
	}
	get()
	apply(api.MirrorChange{Number: 1, Paused: &yes}, "")
	get()
	if st := s.State(); st.Skipped["paused"] != 1 || !st.Settings.Paused || st.Applied != 1 {
		t.Errorf("not paused: %+v", st)
	}
	no := false
	apply(api.MirrorChange{Number: 1, Paused: &no}, "") // made already
	if st := s.State(); !st.Settings.Paused {
		t.Error("a change was made twice")
	}
	apply(api.MirrorChange{Number: 2, Paused: &no, Shadows: map[string]api.ShadowChange{"candidate": {Using: &one, Amplify: float(3)}}}, "")
	get()
	waitFor(t, func() bool { return s.State().Shadows[0].Account.Offered == 4 }, func() any { return s.State().Shadows[0].Account })
	if sh := s.State().Shadows[0]; sh.Using != 1 || sh.Amplify != 3 {
		t.Errorf("got %+v", sh)
	}
	three := 3
	apply(api.MirrorChange{Share: float(2)}, "share: 2 is not from 0 to 1")
	apply(api.MirrorChange{Shadows: map[string]api.ShadowChange{"x": {}}}, `none of the name "x"`)
	apply(api.MirrorChange{Shadows: map[string]api.ShadowChange{"candidate": {Using: &three}}}, "using: 3 is not from 0 to 2")
	apply(api.MirrorChange{Shadows: map[string]api.ShadowChange{"candidate": {Amplify: float(-1)}}}, "amplify: -1")
	apply(api.MirrorChange{Number: 3, Paused: &yes, Share: float(7)}, "share")
	if st := s.State(); st.Settings.Paused || st.Applied != 3 {
		t.Error("half of a wrong change was made")
	}
	apply(api.MirrorChange{Share: float(0)}, "")
	get()
	if st := s.State(); st.Skipped["share"] != 1 {
		t.Errorf("got %v", st.Skipped)
	}
	apply(api.MirrorChange{Stop: true}, "")
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
}

// fakeSession has no sockets, so that its clock can be a test's.
func fakeSession(t *testing.T, report func(context.Context, api.SessionReport) (api.SessionReply, error)) *Session {
	t.Helper()
	o := valid()
	o.Report, o.ID, o.Name = report, "s1", "a name"
	chooser, err := choose.New(o.chooseOptions())
	if err != nil {
		t.Fatal(err)
	}
	s := &Session{o: o, log: quiet(t), reported: make(chan struct{}), started: time.Now(), addr: &nowhere{}, clients: listen.Bound(nil, 1), primary: &primary{}, chooser: chooser, share: 1,
		ledger: pair.NewLedger(pair.Options{Service: o.Service, Experiment: o.ID})}
	s.stopping, s.stop = context.WithCancel(context.Background())
	return s
}

type nowhere struct{}

func (nowhere) Network() string { return "tcp" }
func (nowhere) String() string  { return "127.0.0.1:1" }

func TestReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		half, quarter := api.Float(0.5), api.Float(0.25)
		var got []string
		s := fakeSession(t, func(ctx context.Context, r api.SessionReport) (api.SessionReply, error) {
			if r.Kind != "mirror" || r.Name != "a name" || r.Service != "mirror" || r.Mirror == nil || float64(r.Start) != float64(began.UnixMilli())/1000 {
				t.Errorf("report %+v", r)
			}
			got = append(got, fmt.Sprintf("%v applied=%d share=%v ended=%v", time.Since(began), r.Mirror.Applied, r.Mirror.Settings.Share, r.Ended))
			switch n := len(got); n {
			case 2, 3: // repeated until it is seen to be made
				return api.SessionReply{Change: &api.MirrorChange{Number: 7, Share: &half}}, nil
			case 4:
				return api.SessionReply{}, errors.New("no route")
			case 5: // never answers
				<-ctx.Done()
				return api.SessionReply{}, ctx.Err()
			case 6:
				return api.SessionReply{Change: &api.MirrorChange{Number: 6, Share: &quarter}}, nil // an old one
			case 7:
				return api.SessionReply{Change: &api.MirrorChange{Number: 8, Stop: true}}, nil
			case 8:
				return api.SessionReply{}, errors.New("no route")
			}
			return api.SessionReply{}, nil
		})
		s.report(s.stopping)
		s.lastReport(t.Context())
		want := []string{
			"0s applied=0 share=1 ended=false",
			"1s applied=0 share=1 ended=false",
			"2s applied=7 share=0.5 ended=false",
			"3s applied=7 share=0.5 ended=false",
			"4s applied=7 share=0.5 ended=false",
			"9s applied=7 share=0.5 ended=false",
			"10s applied=7 share=0.5 ended=false",
			"10s applied=8 share=0.5 ended=true",
			"11s applied=8 share=0.5 ended=true",
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestNobodyTakesReports gives up on the last report, but not at once.
func TestNobodyTakesReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, tries := time.Now(), 0
		s := fakeSession(t, func(ctx context.Context, r api.SessionReport) (api.SessionReply, error) {
			tries++
			return api.SessionReply{}, errors.New("no route")
		})
		s.lastReport(t.Context())
		if d := time.Since(began); tries != 3 || d != 2*time.Second {
			t.Errorf("got %d tries in %v", tries, d)
		}
	})
}

// TestEnds has sessions end for each reason there is.
func TestEnds(t *testing.T) {
	primary := newBackend(t, "h1", newAnswers())
	t.Run("time", func(t *testing.T) {
		var last api.SessionReport
		s := newSession(t, "h1", primary.URL, func(o *Options) {
			away(o)
			o.For = 50 * time.Millisecond
			o.Report = func(_ context.Context, r api.SessionReport) (api.SessionReply, error) {
				last = r
				return api.SessionReply{}, nil
			}
		})
		if err := s.Wait(); err != nil || !last.Ended {
			t.Errorf("got %v, last report %+v", err, last)
		}
	})
	t.Run("with a request under way", func(t *testing.T) {
		h := newAnswers()
		slow := newBackend(t, "h1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.entered <- ""
			<-h.gone
			w.Write([]byte("whole"))
		}))
		s := newSession(t, "h2c", slow.URL, away)
		c := newClient(t, "h2c", s.Addr().String())
		answer := make(chan got, 1)
		go func() {
			g, err := (ask{method: "GET", target: "/"}).do(t, c, "http")
			if err != nil {
				t.Error(err)
			}
			answer <- g
		}()
		<-h.entered
		closed := make(chan error, 1)
		go func() { closed <- s.Close(context.Background()) }()
		<-s.stopping.Done()
		h.gone <- ""
		if g := <-answer; g.Body != "whole" {
			t.Errorf("got %+v", g)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
	t.Run("with a request that does not end", func(t *testing.T) {
		s := &Session{log: slog.New(slog.DiscardHandler)}
		if err := s.brokenOff(t.Context(), errors.Join(context.DeadlineExceeded, nil)); err != nil {
			t.Errorf("a session that ended as it was asked to failed: %v", err)
		}
		if err := s.brokenOff(t.Context(), io.ErrUnexpectedEOF); err != io.ErrUnexpectedEOF {
			t.Errorf("another error became %v", err)
		}
	})
	t.Run("cut short", func(t *testing.T) {
		h := newAnswers()
		stuck := newBackend(t, "h1", h)
		s := newSession(t, "h2c", stuck.URL, away)
		c := newClient(t, "h2c", s.Addr().String())
		failed := make(chan error, 1)
		go func() {
			_, err := (ask{method: "GET", target: "/hang"}).do(t, c, "http")
			failed <- err
		}()
		<-h.entered
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := s.Close(ctx); err == nil {
			t.Error("nobody is told that a request was broken off")
		}
		if err := <-failed; err == nil {
			t.Error("a request that was broken off came as whole")
		}
		<-h.gone
	})
}

//go:build servers

package capacity_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/config"
	"tailscope/internal/experiment/capacity"
	"tailscope/internal/experiment/capacity/objective"
	"tailscope/internal/experiment/capacity/search"
	"tailscope/internal/server"
)

// serving runs a whole server with a mirror session in it.
func serving(t *testing.T, primary, candidate string) (*server.Server, *client.Client) {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.OTLPGRPC, cfg.OTLPHTTP = t.TempDir(), "127.0.0.1:0", "", ""
	cfg.Mirror.Listen, cfg.Mirror.Primary, cfg.Mirror.Candidates = "127.0.0.1:0", primary, []string{candidate}
	s, err := server.Start(t.Context(), server.Settings{Config: cfg, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = s.Close(ctx)
	})
	return s, &client.Client{Address: s.Addr()}
}

// A search on a session that runs elsewhere sees that its candidate hangs, and has the
// load gone, through the server that knows of the session.
func TestAttached(t *testing.T) {
	primary, candidate := newAppServer(t, 64, always(2*time.Millisecond)), newAppServer(t, 64, always(5*time.Millisecond))
	srv, c := serving(t, primary.URL, candidate.URL)
	m := srv.Mirror()
	live := startClients(t, "http://"+m.Addr().String()+"/", 50)
	o, err := objective.Parse("p99{GET /} < 200ms and primary p99 < 1s")
	if err != nil {
		t.Fatal(err)
	}
	l, err := capacity.NewLive(t.Context(), capacity.LiveOptions{Client: c, ID: m.ID(), Unit: capacity.Copies, Objective: o})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := capacity.NewLive(t.Context(), capacity.LiveOptions{Client: c, ID: m.ID(), Unit: capacity.Copies, Objective: o}); err == nil {
		t.Error("two searches at a time on one session")
	}
	run := capacity.Options{Search: search.Options{Lowest: 4, Highest: 4.001, Step: 30 * time.Second, Discard: 10 * time.Second, Budget: 31 * time.Second}}
	l.Options(&run)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var hung, stopped time.Time
	run.Report = func(c *api.Capacity) {
		n := len(c.Steps)
		switch {
		case n == 0:
		case hung.IsZero() && float64(c.Steps[n-1].Asked) > 0:
			if x := m.State().Shadows[0]; x.Amplify != 4 {
				t.Errorf("%v copies in a step of 4", x.Amplify)
			}
			hung = time.Now()
			candidate.extra.Store(int64(3 * time.Second))
		case c.Steps[n-1].Stopped != "" && stopped.IsZero():
			stopped = time.Now()
			candidate.extra.Store(0)
			cancel()
		}
	}
	got, err := capacity.Run(ctx, l, run)
	if err != nil {
		t.Fatal(err)
	}
	if stopped.IsZero() {
		t.Fatalf("it was not stopped: %s", got.Headline)
	}
	step := stoppedStep(t, got)
	after := float64(step.StoppedAfter)
	t.Logf("stopped %v after it began to hang: %s; load gone %.3f s after that was seen", stopped.Sub(hung), step.Stopped, after)
	if d := stopped.Sub(hung); d > 3*time.Second || !(after < 1.5) {
		t.Errorf("stopped %v after it began to hang, gone after %v s", d, after)
	}
	if x := m.State().Shadows[0]; x.Amplify != 1 || !got.Restored {
		t.Errorf("%v copies after the search, restored %v %s", x.Amplify, got.Restored, got.RestoreError)
	}
	if seen := m.State().Seen; seen != nil {
		t.Errorf("the session was not given back: %+v", seen)
	}
	if n := live.failed.Load(); n > 0 {
		t.Errorf("%d of %d live requests failed", n, live.sent.Load())
	}
}

// A search that dies leaves nothing behind.
func TestSearchDies(t *testing.T) {
	primary, candidate := newAppServer(t, 64, always(2*time.Millisecond)), newAppServer(t, 64, always(5*time.Millisecond))
	srv, c := serving(t, primary.URL, candidate.URL)
	m := srv.Mirror()
	look, amplify := 2, api.Float(8)
	if _, err := c.ChangeSession(t.Context(), m.ID(), api.MirrorChange{Look: &look, Shadows: map[string]api.ShadowChange{"candidate": {Amplify: &amplify}}}); err != nil {
		t.Fatal(err)
	}
	holds := func(want api.Float, within time.Duration) {
		t.Helper()
		for end := time.Now().Add(within); m.State().Shadows[0].Amplify != want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%v copies, want %v", m.State().Shadows[0].Amplify, want)
			}
		}
	}
	holds(8, 3*time.Second)
	holds(1, 4*time.Second)
}

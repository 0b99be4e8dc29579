//go:build servers

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tailscope/test/program"
	"tailscope/test/sender"
)

// TestAgentKill kills an agent with SIGKILL under load again and again, and its server now
// and then, while the link between them loses answers. What the server counts in the end is
// held against what the agent acknowledged, round by round:
//
//	acknowledged ≤ counted ≤ acknowledged + in flight
func TestAgentKill(t *testing.T) {
	t.Parallel()
	const rounds, workers, spansEach = 8, 4, 20
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	srv := startIn(t, filepath.Join(dir, "server"))
	var to atomic.Pointer[url.URL]
	point := func(s *server) { to.Store(&url.URL{Scheme: "http", Host: s.OTLPHTTP}) }
	point(srv)
	var requests, lost atomic.Int64
	link := newLink(t, func(w http.ResponseWriter, r *http.Request) {
		proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to.Load()) }}
		if requests.Add(1)%4 == 0 { // delivered, and the answer is lost
			lost.Add(1)
			proxy.ServeHTTP(discard{http.Header{}}, r)
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	})
	type round struct{ acked, inFlight int64 }
	var all []round
	for n := range rounds {
		agent, err := program.StartAgent(t.Context(), filepath.Join(dir, "agent"), link, flushFlag)
		if err != nil {
			t.Fatal(err)
		}
		body := crashPayload(t, fmt.Sprintf("edge-%d", n), spansEach, 5)
		snd, err := sender.GRPC(agent.OTLPGRPC, sender.Traces)
		if err != nil {
			t.Fatal(err)
		}
		var started, done atomic.Int64
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for {
					started.Add(1)
					if snd.Send(t.Context(), body) != nil {
						return
					}
					done.Add(1)
				}
			})
		}
		pause(t, time.Duration(100+rng.IntN(900))*time.Millisecond)
		if n%3 == 1 {
			srv.Kill()
			srv = startIn(t, filepath.Join(dir, "server"))
			point(srv)
		}
		agent.Kill()
		wg.Wait()
		_ = snd.Close()
		all = append(all, round{done.Load(), started.Load() - done.Load()})
	}
	agent, err := program.StartAgent(t.Context(), filepath.Join(dir, "agent"), link, flushFlag)
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Kill()
	srv.start = time.Now().Add(-10 * time.Minute)
	var problem string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); pause(t, 200*time.Millisecond) {
		problem = ""
		for n, r := range all {
			got := int64(srv.count("span_duration_seconds", fmt.Sprintf(`{service="edge-%d"}`, n)))
			if got < r.acked*spansEach || got > (r.acked+r.inFlight)*spansEach || got%spansEach != 0 {
				problem += fmt.Sprintf("round %d: %d spans counted, %d acknowledged, %d in flight\n", n, got, r.acked*spansEach, r.inFlight*spansEach)
			}
		}
		if problem == "" {
			break
		}
	}
	if problem != "" {
		t.Fatalf("%sagent log:\n%s", problem, tail(agent.Log(), 40))
	}
	var acked int64
	for _, r := range all {
		acked += r.acked * spansEach
	}
	if acked == 0 || lost.Load() == 0 {
		t.Errorf("nothing was tried: %d acknowledged, %d answers lost", acked, lost.Load())
	}
	t.Logf("%d kills: %d spans acknowledged, each counted once; %d requests on the link, %d answers lost", rounds, acked, requests.Load(), lost.Load())
}

// newLink serves on a port of its own until the test ends, and returns its address.
func newLink(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimRight(s.URL, "/")
}

// discard takes an answer that nobody gets.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

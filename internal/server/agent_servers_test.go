//go:build servers

package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tailscope/internal/config"
	"tailscope/internal/store/packed"
	"tailscope/test/program"
)

// turns carries what an agent sends to one server after another, as a balancer does: two
// requests to each, a generation and its traces.
type turns struct {
	mu sync.Mutex
	to []*Server
	n  int
}

func (b *turns) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	b.n++
	to := b.to[b.n/2%len(b.to)]
	b.mu.Unlock()
	r = r.Clone(r.Context())
	r.URL.Host = to.OTLPHTTP()
	return http.DefaultTransport.RoundTrip(r)
}

// An agent whose requests go to two servers of one store in turn is stored by one of them, under
// one epoch; the other goes on once that one has stopped. Servers that do not reach each other,
// or of which every third answer is lost on its way to the other, count as exactly.
func TestAgentOfServersOnClickHouse(t *testing.T) {
	c, err := program.StartClickHouse(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, how := range []string{"reached", "apart", "losing"} {
		t.Run(how, func(t *testing.T) {
			var servers []*Server
			for range 2 {
				o := testConfig(t.TempDir())
				o.Store = c.Address(how)
				var to atomic.Pointer[Server]
				switch how {
				case "apart":
					o.Cluster.Address = config.NoAddress
				case "losing":
					o.Cluster.Address = losing(t, &to)
				}
				s := start(t, o)
				to.Store(s)
				servers = append(servers, s)
			}
			if how != "apart" {
				eventually(t, "each server knows the other", func() bool {
					return metric(t, servers[0], "tailscope_forward_servers") == 1 && metric(t, servers[1], "tailscope_forward_servers") == 1
				})
			}
			balancer := &turns{to: servers}
			o := testConfig(t.TempDir())
			o.Agent.To, o.Agent.Name = "http://balancer:4318", "edge"
			agent, err := Start(t.Context(), Settings{Config: o, Version: "test", Now: time.Now, Transport: balancer})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { stop(t, agent) })
			load := spanLoad{byTenant: map[string][]float64{}, errors: map[string]int{}}
			rounds := func(n int) {
				t.Helper()
				for range n {
					load = together(load, loaded(t, agent, 100, uint64(load.total)))
					agent.outbox.Send(t.Context())
				}
				if st := agent.outbox.Stats(); st.Files != 0 || st.Failures != 0 {
					t.Fatalf("the agent has %+v", st)
				}
			}
			rounds(6)
			holds(t, servers[0], load)
			holds(t, servers[1], load)
			sum := func(name string) float64 { return metric(t, servers[0], name) + metric(t, servers[1], name) }
			passed, away, frames := sum("tailscope_forward_agent_requests_total"), sum("tailscope_forward_agent_requests_away_total"), sum("tailscope_agents_frames_total")
			writer := packed.WriterPrefix + agent.data.writer
			switch how {
			case "apart":
				if got := epochsOf(t, c, how, writer); got < 4 || passed != 0 || away != 0 {
					t.Errorf("servers that do not reach each other make %d epochs of %v frames, and pass %v on", got, frames, passed)
				}
				return
			case "losing":
				if passed == 0 || away == 0 {
					t.Errorf("%v are passed on, and %v answered without the owner", passed, away)
				}
				return
			}
			if got := epochsOf(t, c, how, writer); got != 1 {
				t.Errorf("%v frames make %d epochs, want 1", frames, got)
			}
			if requests := float64(balancer.n); passed < requests/2-2 || passed > requests/2+2 || away != 0 ||
				sum("tailscope_forward_agent_requests_answered_total") != passed || sum("tailscope_forward_agent_requests_received_total") != passed {
				t.Errorf("of %v requests %v are passed on, and %v answered without the owner", requests, passed, away)
			}
			stays := 0
			if len(servers[0].agents.Agents()) > 0 { // the owner stops
				stays = 1
			}
			stop(t, servers[1-stays])
			balancer.mu.Lock()
			balancer.to = servers[stays : stays+1]
			balancer.mu.Unlock()
			rounds(3)
			holds(t, servers[stays], load)
			if got := epochsOf(t, c, how, writer); got != 2 {
				t.Errorf("once its server has stopped: %d epochs, want 2", got)
			}
		})
	}
}

// losing returns the address of a link to a server. It delivers every request, and loses the
// answer of every third to a frame of an agent.
func losing(t *testing.T, to *atomic.Pointer[Server]) string {
	var frames atomic.Int64
	l := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: to.Load().OTLPHTTP()})
		}}
		if r.URL.Path == packed.Path && frames.Add(1)%3 == 1 {
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(l.Close)
	return l.URL
}

// epochsOf returns the number of epochs under which a writer has put something.
func epochsOf(t *testing.T, c *program.ClickHouse, database, writer string) (n int) {
	t.Helper()
	q := fmt.Sprintf("SELECT count(DISTINCT bitShiftRight(put, 32)) FROM %s.puts WHERE writer = '%s'", database, writer)
	res, err := http.Get("http://" + c.Nodes[0].HTTP + "/?query=" + url.QueryEscape(q))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", res.Status, b, err)
	}
	if _, err := fmt.Sscan(strings.TrimSpace(string(b)), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

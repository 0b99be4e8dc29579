package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tailscope/internal/cluster"
	"tailscope/internal/observe/agents"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/packed"
	"tailscope/internal/store/storetest"
)

// slot is where frames of these tests have their point.
const slot = 1_700_000_000

// team is servers of one store that take frames of agents.
type team struct {
	t       *testing.T
	clock   *clock
	store   store.Store
	mates   []*mate
	members []cluster.Member
}

// mate is one of them.
type mate struct {
	*Agents
	http *httptest.Server

	mu     sync.Mutex
	puts   map[string][]uint64            // generations by writer
	before func(http.ResponseWriter) bool // of a request; false: it is answered, or not at all
	after  func()                         // of a request, before its answer
	broken error                          // of the store, as this server sees it
}

// storeOf is the store as one server uses it.
type storeOf struct {
	store.Store
	m *mate
}

func (s storeOf) Put(ctx context.Context, b *store.Batch) error {
	s.m.mu.Lock()
	s.m.puts[b.Writer] = append(s.m.puts[b.Writer], packed.AgentGeneration(b.Generation))
	broken := s.m.broken
	s.m.mu.Unlock()
	if broken != nil {
		return broken
	}
	return s.Store.Put(ctx, b)
}

func newTeam(t *testing.T, n int) *team {
	g := &team{t: t, clock: &clock{t: time.Unix(slot, 0)}, store: storetest.NewTwin()}
	for i := range n {
		m := &mate{puts: map[string][]uint64{}}
		name := fmt.Sprintf("server-%d", i)
		m.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			m.mu.Lock()
			before, after := m.before, m.after
			m.mu.Unlock()
			if before != nil && !before(w) {
				return
			}
			b, err := io.ReadAll(r.Body)
			if err != nil || r.URL.Path != packed.Path || r.Header.Get("Content-Type") != packed.ContentType || r.ContentLength != int64(len(b)) {
				w.WriteHeader(http.StatusTeapot)
				return
			}
			code, answer := m.Receive(r.Context(), r.Header, b, func(int) bool { return true })
			if after != nil {
				after()
			}
			w.Header().Set(ToHeader, name)
			w.WriteHeader(code)
			_, _ = w.Write(answer)
		}))
		g.members = append(g.members, cluster.Member{Writer: name, Alive: true, Agents: m.http.URL})
		m.Agents = NewAgents(AgentsOptions{
			Receiver: agents.New(agents.Options{Store: storeOf{g.store, m}, Own: name, Now: g.clock.now}),
			Writer:   name, Members: func() []cluster.Member { return slices.Clone(g.members) },
			Timeout: 300 * time.Millisecond, Now: g.clock.now, Random: func() float64 { return 0.5 },
		})
		g.mates = append(g.mates, m)
		t.Cleanup(m.Close)
		t.Cleanup(m.http.Close)
	}
	return g
}

func writerOf(agent int) string { return fmt.Sprintf("agent-%016x", agent) }

func aboutAgent(agent int) string {
	b, err := json.Marshal(packed.Agent{Name: "edge", Writer: writerOf(agent), Incarnation: "a"})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// frameOf returns a frame with one observation; generation 0 is a sign of life.
func (g *team) frameOf(agent int, generation uint64) (f []byte) {
	g.t.Helper()
	if generation == 0 {
		return nil
	}
	e, err := packed.NewEncoder(0)
	if err == nil {
		err = e.Batch(&store.Batch{Writer: writerOf(agent), Generation: generation, Resolution: series.Base,
			Series: []series.Series{storetest.Span(series.Full, "service", fmt.Sprint("shop-", agent))},
			Points: []store.Point{{Slot: slot, Data: storetest.Dist(0.1)}}}, func(b []byte) error { f = b; return nil })
	}
	if err != nil {
		g.t.Fatal(err)
	}
	return f
}

// send sends a generation of an agent to a server as a balancer does.
func (g *team) send(to *mate, agent int, generation uint64) (int, string) {
	g.t.Helper()
	code, answer := to.Receive(g.t.Context(), http.Header{packed.AgentHeader: {aboutAgent(agent)}}, g.frameOf(agent, generation), func(int) bool { return true })
	return code, string(answer)
}

// stored returns the answer to a generation.
func stored(generation uint64) string { return fmt.Sprintf(`{"stored":%d`, generation<<12|1) }

func (g *team) mustSend(to *mate, agent int, generation uint64) {
	g.t.Helper()
	if code, answer := g.send(to, agent, generation); code != http.StatusOK || generation > 0 && answer != stored(generation)+"}" {
		g.t.Errorf("generation %d of agent %d: %d %s", generation, agent, code, answer)
	}
}

// ownedBy returns an agent whose owner is server i.
func (g *team) ownedBy(i int) int {
	r, _ := newRing(g.members, "", func(m *cluster.Member) string { return m.Agents })
	for agent := 1; ; agent++ {
		if r.owner([]byte(writerOf(agent))).writer == g.members[i].Writer {
			return agent
		}
	}
}

// count returns the observations in the store.
func (g *team) count() (n uint64) {
	g.t.Helper()
	res, err := g.store.Query(g.t.Context(), store.Query{Family: series.SpanDuration, Start: slot - 3600, End: slot + 3600, Schema: 5})
	if err != nil {
		g.t.Fatal(err)
	}
	for _, x := range res.Groups {
		for _, p := range x.Points {
			n += p.Hist.Count
		}
	}
	return n
}

// Frames of one agent that come to both servers in turn are stored by one of them.
func TestAgentHasOneServer(t *testing.T) {
	g := newTeam(t, 2)
	const all, generations = 20, 6
	for generation := range uint64(generations + 1) {
		for agent := range all {
			g.mustSend(g.mates[(uint64(agent)+generation)%2], agent, generation)
		}
	}
	owned := [2]int{}
	for agent := range all {
		a, b := g.mates[0].puts[writerOf(agent)], g.mates[1].puts[writerOf(agent)]
		if len(a)+len(b) != generations || len(a) > 0 && len(b) > 0 {
			t.Errorf("generations of agent %d: %v are put by one server, %v by the other", agent, a, b)
		}
		if len(b) > 0 {
			owned[1]++
		} else {
			owned[0]++
		}
	}
	if owned[0] < 5 || owned[1] < 5 || g.count() != all*generations {
		t.Errorf("the servers have %v agents, and store %d observations of %d", owned, g.count(), all*generations)
	}
	for i, m := range g.mates {
		s, other := m.Stats(), g.mates[1-i].Stats()
		// Of seven requests of an agent three or four come to the wrong server.
		if n := uint64(owned[1-i]); s.Passed < 3*n || s.Passed > 4*n || s.Answered != s.Passed || s.Away != 0 || s.Received != other.Passed {
			t.Errorf("server %d: %+v, the other %+v", i, s, other)
		}
		if list := m.o.Receiver.Agents(); len(list) != owned[i] {
			t.Errorf("server %d has heard %d agents, want its %d", i, len(list), owned[i])
		}
	}
}

// While the owner gives no answer of its own, the frame is stored where it came; once it does,
// the owner stores again. Nothing counts twice, whatever the owner did of what it was sent.
func TestAgentWithoutOwner(t *testing.T) {
	for _, c := range []struct {
		name  string
		begin func(*team, *mate)
		end   func(*mate)
	}{
		{"stopped", func(g *team, m *mate) { g.members[0].Agents = "http://127.0.0.1:1" }, func(*mate) {}},
		{"hangs", func(_ *team, m *mate) {
			m.before = func(http.ResponseWriter) bool { time.Sleep(600 * time.Millisecond); return false }
		}, func(m *mate) { m.before = nil }},
		{"behind a proxy that is there", func(_ *team, m *mate) {
			m.before = func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusServiceUnavailable); return false }
		}, func(m *mate) { m.before = nil }},
		{"another server has its address", func(g *team, m *mate) {
			m.before = func(w http.ResponseWriter) bool {
				w.Header().Set(ToHeader, "other")
				_, _ = w.Write([]byte(`{"stored":1}`))
				return false
			}
		}, func(m *mate) { m.before = nil }},
		{"its answers are lost", func(_ *team, m *mate) { m.after = func() { panic(http.ErrAbortHandler) } }, func(m *mate) { m.after = nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newTeam(t, 2)
			owner, other, agent := g.mates[0], g.mates[1], g.ownedBy(0)
			set := func(f func()) {
				owner.mu.Lock()
				defer owner.mu.Unlock()
				f()
			}
			set(func() { c.begin(g, owner) })
			if code, answer := g.send(other, agent, 1); code != http.StatusOK || !strings.HasPrefix(answer, stored(1)) {
				t.Errorf("while it is away: %d %s", code, answer)
			}
			g.mustSend(other, agent, 2) // not tried again so soon
			if s := other.Stats(); s.Passed != 1 || s.Answered != 0 || s.Away != 2 {
				t.Errorf("while it is away: %+v", s)
			}
			g.clock.advance(longestPause)
			set(func() { c.end(owner) })
			g.members[0].Agents = owner.http.URL
			g.mustSend(other, agent, 3)
			g.mustSend(other, agent, 4)
			if s := other.Stats(); s.Passed != 3 || s.Answered != 2 || s.Away != 2 || g.count() != 4 {
				t.Errorf("once it is back: %+v, %d observations of 4", s, g.count())
			}
			if got := owner.puts[writerOf(agent)]; !slices.Equal(got[max(0, len(got)-2):], []uint64{3, 4}) {
				t.Errorf("once it is back it puts %v, want 3 and 4 at last", got)
			}
		})
	}
}

// What was passed on is not passed on again, whoever has it by the server that gets it.
func TestAgentIsPassedOnOnce(t *testing.T) {
	g := newTeam(t, 2)
	for i, m := range g.mates { // each takes the other for the owner of all
		m.o.Members = func() []cluster.Member {
			members := slices.Clone(g.members)
			members[i].Agents = ""
			return members
		}
	}
	for generation := range uint64(6) {
		g.mustSend(g.mates[generation%2], 1, generation+1)
	}
	for i, m := range g.mates {
		if s, want := m.Stats(), (AgentStats{Passed: 3, Answered: 3, Received: 3}); s != want {
			t.Errorf("server %d: %+v, want %+v", i, s, want)
		}
	}
	if g.count() != 6 {
		t.Errorf("%d observations of 6", g.count())
	}
}

// What a server answers that stores the agent's frames is the answer, whatever it is.
func TestAgentIsAnsweredByItsOwner(t *testing.T) {
	g := newTeam(t, 2)
	owner, other, agent := g.mates[0], g.mates[1], g.ownedBy(0)
	owner.broken = errors.New("the first host is away")
	if code, answer := g.send(other, agent, 1); code != http.StatusServiceUnavailable || !strings.Contains(answer, "the first host is away") {
		t.Errorf("a store that is away: %d %s", code, answer)
	}
	owner.broken = nil
	g.mustSend(other, agent, 1)
	if code, answer := g.send(other, agent, 1); code != http.StatusOK || answer != stored(1)+`,"duplicate":true}` {
		t.Errorf("a duplicate: %d %s", code, answer)
	}
	f := g.frameOf(agent, 2)
	f[len(f)-1] ^= 1
	code, answer := other.Receive(t.Context(), http.Header{packed.AgentHeader: {aboutAgent(agent)}}, f, func(int) bool { return true })
	if code != http.StatusBadRequest || !strings.Contains(string(answer), "checksum") {
		t.Errorf("a frame that was changed: %d %s", code, answer)
	}
	if s, want := other.Stats(), (AgentStats{Passed: 4, Answered: 4}); s != want || len(other.puts) > 0 {
		t.Errorf("%+v, want %+v; it put %v", s, want, other.puts)
	}
}

// A request for another server, and one that no agent sends, are refused where they come.
func TestAgentRefused(t *testing.T) {
	g := newTeam(t, 2)
	owner, other, agent := g.mates[0], g.mates[1], g.ownedBy(0)
	for _, c := range []struct {
		about, to string
		code      int
		want      string
	}{
		{aboutAgent(agent), "server-0", 409, "this is server server-1"},
		{aboutAgent(agent), "elsewhere", 409, "cluster.address"},
		{"", "", 400, "this address is for tailscope agent"},
		{`{"name":"x","writer":"x","incarnation":"a"}`, "", 409, "--data"},
	} {
		h := http.Header{packed.AgentHeader: {c.about}}
		if c.to != "" {
			h.Set(ToHeader, c.to)
		}
		code, answer := other.Receive(t.Context(), h, g.frameOf(agent, 1), func(int) bool { return true })
		if code != c.code || !strings.Contains(string(answer), c.want) {
			t.Errorf("to %q: %d %s, want %d %s", c.to, code, answer, c.code, c.want)
		}
	}
	if s, want := other.Stats(), (AgentStats{Refused: 2}); s != want || owner.Stats() != (AgentStats{}) || g.count() != 0 {
		t.Errorf("%+v, want %+v, and nothing at the owner: %+v", s, want, owner.Stats())
	}
}

// A server that starts passes on to those that have started. One that is alone, or does not see
// itself alive, stores what comes.
func TestAgentsOfOneServer(t *testing.T) {
	g := newTeam(t, 2)
	owner, other, agent := g.mates[0], g.mates[1], g.ownedBy(1)
	g.members[1].Agents = ""
	g.mustSend(other, agent, 1)
	if s := owner.Stats(); s.Received != 1 {
		t.Errorf("a server that starts: %+v", s)
	}
	g.members[1].Alive = false
	g.mustSend(other, agent, 2)
	g.members[1].Alive, g.members[0].Alive = true, false
	g.mustSend(other, agent, 3)
	other.o.Members = nil
	g.mustSend(other, agent, 4)
	if s := owner.Stats(); s.Received != 1 || len(other.puts[writerOf(agent)]) != 3 {
		t.Errorf("the other server has %+v, and this one puts %v", s, other.puts)
	}
}

// Requests that wait for a server that hangs are few, and nobody reads a frame that was given
// back.
func TestAgentsWait(t *testing.T) {
	g := newTeam(t, 2)
	owner, other, agent := g.mates[0], g.mates[1], g.ownedBy(0)
	hangs := make(chan struct{})
	owner.before = func(http.ResponseWriter) bool { <-hangs; return false }
	codes := make(chan int, mostPassing+10)
	var sending sync.WaitGroup
	for range cap(codes) {
		sending.Go(func() {
			f := make([]byte, 1<<20) // more than the connection takes: the transport still has it
			code, _ := other.Receive(t.Context(), http.Header{packed.AgentHeader: {aboutAgent(agent)}}, f, func(int) bool { return true })
			clear(f) // the race detector sees who reads it now
			codes <- code
		})
	}
	sending.Wait()
	close(hangs)
	close(codes)
	busy := 0
	for code := range codes {
		switch code {
		case http.StatusTooManyRequests:
			busy++
		case http.StatusBadRequest: // it is not a frame
		default:
			t.Errorf("answered %d", code)
		}
	}
	if busy > 10 || other.Stats().Passed > mostPassing || other.Stats().Away < mostPassing {
		t.Errorf("%d of %d are sent again, %+v", busy, cap(codes), other.Stats())
	}
	if other.passing != 0 {
		t.Errorf("%d still wait", other.passing)
	}
}

// An agent that goes while its frame is passed on sends it again: it is not stored here.
func TestAgentGoes(t *testing.T) {
	g := newTeam(t, 2)
	owner, other, agent := g.mates[0], g.mates[1], g.ownedBy(0)
	ctx, cancel := context.WithCancel(t.Context())
	owner.before = func(http.ResponseWriter) bool { cancel(); time.Sleep(50 * time.Millisecond); return false }
	code, _ := other.Receive(ctx, http.Header{packed.AgentHeader: {aboutAgent(agent)}}, g.frameOf(agent, 1), func(int) bool { return true })
	if s := other.Stats(); code != http.StatusServiceUnavailable || s.Passed != 1 || s.Away != 0 || g.count() != 0 {
		t.Errorf("%d, %+v, %d observations", code, s, g.count())
	}
}

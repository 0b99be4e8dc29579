package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"tailscope/internal/backoff"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// link is the store as one server reaches it: frozen, its calls wait.
type link struct {
	store.Records
	mu     sync.Mutex
	frozen chan struct{} // closed when it thaws; nil: it is not frozen
	killed bool
	lists  bool // of a killed link lists alone fail
}

func (l *link) freeze() (thaw func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := make(chan struct{})
	l.frozen = c
	return func() {
		l.mu.Lock()
		l.frozen = nil
		l.mu.Unlock()
		close(c)
	}
}

// pass waits until the link is not frozen, whether or not a context is done: a process
// that is stopped does not notice that. A killed server gets an error.
func (l *link) pass(list bool) error {
	l.mu.Lock()
	frozen := l.frozen
	l.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.killed && (list || !l.lists) {
		return errors.New("killed")
	}
	return nil
}

// kill lets all calls fail, or lists alone, from now on; or none again.
func (l *link) kill(killed, listsAlone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.killed, l.lists = killed, listsAlone
}

func (l *link) PutRecords(ctx context.Context, kind string, writes ...store.RecordWrite) (uint64, error) {
	if err := l.pass(false); err != nil {
		return 0, err
	}
	return l.Records.PutRecords(ctx, kind, writes...)
}

func (l *link) ListRecords(ctx context.Context, kind, prefix string, yield func(store.Record) error) error {
	if err := l.pass(true); err != nil {
		return err
	}
	return l.Records.ListRecords(ctx, kind, prefix, yield)
}

func work(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("work-%02d", i))
	}
	return out
}

// running is a server of a test.
type running struct {
	*Cluster
	link *link
	kill func()     // stops it; it does not leave
	stop func()     // stops it in order
	done chan error // of Run
}

// start joins a server to the records and runs it.
func start(t *testing.T, records store.Records, name string, works []string) *running {
	t.Helper()
	s := &running{link: &link{Records: records}, done: make(chan error, 1)}
	c, err := Join(t.Context(), Options{Records: s.link, Writer: name, Work: works})
	if err != nil {
		t.Fatalf("%s joins: %v", name, err)
	}
	s.Cluster = c
	ctx, cancel := context.WithCancel(t.Context())
	go func() { s.done <- c.Run(ctx) }()
	s.stop = func() { cancel(); <-s.done }
	s.kill = func() { s.link.kill(true, false); cancel(); <-s.done }
	return s
}

// holders returns who says of itself that it holds each piece of work.
func holders(t *testing.T, works []string, servers ...*running) string {
	t.Helper()
	var out []string
	for _, w := range works {
		var by []string
		for _, s := range servers {
			if did, _ := s.Do(t.Context(), w, func(context.Context) error { return nil }); did {
				by = append(by, s.o.Writer)
			}
		}
		out = append(out, strings.Join(by, "+"))
	}
	return strings.Join(out, " ")
}

// Work goes to those that can hold it alone.
func TestWorkThatSomeCannotHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		works, twin := work(12), storetest.NewTwin()
		a := start(t, twin, "a", works[:1])
		b := start(t, twin, "b", works)
		time.Sleep(5 * Every)
		got := holders(t, works[1:], a, b)
		if want := strings.TrimSpace(strings.Repeat("b ", 11)); got != want {
			t.Errorf("what one server alone can hold is held by %q, want %q", got, want)
		}
		a.stop()
		b.stop()
	})
}

// Work is offered while a server is there that can hold it, and for a while after.
func TestOffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		twin := storetest.NewTwin()
		a := start(t, twin, "a", nil)
		expect := func(when string, want bool) {
			t.Helper()
			if got := a.Offers("checks", time.Minute); got != want {
				t.Errorf("%s: offered: %v, want %v", when, got, want)
			}
		}
		expect("alone", false)
		b := start(t, twin, "b", []string{"checks"})
		time.Sleep(2 * Every)
		expect("beside b", true)
		time.Sleep(time.Hour)
		expect("an hour later", true)
		b.stop()
		time.Sleep(2 * Every)
		expect("right after b stopped", true)
		time.Sleep(time.Minute)
		expect("a minute after b stopped", false)
		a.stop()
		a = start(t, twin, "a", nil)
		expect("started after b stopped", true)
		time.Sleep(time.Minute + Every)
		expect("a minute after its start", false)
		a.stop()
	})
}

// A server that starts or stops is a member that takes no spans.
func TestSpansWhileReady(t *testing.T) {
	address := ""
	c, err := Join(t.Context(), Options{Records: storetest.NewTwin(), Writer: "a", Spans: func() string { return address }, Agents: func() string { return address + "/" }})
	if err != nil {
		t.Fatal(err)
	}
	for _, address = range []string{"", "http://10.0.0.7:4318", ""} {
		if err := c.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
		if m := c.Members()[0]; m.Spans != address || m.Agents != address+"/" || !m.Alive {
			t.Errorf("other servers see %+v, want spans and agents taken at %q", m, address)
		}
	}
}

func TestWorkIsDivided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		works, twin := work(12), storetest.NewTwin()
		a := start(t, twin, "a", works)
		if got, want := holders(t, works, a), strings.TrimSpace(strings.Repeat("a ", 12)); got != want {
			t.Errorf("one server holds %q, want %q", got, want)
		}
		b := start(t, twin, "b", works)
		time.Sleep(3 * Every)
		divided := holders(t, works, a, b)
		if n := strings.Count(divided, "b"); n < 2 || n > 10 || strings.Count(divided, "a") != 12-n || strings.Contains(divided, "+") {
			t.Errorf("two servers hold %q, want each piece once, and some by each", divided)
		}
		b.stop()
		time.Sleep(2 * Every)
		if got := holders(t, works, a); strings.Count(got, "a") != 12 {
			t.Errorf("after the other left, one holds %q", got)
		}
		b = start(t, twin, "b", works)
		time.Sleep(3 * Every)
		if got := holders(t, works, a, b); got != divided {
			t.Errorf("after it came back: %q, want %q as before", got, divided)
		}
		b.kill()
		killed := time.Now()
		for holders(t, works, a) != strings.TrimSpace(strings.Repeat("a ", 12)) {
			time.Sleep(time.Second)
		}
		if took := time.Since(killed); took > 30*time.Second {
			t.Errorf("the work of a killed server was taken over after %v, want within 30 s", took)
		}
		members := a.Members()
		if len(members) != 2 || !members[0].Alive || members[1].Alive || len(members[0].Works) != 12 {
			t.Errorf("members after a kill: %+v", members)
		}
		a.stop()
	})
}

func TestTwin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		works, twin := work(3), storetest.NewTwin()
		a := start(t, twin, "a", works)
		if _, err := Join(t.Context(), Options{Records: twin, Writer: "a", Work: works}); !errors.Is(err, ErrTwin) {
			t.Errorf("a second server of one name joins: %v, want %v", err, ErrTwin)
		}
		if got := holders(t, works, a); got != "a a a" {
			t.Errorf("the first holds %q after the second was refused", got)
		}
		a.kill()
		begin := time.Now()
		again := start(t, twin, "a", works)
		if took := time.Since(begin); took < Dead || took > Dead+time.Second {
			t.Errorf("a server joins %v after it was killed, want %v", took, Dead)
		}
		again.stop()
		begin = time.Now()
		start(t, twin, "a", works).stop()
		if took := time.Since(begin); took != 0 {
			t.Errorf("a server that stopped in order joins after %v, want at once", took)
		}
	})
}

// A server that was frozen finds that its name was taken, and holds nothing any more.
func TestFrozenServerLosesItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		works, twin := work(3), storetest.NewTwin()
		a := start(t, twin, "a", works)
		thaw := a.link.freeze()
		time.Sleep(Every) // its renewal waits
		b := start(t, twin, "a", works)
		time.Sleep(time.Minute)
		if got := holders(t, works, a, b); got != "a a a" {
			t.Errorf("held by %q, want by one", got)
		}
		if did, _ := a.Do(t.Context(), works[0], func(context.Context) error { return nil }); did {
			t.Error("the frozen server still holds its work")
		}
		thaw()
		if err := <-a.done; !errors.Is(err, ErrTwin) {
			t.Errorf("the frozen server ends with %v, want %v", err, ErrTwin)
		}
		b.stop()
	})
}

// A server that was away renews its record before it reads who holds what: until then it
// holds nothing.
func TestLateServerHoldsNothingYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		works, twin := work(8), storetest.NewTwin()
		a, b := start(t, twin, "a", works), start(t, twin, "b", works)
		time.Sleep(3 * Every)
		a.link.kill(true, false)
		time.Sleep(Dead + 2*Every) // b takes over
		a.link.kill(true, true)    // the renewal succeeds, the list does not come
		time.Sleep(2 * Every)
		if got := holders(t, works, a, b); strings.Contains(got, "a") {
			t.Errorf("a server that was away holds work of another: %q", got)
		}
		a.link.kill(false, false)
		time.Sleep(3 * Every)
		if got := holders(t, works, a, b); !strings.Contains(got, "a") || strings.Contains(got, "+") {
			t.Errorf("after it is back: %q, want each piece once and some by each", got)
		}
		a.stop()
		b.stop()
	})
}

// Work whose records another server has written is not done again before the lease is read
// anew, though by the clock of a machine that was suspended it is valid.
func TestConflictDoubtsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		works := work(1)
		a := start(t, storetest.NewTwin(), "a", works)
		time.Sleep(Every / 2)
		conflict := fmt.Errorf("keep: %w", store.ErrConflict)
		if did, err := a.Do(t.Context(), works[0], func(context.Context) error { return conflict }); !did || !errors.Is(err, store.ErrConflict) {
			t.Errorf("got %v, %v, want the conflict", did, err)
		}
		if got := holders(t, works, a); got != "" {
			t.Errorf("after a conflict the work is held by %q", got)
		}
		time.Sleep(Every)
		if got := holders(t, works, a); got != "a" {
			t.Errorf("after the lease was read anew: %q, want a", got)
		}
		a.stop()
	})
}

// Servers are killed, frozen, stopped and started at random; nothing is done by two at
// once, and what can be held is held soon.
func TestNothingIsHeldTwice(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testNothingIsHeldTwice(t, seed) })
		})
	}
}

func testNothingIsHeldTwice(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 21))
	works, twin := work(5), storetest.NewTwin()
	names := []string{"a", "b", "c", "d"}
	var mu sync.Mutex
	doing := map[string]string{} // work to server
	does := 0
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	run := func(s *running) {
		for _, w := range works {
			workers.Go(func() {
				for backoff.Sleep(ctx, time.Second) == nil {
					_, err := s.Do(ctx, w, func(ctx context.Context) error {
						mu.Lock()
						if by := doing[w]; by != "" {
							t.Errorf("%s is done by %s and %s at once", w, by, s.o.Writer)
						}
						doing[w] = s.o.Writer
						does++
						mu.Unlock()
						_ = backoff.Sleep(ctx, time.Duration(seed%4+1)*7*time.Second) // ends with the lease
						mu.Lock()
						doing[w] = ""
						mu.Unlock()
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	live := map[string]*running{}
	for range 40 {
		name := names[rng.IntN(len(names))]
		s := live[name]
		switch {
		case s == nil:
			live[name] = start(t, twin, name, works)
			run(live[name])
		case rng.IntN(3) == 0:
			s.kill()
			delete(live, name)
		case rng.IntN(2) == 0:
			s.stop()
			delete(live, name)
		default:
			thaw := s.link.freeze()
			time.Sleep(time.Duration(rng.IntN(60)) * time.Second)
			thaw()
		}
		time.Sleep(time.Duration(rng.IntN(30)) * time.Second)
	}
	if len(live) == 0 {
		live["a"] = start(t, twin, "a", works)
		run(live["a"])
	}
	time.Sleep(2 * time.Minute)
	held := func() (held []string) {
		for _, s := range live {
			for _, m := range s.Members() {
				if m.Writer == s.o.Writer {
					held = append(held, m.Works...)
				}
			}
		}
		slices.Sort(held)
		return held
	}
	for begin := time.Now(); !slices.Equal(held(), works); time.Sleep(time.Second) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("in the end %v is held, want each of %v once", held(), works)
		}
	}
	cancel()
	workers.Wait()
	if does < 100 {
		t.Errorf("work was done %d times, too seldom to tell anything", does)
	}
	for _, s := range live {
		s.stop()
	}
}

// When a server comes, only what it gets moves, and about its share.
func TestRendezvous(t *testing.T) {
	works := work(1000)
	servers := []string{"a", "b", "c"}
	moved, share := 0, map[string]int{}
	for _, w := range works {
		was, is := first(servers, w), first(append(servers, "d"), w)
		share[is]++
		if was != is {
			moved++
			if is != "d" {
				t.Errorf("%s moves from %s to %s when d comes", w, was, is)
			}
		}
	}
	for s, n := range share {
		if n < 200 || n > 300 {
			t.Errorf("%s gets %d of 1000 pieces, want about 250", s, n)
		}
	}
	if moved != share["d"] {
		t.Errorf("%d pieces move, want the %d of d", moved, share["d"])
	}
}

// Who looks without joining sees who is alive, and what servers tell.
func TestLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		works, twin := work(3), storetest.NewTwin()
		a := start(t, twin, "a", works)
		b, err := Join(t.Context(), Options{Records: twin, Writer: "b", Work: works, State: func() State {
			return State{Now: time.Now().Add(-time.Minute), Lag: 90, Problems: []string{"The disk is full."}}
		}})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(Every)
			if err := b.Round(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		alive, kill := context.WithCancel(t.Context())
		renewed := make(chan struct{})
		go func() {
			defer close(renewed)
			for backoff.Sleep(alive, Every) == nil {
				_ = b.Round(alive) // cut short by kill
			}
		}()
		look := func() ([]Member, string) {
			t.Helper()
			members, err := Look(t.Context(), twin)
			if err != nil {
				t.Fatal(err)
			}
			_, findings := Servers(members)
			var out []string
			for _, f := range findings {
				out = append(out, f.Where+": "+f.What)
			}
			return members, strings.Join(out, "; ")
		}
		members, found := look()
		if len(members) != 2 || !members[0].Alive || !members[1].Alive || len(members[0].Works)+len(members[1].Works) != 3 || members[1].State.Problems == nil {
			t.Errorf("got %+v", members)
		}
		if want := "b: what it accepted 1m30s ago is not stored; b: its clock is at least 55s behind"; found != want {
			t.Errorf("found %q, want %q", found, want)
		}
		kill()
		<-renewed
		members, found = look()
		if len(members) != 2 || !members[0].Alive || members[1].Alive || members[1].Works != nil || found != "" {
			t.Errorf("after a kill: %+v, found %q", members, found)
		}
		a.stop()
	})
}

package check

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/api"
	"tailscope/internal/agg"
	"tailscope/internal/cluster"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/notify"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// sharedFile has one check, whose receivers want all, and what is critical.
const sharedFile = `
receivers:
  all: {file: {path: %s/all}}
  worst: {file: {path: %[1]s/worst}, levels: [CRITICAL]}
checks:
  c:
    value: {tcp: {address: "c:80"}}
    every: 10s
    threshold: {must: "<", of: 1, warning: 0, critical: 100%%}
    receivers: [all, worst]
`

// link is the shared records as one server reaches them. Frozen, its calls wait whether or
// not a context is done, as those of a process that is stopped; dead, they fail.
type link struct {
	store.Store
	mu     sync.Mutex
	frozen chan struct{}
	dead   bool
	full   bool // records of checks cannot be put
}

func (l *link) keepNothing(full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = full
}

func (l *link) pass() error {
	l.mu.Lock()
	frozen := l.frozen
	l.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return errors.New("the process is dead")
	}
	return nil
}

func (l *link) set(frozen chan struct{}, dead bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen, l.dead = frozen, dead
}

func (l *link) freeze() (wake func()) {
	c := make(chan struct{})
	l.set(c, false)
	return func() { l.set(nil, false); close(c) }
}

func (l *link) GetRecord(ctx context.Context, kind, key string) (store.Record, error) {
	if err := l.pass(); err != nil {
		return store.Record{}, err
	}
	return l.Store.GetRecord(ctx, kind, key)
}

func (l *link) ListRecords(ctx context.Context, kind, prefix string, yield func(store.Record) error) error {
	if err := l.pass(); err != nil {
		return err
	}
	return l.Store.ListRecords(ctx, kind, prefix, yield)
}

func (l *link) PutRecords(ctx context.Context, kind string, writes ...store.RecordWrite) (uint64, error) {
	if err := l.pass(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	full := l.full && kind == "checks"
	l.mu.Unlock()
	if full {
		return 0, store.ErrFull
	}
	return l.Store.PutRecords(ctx, kind, writes...)
}

// member is one of the servers that share a store.
type member struct {
	*Engine
	t      *testing.T
	name   string
	dir    string
	link   *link
	probes *probes
	stop   func() // in order
	kill   func() // at once
}

func join(t *testing.T, shared store.Store, name, dir, yaml string, p *probes) *member {
	t.Helper()
	m := &member{t: t, name: name, dir: dir, link: &link{Store: shared}, probes: p}
	c, err := cluster.Join(t.Context(), cluster.Options{Records: m.link, Writer: name, Work: []string{"checks"}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := agg.Open(t.Context(), shared, agg.Options{Writer: name, Dir: t.TempDir(), Retention: 60 * 24 * time.Hour, FlushInterval: 10 * time.Second, SyncInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	file := readFile(t, fmt.Sprintf(yaml, dir))
	told, err := notify.Open(t.Context(), notify.Options{Dir: filepath.Join(dir, "spools-"+name), Receivers: file.Receivers, Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	m.Engine, err = Open(t.Context(), Options{
		Store: m.link, Agg: a, Prober: p, Notifier: told, File: file, Server: name,
		Once: func(ctx context.Context, do func(context.Context) error) (bool, error) {
			return c.Do(ctx, "checks", do)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over, end := context.WithCancel(t.Context())
	var cluster, checks sync.WaitGroup
	cluster.Go(func() { _ = c.Run(over) }) // what a dead one says
	checks.Go(func() { m.Run(ctx) })
	m.stop = func() {
		cancel()
		checks.Wait()
		if err := told.Close(context.Background()); err != nil {
			t.Error(err)
		}
		end()
		cluster.Wait()
		_ = a.Close(context.Background())
	}
	m.kill = func() {
		m.link.set(nil, true)
		m.stop()
	}
	return m
}

// guarding reports whether this server runs the checks.
func (m *member) guarding() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.guards
}

func (m *member) state() string {
	m.t.Helper()
	r, err := m.List(m.t.Context(), ListRequest{})
	if err != nil || len(r.Checks) != 1 {
		m.t.Fatalf("%s lists %+v, %v", m.name, r, err)
	}
	text := r.Checks[0].State
	if r.Checks[0].Incident != nil {
		text += " incident"
	}
	if a := r.Checks[0].Incident; a != nil && a.Acked != nil {
		text += " acked"
	}
	return text
}

// guardOf returns the one of the servers that guards.
func guardOf(t *testing.T, members ...*member) (guard *member) {
	t.Helper()
	for _, m := range members {
		if m.guarding() {
			if guard != nil {
				t.Errorf("%s and %s guard", guard.name, m.name)
			}
			guard = m
		}
	}
	if guard == nil {
		t.Fatal("nobody guards")
	}
	return guard
}

// othersOf returns the servers but one.
func othersOf(one *member, members ...*member) (others []*member) {
	for _, m := range members {
		if m != one {
			others = append(others, m)
		}
	}
	return others
}

// told returns what a receiver was told, a word for each event.
func told(t *testing.T, dir, receiver string) string {
	t.Helper()
	var out []string
	for _, e := range toldEvents(t, dir, receiver) {
		out = append(out, fmt.Sprintf("%s/%d:%s", e.Kind, e.Seq, e.To))
	}
	return strings.Join(out, " ")
}

type toldEvent struct {
	Incident string     `json:"incident"`
	Seq      int        `json:"seq"`
	Kind     event.Kind `json:"kind"`
	To       string     `json:"to"`
	Link     string     `json:"link"`
}

func toldEvents(t *testing.T, dir, receiver string) (out []toldEvent) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, receiver))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var e toldEvent
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// One of the servers that share a store guards. When it dies, or freezes and wakes, another
// goes on within half a minute: no event is told twice, and none is lost.
func TestOneServerGuards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, dir, p := storetest.NewTwin(), t.TempDir(), newProbes()
		p.set("c:80", 0.5)
		all := []*member{join(t, shared, "a", dir, sharedFile, p), join(t, shared, "b", dir, sharedFile, p), join(t, shared, "c", dir, sharedFile, p)}
		expect := func(what, receiver, want string) {
			t.Helper()
			if got := told(t, dir, receiver); got != want {
				t.Errorf("%s: %s is told %q, want %q", what, receiver, got, want)
			}
		}
		agree := func(what, want string) {
			t.Helper()
			time.Sleep(2 * followEvery)
			for _, m := range all {
				if got := m.state(); got != want {
					t.Errorf("%s: on %s the check is %s, want %s", what, m.name, got, want)
				}
			}
		}
		time.Sleep(50 * time.Second)
		if n := p.ran("c:80"); n < 4 || n > 5 {
			t.Errorf("the check ran %d times in 50 s, want once in ten", n)
		}
		agree("at first", "OK")
		p.set("c:80", 1.5)
		time.Sleep(40 * time.Second)
		agree("once it is bad", "WARNING incident")
		expect("once it is bad", "all", "opened/1:WARNING")
		for _, m := range all {
			r, err := m.List(t.Context(), ListRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if c := r.Checks[0]; c.Value != 1.5 || c.Bands.HighWarning != 1 || c.Text != "1.50 is above 1" || r.Trouble != "" {
				t.Errorf("%s shows %v beside %+v, %q, and trouble %q", m.name, c.Value, c.Bands, c.Text, r.Trouble)
			}
		}

		first := guardOf(t, all...)
		first.kill()
		all = othersOf(first, all...)
		time.Sleep(30 * time.Second)
		second := guardOf(t, all...)
		p.set("c:80", 2.5)
		time.Sleep(15 * time.Second)
		agree("after the first server died", "CRITICAL incident")
		expect("after the first server died", "all", "opened/1:WARNING changed/2:CRITICAL")
		expect("after the first server died", "worst", "changed/2:CRITICAL")

		// One that does not guard takes what users ask for.
		other := othersOf(second, all...)[0]
		if c, err := other.Acknowledge(t.Context(), "c", api.Ack{User: "eva"}); err != nil || c.Incident == nil || c.Incident.Acked == nil {
			t.Fatalf("acknowledged by way of %s: %+v, %v", other.name, c, err)
		}
		if got := other.state(); got != "CRITICAL incident acked" {
			t.Errorf("right after it is acknowledged %s says %s", other.name, got)
		}
		if _, err := other.Acknowledge(t.Context(), "d", api.Ack{User: "eva"}); err == nil || !strings.Contains(err.Error(), `there is no check "d"`) {
			t.Errorf("acknowledging a check that is not there: %v", err)
		}
		agree("acknowledged", "CRITICAL incident acked")
		window, err := other.AddMaintenance(t.Context(), api.Maintenance{Name: "disks", Checks: []string{"c"}, End: api.UnixTime(time.Now().Add(time.Hour))})
		if err != nil || window.ID == "" {
			t.Fatalf("maintenance: %+v, %v", window, err)
		}
		if err := other.EndMaintenance(t.Context(), window.ID); err != nil {
			t.Fatal(err)
		}
		p.set("c:80", 1.2) // between two runs
		if c, err := other.RunNow(t.Context(), "c"); err != nil || c.Value != 1.2 || c.Level != "WARNING" || c.State != "CRITICAL" {
			t.Errorf("run on a server that does not guard: %+v, %v", c, err)
		}
		p.set("c:80", 2.5)
		agree("after it was run there", "CRITICAL incident acked")

		wake := second.link.freeze()
		time.Sleep(30 * time.Second)
		third := guardOf(t, othersOf(second, all...)...)
		if third == second || !second.guarding() {
			t.Errorf("the one that is frozen is expected to know nothing of it")
		}
		p.set("c:80", 0.5)
		time.Sleep(30 * time.Second)
		const ended = "opened/1:WARNING changed/2:CRITICAL acknowledged/3:CRITICAL resolved/4:OK"
		expect("while one is frozen", "all", ended)
		wake()
		time.Sleep(time.Minute)
		agree("after it woke", "OK")
		expect("after it woke", "all", ended)
		expect("after it woke", "worst", "changed/2:CRITICAL acknowledged/3:CRITICAL resolved/4:OK")
		guardOf(t, all...)

		// What its receiver has not got survives the server for good.
		for _, r := range []string{"all", "worst"} {
			if err := os.Rename(filepath.Join(dir, r), filepath.Join(dir, r+".old")); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(dir, r), 0o700); err != nil { // is not a file
				t.Fatal(err)
			}
		}
		p.set("c:80", 2.5)
		time.Sleep(40 * time.Second)
		fourth := guardOf(t, all...)
		fourth.kill()
		all = othersOf(fourth, all...)
		for _, r := range []string{"all", "worst"} {
			if err := os.Remove(filepath.Join(dir, r)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(30 * time.Second)
		// It comes back with what waits in its spool, which is not its to tell any more.
		all = append(all, join(t, shared, fourth.name, dir, sharedFile, p))
		time.Sleep(time.Minute)
		agree("when its receivers are back", "CRITICAL incident")
		expect("when its receivers are back", "all", "opened/1:CRITICAL")
		expect("when its receivers are back", "worst", "opened/1:CRITICAL")
		guardOf(t, all...).stop()
		for _, m := range all {
			if !m.guarding() {
				m.stop()
			}
		}
	})
}

// A receiver that is down has nobody told again, however often another server takes over.
func TestOneReceiverIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, dir, p := storetest.NewTwin(), t.TempDir(), newProbes()
		if err := os.Mkdir(filepath.Join(dir, "worst"), 0o700); err != nil { // is not a file
			t.Fatal(err)
		}
		p.set("c:80", 2.5)
		all := []*member{join(t, shared, "a", dir, sharedFile, p), join(t, shared, "b", dir, sharedFile, p)}
		for range 2 {
			time.Sleep(time.Minute)
			guard := guardOf(t, all...)
			guard.kill()
			all = append(othersOf(guard, all...), join(t, shared, guard.name, dir, sharedFile, p))
		}
		time.Sleep(time.Minute)
		if err := os.Remove(filepath.Join(dir, "worst")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		for _, receiver := range []string{"all", "worst"} {
			if got, want := told(t, dir, receiver), "opened/1:CRITICAL"; got != want {
				t.Errorf("%s is told %q, want %q", receiver, got, want)
			}
		}
		for _, m := range all {
			m.stop()
		}
	})
}

// A request that the server which guards cannot read, or does not know, is refused, and those
// behind it are answered.
func TestUnknownRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, dir, p := storetest.NewTwin(), t.TempDir(), newProbes()
		a := join(t, shared, "a", dir, sharedFile, p)
		time.Sleep(2 * lookEvery)
		asked := map[string]string{"qa": `{"maintenance": 7}`, "qb": `{"unheard": "of"}`, "qc": `{"forget": "no such incident"}`}
		for key, value := range asked {
			if _, err := shared.PutRecords(t.Context(), kind, store.RecordWrite{Key: key, Value: []byte(value)}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * lookEvery)
		for key, want := range map[string]string{"qa": "does not know this request", "qb": "does not know this request", "qc": "no such incident"} {
			x, err := shared.GetRecord(t.Context(), kind, key)
			var r request
			if err == nil {
				err = json.Unmarshal(x.Value, &r)
			}
			if err != nil || r.Answer == nil || r.Answer.Code == "" || !strings.Contains(r.Answer.Message, want) {
				t.Errorf("the answer to %s is %+v, %v", asked[key], r.Answer, err)
			}
		}
		a.stop()
	})
}

// What a user was told is not done, as nobody answered in time, is not done later.
func TestRequestTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, dir, p := storetest.NewTwin(), t.TempDir(), newProbes()
		a := join(t, shared, "a", dir, sharedFile, p)
		time.Sleep(2 * lookEvery)
		window := &api.Maintenance{Name: "disks", End: api.UnixTime(time.Now().Add(time.Hour))}
		b, err := json.Marshal(request{Maintenance: window})
		if err != nil {
			t.Fatal(err)
		}
		listed, err := shared.PutRecords(t.Context(), kind, store.RecordWrite{Key: "qa", Value: b})
		if err == nil {
			_, err = shared.PutRecords(t.Context(), kind, store.RecordWrite{Key: "qa", IfRevision: listed})
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.change(t.Context(), &request{Maintenance: window}, "qa", listed); !errors.Is(err, store.ErrConflict) {
			t.Errorf("a request that was taken back: %v", err)
		}
		time.Sleep(2 * cluster.Every)
		a.mu.Lock()
		if len(a.posted) > 0 || !a.guards {
			t.Errorf("it has %d windows, guards: %v", len(a.posted), a.guards)
		}
		a.mu.Unlock()
		if _, err := shared.GetRecord(t.Context(), kind, "qa"); !errors.Is(err, store.ErrNoRecord) {
			t.Errorf("the request came back: %v", err)
		}
		a.stop()
	})
}

// A server whose turn it is and that cannot take it says so.
func TestTurnCannotBeTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, dir, p := storetest.NewTwin(), t.TempDir(), newProbes()
		a, b := join(t, shared, "a", dir, sharedFile, p), join(t, shared, "b", dir, sharedFile, p)
		time.Sleep(2 * cluster.Every)
		guard := guardOf(t, a, b)
		other := othersOf(guard, a, b)[0]
		other.link.keepNothing(true)
		guard.kill()
		trouble := func() string {
			r, err := other.List(t.Context(), ListRequest{})
			if err != nil {
				t.Fatal(err)
			}
			return r.Trouble
		}
		time.Sleep(cluster.Dead + 2*cluster.Every)
		if got := trouble(); !strings.HasPrefix(got, "the checks are not guarded: take over the checks: ") {
			t.Errorf("the page says %q", got)
		}
		other.link.keepNothing(false)
		time.Sleep(2 * lookEvery)
		if got := trouble(); got != "" || !other.guarding() {
			t.Errorf("once it can: %q", got)
		}
		other.stop()
	})
}

// One server goes on alone from what servers have stored that shared its store: receivers are
// told nothing again, and the end of what they were told.
func TestSharingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, dir, p := storetest.NewTwin(), t.TempDir(), newProbes()
		p.set("c:80", 2.5)
		yaml := strings.Replace(sharedFile, "levels: [CRITICAL]}", "levels: [CRITICAL], verdicts: yes}", 1)
		a := join(t, shared, "a", dir, yaml, p)
		time.Sleep(time.Minute)
		a.stop()
		// They leave a verdict that nobody has told, and a request that nobody waits for.
		err := QueueVerdict(t.Context(), shared, event.Event{Incident: "mark-m", Seq: 1, Kind: event.Verdict, Time: time.Now(), To: event.Critical})
		if err == nil {
			_, err = shared.PutRecords(t.Context(), kind, store.RecordWrite{Key: "qx", Value: []byte(`{"unacknowledge":"c"}`)})
		}
		if err != nil {
			t.Fatal(err)
		}
		ag, err := agg.Open(t.Context(), shared, agg.Options{Writer: "b", Dir: t.TempDir(), Retention: 60 * 24 * time.Hour, FlushInterval: 10 * time.Second, SyncInterval: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time it has been alone before
			file := readFile(t, fmt.Sprintf(yaml, dir))
			told, err := notify.Open(t.Context(), notify.Options{Dir: filepath.Join(dir, "spools"), Receivers: file.Receivers})
			if err != nil {
				t.Fatal(err)
			}
			e, err := Open(t.Context(), Options{Store: shared, Agg: ag, Prober: p, Notifier: told, File: file})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var run sync.WaitGroup
			run.Go(func() { e.Run(ctx) })
			time.Sleep(time.Minute)
			p.set("c:80", 0.5)
			time.Sleep(time.Minute)
			cancel()
			run.Wait()
			if err := told.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
		if err := ag.Close(context.Background()); err != nil {
			t.Error(err)
		}
		for receiver, want := range map[string]string{"all": "opened/1:CRITICAL resolved/2:OK", "worst": "opened/1:CRITICAL verdict/1:CRITICAL resolved/2:OK"} {
			if got := told(t, dir, receiver); got != want {
				t.Errorf("%s is told %q, want %q", receiver, got, want)
			}
		}
		if err := shared.ListRecords(t.Context(), kind, requestPrefix, func(x store.Record) error {
			t.Errorf("%s is left", x.Key)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// What waits for a receiver is not told by a server whose turn is over, though it does not know
// that yet.
func TestOverTurnTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, dir, p := storetest.NewTwin(), t.TempDir(), newProbes()
		for _, receiver := range []string{"all", "worst"} {
			if err := os.Mkdir(filepath.Join(dir, receiver), 0o700); err != nil { // is not a file
				t.Fatal(err)
			}
		}
		p.set("c:80", 2.5)
		a := join(t, shared, "a", dir, sharedFile, p)
		time.Sleep(4 * time.Minute)
		a.link.keepNothing(true) // its keeper does not find out
		if _, err := shared.PutRecords(t.Context(), kind, store.RecordWrite{Key: fenceKey, Value: []byte("b"), IfRevision: store.AnyRevision}); err != nil {
			t.Fatal(err)
		}
		for _, receiver := range []string{"all", "worst"} {
			if err := os.Remove(filepath.Join(dir, receiver)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(4 * time.Minute)
		if got := told(t, dir, "all") + told(t, dir, "worst"); got != "" {
			t.Errorf("in the turn of another it tells %q", got)
		}
		a.link.keepNothing(false)
		time.Sleep(time.Minute)
		if got := told(t, dir, "all"); got != "opened/1:CRITICAL" {
			t.Errorf("in its next turn it tells %q", got)
		}
		a.stop()
	})
}

// A server that finds the fence changed does not write it again before it has read whose turn
// it is.
func TestLostTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, dir, p := storetest.NewTwin(), t.TempDir(), newProbes()
		a := join(t, shared, "a", dir, sharedFile, p)
		time.Sleep(cluster.Every + cluster.Every/5) // it has just read who is there
		if _, err := shared.PutRecords(t.Context(), kind, store.RecordWrite{Key: fenceKey, Value: []byte("b"), IfRevision: store.AnyRevision}); err != nil {
			t.Fatal(err)
		}
		window := api.Maintenance{Name: "disks", End: api.UnixTime(time.Now().Add(time.Hour))}
		if _, err := a.AddMaintenance(t.Context(), window); !errors.Is(err, store.ErrConflict) {
			t.Errorf("a change by a server whose turn is over: %v", err)
		}
		time.Sleep(2 * lookEvery)
		if a.guarding() {
			t.Error("it guards again right after it lost its turn")
		}
		time.Sleep(cluster.Every)
		if !a.guarding() {
			t.Error("it does not guard, though the lease is its own")
		}
		a.stop()
	})
}

// A server whose files differ from those of the server that guards says so.
func TestServersWithOtherFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, dir, p := storetest.NewTwin(), t.TempDir(), newProbes()
		a := join(t, shared, "a", dir, sharedFile, p)
		time.Sleep(5 * time.Second)
		b := join(t, shared, "b", dir, strings.Replace(sharedFile, "  c:\n", "  d:\n", 1), p)
		time.Sleep(2 * followEvery)
		for m, want := range map[*member]string{a: "", b: `this server lacks the check "c", which the server that guards has`} {
			r, err := m.List(t.Context(), ListRequest{})
			if err != nil || !strings.HasPrefix(r.Trouble, want) || (r.Trouble == "") != (want == "") {
				t.Errorf("%s says %q, %v; want %q", m.name, r.Trouble, err, want)
			}
		}
		a.stop()
		b.stop()
	})
}

// A verdict is told by the server that guards, whichever judged, with or without checks of its
// own: once, to the receivers that want verdicts of the server that tells.
func TestVerdictsOfOtherServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, dir, p := storetest.NewTwin(), t.TempDir(), newProbes()
		p.set("c:80", 0.5)
		file := "page: https://tailscope.example/\n" + strings.Replace(sharedFile, "{path: %s/all}", "{path: %s/all}, verdicts: yes", 1)
		verdict := func(mark string) event.Event {
			return event.Event{Incident: "mark-" + mark, Seq: 1, Kind: event.Verdict, Key: event.Key{Check: "deploy"}, Time: time.Now(), Text: "p99 is 30 % slower", To: event.Warning, Link: "/marks/" + mark}
		}
		want := ""
		expect := func(what, mark string) {
			t.Helper()
			time.Sleep(time.Minute)
			want += mark + "@https://tailscope.example/marks/" + mark + " "
			got := ""
			for _, e := range toldEvents(t, dir, "all") {
				got += strings.TrimPrefix(e.Incident, "mark-") + "@" + e.Link + " "
			}
			if got != want {
				t.Errorf("%s: got %q, want %q", what, got, want)
			}
			if err := shared.ListRecords(t.Context(), kind, requestPrefix, func(x store.Record) error {
				t.Errorf("%s: %s is left", what, x.Key)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		queue := func(mark string) {
			t.Helper()
			for range 2 { // tried again
				if err := QueueVerdict(t.Context(), shared, verdict(mark)); err != nil {
					t.Fatal(err)
				}
			}
		}

		queue("first")
		a := join(t, shared, "a", dir, file, p)
		expect("queued before any server with checks was there", "first")
		queue("second")
		expect("queued beside one", "second")

		b := join(t, shared, "b", dir, file, p)
		time.Sleep(2 * cluster.Every)
		guard := guardOf(t, a, b)
		other := othersOf(guard, a, b)[0]
		if err := other.TellVerdict(t.Context(), verdict("third")); err != nil {
			t.Fatal(err)
		}
		expect("judged by one that has checks and does not guard", "third")
		if err := guard.TellVerdict(t.Context(), verdict("fourth")); err != nil {
			t.Fatal(err)
		}
		expect("judged by the one that guards", "fourth")

		wake := guard.link.freeze()
		queue("fifth")
		expect("the one that guards is frozen", "fifth")
		wake()
		time.Sleep(time.Minute)
		guard.kill()
		queue("sixth")
		expect("it is dead", "sixth")
		other.stop()
		if got := told(t, dir, "worst"); got != "" {
			t.Errorf("one that does not want verdicts is told %q", got)
		}
	})
}

// However servers die, freeze and wake, each incident is told from its beginning to its end,
// in order, and no event under a number that meant something else.
func TestServersComeAndGo(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 2))
				shared, dir, p := storetest.NewTwin(), t.TempDir(), newProbes()
				p.set("c:80", 0.5)
				names := []string{"a", "b", "c"}
				all := map[string]*member{}
				wakes := map[string]func(){}
				for _, name := range names {
					all[name] = join(t, shared, name, dir, sharedFile, p)
				}
				for range 30 {
					p.set("c:80", []float64{0.5, 0.5, 1.5, 3}[rng.IntN(4)])
					time.Sleep(time.Duration(1+rng.IntN(90_000)) * time.Millisecond)
					name := names[rng.IntN(len(names))]
					switch wake := wakes[name]; {
					case wake != nil:
						wake()
						delete(wakes, name)
					case rng.IntN(3) == 0:
						wakes[name] = all[name].link.freeze()
					case rng.IntN(2) == 0:
						all[name].kill()
						all[name] = join(t, shared, name, dir, sharedFile, p)
					}
				}
				for _, wake := range wakes {
					wake()
				}
				p.set("c:80", 0.5)
				time.Sleep(10 * time.Minute) // any flapping ends
				for _, m := range all {
					if got := m.state(); got != "OK" {
						t.Errorf("in the end the check is %s on %s", got, m.name)
					}
					m.stop()
				}
				for _, receiver := range []string{"all", "worst"} {
					checkTold(t, receiver, toldEvents(t, dir, receiver), all["a"].incidents)
				}
			})
		})
	}
}

func checkTold(t *testing.T, receiver string, events []toldEvent, incidents map[string]*incident) {
	t.Helper()
	meant, last, over := map[string]event.Kind{}, map[string]int{}, map[string]bool{}
	again := 0
	for _, e := range events {
		name := fmt.Sprint(e.Incident, " ", e.Seq)
		if was, ok := meant[name]; ok {
			if again++; was != e.Kind {
				t.Errorf("%s: %s was %s, then %s", receiver, name, was, e.Kind)
			}
		} else if e.Seq <= last[e.Incident] {
			t.Errorf("%s: %s after number %d", receiver, name, last[e.Incident])
		}
		meant[name], last[e.Incident] = e.Kind, max(e.Seq, last[e.Incident])
		over[e.Incident] = over[e.Incident] || e.Kind == event.Resolved
		if incidents[e.Incident] == nil {
			t.Errorf("%s is told of %s, which is not stored", receiver, name)
		}
	}
	// A server that dies in the second between a delivery and the note of it leaves that to the
	// next: of a dozen deaths hardly one does.
	if again > 2 {
		t.Errorf("%s is told %d of %d events again", receiver, again, len(events))
	}
	if len(incidents) == 0 {
		t.Error("nothing happened")
	}
	for id, k := range incidents {
		if _, told := last[id]; !told && (receiver == "all" || k.Worst == "CRITICAL") || !over[id] && told {
			t.Errorf("%s: of the incident %s, %s at worst, number %d is the last it was told; its end: %v", receiver, id, k.Worst, last[id], over[id])
		}
	}
}

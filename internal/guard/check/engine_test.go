package check

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/api"
)

const two = `
receivers:
  log: {file: {path: events.log}}
checks:
  parent:
    value: {tcp: {address: "parent:80"}}
    every: 10s
    threshold: {must: "<", of: 1, critical: 0}
    receivers: [log]
  child:
    value: {tcp: {address: "child:80"}}
    every: 10s
    threshold: {must: "<", of: 1, warning: 0, critical: 100%}
    receivers: [log]
    depends_on: [parent]
`

func TestAnIncidentFromBeginningToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, two)
		w.probe.set("parent:80", 0.1)
		w.probe.set("child:80", 0.1)
		time.Sleep(30 * time.Second)
		w.expect(w.check("child"), "OK")
		w.expect(w.notes.take(), "")
		w.probe.set("child:80", 1.5)
		time.Sleep(15 * time.Second)
		w.expect(w.check("child"), "OK soft WARNING")
		time.Sleep(20 * time.Second)
		w.expect(w.notes.take(), "child opened 1 OK>WARNING: child is WARNING: 1.50 is above 1")
		w.probe.set("child:80", 2.5)
		time.Sleep(12 * time.Second)
		w.expect(w.notes.take(), "child changed 2 WARNING>CRITICAL: child is CRITICAL: 2.50 is above 2")
		if _, err := w.Acknowledge(t.Context(), "child", api.Ack{User: "eva", Comment: "looking"}); err != nil {
			t.Fatal(err)
		}
		w.expect(w.notes.take(), "child acknowledged 3 CRITICAL>CRITICAL: eva acknowledged that child is CRITICAL: looking")
		w.probe.set("child:80", 1.5)
		time.Sleep(12 * time.Second)
		w.expect(w.notes.take(), "")
		w.probe.set("child:80", 0.5)
		time.Sleep(12 * time.Second)
		w.expect(w.notes.take(), "child resolved 5 WARNING>OK: child is OK after 40 s: 0.500")
		r, err := w.Get(t.Context(), GetRequest{ID: "child"})
		if err != nil {
			t.Fatal(err)
		}
		states := ""
		for _, s := range r.States {
			states += s.State + " "
		}
		w.expect(states, "OK WARNING CRITICAL WARNING OK")
		if len(r.Incidents) != 1 || len(r.Incidents[0].Events) != 5 || r.Incidents[0].Worst != "CRITICAL" {
			t.Errorf("incidents: %+v", r.Incidents)
		}
		if len(r.Points) == 0 || r.Points[0].Bands.HighCritical != 2 {
			t.Errorf("points: %+v", r.Points)
		}
		w.stop()
	})
}

func TestAParentMasksItsChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, two)
		time.Sleep(time.Minute) // both refuse connections: UNKNOWN
		w.expect(w.notes.take(), "parent opened 1 OK>UNKNOWN: parent is UNKNOWN: connection refused; start the service")
		w.expect(w.check("child")[:len("UNKNOWN (depends on parent)")], "UNKNOWN (depends on parent)")
		w.probe.set("parent:80", 0.1)
		time.Sleep(20 * time.Second)
		w.expect(w.notes.take(), "parent resolved 2 UNKNOWN>OK: parent is OK after 40 s: 0.100\nchild opened 1 OK>UNKNOWN: child is UNKNOWN: connection refused; start the service")
		w.stop()
	})
}

func TestMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, two)
		w.probe.set("parent:80", 0.1)
		w.probe.set("child:80", 0.1)
		time.Sleep(30 * time.Second)
		now := api.UnixTime(time.Now())
		m, err := w.AddMaintenance(t.Context(), api.Maintenance{Name: "move", Checks: []string{"parent"}, End: now + 300})
		if err != nil || !m.Active {
			t.Fatal(m, err)
		}
		w.probe.set("parent:80", 3)
		time.Sleep(time.Minute)
		w.expect(w.notes.take(), "")
		if got := w.check("parent"); got[:len("CRITICAL (maintenance move)")] != "CRITICAL (maintenance move)" {
			t.Error(got)
		}
		w.probe.set("parent:80", 0.5)
		time.Sleep(time.Minute)
		w.probe.set("parent:80", 5)
		time.Sleep(time.Minute)
		w.expect(w.notes.take(), "")
		time.Sleep(125 * time.Second)
		w.expect(w.notes.take(), "parent opened 1 OK>CRITICAL: parent is CRITICAL: 5 is above 1")
		in, err := w.Incidents(t.Context(), IncidentsRequest{Check: "parent"})
		if err != nil || len(in.Incidents) != 2 {
			t.Errorf("%+v, %v", in, err)
		}
		w.stop()
	})
}

func TestNothingIsLostInACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, two)
		w.probe.set("parent:80", 0.1)
		w.probe.set("child:80", 5)
		w.notes.failing(errors.New("disk full"))
		time.Sleep(40 * time.Second)
		w.expect(w.notes.take(), "")
		w.store.kill()
		before := w.check("child")
		w.stop()
		w.store.dead = false
		w.notes.failing(nil)
		w.open(two)
		w.expect(w.check("child"), before)
		time.Sleep(2 * time.Second)
		w.expect(w.notes.take(), "child opened 1 OK>CRITICAL: child is CRITICAL: 5 is above 2")
		if _, err := w.Acknowledge(t.Context(), "child", api.Ack{User: "eva"}); err != nil {
			t.Fatal(err)
		}
		w.notes.take()
		w.store.kill()
		before = w.check("child")
		w.stop()
		w.store.dead = false
		w.open(two)
		w.expect(w.check("child"), before)
		w.probe.set("child:80", 0.5)
		time.Sleep(15 * time.Second)
		// What was told may be told again, with its number.
		again := "child acknowledged 2 CRITICAL>CRITICAL: eva acknowledged that child is CRITICAL\n"
		w.expect(strings.TrimPrefix(w.notes.take(), again), "child resolved 3 CRITICAL>OK: child is OK after 20 s: 0.500")
		w.stop()
	})
}

// A store that takes nothing, as on a full disk, does not silence the guard; what
// is wrong is told to who asks.
func TestStoreThatIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, two)
		w.probe.set("parent:80", 0.1)
		w.probe.set("child:80", 0.5)
		time.Sleep(20 * time.Second)
		trouble := func() string {
			r, err := w.List(t.Context(), ListRequest{})
			if err != nil {
				t.Fatal(err)
			}
			return r.Trouble
		}
		w.expect(trouble(), "")
		w.store.kill()
		w.probe.set("child:80", 5)
		time.Sleep(time.Minute)
		w.expect(w.notes.take(), "child opened 1 OK>CRITICAL: child is CRITICAL: 5 is above 2")
		if s := trouble(); !strings.HasPrefix(s, "states are not kept since ") || !strings.HasSuffix(s, "the process is dead") {
			t.Errorf("trouble is %q", s)
		}
		w.store.mu.Lock()
		w.store.dead = false
		w.store.mu.Unlock()
		w.notes.failing(errors.New("receiver hook: the spool is read-only"))
		w.probe.set("child:80", 0.5)
		time.Sleep(time.Minute)
		w.expect(trouble(), "receivers are not told: receiver hook: the spool is read-only")
		w.notes.failing(nil)
		time.Sleep(5 * time.Second)
		w.expect(trouble(), "")
		if told := w.notes.take(); !strings.HasPrefix(told, "child resolved 2 CRITICAL>OK") {
			t.Errorf("told %q", told)
		}
		w.stop()
	})
}

func TestReplace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, two)
		w.probe.set("parent:80", 0.1)
		w.probe.set("child:80", 5)
		time.Sleep(40 * time.Second)
		w.notes.take()
		if err := w.Replace(t.Context(), readFile(t, two)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Second)
		w.expect(w.notes.take(), "")
		without := two[:len(two)-len(two[indexOf(two, "  child:"):])]
		if err := w.Replace(t.Context(), readFile(t, without)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		w.expect(w.notes.take(), "child resolved 2 CRITICAL>OK: child is over after 53 s: its definition is gone")
		w.stop()
	})
}

func indexOf(s, sub string) int {
	for i := range s {
		if len(s)-i >= len(sub) && s[i:i+len(sub)] == sub {
			return i
		}
	}
	return -1
}

func TestARunThatLastsIsNotPiledUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, `
checks:
  slow:
    value: {tcp: {address: "slow:80"}}
    every: 10s
    timeout: 10s
  next:
    value: {tcp: {address: "next:80"}}
    after: slow
    delay: 1s
`)
		w.probe.wait["slow:80"] = time.Hour
		w.probe.set("next:80", 1)
		time.Sleep(65 * time.Second)
		if n := w.probe.ran("slow:80"); n < 3 || n > 7 {
			t.Errorf("ran %d times", n)
		}
		if s := w.Stats(); s.Skipped == 0 && w.probe.ran("slow:80") < 6 {
			t.Errorf("skipped %d, ran %d", s.Skipped, w.probe.ran("slow:80"))
		}
		if n := w.probe.ran("next:80"); n == 0 || n > w.probe.ran("slow:80") {
			t.Errorf("next ran %d times", n)
		}
		w.stop()
	})
}

func TestLink(t *testing.T) {
	e := &Engine{page: "https://tailscope.example/"}
	if got, want := e.link(`a b{operation="GET /x"}`), "https://tailscope.example/checks/a%20b%7Boperation=%22GET%20%2Fx%22%7D"; got != want {
		t.Errorf("link %s, want %s", got, want)
	}
	if e.page = ""; e.link("a") != "" {
		t.Error("a link to nowhere")
	}
}

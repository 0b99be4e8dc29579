package check

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// Two servers that share a store run checks of one name: each keeps its states, its
// incidents and what it has to tell, also over a restart.
func TestServersCheckApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const yaml = "receivers:\n  log: {file: {path: events.log}}\nchecks:\n  c: {cron: \"* * * * *\", value: {tcp: {address: \"all:80\"}}, soft: 1 of 1, receivers: [log]}\n"
		shared := storetest.NewTwin()
		open := func(name string, p *probes) *world {
			own, err := store.OwnRecords(t.Context(), shared, name)
			if err != nil {
				t.Fatal(err)
			}
			w := &world{t: t, store: &mortal{Store: shared}, probe: p, notes: &notes{}}
			w.o.Records = own
			w.open(yaml)
			return w
		}
		up := newProbes()
		up.set("all:80", 0)
		a, b := open("a", newProbes()), open("b", up)
		time.Sleep(70 * time.Second)
		if told := a.notes.take(); !strings.Contains(told, "OK>UNKNOWN") || b.notes.take() != "" {
			t.Errorf("receivers of the first are told %q", told)
		}
		for range 2 {
			if got := a.check("c"); !strings.HasPrefix(got, "UNKNOWN ") {
				t.Errorf("what does not answer is %s", got)
			}
			if got := b.check("c"); got != "OK" {
				t.Errorf("what answers is %s", got)
			}
			if len(a.incidents) != 1 || len(b.incidents) != 0 {
				t.Errorf("%d and %d incidents, want 1 and 0", len(a.incidents), len(b.incidents))
			}
			a.stop()
			b.stop()
			if a.notes.take() != "" || b.notes.take() != "" {
				t.Error("receivers are told again")
			}
			a, b = open("a", a.probe), open("b", b.probe)
		}
		a.stop()
		b.stop()
	})
}

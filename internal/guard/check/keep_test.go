package check

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// together remembers which records were put together.
type together struct {
	store.Store
	put []map[string]bool // keys
}

func (w *together) PutRecords(ctx context.Context, of string, writes ...store.RecordWrite) (uint64, error) {
	if of == kind {
		keys := map[string]bool{}
		for _, r := range writes {
			keys[r.Key] = len(r.Value) > 0
		}
		w.put = append(w.put, keys)
	}
	return w.Store.PutRecords(ctx, of, writes...)
}

// However many incidents begin at once, each is put together with the state of its
// check, and the event that tells of it.
func TestIncidentsArePutWithTheirChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 5000
		var b strings.Builder
		b.WriteString("receivers:\n  log: {file: {path: events.log}}\nchecks:\n")
		for i := range n {
			fmt.Fprintf(&b, "  c%d: {cron: \"* * * * *\", value: {tcp: {address: \"all:80\"}}, soft: 1 of 1, receivers: [log]}\n", i)
		}
		inner := &together{Store: storetest.NewTwin()}
		w := &world{t: t, store: &mortal{Store: inner}, probe: newProbes(), notes: &notes{}}
		w.open(b.String())
		time.Sleep(70 * time.Second)
		w.stop()
		incidents := 0
		for _, keys := range inner.put {
			for key, there := range keys {
				if key[0] != 'i' || !there {
					continue
				}
				incidents++
				if check := w.incidents[key[1:]].Check; !keys["c"+check] {
					t.Fatalf("%s of %s is put without its state", key, check)
				}
			}
		}
		if incidents != n || len(w.notes.events) != n {
			t.Errorf("%d incidents, %d told", incidents, len(w.notes.events))
		}
	})
}

// What was learned for a check goes with the check.
func TestWhatWasLearnedGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, learning)
		w.probe.set("orders:80", 10)
		time.Sleep(2 * time.Hour)
		learned := func() (n int) {
			if err := w.store.ListRecords(t.Context(), kind, "p", func(store.Record) error { n++; return nil }); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := learned(); n != 1 {
			t.Fatalf("%d profiles learned", n)
		}
		if err := w.Replace(t.Context(), readFile(t, "checks:\n  other: {every: 10m, value: 1 + 1}\n")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		w.stop()
		if n := learned(); n != 0 || len(w.lessons.kept)+len(w.lessons.compiled)+len(w.lessons.tried) > 0 {
			t.Errorf("%d kept of a check that is gone", n)
		}
	})
}

// The checks of an Each outlive hours in which this process was not there.
func TestEachAfterHoursWithoutUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, perOperation)
		w.traffic(3*time.Minute, map[string]float64{"GET /a": 0.1, "GET /b": 2})
		if said := w.notes.take(); !strings.Contains(said, `slow{operation="GET /b"} opened 1 OK>CRITICAL`) {
			t.Fatal(said)
		}
		w.stop()
		time.Sleep(3 * time.Hour)
		w.open(perOperation)
		w.traffic(3*time.Minute, map[string]float64{"GET /a": 0.1, "GET /b": 2})
		w.expect(w.notes.take(), "") // what was bad is, what was well is
		w.traffic(13*time.Minute, map[string]float64{"GET /a": 0.1})
		if said := w.notes.take(); !strings.Contains(said, "no data of it for 10 min") {
			t.Errorf("a series that is gone: %s", said)
		}
		w.stop()
	})
}

// A learned profile goes by the calendar that is defined now.
func TestLearnedProfilesFollowTheCalendar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, learning)
		w.probe.set("orders:80", 10)
		time.Sleep(2 * time.Hour)
		zone := func() string {
			w.lessons.mu.RLock()
			defer w.lessons.mu.RUnlock()
			return w.lessons.compiled["usual\x00orders"].Calendar().Zone().String()
		}
		w.expect(zone(), "Europe/Stockholm")
		if err := w.Replace(t.Context(), readFile(t, strings.ReplaceAll(learning, "Europe/Stockholm", "America/New_York"))); err != nil {
			t.Fatal(err)
		}
		w.expect(zone(), "America/New_York")
		w.stop()
	})
}

const verdictsToOps = `
receivers: {ops: {file: {path: ops}, verdicts: yes}, others: {file: {path: others}}}
checks: {c: {every: 1h, value: {tcp: {address: 'c:80'}}}}
`

// A verdict is told once, however often it is tried while it cannot be stored.
func TestTellIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, verdictsToOps)
		defer func() { w.stop() }()
		verdict := event.Event{Incident: "mark-m", Seq: 1, Kind: event.Verdict, Key: event.Key{Check: "deploy"}, Text: "p99 is 30 % slower"}
		w.store.kill()
		for range 3 {
			if err := w.TellVerdict(t.Context(), verdict); err == nil {
				t.Error("it is told and not stored")
			}
			time.Sleep(time.Second)
		}
		w.store.revive()
		if err := w.TellVerdict(t.Context(), verdict); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		w.expect(w.notes.take(), "deploy verdict 1 OK>OK: p99 is 30 % slower")
	})
}

// That another server tells the receivers by now is not an error: events are stored.
func TestTurnIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, verdictsToOps)
		defer func() { w.stop() }()
		w.notes.failing(fmt.Errorf("receiver ops: %w", event.ErrTurnOver))
		if err := w.TellVerdict(t.Context(), event.Event{Incident: "mark-m", Seq: 1, Kind: event.Verdict}); err != nil {
			t.Error(err)
		}
		if err := w.keepOnce(t.Context()); err != nil {
			t.Error(err)
		}
		w.notes.failing(nil)
		time.Sleep(2 * keepEvery)
		if got := w.notes.take(); !strings.Contains(got, "verdict") {
			t.Errorf("later it is told %q", got)
		}
	})
}

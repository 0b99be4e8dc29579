package check

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/api"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// leaping is a world whose clock is ahead, and as far as leapt says has leapt there.
type leaping struct {
	*world
	ahead, leapt atomic.Int64
}

func newLeaping(t *testing.T, yaml string) *leaping {
	w := &leaping{world: &world{t: t, store: &mortal{Store: storetest.NewTwin()}, probe: newProbes(), notes: &notes{}}}
	w.o.Leapt = func() time.Duration { return time.Duration(w.leapt.Load()) }
	w.o.Now = func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }
	w.open(yaml)
	return w
}

func (w *leaping) leap(d time.Duration) {
	w.leapt.Store(int64(d))
	w.ahead.Store(int64(d))
}

// While the clock has leapt ahead of the data, no check of an Each leaves. One
// whose data ends leaves when the clock is right again.
func TestEachOutlivesAClockLeap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLeaping(t, perOperation)
		w.traffic(6*time.Minute, map[string]float64{"GET /a": 0.1, "GET /b": 2})
		said := w.notes.take()
		if !strings.Contains(said, `slow{operation="GET /b"} opened 1 OK>CRITICAL`) {
			t.Fatal(said)
		}
		w.leap(30 * 24 * time.Hour)
		w.traffic(15*time.Minute, map[string]float64{"GET /a": 0.1, "GET /b": 2})
		if said = w.notes.take(); strings.Contains(said, "no data of it") {
			t.Errorf("in the leap: %s", said)
		}
		w.leap(0)
		w.traffic(15*time.Minute, map[string]float64{"GET /a": 0.1})
		if said = w.notes.take(); !strings.Contains(said, "no data of it for 10 min") {
			t.Errorf("a series that is gone: %s", said)
		}
		w.stop()
	})
}

// While the clock has leapt ahead, what is kept for a while stays: windows of
// maintenance that were posted, incidents that are over, and bands of state. It
// goes when the clock is believed.
func TestRecordsOutliveAClockLeap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLeaping(t, two)
		defer w.stop()
		for _, seconds := range []float64{0.1, 5, 0.1} {
			w.probe.set("parent:80", seconds)
			w.probe.set("child:80", 0.1)
			time.Sleep(time.Minute)
		}
		if _, err := w.AddMaintenance(t.Context(), api.Maintenance{Name: "move", End: api.UnixTime(time.Now().Add(time.Minute))}); err != nil {
			t.Fatal(err)
		}
		// kept counts the records after everything has been looked at.
		kept := func() string {
			w.mu.Lock()
			w.rebuildWindows()
			w.trimIncidents()
			w.noteTransition(w.conditions["parent"], w.o.Now(), "")
			w.mu.Unlock()
			time.Sleep(2 * time.Hour)
			n := map[byte]int{}
			err := w.store.ListRecords(t.Context(), kind, "", func(r store.Record) error {
				if r.Key[0] != 't' || strings.HasPrefix(r.Key, "tparent") {
					n[r.Key[0]]++
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("%d windows, %d incidents, %d bands", n['m'], n['i'], n['t'])
		}
		w.expect(kept(), "1 windows, 1 incidents, 4 bands")
		w.leap(500 * 24 * time.Hour)
		w.expect(kept(), "1 windows, 1 incidents, 5 bands")
		w.leapt.Store(0)
		w.expect(kept(), "0 windows, 0 incidents, 3 bands")
	})
}

package agg

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tailscope/internal/series"
)

// failingSyncs is a file system in memory on which syncs of files whose name
// has the suffix fail while fail is set. They are counted in any case.
type failingSyncs struct {
	vfs.FS
	fail  atomic.Bool
	calls atomic.Int32
}

func newFailingSyncs(suffix string) *failingSyncs {
	f := &failingSyncs{}
	f.FS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			if strings.HasSuffix(op.Path, suffix) {
				f.calls.Add(1)
				if f.fail.Load() {
					return errorfs.ErrInjected
				}
			}
		}
		return nil
	}))
	return f
}

// seldom keeps the syncer and the flusher from doing anything on their own.
func seldom(o *Options) { o.SyncInterval, o.FlushInterval = math.MaxInt64, 24*time.Hour }

// A sync that fails is tried again, of each file, until it succeeds.
func TestFailedSyncIsTriedAgain(t *testing.T) {
	for _, suffix := range []string{".journal", ackFile, "journal"} { // the last is the directory too
		st, c, fs := newMemStore(), newClock(), newFailingSyncs(suffix)
		a := open(t, st, c, "data/journal", on(fs), seldom)
		st.refuse(errors.New("the store takes nothing"))
		send(t, a, c, 5)
		before := fs.calls.Load()
		fs.fail.Store(true)
		for range 3 {
			if err := a.syncJournals(); !errors.Is(err, errorfs.ErrInjected) {
				t.Errorf("%s: got %v", suffix, err)
			}
		}
		fs.fail.Store(false)
		if err := a.syncJournals(); err != nil {
			t.Errorf("%s: %v", suffix, err)
		}
		n := fs.calls.Load() - before
		if n < 4 {
			t.Errorf("%s: %d syncs, want 4 at least", suffix, n)
		}
		if err := a.syncJournals(); err != nil || fs.calls.Load()-before != n {
			t.Errorf("%s: synced again with nothing new: %v", suffix, err)
		}
		if s := a.Stats(); s.SyncErrors != 3 {
			t.Errorf("%s: %d failures counted, want 3", suffix, s.SyncErrors)
		}
		// A later sync does not bring back what the failed one dropped.
		err := a.Close(context.Background())
		if said := err != nil && strings.Contains(err.Error(), "could not be synced"); said != (suffix != ackFile) {
			t.Errorf("%s: Close returned %v", suffix, err)
		}
	}
}

// Close reports a sync that fails, also if one failed before.
func TestCloseReportsFailedSync(t *testing.T) {
	for _, before := range []bool{false, true} {
		st, c, fs := newMemStore(), newClock(), newFailingSyncs(".journal")
		a := open(t, st, c, "data/journal", on(fs), seldom)
		st.refuse(errors.New("the store takes nothing"))
		send(t, a, c, 5)
		fs.fail.Store(true)
		if before {
			a.syncJournals()
		}
		if err := a.Close(context.Background()); !errors.Is(err, errorfs.ErrInjected) {
			t.Errorf("failed before %v: Close returned %v", before, err)
		}
	}
}

// A generation whose journal cannot be synced goes to the store soon, from
// memory, and what follows is written to another file.
func TestFailedSyncPutsTheGeneration(t *testing.T) {
	st, c, fs := newMemStore(), newClock(), newFailingSyncs(".journal")
	a := open(t, st, c, "data/journal", on(fs), seldom)
	send(t, a, c, 5)
	first := a.open.number
	fs.fail.Store(true)
	a.syncJournals()
	fs.fail.Store(false)
	for end := time.Now().Add(20 * time.Second); st.count(t, series.SpanDuration, series.Full) < 5; {
		if time.Now().After(end) {
			t.Fatal("the generation is not in the store")
		}
		time.Sleep(time.Millisecond)
	}
	send(t, a, c, 3)
	a.mu.Lock()
	n, unsynced := a.open.number, a.open.journal.unsynced
	a.mu.Unlock()
	if n == first || unsynced {
		t.Errorf("generation %d follows %d, unsynced %v", n, first, unsynced)
	}
	if err := a.Close(context.Background()); err != nil {
		t.Errorf("all is stored, Close returned %v", err)
	}
}

// The file of acknowledgements can be cut and removed while it is in use.
func TestAcknowledgedIsCutWhileInUse(t *testing.T) {
	for _, remove := range []bool{false, true} {
		st, c, dir := newMemStore(), newClock(), t.TempDir()
		a := open(t, st, c, dir)
		send(t, a, c, 5)
		path := vfs.Default.PathJoin(dir, ackFile)
		err := os.Truncate(path, 0)
		if remove {
			err = os.Remove(path)
		}
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			send(t, a, c, 5)
		}
		if err := a.syncJournals(); err != nil {
			t.Error(err)
		}
		crash(a)
		a = open(t, st, c, dir)
		if n := st.count(t, series.SpanDuration, series.Full); n != 20 {
			t.Errorf("removed %v: %d replayed, want 20", remove, n)
		}
		crash(a)
	}
}

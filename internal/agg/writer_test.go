package agg_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/hist"
	"tailscope/internal/agg"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

// What is acknowledged counts once whatever becomes of the name that a directory's
// server writes under: in directories of older versions, which all wrote as
// "local", in new ones, and where the identity is lost. Each life is killed.
func TestWritersCountOnce(t *testing.T) {
	for _, c := range []struct {
		name       string
		first      string // writer of the first life; empty: the directory's own
		flushes    int    // of the first life
		flushTable bool   // the store's log is in tables
		want       string // writer of later lives
		between    func(t *testing.T, fs vfs.FS)
	}{
		{"an older version, stored in part", "local", 2, false, `^local$`, nil},
		{"an older version, in tables", "local", 3, true, `^local$`, nil},
		{"an older version, nothing stored", "local", 0, false, `^[0-9a-f]{16}$`, nil},
		{"new, stored in part", "", 2, false, `^[0-9a-f]{16}$`, nil},
		{"new, nothing stored", "", 0, false, `^[0-9a-f]{16}$`, nil},
		{"the identity file is gone", "", 2, true, `^[0-9a-f]{16}$`, func(t *testing.T, fs vfs.FS) {
			if err := fs.Remove("data/store/IDENTITY"); err != nil {
				t.Fatal(err)
			}
		}},
		{"the store is gone", "local", 2, true, `^[0-9a-f]{16}$`, func(t *testing.T, fs vfs.FS) {
			if err := fs.RemoveAll("data/store"); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := context.Background()
			fs := vfs.NewCrashableMem()
			now := func() time.Time { return began }
			acknowledged, stored := 0, 0
			writers := map[string]bool{}
			for life := range 4 {
				st, err := pebblestore.Open(ctx, pebblestore.Options{Dir: "data/store", DamagedDir: "data/damaged", FS: fs, MinFreeBytes: -1})
				if err != nil {
					t.Fatal(err)
				}
				writer := st.Writer()
				if life == 0 && c.first != "" {
					writer = c.first
				}
				if life > 0 {
					writers[writer] = true
				}
				a, err := agg.Open(ctx, st, agg.Options{Writer: writer, Dir: "data/journal", FS: fs, Now: now, FlushInterval: time.Hour, SyncInterval: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				if err := a.Flush(ctx); err != nil { // what was replayed
					t.Fatal(err)
				}
				want := acknowledged
				if c.name == "the store is gone" && life > 0 {
					want -= stored // of which no journal is left
				}
				if got := spansIn(t, st); got != want {
					t.Fatalf("life %d, writer %s: %d spans, want %d", life, writer, got, want)
				}
				observe := func() {
					b := a.NewBatch()
					for i := range 10 {
						b.Observe(a.SpanTarget(&agg.SpanIdentity{Service: "shop", Operation: fmt.Sprint(i)}), began.UnixNano(), 1e6, 1)
					}
					if _, err := b.Commit(ctx); err != nil {
						t.Fatal(err)
					}
					acknowledged += 10
				}
				for range c.flushes {
					observe()
					if err := a.Flush(ctx); err != nil {
						t.Fatal(err)
					}
				}
				if c.flushTable {
					if err := st.WriteTables(ctx); err != nil {
						t.Fatal(err)
					}
				}
				observe()
				killed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, uint64(life)))})
				if err := a.Close(ctx); err != nil {
					t.Fatal(err)
				}
				if err := st.Close(); err != nil {
					t.Fatal(err)
				}
				fs = killed
				if life == 0 && c.between != nil {
					journals, n, err := agg.CountJournals(ctx, fs, "data/journal")
					if err != nil || journals == 0 {
						t.Fatalf("%d journals, %v", journals, err)
					}
					stored = acknowledged - int(n)
					c.between(t, fs)
				}
			}
			for w := range writers {
				if len(writers) != 1 || !regexp.MustCompile(c.want).MatchString(w) {
					t.Errorf("later lives write as %v, want one like %s", writers, c.want)
				}
			}
		})
	}
}

// Two directories never write under one name.
func TestWritersDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 20 {
		st, err := pebblestore.Open(context.Background(), pebblestore.Options{Dir: "data", FS: vfs.NewMem(), MinFreeBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		if seen[st.Writer()] {
			t.Errorf("%s twice", st.Writer())
		}
		seen[st.Writer()] = true
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := agg.Open(context.Background(), nil, agg.Options{Dir: "data", FS: vfs.NewMem()}); err == nil {
		t.Error("an aggregator without a name opens")
	}
}

// spansIn counts what a store has of every span.
func spansIn(t *testing.T, st store.Store) int {
	t.Helper()
	r, err := st.Query(context.Background(), store.Query{Family: series.SpanDuration, View: series.Total, Start: began.Unix() - 3600, End: began.Unix() + 3600, Schema: hist.DefaultSchema})
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(0)
	for _, g := range r.Groups {
		for _, p := range g.Points {
			n += p.Hist.Count
		}
	}
	return int(n)
}

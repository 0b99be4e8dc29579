package pebblestore

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Settling must give back the space of the chunks it replaces, without anybody
// compacting by hand: a compacted point is far smaller than the chunk's form.
func TestSettlingFreesSpace(t *testing.T) {
	ctx := context.Background()
	s, err := Open(ctx, Options{Dir: "data", FS: vfs.NewMem()})
	check(t, err)
	defer s.Close()
	const n, slots = 50, 360
	rng := rand.New(rand.NewPCG(1, 2))
	h := hist.New(hist.DefaultSchema)
	all := denseSeries(n)
	points := 0
	for slot := range int64(slots) {
		b := &store.Batch{Writer: "w", Generation: uint64(slot + 1), Resolution: series.Base, Series: all}
		for i := range all {
			b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: t0 + slot*10, Data: logNormal(rng, h, 200, 0.01, 0.5)})
			points++
		}
		check(t, s.Put(ctx, b))
	}
	check(t, s.Maintain(ctx, time.Unix(t0+slots*10+3600, 0)))
	used, _, err := s.Usage(series.Base)
	check(t, err)
	t.Logf("%.1f B per compacted point", float64(used)/float64(points))
	if got := float64(used) / float64(points); got < 20 || got > 55 {
		t.Errorf("a compacted point takes %.1f B on disk, want 20 to 55", got)
	}
}

// A log whose points are in tables must not stay on the disk: it may be larger than these
// are once they have settled.
func TestLogsAreDeleted(t *testing.T) {
	mem := vfs.NewMem()
	s, err := Open(t.Context(), Options{Dir: "data", FS: mem, MemtableBytes: 1 << 20})
	check(t, err)
	defer s.Close()
	rng := rand.New(rand.NewPCG(1, 3))
	h := hist.New(hist.DefaultSchema)
	all := denseSeries(1000)
	for slot := range int64(60) {
		b := &store.Batch{Writer: "w", Generation: uint64(slot + 1), Resolution: series.Base, Series: all}
		for i := range all {
			b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: t0 + slot*10, Data: logNormal(rng, h, 50, 0.01, 0.5)})
		}
		check(t, s.Put(t.Context(), b))
	}
	check(t, s.db.Flush())
	names, err := mem.List("data")
	check(t, err)
	logs := 0
	for _, n := range names {
		if strings.HasSuffix(n, ".log") {
			logs++
		}
	}
	if logs > 1 {
		t.Errorf("%d logs are left after a flush, want the one in use", logs)
	}
}

package pebblestore

import (
	"context"
	"math/rand/v2"
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

// What comes in parts, in any order, is rewritten once it is complete; what never ends
// is rewritten now and then.
func TestQuietBeforeSettling(t *testing.T) {
	var elapsed time.Duration
	s, err := Open(t.Context(), Options{Dir: "data", FS: vfs.NewMem(), Quiet: 15 * time.Second, Elapsed: func() time.Duration { return elapsed }})
	check(t, err)
	defer s.Close()
	rng := rand.New(rand.NewPCG(1, 4))
	h := hist.New(hist.DefaultSchema)
	all := denseSeries(20)
	points, generation := uint64(0), uint64(0)
	now := time.Unix(t0+2*86400, 0)
	put := func() {
		generation++
		b := &store.Batch{Writer: "w", Generation: generation, Resolution: series.Base, Series: all}
		for i := range all {
			for slot := generation % 7; slot < 360; slot += 7 {
				b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: t0 + int64(slot)*10, Data: logNormal(rng, h, 5, 0.01, 0.5)})
			}
		}
		points += uint64(len(b.Points))
		check(t, s.Put(t.Context(), b))
	}
	step := func() uint64 {
		elapsed += 10 * time.Second
		before := s.Stats().Settled
		check(t, s.Maintain(t.Context(), now))
		return s.Stats().Settled - before
	}
	for range 7 {
		put()
		if n := step(); n > 0 {
			t.Fatalf("%d points were rewritten while more came", n)
		}
	}
	// The coarser tiers add a fifth.
	if n := step(); n < points || n > points*5/4 {
		t.Errorf("%d points were rewritten once it was quiet, of %d and what is made of them", n, points)
	}
	if n := step(); n > 0 {
		t.Errorf("%d points were rewritten again", n)
	}
	rewritten := 0
	for range 60 {
		put()
		if step() > 0 {
			rewritten++
		}
	}
	if rewritten < 1 || rewritten > 15 {
		t.Errorf("what never ends was rewritten in %d of 60 rounds", rewritten)
	}
}

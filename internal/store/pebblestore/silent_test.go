package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// No question leaves out silently what lies in a damaged block: it fails, or
// its answer is whole, or the start has named the table.
func TestNoSilentLoss(t *testing.T) {
	ctx, whole := context.Background(), vfs.NewMem()
	s := open(t, Options{FS: whole})
	const many, slots = 300, 40
	for g := range uint64(4) {
		b := &store.Batch{Writer: "w", Generation: g + 1, Resolution: series.Base}
		for i := range many {
			b.Series = append(b.Series, storetest.Span(series.Full, "service", fmt.Sprint("s", i), "x", fmt.Sprintf("%x", rand.New(rand.NewPCG(1, uint64(i))).Uint64())))
			for k := range int64(slots) {
				b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: t0 + (int64(g)*slots+k)*10, Data: storetest.Dist(float64(i+1) / 7)})
			}
		}
		check(t, s.Put(ctx, b))
	}
	check(t, errors.Join(s.db.Flush(), s.Close()))
	tables := files(t, whole, "data", "", ".sst")
	name := tables[len(tables)-1]
	b, err := readWhole(whole, "data/"+name)
	check(t, err)
	ask := store.Query{Family: series.SpanDuration, View: series.Full, Start: t0, End: t0 + 3600, Step: 10, Schema: 5, Measure: store.Moments, Each: true}
	outcomes := map[string]int{}
	for at := 5; at < len(b); at += 997 {
		fs := vfs.NewMem()
		if _, err := vfs.Clone(whole, fs, "data", "data"); err != nil {
			t.Fatal(err)
		}
		change(t, fs, "data/"+name, flipAt(func(int) int { return at }))
		s, err := Open(ctx, Options{Dir: "data", FS: fs, MemtableBytes: 1 << 20})
		if err != nil {
			t.Fatalf("byte %d: %v", at, err)
		}
		named := len(s.Damage())
		r, err := s.Query(ctx, ask)
		n := uint64(0)
		if err == nil {
			for _, g := range r.Groups {
				for _, p := range g.Points {
					n += p.Hist.Count
				}
			}
		}
		switch {
		case err != nil:
			outcomes["fails"]++
		case n == 4*many*slots:
			outcomes["whole"]++
		case named > 0:
			outcomes["named"]++
		default:
			t.Errorf("byte %d of %d: count %d, want %d; damage %+v", at, len(b), n, 4*many*slots, s.Damage())
		}
		check(t, s.Close())
	}
	if outcomes["fails"] == 0 || outcomes["whole"]+outcomes["named"] == 0 {
		t.Errorf("outcomes of %d bytes: %v", len(b), outcomes)
	}
}

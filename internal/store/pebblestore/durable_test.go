package pebblestore

import (
	"context"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// What Durable says is what the loss of the log leaves.
func TestDurableIsWhatTheLossOfTheLogLeaves(t *testing.T) {
	ctx := context.Background()
	fs := vfs.NewMem()
	s := open(t, Options{FS: fs})
	put := func(gen uint64) {
		t.Helper()
		if err := s.Put(ctx, &store.Batch{Writer: "w", Generation: gen, Resolution: series.Base,
			Series: []series.Series{storetest.Span(series.Full, "service", "a")},
			Points: []store.Point{{Slot: storetest.T0, Data: storetest.Dist(1)}}}); err != nil {
			t.Fatal(err)
		}
	}
	says := func(what string, flushed, durable uint64) {
		t.Helper()
		f, err := s.Flushed(ctx, "w")
		if err != nil {
			t.Fatal(err)
		}
		d, err := s.Durable(ctx, "w")
		if err != nil {
			t.Fatal(err)
		}
		if f != flushed || d != durable {
			t.Errorf("%s: flushed %d, durable %d; want %d and %d", what, f, d, flushed, durable)
		}
	}
	put(1)
	put(2)
	says("after two Puts", 2, 0)
	if err := s.WriteTables(ctx); err != nil {
		t.Fatal(err)
	}
	says("once tables are written", 2, 2)
	put(3)
	says("after another Put", 3, 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := fs.List("data")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if !strings.HasSuffix(n, ".log") {
			continue
		}
		if err := fs.Remove("data/" + n); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, Options{FS: fs})
	defer s.Close()
	says("without the log", 2, 2)
}

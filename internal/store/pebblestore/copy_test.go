package pebblestore

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// A copy answers as the store does, goes on as it does, and one that was interrupted is
// continued.
func TestCopy(t *testing.T) {
	ctx := context.Background()
	from := open(t, Options{SampleCount: 300})
	defer from.Close()
	storetest.Everything(t, from)
	o := Options{FS: vfs.NewMem(), SampleCount: 300, ID: 0x0123456789abcdef, Copy: true}
	to := open(t, o)
	if err := store.Copy(ctx, from, &storetest.FailingTarget{CopyTarget: to, Puts: 3}); !errors.Is(err, store.ErrFull) {
		t.Fatalf("got %v, want ErrFull", err)
	}
	if err := store.Copy(ctx, from, to); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	o.Copy = false
	to = open(t, o)
	defer to.Close()
	if got := to.Writer(); got != storetest.CopiedServer {
		t.Errorf("the copy's server is %s, want %s", got, storetest.CopiedServer)
	}
	storetest.SameAnswers(t, to, from)
	storetest.GoOn(t, from)
	storetest.GoOn(t, to)
	storetest.SameAnswers(t, to, from)
}

// A copy reads the list of direct slots with each question: neighbours are told as one.
func TestOutlineJoinsDirectSlots(t *testing.T) {
	s := open(t, Options{})
	defer s.Close()
	for _, part := range []int64{7200, 0, 3600, 14400} {
		s.direct[partID{1, part}] = true
	}
	s.direct[partID{2, 18000}] = true
	o, err := s.Outline(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []store.DirectSlots{{Tier: 1, From: 0, To: 10800}, {Tier: 1, From: 14400, To: 18000}, {Tier: 2, From: 18000, To: 39600}}
	if !slices.Equal(o.Direct, want) {
		t.Errorf("got %v, want %v", o.Direct, want)
	}
}

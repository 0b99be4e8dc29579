package pebblestore

import (
	"context"
	"errors"
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

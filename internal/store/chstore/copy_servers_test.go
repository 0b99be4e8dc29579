//go:build servers

package chstore

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
	"tailscope/internal/store/storetest"
)

const keptSamples = 300

// directory opens a store in memory.
func directory(t testing.TB, o pebblestore.Options) *pebblestore.Store {
	t.Helper()
	o.Dir, o.SampleCount, o.MemtableBytes = "data", keptSamples, 1<<20
	s, err := pebblestore.Open(context.Background(), o)
	check(t, err)
	return s
}

// intoDirectory copies what is committed into a store in memory.
func intoDirectory(t testing.TB, from *Store) *pebblestore.Store {
	t.Helper()
	ctx := context.Background()
	content, err := from.Content(ctx)
	check(t, err)
	o := pebblestore.Options{FS: vfs.NewMem(), ID: 0x0123456789abcdef, Copy: true}
	to := directory(t, o)
	check(t, store.Copy(ctx, content, to))
	check(t, to.Close())
	o.Copy = false
	return directory(t, o)
}

// A store is copied from a directory into ClickHouse and back: each copy answers as the store
// that it was made of, and goes on as it does. No server starts on a part of a copy, and one
// that was interrupted is continued.
func TestCopy(t *testing.T) {
	ctx := context.Background()
	c := nodes(t, 3)
	from := directory(t, pebblestore.Options{FS: vfs.NewMem()})
	defer func() { check(t, from.Close()) }()
	storetest.Everything(t, from)
	o := on(t, c)
	o.SampleCount = keptSamples
	for _, puts := range []int{3, 1 << 30} {
		to, ended, err := OpenCopy(ctx, o, "this")
		check(t, err)
		if ended {
			t.Error("a copy that was not made has ended")
		}
		err = store.Copy(ctx, from, &storetest.FailingTarget{CopyTarget: to, Puts: puts})
		check(t, to.Close())
		if puts > 3 {
			check(t, err)
			break
		}
		if !errors.Is(err, store.ErrFull) {
			t.Fatalf("got %v, want ErrFull", err)
		}
		if _, err := Open(ctx, o); err == nil || !strings.Contains(err.Error(), "did not end") {
			t.Fatalf("open a part of a copy: got %v", err)
		}
		if _, _, err := OpenCopy(ctx, o, "another"); err == nil {
			t.Fatal("another copy begins beside the first")
		}
	}
	to, ended, err := OpenCopy(ctx, o, "this")
	check(t, err)
	check(t, to.Close())
	if !ended {
		t.Error("the copy has not ended")
	}
	if _, _, err := OpenCopy(ctx, o, "another"); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a copy into a store: got %v, want ErrNotEmpty", err)
	}
	to = open(t, o)
	defer func() { check(t, to.Close()) }()
	storetest.SameAnswers(t, to, from)
	storetest.GoOn(t, from)
	storetest.GoOn(t, to)
	storetest.SameAnswers(t, to, from)
	back := intoDirectory(t, to)
	defer func() { check(t, back.Close()) }()
	storetest.SameAnswers(t, back, to)
}

// What was put into ClickHouse by servers is copied into a directory.
func TestCopyIntoDirectory(t *testing.T) {
	c := nodes(t, 1)
	o := on(t, c)
	o.SampleCount = keptSamples
	from := open(t, o)
	defer func() { check(t, from.Close()) }()
	storetest.Everything(t, from)
	to := intoDirectory(t, from)
	defer func() { check(t, to.Close()) }()
	if got := to.Writer(); got != storetest.CopiedServer {
		t.Errorf("the copy's server is %s, want %s", got, storetest.CopiedServer)
	}
	storetest.SameAnswers(t, to, from)
	storetest.GoOn(t, from)
	storetest.GoOn(t, to)
	storetest.SameAnswers(t, to, from)
}

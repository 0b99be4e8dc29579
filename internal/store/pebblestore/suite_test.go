package pebblestore

import (
	"context"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// closing closes what benchmarks share before leaks are looked for.
type closing struct{ *testing.M }

func (c closing) Run() int {
	code := c.M.Run()
	for _, f := range fixtures {
		f.s.Close()
	}
	return code
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(closing{m}) }

func open(t testing.TB, o Options) *Store {
	t.Helper()
	if o.FS == nil {
		o.FS = vfs.NewMem()
	}
	if o.Dir == "" {
		o.Dir = "data"
	}
	o.MemtableBytes = 1 << 20
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, Options{}) })
}

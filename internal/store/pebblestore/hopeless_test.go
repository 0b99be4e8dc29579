package pebblestore

import (
	"fmt"
	"log/slog"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// Compactions that meet damage do not end a start: what is damaged is put aside,
// and the next try opens the rest.
func TestDamageIsNotHopeless(t *testing.T) {
	r := retry{log: slog.New(slog.DiscardHandler), hopeless: make(chan error, 1)}
	for range 2 * hopelessRow {
		r.failed(fmt.Errorf("compact: %w", pebble.ErrCorruption))
	}
	if len(r.hopeless) > 0 {
		t.Error("a start is given up because a compaction met damage")
	}
	for range hopelessRow {
		r.failed(syscall.ENOSPC)
	}
	if len(r.hopeless) == 0 {
		t.Error("a start is not given up though no table can be written")
	}
	if r.begin(); len(r.hopeless) > 0 {
		t.Error("the next try is given up for what failed before it")
	}
}

package pebblestore

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// damage remembers the files found damaged. Pebble would end the process at the
// first bad checksum; here whoever reads the file is told (store.ErrCorrupt), a
// compaction leaves it alone for a while, and everything else goes on.
type damage struct {
	log   *slog.Logger
	mu    sync.Mutex
	files map[string]bool
}

// found is called by Pebble for each bad read. It says so once for each file.
func (d *damage) found(info pebble.DataCorruptionInfo) {
	d.mu.Lock()
	known := d.files[info.Path]
	if !known {
		if d.files == nil {
			d.files = map[string]bool{}
		}
		d.files[info.Path] = true
	}
	d.mu.Unlock()
	if !known {
		d.log.Error("a file of the store is damaged: questions about what it holds fail, all else goes on",
			"file", info.Path, "error", message("%v", []any{info.Details}),
			"hint", "check the disk and the memory of this machine; put the data directory back from a backup, or begin with an empty one (--data)")
	}
}

func (d *damage) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.files)
}

// pebbleLogger passes Pebble's messages on. After a fatal one, such as a log
// that cannot be written, Pebble must not go on: the process ends, and what was
// acknowledged is there when it is started again. Store.room is there to stop
// before that on a disk that fills up.
type pebbleLogger struct{ l *slog.Logger }

func (p pebbleLogger) Infof(format string, args ...any) {
	p.l.Debug("pebble: " + fmt.Sprintf(format, args...))
}
func (p pebbleLogger) Errorf(format string, args ...any) {
	p.l.Error("pebble: " + message(format, args))
}
func (p pebbleLogger) Fatalf(format string, args ...any) {
	m := "pebble: " + message(format, args) +
		" (the store cannot go on; see to the disk and start again: what was acknowledged is kept)"
	p.l.Error(m)
	panic(m)
}

// message is the text without the account of its errors, stacks and all, that
// Pebble's errors append in full.
func message(format string, args []any) string {
	m, _, _ := strings.Cut(fmt.Sprintf(format, args...), "\n(1)")
	return m
}

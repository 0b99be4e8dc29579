package pebblestore

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"tailscope/internal/store"
)

// damage keeps the list of files found damaged. Pebble would end the process at the
// first bad checksum; here the reader of the file gets store.ErrCorrupt, Pebble's
// compactions leave the file alone for a while, and everything else goes on.
type damage struct {
	log   *slog.Logger
	aside keptAside
	mu    sync.Mutex
	list  []store.Damage
	files map[string]bool // of list
}

// Damage returns what was found damaged or missing since Open.
func (s *Store) Damage() []store.Damage {
	s.damage.mu.Lock()
	defer s.damage.mu.Unlock()
	return slices.Clone(s.damage.list)
}

// found is called by Pebble for each bad read. It reports each file once.
func (d *damage) found(info pebble.DataCorruptionInfo) {
	r := keyRange{info.Bounds.Start, info.Bounds.End.Key}
	from, to := r.times()
	d.addOnce(info.Path, store.Damage{
		File: info.Path, Reason: oneLine("%v", []any{info.Details}), Observations: -1,
		Lost: "questions fail that read the damaged part; the file holds " + r.String(), From: from, To: to,
	})
}

// addOnce adds damage of a file that has none yet.
func (d *damage) addOnce(path string, is store.Damage) {
	d.mu.Lock()
	known := d.files[path]
	d.mu.Unlock()
	if !known {
		d.add(is)
	}
}

// add records damage, logs it, and saves it for later starts.
func (d *damage) add(is store.Damage) {
	is.Part, is.Found = "store", time.Now()
	d.mu.Lock()
	if d.files == nil {
		d.files = map[string]bool{}
	}
	d.files[is.File] = true
	d.list = append(d.list, is)
	d.mu.Unlock()
	args := []any{"file", is.File, "error", is.Reason}
	if is.Lost != "" {
		args = append(args, "lost", is.Lost)
	}
	hint := "check the disk and the memory of this machine; tailscope doctor explains"
	if strings.HasSuffix(is.File, ".sst") && is.Lost != "" {
		hint += ", tailscope restore puts a backup back"
	}
	d.log.Error("a file of the store is damaged; everything else goes on", append(args, "hint", hint)...)
	if err := d.aside.remember(is); err != nil {
		d.log.Warn("damage not saved: later starts will not report it", "file", is.File, "error", err)
	}
}

// takeInPlace returns the damage found in files that are still in place, and removes it from
// the list.
func (d *damage) takeInPlace() []store.Damage {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []store.Damage
	d.list = slices.DeleteFunc(d.list, func(is store.Damage) bool {
		here := d.aside.fs.PathDir(is.File) != d.aside.dir
		if here {
			out = append(out, is)
			delete(d.files, is.File)
		}
		return here
	})
	return out
}

// pebbleLogger passes on Pebble's messages. After a fatal one, such as a log that cannot
// be written, Pebble must not go on: the process ends, and the next start finds what was
// acknowledged. Store.room refuses writes before that on a disk that fills up.
type pebbleLogger struct{ l *slog.Logger }

func (p pebbleLogger) Infof(format string, args ...any) {
	p.l.Debug("pebble: " + fmt.Sprintf(format, args...))
}
func (p pebbleLogger) Errorf(format string, args ...any) {
	p.l.Error("pebble: " + oneLine(format, args))
}
func (p pebbleLogger) Fatalf(format string, args ...any) {
	m := "pebble: " + oneLine(format, args) +
		" (the store cannot go on; see to the disk and start again: what was acknowledged is kept)"
	p.l.Error(m)
	panic(m)
}

// oneLine returns the text in one line, without what Pebble's errors append: their
// causes with stacks, and carriers of details.
func oneLine(format string, args []any) string {
	m, _, _ := strings.Cut(fmt.Sprintf(format, args...), "\n(1)")
	lines := strings.Split(m, "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return l == "" || l == "<corruption detail carrier>" })
	return strings.Join(lines, "; ")
}

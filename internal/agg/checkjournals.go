package agg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// CheckJournals accounts for the journals in a directory that no Aggregator has open, as
// Open would, and changes nothing. It returns their number and what Open would report
// damaged or missing. writer is the directory's server in st. st is nil if the store
// cannot be read: observations between the store and the first journal are then not
// accounted for.
func CheckJournals(ctx context.Context, fsys vfs.FS, dir string, st Records, writer string) (journals int, damage []store.Damage, err error) {
	c := &check{ctx: ctx, fs: fsys, dir: dir}
	l := &accounting{fs: fsys, dir: dir, now: time.Now(), acts: c, blind: st == nil}
	if st != nil {
		if err := l.readStore(ctx, st, writer); err != nil {
			return 0, nil, err
		}
	}
	l.ack, l.acked, err = readAcknowledged(fsys, dir)
	var unreadable *unreadableError
	if errors.As(err, &unreadable) {
		c.damaged(store.Damage{File: fsys.PathJoin(dir, ackFile), Reason: err.Error(), Found: l.now})
		err = nil
	}
	if err != nil {
		return 0, nil, fmt.Errorf("file of acknowledgements in %s: %w", dir, err)
	}
	journals, err = l.run()
	return journals, c.damage, err
}

// CountJournals returns the number of journals in dir, and of the observations that are
// whole in them.
func CountJournals(ctx context.Context, fsys vfs.FS, dir string) (journals int, observations uint64, err error) {
	list, _, err := journalFiles(fsys, dir)
	if err != nil {
		return 0, 0, fmt.Errorf("journals: %w", err)
	}
	c := &check{ctx: ctx, fs: fsys, dir: dir}
	for _, f := range list {
		acc, err := c.read(f)
		if err != nil {
			return 0, 0, err
		}
		observations += acc.applied
	}
	return len(list), observations, nil
}

// check implements acts for doctor: it reads and reports.
type check struct {
	ctx    context.Context
	fs     vfs.FS
	dir    string
	damage []store.Damage
}

func (c *check) read(f found) (*account, error) {
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	path := f.path(c.dir)
	acc, err := readJournal(c.fs, path, f.generation, &entryCounter{series: map[uint32]series.Kind{}, targets: map[uint32]series.Kind{}})
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", path, err)
	}
	return acc, nil
}

func (c *check) put(found, *journal, *account, uint64) error { return nil }
func (c *check) keep(found, *journal)                        {}
func (c *check) restore(found, *journal) (*account, bool, error) {
	return nil, false, nil
}
func (c *check) remove(*journal) error                  { return nil }
func (c *check) setAside(path, _ string, _ bool) string { return path }
func (c *check) torn(*journal, int64)                   {}
func (c *check) damaged(d store.Damage) {
	d.Part = "journal"
	c.damage = append(c.damage, d)
}

// entryCounter is a handler that counts the entries that a replayer would apply.
type entryCounter struct{ series, targets map[uint32]series.Kind }

func (c *entryCounter) defineSeries(number uint32, s series.Series) error {
	c.series[number] = s.Kind
	return nil
}

func (c *entryCounter) defineTenant(number, marginal uint32, _ []byte) error {
	if kind, ok := c.series[marginal]; ok {
		c.series[number] = kind
	}
	return nil
}

func (c *entryCounter) defineTarget(number, full, marginal uint32) error {
	kind, ok := c.series[full]
	if _, known := c.series[marginal]; ok && (known || marginal == 0) {
		c.targets[number] = kind
	}
	return nil
}

func (c *entryCounter) entries(_ int64, e *entryReader) (n uint64, _ error) {
	for e.next() {
		kind, ok := c.targets[e.target]
		if number := e.op == opNumber || e.op == opDeltaNumber; ok && number == (kind != series.Distribution) {
			n++
		}
	}
	return n, e.err()
}

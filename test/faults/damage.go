package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

// What happens to a file between two processes.
const (
	flipBit    = "a bit flipped"
	cutFile    = "cut"
	removeFile = "removed"
)

var damages = []string{flipBit, cutFile, removeFile}

// Outcome is the outcome of damaged files of one kind.
type Outcome struct {
	Times     int
	Unharmed  int    // nothing was lost
	Named     int    // something was lost, and named
	Lost      uint64 // acknowledged observations of those
	Counted   uint64 // of which the product said how many
	Refused   int    // the start was refused and the file named
	Repaired  int    // of those, starts after a repair
	Questions int    // some questions were refused, the file named
}

func (o *Outcome) add(p Outcome) {
	o.Times += p.Times
	o.Unharmed += p.Unharmed
	o.Named += p.Named
	o.Lost += p.Lost
	o.Counted += p.Counted
	o.Refused += p.Refused
	o.Repaired += p.Repaired
	o.Questions += p.Questions
}

// kindOf names the kind of a file for the table of outcomes.
func kindOf(name string) string {
	switch {
	case strings.HasSuffix(name, ".journal"):
		return "journal"
	case strings.HasSuffix(name, ".stored"):
		return "journal kept"
	case strings.HasSuffix(name, ".sst"):
		return "table"
	case strings.HasSuffix(name, ".log"):
		return "store's log"
	case strings.HasPrefix(name, "MANIFEST"):
		return "manifest"
	case strings.HasPrefix(name, "marker."):
		return "marker"
	case strings.HasPrefix(name, "OPTIONS"):
		return "options"
	}
	return name
}

// damaged names a file and its damage.
type damaged struct{ how, file string }

func (d damaged) String() string { return kindOf(d.file) + " " + d.how }

// doDamage damages a file of the data directory at random.
func (w *world) doDamage(mem *vfs.MemFS) (damaged, error) {
	type file struct{ dir, name string }
	kinds := map[string][]file{}
	for _, dir := range []string{dataDir, journalDir} {
		names, err := mem.List(dir)
		if err != nil {
			return damaged{}, err
		}
		for _, name := range names {
			info, err := mem.Stat(mem.PathJoin(dir, name))
			if err != nil {
				return damaged{}, err
			}
			if !info.IsDir() && name != "LOCK" {
				kinds[kindOf(name)] = append(kinds[kindOf(name)], file{dir, name})
			}
		}
	}
	var names []string
	for k := range kinds {
		names = append(names, k)
	}
	if len(names) == 0 {
		return damaged{}, errNoFile
	}
	slices.Sort(names)
	some := kinds[names[w.rng.IntN(len(names))]]
	slices.SortFunc(some, func(a, b file) int { return strings.Compare(a.name, b.name) })
	f := some[w.rng.IntN(len(some))]
	d := damaged{damages[w.rng.IntN(len(damages))], f.name}
	path := mem.PathJoin(f.dir, f.name)
	content, err := readAll(mem, path)
	if err != nil {
		return d, err
	}
	if len(content) == 0 {
		d.how = removeFile
	}
	switch d.how {
	case removeFile:
		return d, mem.Remove(path)
	case flipBit:
		content[w.rng.IntN(len(content))] ^= 1 << w.rng.IntN(8)
	case cutFile:
		n := w.rng.IntN(len(content))
		if w.rng.IntN(2) == 0 { // a little
			n = max(len(content)-1-w.rng.IntN(64), 0)
		}
		content = content[:n]
	}
	to, err := mem.Create(path, "damage")
	if err != nil {
		return d, err
	}
	_, err = to.Write(content)
	return d, errors.Join(err, to.Sync(), to.Close())
}

func readAll(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

var errNoFile = errors.New("there is no file of those kinds")

// labelsLost is the service under which points count whose labels are lost.
const labelsLost = "(labels lost)"

// damageRound ends the process, damages a file and starts again. What is lost
// has to be named, and counted where the product says that it is.
func (w *world) damageRound(ctx context.Context) error {
	w.plain = true // so that the product counts as the ledger does
	ending := kill
	if w.rng.IntN(2) == 0 {
		ending = stop
	}
	c, err := w.stretch(ctx, nothing, ending)
	if err != nil {
		return err
	}
	bounds := w.ledger.Bounds(c.kept, c.begun)
	w.restarts++
	w.mem = c.fs
	hurt, err := w.doDamage(w.mem)
	if err == errNoFile {
		return nil
	}
	if err != nil {
		return fmt.Errorf("damage: %w", err)
	}
	w.met = append(w.met, ending+", "+hurt.file+" "+hurt.how)
	w.hurt = hurt.String()
	o := &w.outcome
	o.Times = 1
	w.prepare(0)
	var found []store.Damage // by doctor
	if err := w.within(func() error { return w.open(ctx) }); err != nil {
		if !names(err.Error(), hurt.file) {
			return fmt.Errorf("refused to start without naming %s: %w", hurt.file, err)
		}
		o.Refused = 1
		found, err = w.repair(ctx)
		if errors.Is(err, store.ErrVersion) && hurt.file == "FORMAT" {
			return nil // it may be what another version wrote, and nobody but the operator knows
		}
		if err != nil {
			return fmt.Errorf("refused to start, and doctor: %w", err)
		}
		o.Repaired = 1
	}
	w.lenient = true
	stored, err := w.stored(ctx)
	found = append(found, w.found()...)
	switch {
	case errors.Is(err, store.ErrCorrupt) && (len(found) > 0 || names(err.Error(), hurt.file)):
		o.Questions = 1
		_, err = w.end(ctx, kill)
		return err
	case err != nil:
		return err
	}
	// Points whose labels are lost count on under a name that says so.
	unnamed, known := uint64(0), maps.Clone(stored)
	for line, n := range stored {
		if line.Service == labelsLost {
			unnamed += n
			delete(known, line)
		}
	}
	d := Compare(bounds, known)
	switch {
	case d.Doubled > 0 || unnamed > d.Lost:
		return fmt.Errorf("%v, and %d of lost labels", d, unnamed)
	case d.Lost == 0:
		o.Unharmed = 1
	case len(found) == 0:
		return fmt.Errorf("nothing is named, but %v", d)
	default:
		o.Named, o.Lost = 1, d.Lost
		counted, all := uint64(0), true
		for _, f := range found {
			if f.Observations < 0 {
				all = false
			} else {
				counted += uint64(f.Observations)
			}
		}
		if o.Counted = min(counted, d.Lost); all && counted < d.Lost {
			return fmt.Errorf("%d observations are said to be lost (%+v), but %v", counted, found, d)
		}
	}
	// What is left goes on as ever. What was lost may yet come back, once.
	w.ledger.Settle(stored)
	missing := map[Line]uint64{}
	for line, b := range bounds {
		if n := stored[line]; n < b.Most {
			missing[line] = b.Most - n
		}
	}
	w.ledger.Begin(missing)
	w.senders = senders{incarnation: 1000, marks: 1000}
	if err := w.operate(ctx, 10); err != nil {
		return fmt.Errorf("after the damage: %w", err)
	}
	if c, err = w.end(ctx, kill); err != nil {
		return fmt.Errorf("after the damage: %w", err)
	}
	if err := w.restart(ctx, c); err != nil {
		return fmt.Errorf("after the damage: %w", err)
	}
	_, err = w.end(ctx, stop)
	return err
}

// repair does what tailscope doctor --repair does, opens what is left, and
// returns the losses that doctor named.
func (w *world) repair(ctx context.Context) (lost []store.Damage, err error) {
	err = w.within(func() error {
		o := w.storeOptions()
		r, err := pebblestore.Examine(ctx, o)
		if err != nil {
			return fmt.Errorf("examine: %w", err)
		}
		if len(r.Findings) == 0 || r.Starts {
			return fmt.Errorf("finds %+v, starts %v", r.Findings, r.Starts)
		}
		for _, f := range r.Findings {
			if f.Lost != "" {
				lost = append(lost, f.Damage)
			}
		}
		if r, err = pebblestore.Repair(ctx, o); err != nil {
			return fmt.Errorf("repair: %w", err)
		}
		if len(r.Findings) > 0 {
			return fmt.Errorf("finds after its repair %+v", r.Findings)
		}
		if err := w.open(ctx); err != nil {
			return fmt.Errorf("the start after the repair: %w", err)
		}
		return nil
	})
	return lost, err
}

// names reports whether a text names a file. Of one that is gone the number
// need not be known.
func names(text, file string) bool {
	return strings.Contains(text, file) || strings.HasPrefix(file, "marker.manifest") && strings.Contains(text, "marker.manifest")
}

// found returns what the product says is damaged.
func (w *world) found() []store.Damage {
	out := w.a.Damage()
	return append(out, w.st.Damage()...)
}

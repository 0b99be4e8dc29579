package pebblestore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/block/blockkind"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

// tableWalk reads a table block by block and skips damaged blocks.
type tableWalk struct {
	it   sstable.Iterator
	ends [][]byte   // a key at or behind the last of each block, and before the next
	at   int        // the block being read
	on   bool       // the iterator is in it
	bad  []keyRange // the key ranges of damaged blocks
	keys int        // that were read
	err  error      // an error other than damage; it ends the walk
}

// walkTable needs the whole index of the table.
func walkTable(ctx context.Context, r *sstable.Reader) (*tableWalk, error) {
	layout, err := r.Layout()
	if err != nil {
		return nil, err
	}
	w := &tableWalk{}
	for _, h := range layout.Index {
		b, err := r.BlockReader().Read(ctx, block.NoReadEnv, nil, h, blockkind.Index, colblk.InitIndexBlockMetadata)
		if err != nil {
			return nil, err
		}
		var it colblk.IndexIter
		if err := it.InitHandle(r.Comparer, b, sstable.NoTransforms); err != nil {
			return nil, err
		}
		for ok := it.First(); ok; ok = it.Next() {
			w.ends = append(w.ends, bytes.Clone(it.Separator()))
		}
		if err := it.Close(); err != nil {
			return nil, err
		}
	}
	w.it, err = r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	return w, err
}

// next returns the next readable write, as it is and as Pebble has it. Both are valid
// until the next call.
func (w *tableWalk) next() (e entryOf, k pebble.InternalKey, ok bool) {
	for w.err == nil && w.at < len(w.ends) {
		move, reading := w.it.First, w.at
		if w.on {
			move, reading = w.it.Next, w.at+1
		}
		got := move()
		if !w.on && w.at > 0 {
			got = w.it.SeekGE(append(bytes.Clone(w.ends[w.at-1]), 0), 0)
		}
		w.on = true
		if got == nil {
			if err := w.it.Error(); err == nil || reading >= len(w.ends) {
				w.at = len(w.ends)
			} else if w.fail(err) {
				from := []byte{}
				if reading > 0 {
					from = append(bytes.Clone(w.ends[reading-1]), 0)
				}
				w.bad = append(w.bad, keyRange{from, w.ends[reading]})
				w.at, w.on = reading+1, false
			}
			continue
		}
		for w.at < len(w.ends)-1 && bytes.Compare(got.K.UserKey, w.ends[w.at]) > 0 {
			w.at++
		}
		k = got.K.Clone()
		v, _, err := got.Value(nil)
		if err != nil {
			if w.fail(err) {
				w.bad = append(w.bad, keyRange{k.UserKey, k.UserKey})
			}
			continue
		}
		w.keys++
		return entryOf{key: k.UserKey, value: bytes.Clone(v), seq: uint64(k.SeqNum()), kind: k.Kind()}, k, true
	}
	return e, k, false
}

// fail reports whether an error is damage, and ends the walk if it is not.
func (w *tableWalk) fail(err error) bool {
	if !unreadable(err) {
		w.err = err
	}
	return w.err == nil
}

// lost describes the content of damaged blocks, with its range of times.
func (w *tableWalk) lost(names map[uint32]string) (words string, from, to time.Time) {
	var parts []string
	for i, r := range w.bad {
		parts = append(parts, r.words(names)+r.back())
		f, t := r.times()
		if i == 0 || f.IsZero() || !from.IsZero() && f.Before(from) {
			from = f
		}
		if i == 0 || t.IsZero() || !to.IsZero() && t.After(to) {
			to = t
		}
	}
	return fmt.Sprintf("%d damaged blocks: %s; the other %d keys of the table are kept", len(w.bad), strings.Join(parts, "; "), w.keys), from, to
}

// damagedBlocks walks a whole table. It returns nil if the table has no readable block,
// or no damaged one.
func damagedBlocks(ctx context.Context, fsys vfs.FS, path string) (w *tableWalk) {
	defer func() {
		if p := recover(); p != nil { // Pebble does not check all that it reads
			w = nil
		}
	}()
	r, err := openTable(ctx, fsys, path)
	if err != nil {
		return nil
	}
	defer r.Close()
	if w, err = walkTable(ctx, r); err != nil {
		return nil
	}
	defer w.it.Close()
	for ok := true; ok && ctx.Err() == nil; {
		_, _, ok = w.next()
	}
	if w.err != nil || w.keys == 0 || len(w.bad) == 0 {
		return nil
	}
	return w
}

// salvageTable replaces a damaged table in the list by one with what can be read of it,
// under the same numbers. It sets the damaged one aside. An interruption loses nothing:
// Pebble deletes tables that no manifest lists.
func (s *Store) salvageTable(m *manifest, t *table, reason string) error {
	fsys, dir := s.opts.FS, s.opts.Dir
	num, err := m.nextNumber(fsys, dir)
	if err != nil {
		return err
	}
	kept := &table{level: t.level, num: num, minSeq: t.minSeq, maxSeq: t.maxSeq}
	w, err := s.copyReadable(t, kept)
	if pebble.IsCorruptionError(err) || err == nil && w.keys == 0 {
		return s.dropTables(m, []*badTable{{t, reason, false}})
	}
	if err != nil {
		return fmt.Errorf("copy what can be read of table %s: %w", t.name(), classify(err))
	}
	if err := oweMend(fsys, dir); err != nil {
		return err
	}
	aside, err := s.damage.aside.copy(fsys.PathJoin(dir, t.name()))
	if err != nil {
		return err
	}
	d := store.Damage{File: aside, Reason: reason, Observations: -1}
	d.Lost, d.From, d.To = w.lost(familyNames(fsys, dir, m, nil))
	s.damage.add(d)
	return m.replace(fsys, dir, []*table{t}, []*table{kept})
}

// copyReadable writes what can be read of a table as another one.
func (s *Store) copyReadable(from, to *table) (w *tableWalk, err error) {
	defer func() {
		if p := recover(); p != nil { // Pebble does not check all that it reads
			err = pebble.ErrCorruption
		}
	}()
	ctx, fsys, dir := context.Background(), s.opts.FS, s.opts.Dir
	r, err := openTable(ctx, fsys, fsys.PathJoin(dir, from.name()))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if w, err = walkTable(ctx, r); err != nil {
		return nil, err
	}
	defer w.it.Close()
	f, err := fsys.Create(fsys.PathJoin(dir, to.name()), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	po := pebbleOptions(&s.opts, nil, nil, &s.damage)
	out := sstable.NewRawWriter(objstorageprovider.NewFileWritable(f), po.MakeWriterOptions(int(to.level), po.FormatMajorVersion.MaxTableFormat()))
	err = copyDeletions(ctx, r, out)
	for err == nil {
		e, k, ok := w.next()
		if !ok {
			break
		}
		err = out.Add(k, e.value, false)
	}
	if err = errors.Join(err, w.err, out.Close()); err != nil {
		return nil, err
	}
	is, err := out.Metadata()
	if err != nil {
		return nil, err
	}
	to.size = int64(is.Size)
	small, large := is.SmallestPoint, is.LargestPoint
	if is.HasRangeDelKeys {
		if !is.HasPointKeys || compareKeys(is.SmallestRangeDel, small) < 0 {
			small = is.SmallestRangeDel
		}
		if !is.HasPointKeys || compareKeys(is.LargestRangeDel, large) > 0 {
			large = is.LargestRangeDel
		}
	}
	to.small, to.large = encodeKey(small), encodeKey(large)
	return w, syncDir(fsys, dir)
}

// compareKeys orders keys as Pebble does: the newest of equal keys comes first.
func compareKeys(a, b pebble.InternalKey) int {
	return cmp.Or(bytes.Compare(a.UserKey, b.UserKey), cmp.Compare(b.Trailer, a.Trailer))
}

func encodeKey(k pebble.InternalKey) []byte {
	b := make([]byte, k.Size())
	k.Encode(b)
	return b
}

// copyDeletions copies the deletions of ranges of keys.
func copyDeletions(ctx context.Context, r *sstable.Reader, out sstable.RawWriter) error {
	dels, err := r.NewRawRangeDelIter(ctx, sstable.NoFragmentTransforms, sstable.NoReadEnv)
	if err != nil || dels == nil {
		return err
	}
	defer dels.Close()
	span, err := dels.First()
	for ; span != nil && err == nil; span, err = dels.Next() {
		if err := out.EncodeSpan(*span); err != nil {
			return err
		}
	}
	return err
}

// readCurrent reads the manifest that the marker names.
func readCurrent(fsys vfs.FS, dir string) (*manifest, error) {
	desc, err := pebble.Peek(dir, fsys)
	if err != nil {
		return nil, err
	}
	return readManifest(fsys, desc.ManifestFilename)
}

package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"tailscope/internal/store"
	"tailscope/internal/store/runcodec"
)

// selection holds the series of one unit that a query wants.
type selection struct {
	group   []int32  // by number; -1, or beyond its end, is not selected
	numbers []uint32 // the selected ones, ascending
}

// any reports whether a number in [first, last] is selected.
func (s *selection) any(first, last uint32) bool {
	i, ok := slices.BinarySearch(s.numbers, first)
	return ok || i < len(s.numbers) && s.numbers[i] <= last
}

func (s *selection) has(number uint32) bool {
	return int(number) < len(s.group) && s.group[number] >= 0
}

// scanner reads the points of a partition and scope, from chunks and runs. It is used by
// one goroutine.
type scanner struct {
	s    *Store
	snap pebble.Reader
	it   *pebble.Iterator

	key, end []byte
	segs     [][]byte
	dec      runcodec.Decoder
	point    []byte
	// direct, if set, gets the points of packed blocks in place of fn: it must read the
	// point from the decoder, once, which saves encoding it.
	direct func(number uint32, slot int, dec *runcodec.Decoder) error
}

func (s *Store) newScanner(ctx context.Context, snap pebble.Reader) (*scanner, error) {
	it, err := snap.NewIterWithContext(ctx, &pebble.IterOptions{})
	if err != nil {
		return nil, classify(err)
	}
	return &scanner{s: s, snap: snap, it: it}, nil
}

func (c *scanner) close() error { return classify(c.it.Close()) }

// area is the range of a scan: slots [lo, hi) of a partition, by index.
type area struct {
	tier   int
	part   int64
	lo, hi int
	// directOnly reads what was put to this tier, without what came from the finer one.
	directOnly bool
	// shard of shards reads its part of the area.
	shard, shards int
}

func (a area) slots() int { return int(tierPart[a.tier] / tierSlot[a.tier]) }

// scan calls fn for every selected point of the area. The order is undefined, except
// that a series' slots ascend within a run. data is valid during the call only.
func (c *scanner) scan(a area, sc scope, sel *selection, fn func(number uint32, slot int, data []byte) error) error {
	if len(sel.numbers) == 0 || a.lo >= a.hi {
		return nil
	}
	a.shards = max(a.shards, 1)
	if err := c.chunks(a, sc, sel, fn); err != nil {
		return err
	}
	if a.directOnly {
		return nil
	}
	return c.run(a, sc, sel, fn)
}

func (c *scanner) chunks(a area, sc scope, sel *selection, fn func(number uint32, slot int, data []byte) error) error {
	c.key = slotPrefix(c.key[:0], a.tier, a.part, sc, a.lo)
	c.end = slotPrefix(c.end[:0], a.tier, a.part, sc, a.hi)
	c.it.SetBounds(c.key, c.end)
	i := 0
	for ok := c.it.First(); ok; ok = c.it.Next() {
		if i++; i%a.shards != a.shard {
			continue
		}
		ck, err := parseChunkKey(c.it.Key())
		if err != nil {
			return err
		}
		if a.directOnly && ck.origin != originPut {
			continue
		}
		if ck.first > sel.numbers[len(sel.numbers)-1] {
			continue
		}
		v, err := c.it.ValueAndErr()
		if err != nil {
			return classify(err)
		}
		ch, err := openChunk(v, ck.first)
		if err != nil {
			return err
		}
		if !sel.any(ck.first, ch.last) {
			continue
		}
		for n, data, ok := ch.next(); ok; n, data, ok = ch.next() {
			if sel.has(n) {
				if err := fn(n, ck.slot, data); err != nil {
					return err
				}
			}
		}
	}
	return classify(c.it.Error())
}

func (c *scanner) run(a area, sc scope, sel *selection, fn func(number uint32, slot int, data []byte) error) error {
	dir, err := c.s.readDirectory(c.snap, a.tier, a.part, sc)
	if err != nil || dir == nil {
		return err
	}
	first, last := dir.blocks()*a.shard/a.shards, dir.blocks()*(a.shard+1)/a.shards
	c.key = classPrefix(c.key[:0], a.tier, a.part, sc, classBlock)
	c.end = classPrefix(c.end[:0], a.tier, a.part, sc, classBlock+1)
	c.it.SetBounds(c.key, c.end)
	prefix := len(c.key)
	at := -1 // the block at the iterator
	for b := first; b < last; b++ {
		numbers := dir.block(b)
		if !slices.ContainsFunc(numbers, sel.has) {
			continue
		}
		if at >= 0 && at == b-1 {
			c.it.Next()
		} else {
			c.key = binary.BigEndian.AppendUint32(c.key[:prefix], uint32(b))
			c.it.SeekGE(c.key)
		}
		at = b
		if !c.it.Valid() || len(c.it.Key()) != prefix+4 || binary.BigEndian.Uint32(c.it.Key()[prefix:]) != uint32(b) {
			if err := c.it.Error(); err != nil {
				return classify(err)
			}
			return fmt.Errorf("run block %d is missing: %w", b, store.ErrCorrupt)
		}
		v, err := c.it.ValueAndErr()
		if err != nil {
			return classify(err)
		}
		if len(v) > 0 && v[0] == packedFormat {
			if err := c.packed(v, a, numbers, sel, fn); err != nil {
				return err
			}
			continue
		}
		if c.segs, err = segments(c.segs, v, len(numbers)); err != nil {
			return err
		}
		for i, number := range numbers {
			if !sel.has(number) {
				continue
			}
			err := segment(c.segs[i], a.slots(), a.lo, a.hi, func(slot int, data []byte) error { return fn(number, slot, data) })
			if err != nil {
				return err
			}
		}
	}
	return classify(c.it.Error())
}

// packed reads a packed block.
func (c *scanner) packed(v []byte, a area, numbers []uint32, sel *selection, fn func(number uint32, slot int, data []byte) error) error {
	starts, err := openPacked(&c.dec, v, len(numbers))
	if err != nil {
		return err
	}
	last := len(numbers) - 1
	for last >= 0 && !sel.has(numbers[last]) {
		last--
	}
	for i, number := range numbers[:last+1] {
		if starts[i/8]&(1<<(i%8)) != 0 {
			c.dec.Group()
		}
		c.dec.Series()
		wanted := sel.has(number)
		for {
			slot, ok, err := c.dec.More()
			if err != nil {
				return corruptPoint(err)
			}
			if !ok {
				break
			}
			if !wanted || int(slot) < a.lo || int(slot) >= a.hi {
				if err := c.dec.Skip(); err != nil {
					return corruptPoint(err)
				}
				continue
			}
			if c.direct != nil {
				if err := c.direct(number, int(slot), &c.dec); err != nil {
					return err
				}
				continue
			}
			if c.point, err = c.dec.Append(c.point[:0]); err != nil {
				return corruptPoint(err)
			}
			if err := fn(number, int(slot), c.point); err != nil {
				return err
			}
		}
	}
	return nil
}

// readDirectory returns the directory of a run, or nil if there is none.
func (s *Store) readDirectory(r pebble.Reader, tier int, part int64, sc scope) (*directory, error) {
	v, closer, err := r.Get(classPrefix(nil, tier, part, sc, classDirectory))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, classify(err)
	}
	defer closer.Close()
	version, err := directoryVersion(v)
	if err != nil {
		return nil, err
	}
	key := dirKey{scopeID{partID{tier, part}, sc}, version}
	if d := s.dirs.get(key); d != nil {
		return d, nil
	}
	d, err := decodeDirectory(v)
	if err != nil {
		return nil, err
	}
	s.dirs.put(key, d)
	return d, nil
}

// readFolded returns the generations that a run contains, or nil if there is no run.
func (s *Store) readFolded(r pebble.Reader, tier int, part int64, sc scope) (*folded, error) {
	v, closer, err := r.Get(classPrefix(nil, tier, part, sc, classFolded))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, classify(err)
	}
	defer closer.Close()
	return decodeFolded(bytes.Clone(v))
}

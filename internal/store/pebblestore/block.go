package pebblestore

import (
	"encoding/binary"
	"fmt"

	"tailscope/internal/store"
	"tailscope/internal/store/runcodec"
)

// A packed block goes through runcodec's entropy coder, whose models learn
// along the block. It is read from its start, so one series costs its whole block. A
// thousand points are enough to learn from: four thousand save 0.3 %. Base slots of the
// full view are packed, since they are most of the bytes and seldom read; the views
// without tenants, which every page reads, and the rollups stay byte-aligned.
//
//	format byte | count uvarint | count × group started bit, as bytes | run
const (
	packedFormat = 2
	packedPoints = 1024
	plainBytes   = 24 << 10
	plainSeries  = 2048
)

// blockWriter collects one block of a run.
type blockWriter struct {
	packed  bool
	numbers []uint32
	points  int

	lengths []uint32 // plain blocks: of the segments
	body    []byte

	enc    runcodec.Encoder // packed blocks
	starts []bool           // whether the series begins a group
	group  uint32           // of the last series
}

func (b *blockWriter) reset() {
	b.numbers, b.points, b.lengths, b.body, b.starts = b.numbers[:0], 0, b.lengths[:0], b.body[:0], b.starts[:0]
}

// full reports whether the next series must go into the next block.
func (b *blockWriter) full(packed bool) bool {
	if len(b.numbers) == 0 {
		return false
	}
	if b.packed != packed {
		return true
	}
	if packed {
		return b.points >= packedPoints
	}
	return len(b.body) >= plainBytes || len(b.numbers) >= plainSeries
}

// add appends a series with its points. Series of one group resemble each other.
func (b *blockWriter) add(number, group uint32, pts []slotPoint, packed bool) error {
	first := len(b.numbers) == 0
	b.numbers = append(b.numbers, number)
	b.points += len(pts)
	b.packed = packed
	if !packed {
		n := len(b.body)
		b.body = appendSegment(b.body, pts)
		b.lengths = append(b.lengths, uint32(len(b.body)-n))
		return nil
	}
	if first {
		b.enc.Reset()
	}
	starts := !first && group != b.group
	b.starts = append(b.starts, starts)
	b.group = group
	if starts {
		b.enc.Group()
	}
	b.enc.Series()
	for _, p := range pts {
		if err := b.enc.Add(uint32(p.slot), p.data); err != nil {
			return err
		}
	}
	return nil
}

func (b *blockWriter) appendTo(dst []byte) []byte {
	if !b.packed {
		dst = append(dst, runFormat)
		dst = binary.AppendUvarint(dst, uint64(len(b.lengths)))
		for _, n := range b.lengths {
			dst = binary.AppendUvarint(dst, uint64(n))
		}
		return append(dst, b.body...)
	}
	dst = append(dst, packedFormat)
	dst = binary.AppendUvarint(dst, uint64(len(b.starts)))
	bits := make([]byte, (len(b.starts)+7)/8)
	for i, s := range b.starts {
		if s {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	dst = append(dst, bits...)
	return b.enc.AppendTo(dst)
}

// openPacked prepares to read a packed block of n series and returns the bits that mark
// those which begin a group.
func openPacked(d *runcodec.Decoder, b []byte, n int) (starts []byte, err error) {
	r := reader{b: b}
	r.byte()
	if got := r.count(0); got != n {
		return nil, fmt.Errorf("packed block of %d series, directory says %d: %w", got, n, store.ErrCorrupt)
	}
	starts = r.bytes((n + 7) / 8)
	if r.err != nil {
		return nil, r.err
	}
	if err := d.Reset(r.b); err != nil {
		return nil, corruptPoint(err)
	}
	return starts, nil
}

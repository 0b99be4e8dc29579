package pebblestore

import (
	"encoding/binary"
	"fmt"
	"slices"

	"tailscope/internal/store"
)

// A run holds a compacted partition of one scope, series-major and in order of
// labels (unit.order), in blocks of a few hundred points. One directory says
// which series each block holds, so that a hundred of 146,000 series cost no
// more than their own blocks.
//
// Directory:
//
//	format byte | version uvarint | blocks uvarint | blocks × count uvarint
//	per series: number - previous, zig-zag varint
//
// Block, byte-aligned (block.go has the packed kind):
//
//	format byte | count uvarint | count × segment length uvarint | segments
//
// Segment (one series): its slots as intervals, then its points:
//
//	intervals uvarint | intervals × (gap uvarint, length uvarint)
//	length uvarint per point | the points' bytes
const runFormat = 1

// directory is a decoded run directory.
type directory struct {
	version uint64
	numbers []uint32 // of the series, in the order of the run
	starts  []uint32 // per block the start of its series in numbers; and the end
}

func (d *directory) size() int64 { return int64(len(d.numbers)+len(d.starts))*4 + 100 }

// block returns the series of a block.
func (d *directory) block(i int) []uint32 { return d.numbers[d.starts[i]:d.starts[i+1]] }
func (d *directory) blocks() int          { return len(d.starts) - 1 }

func appendDirectory(dst []byte, d *directory) []byte {
	dst = append(dst, runFormat)
	dst = binary.AppendUvarint(dst, d.version)
	dst = binary.AppendUvarint(dst, uint64(d.blocks()))
	for i := range d.blocks() {
		dst = binary.AppendUvarint(dst, uint64(len(d.block(i))))
	}
	prev := int64(0)
	for _, n := range d.numbers {
		dst = binary.AppendVarint(dst, int64(n)-prev)
		prev = int64(n)
	}
	return dst
}

// directoryVersion reads only the version of an encoded directory.
func directoryVersion(b []byte) (uint64, error) {
	r := reader{b: b}
	if r.byte() != runFormat {
		return 0, fmt.Errorf("run directory format: %w", store.ErrCorrupt)
	}
	v := r.uvarint()
	return v, r.err
}

func decodeDirectory(b []byte) (*directory, error) {
	r := reader{b: b}
	if r.byte() != runFormat {
		return nil, fmt.Errorf("run directory format: %w", store.ErrCorrupt)
	}
	d := &directory{version: r.uvarint()}
	blocks := r.count(1)
	d.starts = make([]uint32, 1, blocks+1)
	total := 0
	for range blocks {
		n := r.count(1)
		if n == 0 {
			r.fail()
		}
		if total += n; total > len(r.b) {
			r.fail()
		}
		d.starts = append(d.starts, uint32(total))
	}
	if r.err == nil {
		d.numbers = make([]uint32, 0, total)
		prev := int64(0)
		for range total {
			prev += r.varint()
			if prev < 0 || prev > 1<<32-1 {
				r.fail()
			}
			d.numbers = append(d.numbers, uint32(prev))
		}
	}
	if r.err != nil || len(r.b) != 0 {
		return nil, fmt.Errorf("run directory: %w", store.ErrCorrupt)
	}
	return d, nil
}

// slotPoint is one point of a series to be written into a segment.
type slotPoint struct {
	slot int
	data []byte
}

// appendSegment encodes the points of one series, ascending by slot.
func appendSegment(dst []byte, pts []slotPoint) []byte {
	intervals := 0
	for i := range pts {
		if i == 0 || pts[i].slot != pts[i-1].slot+1 {
			intervals++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(intervals))
	end := 0
	for i := 0; i < len(pts); {
		j := i + 1
		for j < len(pts) && pts[j].slot == pts[j-1].slot+1 {
			j++
		}
		dst = binary.AppendUvarint(dst, uint64(pts[i].slot-end))
		dst = binary.AppendUvarint(dst, uint64(j-i))
		end = pts[i].slot + j - i
		i = j
	}
	for i := range pts {
		dst = binary.AppendUvarint(dst, uint64(len(pts[i].data)))
	}
	for i := range pts {
		dst = append(dst, pts[i].data...)
	}
	return dst
}

// segment calls fn for the points with lo <= slot < hi of an encoded segment.
func segment(b []byte, slots, lo, hi int, fn func(slot int, data []byte) error) error {
	r := reader{b: b}
	intervals := r.count(2)
	head := r.b
	n, end := 0, 0
	for range intervals {
		gap, length := r.uvarint(), r.uvarint()
		if gap > uint64(slots) || length == 0 || length > uint64(slots) || end+int(gap)+int(length) > slots {
			r.fail()
			break
		}
		end += int(gap) + int(length)
		n += int(length)
	}
	sizes := r.b
	pos, total := 0, 0
	for range n {
		if pos < len(sizes) && sizes[pos] < 0x80 {
			total += int(sizes[pos])
			pos++
			continue
		}
		v, k := binary.Uvarint(sizes[pos:])
		if k <= 0 || v > uint64(len(b)) {
			r.fail()
			break
		}
		total += int(v)
		pos += k
	}
	if r.err != nil || total != len(sizes)-pos {
		return fmt.Errorf("run segment: %w", store.ErrCorrupt)
	}
	body := sizes[pos:]
	h := reader{b: head}
	slot := 0
	for range intervals {
		slot += int(h.uvarint())
		for range int(h.uvarint()) {
			size, k := uint64(sizes[0]), 1
			if size >= 0x80 {
				size, k = binary.Uvarint(sizes)
			}
			sizes = sizes[k:]
			if slot >= lo {
				if slot >= hi {
					return nil
				}
				if err := fn(slot, body[:size:size]); err != nil {
					return err
				}
			}
			body = body[size:]
			slot++
		}
	}
	return nil
}

// segments returns the segments of a block of n series.
func segments(dst [][]byte, b []byte, n int) ([][]byte, error) {
	r := reader{b: b}
	if f := r.byte(); f != runFormat {
		return nil, fmt.Errorf("run block format %d: %w", f, store.ErrCorrupt)
	}
	if got := r.count(1); got != n {
		return nil, fmt.Errorf("run block of %d series, directory says %d: %w", got, n, store.ErrCorrupt)
	}
	dst = dst[:0]
	lengths := r
	for range n {
		r.uvarint()
	}
	for range n {
		size := lengths.uvarint()
		if size > uint64(len(r.b)) {
			r.fail()
			break
		}
		dst = append(dst, r.bytes(int(size)))
	}
	if r.err != nil || lengths.err != nil || len(r.b) != 0 {
		return nil, fmt.Errorf("run block: %w", store.ErrCorrupt)
	}
	return dst, nil
}

// folded lists the generations that a run contains, so that a repeated Put of one does
// not count again.
type folded struct {
	writers []foldedWriter // ascending by number
}

type foldedWriter struct {
	writer uint32
	ranges ranges
}

func (f *folded) has(writer uint32, gen uint64) bool {
	if f == nil {
		return false
	}
	for i := range f.writers {
		if f.writers[i].writer == writer && f.writers[i].ranges.has(gen) {
			return true
		}
	}
	return false
}

// add adds generations of a writer.
func (f *folded) add(writer uint32, gens []uint64) {
	i := slices.IndexFunc(f.writers, func(w foldedWriter) bool { return w.writer >= writer })
	if i < 0 {
		i = len(f.writers)
	}
	if i == len(f.writers) || f.writers[i].writer != writer {
		f.writers = slices.Insert(f.writers, i, foldedWriter{writer: writer})
	}
	f.writers[i].ranges.add(gens)
}

func appendFolded(dst []byte, f *folded) []byte {
	dst = append(dst, runFormat)
	dst = binary.AppendUvarint(dst, uint64(len(f.writers)))
	for _, w := range f.writers {
		dst = binary.AppendUvarint(dst, uint64(w.writer))
		dst = appendRanges(dst, w.ranges)
	}
	return dst
}

func decodeFolded(b []byte) (*folded, error) {
	r := reader{b: b}
	if r.byte() != runFormat {
		return nil, fmt.Errorf("folded generations: format: %w", store.ErrCorrupt)
	}
	f := &folded{}
	for range r.count(2) {
		w := foldedWriter{writer: uint32(r.uvarint())}
		w.ranges = r.ranges()
		f.writers = append(f.writers, w)
	}
	if r.err != nil || len(r.b) != 0 {
		return nil, fmt.Errorf("folded generations: %w", store.ErrCorrupt)
	}
	return f, nil
}

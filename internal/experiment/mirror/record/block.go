package record

import (
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"
)

// block gathers entries.
type block struct {
	strings map[string]uint64
	lists   map[string]uint64 // by their encoding
	texts   []byte            // encoded tables, without their counts
	fields  []byte
	entries []byte
	count   int
	last    time.Duration
	list    []byte // scratch
}

func newBlock() *block {
	return &block{strings: map[string]uint64{}, lists: map[string]uint64{}}
}

func (b *block) size() int { return len(b.texts) + len(b.fields) + len(b.entries) }

func (b *block) number(s string) uint64 {
	if n, ok := b.strings[s]; ok {
		return n
	}
	n := uint64(len(b.strings))
	b.texts = binary.AppendUvarint(b.texts, uint64(len(s)))
	b.texts = append(b.texts, s...)
	b.strings[string([]byte(s))] = n // s may be in an arena
	return n
}

func (b *block) add(e *Entry) {
	l := binary.AppendUvarint(b.list[:0], uint64(len(e.Fields)))
	for _, f := range e.Fields {
		l = binary.AppendUvarint(l, b.number(f.Name))
		l = binary.AppendUvarint(l, b.number(f.Value))
	}
	b.list = l
	list, ok := b.lists[string(l)]
	if !ok {
		list = uint64(len(b.lists))
		b.lists[string(l)] = list
		b.fields = append(b.fields, l...)
	}

	numbers := [5]uint64{b.number(e.Method), b.number(e.Target), b.number(e.Host), b.number(e.Operation), b.number(e.Tenant)}
	p := binary.AppendVarint(b.entries, int64(e.Offset-b.last))
	b.last = e.Offset
	for _, n := range numbers {
		p = binary.AppendUvarint(p, n)
	}
	p = binary.AppendUvarint(p, list)
	p = binary.AppendUvarint(p, uint64(e.BodyBytes+1))
	p = binary.AppendUvarint(p, uint64(len(e.Body)))
	p = binary.AppendUvarint(p, uint64(e.Status))
	p = binary.AppendUvarint(p, uint64(e.FirstByte+1))
	p = binary.AppendUvarint(p, uint64(e.Total+1))
	p = binary.AppendUvarint(p, uint64(e.AnswerBytes))
	b.entries = append(p, e.Body...)
	b.count++
}

// encode appends the block's content and empties it.
func (b *block) encode(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b.strings)))
	dst = append(dst, b.texts...)
	dst = binary.AppendUvarint(dst, uint64(len(b.lists)))
	dst = append(dst, b.fields...)
	dst = binary.AppendUvarint(dst, uint64(b.count))
	dst = append(dst, b.entries...)
	clear(b.strings)
	clear(b.lists)
	b.texts, b.fields, b.entries = b.texts[:0], b.fields[:0], b.entries[:0]
	b.count, b.last = 0, 0
	return dst
}

// decoder reads the content of a block. Its strings share the block's memory.
type decoder struct {
	data    string
	rest    string
	bad     bool
	strings []string
	lists   [][]Field
	left    uint64
	last    time.Duration
}

func (d *decoder) uvarint() uint64 {
	var v uint64
	for i := 0; i < len(d.rest) && i < binary.MaxVarintLen64; i++ {
		c := d.rest[i]
		if i == binary.MaxVarintLen64-1 && c > 1 {
			break
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			d.rest = d.rest[i+1:]
			return v
		}
	}
	d.bad, d.rest = true, ""
	return 0
}

func (d *decoder) varint() int64 {
	u := d.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// length reads a number that is at most limit.
func (d *decoder) length(limit int) int {
	n := d.uvarint()
	if n > uint64(limit) {
		d.bad, d.rest = true, ""
		return 0
	}
	return int(n)
}

func (d *decoder) bytes(n int) string {
	if n > len(d.rest) {
		d.bad, d.rest = true, ""
		return ""
	}
	s := d.rest[:n]
	d.rest = d.rest[n:]
	return s
}

func (d *decoder) text() string {
	n := d.uvarint()
	if n >= uint64(len(d.strings)) {
		d.bad, d.rest = true, ""
		return ""
	}
	return d.strings[n]
}

// open sets the content of a block and reads its tables.
func (d *decoder) open(data []byte) error {
	*d = decoder{strings: d.strings[:0], lists: d.lists[:0]}
	d.data = unsafe.String(unsafe.SliceData(data), len(data)) // data is written no more
	d.rest = d.data
	// Every string, list, field and entry takes at least a byte, so the counts cannot
	// ask for more memory than a multiple of the block.
	for n := d.length(len(d.rest)); n > 0 && !d.bad; n-- {
		d.strings = append(d.strings, d.bytes(d.length(len(d.rest))))
	}
	for n := d.length(len(d.rest)); n > 0 && !d.bad; n-- {
		var fields []Field
		if n := d.length(len(d.rest) / 2); n > 0 {
			fields = make([]Field, 0, min(n, 64))
			for ; n > 0 && !d.bad; n-- {
				fields = append(fields, Field{d.text(), d.text()})
			}
		}
		d.lists = append(d.lists, fields)
	}
	d.left = d.uvarint()
	if d.bad || d.left > uint64(len(d.rest)) {
		return fmt.Errorf("its tables are cut short")
	}
	return nil
}

// next reads an entry; there must be one left. Its slices are the block's.
func (d *decoder) next(e *Entry) error {
	d.left--
	d.last += time.Duration(d.varint())
	*e = Entry{
		Offset: d.last,
		Method: d.text(), Target: d.text(), Host: d.text(), Operation: d.text(), Tenant: d.text(),
	}
	list := d.uvarint()
	if list < uint64(len(d.lists)) {
		e.Fields = d.lists[list]
	} else {
		d.bad = true
	}
	e.BodyBytes = int64(d.uvarint()) - 1
	kept := d.length(len(d.rest))
	e.Status = d.length(1 << 16)
	e.FirstByte = time.Duration(d.uvarint()) - 1
	e.Total = time.Duration(d.uvarint()) - 1
	e.AnswerBytes = int64(d.uvarint())
	if kept > 0 {
		body := d.bytes(kept)
		e.Body = unsafe.Slice(unsafe.StringData(body), len(body))
	}
	if d.bad || e.BodyBytes < -1 || e.FirstByte < -1 || e.Total < -1 || e.AnswerBytes < 0 {
		return fmt.Errorf("an entry makes no sense")
	}
	if d.left == 0 && d.rest != "" {
		return fmt.Errorf("%d bytes too many", len(d.rest))
	}
	return nil
}

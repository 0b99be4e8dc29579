package chstore

import (
	"bytes"
	"sync"

	"github.com/klauspost/compress/gzip"
)

const (
	// compressFrom is the number of bytes from which rows are sent compressed.
	compressFrom = 4 << 10
	// packBlock is the number of bytes of rows that are compressed at a time.
	packBlock = 64 << 10
)

// packedRows are the rows of an insertion. They are compressed while they are made, as a
// generation's are several times as large as what travels. The zero value has none.
//
// A row is appended to rows, and the result given to added.
type packedRows struct {
	rows   []byte       // the last of them, not compressed
	packed bytes.Buffer // those before
	w      *gzip.Writer // to packed; nil: all are in rows
}

// packers are writers that packed before: a new one makes tables of more than most insertions
// have bytes.
var packers = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // a level that there is
	}
	return w
}}

// added sets the rows that are not compressed: p.rows and what was appended to it.
func (p *packedRows) added(rows []byte) {
	p.rows = rows
	if len(rows) >= packBlock {
		p.pack()
	}
}

func (p *packedRows) pack() {
	if p.w == nil {
		p.w = packers.Get().(*gzip.Writer)
		p.w.Reset(&p.packed)
	}
	_, _ = p.w.Write(p.rows) // a bytes.Buffer takes all
	p.rows = p.rows[:0]
}

// empty reports whether there are no rows.
func (p *packedRows) empty() bool { return p.w == nil && len(p.rows) == 0 && p.packed.Len() == 0 }

// body returns what is sent, and whether it is compressed. No row is added after it.
func (p *packedRows) body() (body []byte, packed bool) {
	if p.w != nil || len(p.rows) >= compressFrom {
		p.pack()
		_ = p.w.Close()
		p.w.Reset(nil)
		packers.Put(p.w)
		p.w = nil
	}
	if p.packed.Len() > 0 {
		return p.packed.Bytes(), true
	}
	return p.rows, false
}

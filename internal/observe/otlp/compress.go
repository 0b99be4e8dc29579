package otlp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // registered before this package's, which replaces it

	"tailscope/internal/agg"
)

// decompressor decompresses one format. Readers are pooled.
type decompressor struct {
	name string
	new  func(io.Reader) (resetter, error)
	pool *sync.Pool
	// block, if not nil, unpacks a body that says its size, into dst if that has the capacity.
	// ok is false of what is to be read as a stream.
	block func(dst, b []byte, limit int, hold func(int) bool) (out []byte, ok bool, err error)
}

type resetter interface {
	io.Reader
	Reset(io.Reader) error
}

var (
	gzipFormat = &decompressor{name: "gzip", pool: &sync.Pool{}, block: gzipBlock, new: func(r io.Reader) (resetter, error) { return gzip.NewReader(r) }}
	zstdFormat = &decompressor{name: "zstd", pool: &sync.Pool{}, new: func(r io.Reader) (resetter, error) {
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
	}}
	// The Collector's deflate and zlib are both RFC 1950's, as HTTP's deflate is.
	deflateFormat = &decompressor{name: "deflate", pool: &sync.Pool{}, new: func(r io.Reader) (resetter, error) {
		z, err := zlib.NewReader(r)
		if err != nil {
			return nil, err
		}
		return zlibReader{z}, nil
	}}
	// Snappy is sent as a block or, by older Collectors, as a stream.
	snappyFormat = &decompressor{name: "snappy", pool: &sync.Pool{}, block: snappyBlock, new: func(r io.Reader) (resetter, error) {
		return snappyReader{s2.NewReader(r, s2.ReaderMaxBlockSize(64<<10))}, nil
	}}
)

type zlibReader struct{ io.ReadCloser }

func (z zlibReader) Reset(r io.Reader) error { return z.ReadCloser.(zlib.Resetter).Reset(r, nil) }

type snappyReader struct{ *s2.Reader }

func (z snappyReader) Reset(r io.Reader) error {
	z.Reader.Reset(r)
	return nil
}

// snappyStream is what a stream begins with.
const snappyStream = "\xff\x06\x00\x00sNaPpY"

func snappyBlock(dst, b []byte, limit int, hold func(int) bool) (out []byte, ok bool, err error) {
	if bytes.HasPrefix(b, []byte(snappyStream)) {
		return dst, false, nil
	}
	n, err := s2.DecodedLen(b)
	switch {
	case err != nil:
		return nil, true, malformed("snappy: %v", err)
	case n > limit:
		return nil, true, errTooLarge
	case n > cap(dst) && !hold(n):
		return nil, true, agg.ErrOverloaded
	}
	if out, err = s2.Decode(dst[:cap(dst)], b); err != nil {
		return nil, true, malformed("snappy: %v", err)
	}
	return out, true, nil
}

// open returns a reader of r decompressed; close returns it to the pool.
func (d *decompressor) open(r io.Reader) (resetter, error) {
	if z, ok := d.pool.Get().(resetter); ok {
		if err := z.Reset(r); err != nil {
			d.pool.Put(z)
			return nil, err
		}
		return z, nil
	}
	return d.new(r)
}

// close points pooled readers to empty, so that they keep no payload alive.
func (d *decompressor) close(z resetter) {
	if zr, ok := z.(*zstd.Decoder); ok {
		_ = zr.Reset(nil)
	}
	d.pool.Put(z)
}

// unpack appends b decompressed, at most limit bytes: more is errTooLarge. It calls hold
// before the memory grows; see readAll.
func (d *decompressor) unpack(dst, b []byte, limit int, hold func(int) bool) ([]byte, error) {
	if d.block != nil {
		var ok bool
		var err error
		if dst, ok, err = d.block(dst, b, limit, hold); ok {
			return dst, err
		}
	}
	z, err := d.open(bytes.NewReader(b))
	if err != nil {
		return dst, malformed("%s: %v", d.name, err)
	}
	defer d.close(z)
	return readAll(dst, z, limit, hold, func(err error) error { return malformed("%s: %v", d.name, err) })
}

// readAll appends the bytes of r to dst, at most limit. Before dst grows it calls hold
// with the new capacity; if hold returns false, the error is agg.ErrOverloaded.
func readAll(dst []byte, r io.Reader, limit int, hold func(capacity int) bool, wrap func(error) error) ([]byte, error) {
	for {
		if len(dst) == cap(dst) {
			n := min(max(2*cap(dst), 64<<10), limit+1)
			if !hold(n) {
				return dst, agg.ErrOverloaded
			}
			dst = append(make([]byte, 0, n), dst...)
		}
		n, err := r.Read(dst[len(dst):min(cap(dst), limit+1)])
		dst = dst[:len(dst)+n]
		if len(dst) > limit {
			return dst, errTooLarge
		}
		switch err {
		case nil:
		case io.EOF:
			return dst, nil
		default:
			return dst, wrap(err)
		}
	}
}

// gRPC finds compressors by name in a table of the whole process, which only init
// functions may change.
func init() {
	encoding.RegisterCompressor(&compressor{gzipFormat, &sync.Pool{New: func() any { return gzip.NewWriter(nil) }}})
	encoding.RegisterCompressor(&compressor{zstdFormat, &sync.Pool{New: func() any {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(fmt.Sprintf("zstd: %v", err)) // its options are the only cause
		}
		return w
	}}})
}

// compressor compresses and decompresses a format for gRPC.
type compressor struct {
	*decompressor
	writers *sync.Pool
}

func (c *compressor) Name() string { return c.name }

// damaged ends a message that does not decompress, and crowded one that was abandoned
// because all messages being decompressed take too much memory. gRPC would answer
// INTERNAL by itself; so it gets the decompressed part and these bytes, which no sender
// can know, and the handler answers.
var damaged, crowded = newMark(), newMark()

func newMark() (mark [16]byte) {
	binary.LittleEndian.PutUint64(mark[:], rand.Uint64())
	binary.LittleEndian.PutUint64(mark[8:], rand.Uint64())
	return mark
}

// unpacking bounds the memory of gRPC's decompressed messages until their servers, which
// gRPC calls afterwards, can count them: a small message may become a large one.
var unpacking = limiter{maxBytes: 128 << 20}

func (c *compressor) Decompress(r io.Reader) (io.Reader, error) {
	p := &pooledReader{d: c.decompressor}
	if c.block != nil {
		if r = p.unpackWhole(r); p.from != nil || p.mark != nil {
			return p, nil
		}
	}
	z, err := c.open(r)
	if err != nil {
		p.mark = bytes.NewReader(damaged[:])
		return p, nil
	}
	p.stream, p.from = z, z
	return p, nil
}

type pooledReader struct {
	d                *decompressor
	from             io.Reader
	stream           resetter      // from, or nil if the message was unpacked whole
	packed, unpacked *[]byte       // buffers, or nil
	mark             *bytes.Reader // unread part of damaged or crowded
	held             int           // bytes of unpacking
}

// unpackWhole unpacks a message at once, if it fits into a usual buffer and is of the usual
// form. Otherwise it returns what is to be read as a stream.
func (p *pooledReader) unpackWhole(r io.Reader) io.Reader {
	p.packed = getBuffer(0)
	b := (*p.packed)[:cap(*p.packed)]
	n, err := io.ReadFull(r, b)
	b = b[:n]
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		return io.MultiReader(bytes.NewReader(b), r)
	}
	p.unpacked = getBuffer(0)
	out, ok, err := p.d.block(*p.unpacked, b, largestKept, func(n int) bool {
		if !unpacking.hold(n) {
			return false
		}
		p.held += n
		return true
	})
	switch {
	case ok && err == nil:
		*p.unpacked = out
		p.from = bytes.NewReader(out)
	case err != nil:
		p.mark = bytes.NewReader(crowded[:])
	}
	return bytes.NewReader(b)
}

func (p *pooledReader) Read(b []byte) (int, error) {
	if p.mark == nil {
		n, err := p.from.Read(b)
		switch {
		case !unpacking.hold(n):
			p.mark = bytes.NewReader(crowded[:])
			return p.mark.Read(b)
		case err == nil || err == io.EOF:
			p.held += n
			return n, err
		}
		p.held += n
		p.mark = bytes.NewReader(damaged[:])
		if n > 0 {
			return n, nil
		}
	}
	return p.mark.Read(b)
}

// Close is called by gRPC when the message has been read.
func (p *pooledReader) Close() error {
	if p.stream != nil {
		p.d.close(p.stream)
	}
	for _, b := range []*[]byte{p.packed, p.unpacked} {
		if b != nil {
			putBuffer(b)
		}
	}
	unpacking.release(p.held)
	*p = pooledReader{mark: bytes.NewReader(nil)}
	return nil
}

type resetWriter interface {
	io.WriteCloser
	Reset(io.Writer)
}

func (c *compressor) Compress(w io.Writer) (io.WriteCloser, error) {
	z := c.writers.Get().(resetWriter)
	z.Reset(w)
	return &pooledWriter{z, c.writers}, nil
}

type pooledWriter struct {
	resetWriter
	pool *sync.Pool
}

func (w *pooledWriter) Close() error {
	err := w.resetWriter.Close()
	w.pool.Put(w.resetWriter)
	return err
}

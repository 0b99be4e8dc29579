package accesslog

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"

	"github.com/zeebo/xxh3"
)

// head holds a file's first bytes, by which it is recognised under any name.
type head struct {
	Bytes int    `json:"head"`
	Hash  uint64 `json:"hash"`
}

// headOf hashes the first n bytes of a file, up to fingerprintBytes.
func headOf(file *os.File, n int64) (head, error) {
	b := make([]byte, min(n, fingerprintBytes))
	if _, err := file.ReadAt(b, 0); err != nil && len(b) > 0 {
		return head{}, err
	}
	return head{len(b), xxh3.Hash(b)}, nil
}

// begins reports whether the file begins with these bytes.
func (h head) begins(file *os.File) bool {
	got, err := headOf(file, int64(h.Bytes))
	return h.Bytes == 0 || err == nil && got == h
}

// hash returns a seed that separates the ids of the file's lines from those of other
// files. It derives from the file's identity on disk if nothing of the file was read
// yet.
func (h head) hash(file *os.File) uint64 {
	if h.Bytes > 0 {
		return h.Hash
	}
	if info, err := file.Stat(); err == nil {
		return xxh3.HashStringSeed(file.Name(), inode(info)^uint64(info.ModTime().UnixNano()))
	}
	return 0
}

// place is the saved position in a file.
type place struct {
	head
	Inode    uint64 `json:"inode"`
	From     int64  `json:"from,omitempty"` // offset where the reading began
	Offset   int64  `json:"offset"`
	Replaced bool   `json:"gone,omitempty"`
}

// span is a part of a file, [From, To) in bytes, that was followed: an import of the
// file skips it.
type span struct {
	head
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

func spanKey(service string, h head) string {
	return fmt.Sprintf("followed/%s\x00%d\x00%x", service, h.Bytes, h.Hash)
}

// followed records that a file was followed, once its place is dropped.
func (k place) followed(service string, records map[string]any) {
	if k.Bytes > 0 && k.Offset > k.From {
		records[spanKey(service, k.head)] = span{k.head, k.From, k.Offset}
	}
}

// matches reports whether a file that begins with b is this one.
func (h head) matches(b []byte) bool {
	return h.Bytes > 0 && h.Bytes <= len(b) && xxh3.Hash(b[:h.Bytes]) == h.Hash
}

// followedSpan returns what was, or is being, followed of the file that begins with b,
// or an empty span.
func (in *Ingester) followedSpan(ctx context.Context, service string, b []byte) (found span, err error) {
	err = in.o.State.Load(ctx, "followed/"+service+"\x00", func(_ string, value []byte) error {
		var s span
		if err := json.Unmarshal(value, &s); err != nil {
			return fmt.Errorf("saved followed range: %w", err)
		}
		if s.matches(b) && s.Bytes > found.Bytes {
			found = s
		}
		return nil
	})
	if err != nil {
		return found, err
	}
	err = in.o.State.Load(ctx, "follow/"+service+"\x00", func(_ string, value []byte) error {
		var k place
		if err := json.Unmarshal(value, &k); err != nil {
			return fmt.Errorf("saved position in a log: %w", err)
		}
		if k.matches(b) && k.Bytes >= found.Bytes {
			found = span{k.head, k.From, math.MaxInt64}
		}
		return nil
	})
	return found, err
}

// split splits a block, which begins at offset, into the parts before, within and after
// the span.
func (s span) split(block []byte, offset int64) (before, within, after []byte) {
	end := offset + int64(len(block))
	from := min(max(s.From, offset), end) - offset
	to := min(max(s.To, offset), end) - offset
	return block[:from], block[from:max(from, to)], block[max(from, to):]
}

// is reports whether this is the file that was read so far.
func (t *tail) is(k place) bool {
	if t.info.Size() < k.Offset || t.info.Size() < int64(k.Bytes) {
		return false
	}
	if k.Bytes == 0 { // nothing was read of it, so it cannot be recognised
		return inode(t.info) == k.Inode
	}
	return k.begins(t.file)
}

func placesOf(service, path string) string { return "follow/" + service + "\x00" + path + "\x00" }

func placeKey(service, path string, info fs.FileInfo) string {
	return fmt.Sprintf("%s%x", placesOf(service, path), inode(info))
}

// places returns the saved places of the files that were at a path.
func (in *Ingester) places(ctx context.Context, service, path string) (map[string]place, error) {
	out := map[string]place{}
	err := in.o.State.Load(ctx, placesOf(service, path), func(key string, value []byte) error {
		var k place
		if err := json.Unmarshal(value, &k); err != nil {
			return fmt.Errorf("how far %s was read: %w", path, err)
		}
		out[key] = k
		return nil
	})
	return out, err
}

// grow extends the bytes by which the file is recognised, up to the offset.
func (t *tail) grow() error {
	if t.head.Bytes >= fingerprintBytes || t.offset <= int64(t.head.Bytes) {
		return nil
	}
	h, err := headOf(t.file, t.offset)
	if err == nil {
		t.head = h
	}
	return err
}

func (t *tail) place() place { return place{t.head, inode(t.info), t.from, t.offset, t.replaced} }

// save saves the offset in a file. It saves what was ingested even while the server is
// stopping.
func (f *Follower) save(ctx context.Context, t *tail) error {
	if err := t.grow(); err != nil {
		return err
	}
	return f.remember(ctx, t.watch, map[string]any{t.key: t.place()})
}

func (f *Follower) remember(ctx context.Context, w *Watch, records map[string]any) error {
	svc, err := f.o.Ingester.service(ctx, w.Source.Service)
	if err != nil {
		return err
	}
	return f.o.Ingester.remember(context.WithoutCancel(ctx), svc, records)
}

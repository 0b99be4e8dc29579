package accesslog

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/zeebo/xxh3"
)

// head is a file's first bytes, by which it is recognised under any name.
type head struct {
	Bytes int    `json:"head"`
	Hash  uint64 `json:"hash"`
}

// of hashes the first n bytes of a file, up to fingerprintBytes.
func headOf(file *os.File, n int64) (head, error) {
	b := make([]byte, min(n, fingerprintBytes))
	if _, err := file.ReadAt(b, 0); err != nil && len(b) > 0 {
		return head{}, err
	}
	return head{len(b), xxh3.Hash(b)}, nil
}

// begins says whether the file begins so.
func (h head) begins(file *os.File) bool {
	got, err := headOf(file, int64(h.Bytes))
	return h.Bytes == 0 || err == nil && got == h
}

// hash tells a file's lines from those of others, in ids made of their place.
// A file of which nothing was read yet is told by where it lies.
func (h head) hash(file *os.File) uint64 {
	if h.Bytes > 0 {
		return h.Hash
	}
	if info, err := file.Stat(); err == nil {
		return xxh3.HashStringSeed(file.Name(), inode(info)^uint64(info.ModTime().UnixNano()))
	}
	return 0
}

// place is how far a file was read, as it is saved.
type place struct {
	head
	Inode  uint64 `json:"inode"`
	Offset int64  `json:"offset"`
	Gone   bool   `json:"gone,omitempty"`
}

func inode(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}

// is says whether this is the file that was read so far.
func (t *tail) is(k place) bool {
	if t.info.Size() < k.Offset || t.info.Size() < int64(k.Bytes) {
		return false
	}
	if k.Bytes == 0 { // nothing was read of it, so there is nothing to know it by
		return inode(t.info) == k.Inode
	}
	return k.begins(t.file)
}

func placesOf(service, path string) string { return "follow/" + service + "\x00" + path + "\x00" }

func placeKey(service, path string, info fs.FileInfo) string {
	return fmt.Sprintf("%s%x", placesOf(service, path), inode(info))
}

// places returns what is remembered of the files that were at a path.
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

// grow knows the file by more of its beginning, as far as that was read.
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

func (t *tail) place() place { return place{t.head, inode(t.info), t.offset, t.gone} }

// save remembers how far a file was read. What was taken is remembered though
// the server be stopping.
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

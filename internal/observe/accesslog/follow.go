package accesslog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Watch is one log to follow.
type Watch struct {
	Path   string // path of a file, or a pattern of filepath.Match
	Source *Source
	Whole  bool // also read what exists at the first start, instead of beginning at the end
}

// FollowOptions configures a Follower.
type FollowOptions struct {
	Ingester *Ingester
	Watches  []Watch
	Interval time.Duration // time between checks of the files; default 1 s
	Grace    time.Duration // a rotated file is read until it has not grown for so long; default 1 min
	Now      func() time.Time
	Logger   *slog.Logger
}

// Follower reads logs as they grow.
//
// It checks the files once an interval. A renamed file is read until it stops growing,
// beside the one that replaced it; a truncated file is read from its beginning, after
// the rest of its copy. A file is recognised by its first bytes, whatever its name.
// Missing files are waited for, compressed ones skipped.
//
// The offset in a file is saved after every ingested block, so that a restart neither
// loses what still exists under any name nor repeats anything. A crash repeats at most
// the one block that was ingested and not yet saved. Follower misses a file that came
// and went between two checks, and what is written to a file between its being copied
// and truncated.
type Follower struct {
	o      FollowOptions
	tails  []*tail
	buf    []byte
	first  bool              // the current round is the first
	broken map[string]string // by path: the failure that was logged last, until it is over
	cancel context.CancelFunc
	done   chan struct{}
	stats  struct{ files, lag, rotations, truncations, failures, lost atomic.Int64 }
}

// FollowStats holds present values (Files, LagBytes) and running totals.
type FollowStats struct {
	Files, LagBytes, Rotations, Truncations, Failures, Lost int64
}

// Stats returns the counts so far.
func (f *Follower) Stats() FollowStats {
	s := &f.stats
	return FollowStats{s.files.Load(), s.lag.Load(), s.rotations.Load(), s.truncations.Load(), s.failures.Load(), s.lost.Load()}
}

// Follow starts to follow. When it returns, the offset from which each existing file is
// read is fixed.
func Follow(ctx context.Context, o FollowOptions) (*Follower, error) {
	f := newFollower(o)
	for _, w := range o.Watches {
		if _, err := filepath.Match(w.Path, ""); err != nil {
			return nil, fmt.Errorf("follow %s: %w", w.Path, err)
		}
	}
	if err := f.openNewFiles(ctx); err != nil {
		f.closeFiles()
		return nil, err
	}
	ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	f.done = make(chan struct{})
	go func() {
		defer close(f.done)
		tick := time.NewTicker(f.o.Interval)
		defer tick.Stop()
		for f.readAll(ctx) == nil {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if f.openNewFiles(ctx) != nil {
				return
			}
		}
	}()
	return f, nil
}

// Close stops following after the current block.
func (f *Follower) Close() {
	f.cancel()
	<-f.done
	f.closeFiles()
}

func newFollower(o FollowOptions) *Follower {
	if o.Interval <= 0 {
		o.Interval = time.Second
	}
	if o.Grace <= 0 {
		o.Grace = time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Follower{o: o, buf: make([]byte, blockBytes), first: true, broken: map[string]string{}}
}

func (f *Follower) closeFiles() {
	for _, t := range f.tails {
		t.file.Close()
	}
	f.tails = nil
}

// pollFiles finds files and reads each once.
func (f *Follower) pollFiles(ctx context.Context) error {
	if err := f.openNewFiles(ctx); err != nil {
		return err
	}
	return f.readAll(ctx)
}

// openNewFiles opens files that are not being read. It returns only ctx's error; other
// errors are logged, and the next round tries again.
func (f *Follower) openNewFiles(ctx context.Context) error {
	for i := range f.o.Watches {
		w := &f.o.Watches[i]
		paths, _ := filepath.Glob(w.Path) // the pattern was validated before
		for _, path := range paths {
			if isCompressed(path) || path != w.Path && rotatedName(path) || slices.ContainsFunc(f.tails, func(t *tail) bool { return t.watch == w && t.path == path && !t.replaced }) {
				continue
			}
			if err := f.begin(ctx, w, path); err != nil {
				f.failed(ctx, path, err)
			} else {
				delete(f.broken, path)
			}
		}
	}
	f.first = false
	return ctx.Err()
}

// readAll reads what was written to the files. It returns only ctx's error.
func (f *Follower) readAll(ctx context.Context) error {
	lag := int64(0)
	for _, t := range slices.Clone(f.tails) {
		said := f.stats.failures.Load()
		if err := f.read(ctx, t); err != nil {
			f.failed(ctx, t.path, err)
		} else if f.stats.failures.Load() == said {
			delete(f.broken, t.path)
		}
		if fi, err := t.file.Stat(); err == nil {
			lag += max(fi.Size()-t.offset, 0)
		}
	}
	f.stats.files.Store(int64(len(f.tails)))
	f.stats.lag.Store(lag)
	return ctx.Err()
}

func (f *Follower) failed(ctx context.Context, path string, err error) {
	if ctx.Err() != nil {
		return
	}
	f.stats.failures.Add(1)
	if f.broken[path] == err.Error() {
		return // it fails once an interval, and was logged
	}
	f.broken[path] = err.Error()
	f.o.Logger.Error("follow access log", "file", path, "error", err)
}

func isCompressed(path string) bool {
	switch filepath.Ext(path) {
	case ".gz", ".bz2", ".xz", ".zst", ".lz4", ".Z":
		return true
	}
	return false
}

// rotatedName reports whether a file that a pattern matches is a rotated one, as
// logrotate names them: access.log.1, access.log-20260301.
func rotatedName(path string) bool {
	i := len(path)
	for i > 0 && path[i-1] >= '0' && path[i-1] <= '9' {
		i--
	}
	digits := len(path) - i
	return digits > 0 && i > 0 && (path[i-1] == '.' || path[i-1] == '-' && digits >= 8)
}

// tail is a file that is being read.
type tail struct {
	watch    *Watch
	path     string // the path it was found by
	file     *os.File
	info     fs.FileInfo
	feed     *feed
	from     int64 // offset where the reading began
	offset   int64 // what is before it was ingested
	head     head
	replaced bool // the path leads to another file, or nowhere
	quiet    time.Time
	said     string // the last error about its format that was logged
	warned   bool   // a missing duration was logged
	key      string // key of its record
}

// begin opens the file at a path that is not being read, and those that were at that
// path when it was last read.
func (f *Follower) begin(ctx context.Context, w *Watch, path string) error {
	known, err := f.o.Ingester.places(ctx, w.Source.Service, path)
	if err != nil {
		return err
	}
	t, err := f.open(w, path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was removed in between
		}
		return err
	}
	t.key = placeKey(w.Source.Service, path, t.info)
	records := map[string]any{} // saved together, so that nothing is read under two names
	found := false
	for key, k := range known {
		if t.is(k) {
			if !found || k.Offset > t.offset {
				t.from, t.offset, t.head, found = k.From, k.Offset, k.head, true
			}
			records[key] = nil // it may have had another inode
			continue
		}
		if slices.ContainsFunc(f.tails, func(o *tail) bool { return o.key == key }) {
			continue // it is being read to its end
		}
		old, err := f.findRotated(w, path, k)
		if err != nil {
			f.failed(ctx, path, err)
			continue
		}
		records[key] = nil
		if old == nil {
			k.followed(w.Source.Service, records)
		} else {
			if old.key = key; key == t.key {
				old.key += "\x00copy"
			}
			records[old.key] = old.place()
			f.tails = append(f.tails, old)
		}
	}
	if !found && len(known) == 0 && f.first && !w.Whole {
		if err := f.skipToEnd(ctx, t); err != nil {
			t.file.Close()
			return err
		}
	}
	if err := t.grow(); err != nil {
		t.file.Close()
		return err
	}
	f.tails = append(f.tails, t)
	records[t.key] = t.place()
	return f.remember(ctx, w, records)
}

func (f *Follower) open(w *Watch, path string) (*tail, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return &tail{watch: w, path: path, file: file, info: info, quiet: f.o.Now()}, nil
}

// findRotated finds the file that was at path under the names that rotation gives, to be
// read from the saved offset to its end.
func (f *Follower) findRotated(w *Watch, path string, k place) (*tail, error) {
	t, err := f.find(w, path, k)
	if err != nil {
		return nil, err
	}
	if t == nil {
		if !k.Replaced { // otherwise it was read to what was then its end
			f.stats.lost.Add(1)
			f.o.Logger.Warn("what was last written to a rotated access log cannot be read: it is gone or compressed; import it to count the rest",
				"file", path, "read_bytes", k.Offset)
		}
		return nil, nil
	}
	t.from, t.offset, t.head, t.replaced = k.From, k.Offset, k.head, true
	return t, nil
}

// find opens the file whose beginning is known, among those beside path.
func (f *Follower) find(w *Watch, path string, k place) (*tail, error) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(filepath.Clean(dir + "."))
	if err != nil {
		return nil, err
	}
	stem := strings.TrimSuffix(base, filepath.Ext(base))
	for _, e := range entries {
		if e.Name() == base || isCompressed(e.Name()) || !strings.HasPrefix(e.Name(), stem) {
			continue
		}
		t, err := f.open(w, filepath.Join(dir, e.Name()))
		if err != nil {
			continue
		}
		if t.is(k) {
			t.path = path
			return t, nil
		}
		t.file.Close()
	}
	return nil, nil
}

// skipToEnd skips to the end of the file, having learned routes from it.
func (f *Follower) skipToEnd(ctx context.Context, t *tail) error {
	end := t.info.Size()
	from := max(end-int64(len(f.buf)), 0)
	n, err := t.file.ReadAt(f.buf[:end-from], from)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	lines := f.buf[:n]
	last := lastNewline(lines) + 1
	t.offset = from + int64(last)
	if last == 0 { // one line only, or a part of it
		t.offset = from
	}
	t.from = t.offset
	if i := indexNewline(lines[:last]); from > 0 && i >= 0 {
		lines = lines[i+1 : last] // the first line is incomplete
	} else {
		lines = lines[:last]
	}
	if len(lines) == 0 || !f.prepareTail(ctx, t, lines) {
		return nil
	}
	t.feed.learn(lines)
	return nil
}

// prepareTail prepares t for its first lines. It logs once what is wrong with them.
func (f *Follower) prepareTail(ctx context.Context, t *tail, lines []byte) bool {
	if t.feed != nil {
		return true
	}
	src, err := t.watch.Source.ForLines(lines)
	if err == nil {
		t.feed, err = f.o.Ingester.feed(ctx, src, t.head.hash(t.file), "followed "+t.path)
	}
	if err != nil {
		if t.said != err.Error() {
			t.said = err.Error()
			f.failed(ctx, t.path, fmt.Errorf("%w; the lines wait until the server is started with another format", err))
		}
		return false
	}
	return true
}

// read ingests what was written to a file since the last time, then checks whether it is
// still the one at its path.
func (f *Follower) read(ctx context.Context, t *tail) error {
	if !t.replaced {
		if err := f.restartTruncated(ctx, t); err != nil {
			return err
		}
	}
	last, err := f.drain(ctx, t)
	if err != nil {
		return err
	}
	if last {
		t.quiet = f.o.Now()
	}
	if !t.replaced {
		switch info, err := os.Stat(t.path); {
		case errors.Is(err, fs.ErrNotExist): // its successor is waited for
		case err != nil:
			return err
		case !os.SameFile(info, t.info):
			t.replaced, t.quiet = true, f.o.Now()
			if err := f.save(ctx, t); err != nil {
				return err
			}
			// The successor is read from its beginning, and in this round.
			next, err := f.open(t.watch, t.path)
			f.stats.rotations.Add(1) // another rotation loses nothing from here on
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			next.key = placeKey(t.watch.Source.Service, t.path, next.info)
			f.tails = append(f.tails, next)
			if err := f.save(ctx, next); err != nil {
				return err
			}
			_, err = f.drain(ctx, next)
			return err
		}
		return nil
	}
	if f.o.Now().Sub(t.quiet) < f.o.Grace {
		return nil
	}
	// The file has stopped growing. A last line without its end is ingested as it is.
	n, err := t.file.ReadAt(f.buf, t.offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if n > 0 && f.prepareTail(ctx, t, f.buf[:n]) {
		if err := t.feed.ingestBlock(ctx, f.buf[:n], t.offset); err != nil {
			return err
		}
		t.offset += int64(n)
	}
	t.file.Close()
	f.tails = slices.DeleteFunc(f.tails, func(o *tail) bool { return o == t })
	if t.feed != nil && !slices.ContainsFunc(f.tails, func(o *tail) bool { return o.path == t.path && o.watch == t.watch }) {
		t.feed.svc.leaveSequence(t.feed.holder)
	}
	records := map[string]any{t.key: nil}
	t.place().followed(t.watch.Source.Service, records)
	return f.remember(ctx, t.watch, records)
}

// drain ingests the whole lines from the offset to the end of the file. It reports
// whether there were any.
func (f *Follower) drain(ctx context.Context, t *tail) (any bool, err error) {
	for {
		n, err := t.file.ReadAt(f.buf, t.offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return any, err
		}
		end := lastNewline(f.buf[:n]) + 1
		if end == 0 && n == len(f.buf) {
			end = n // a line too long to be one
		}
		if end == 0 || !f.prepareTail(ctx, t, f.buf[:end]) {
			return any, nil
		}
		t.feed.tally = Tally{} // nobody reads it, and it would grow
		if err := t.feed.ingestBlock(ctx, f.buf[:end], t.offset); err != nil {
			return any, err
		}
		f.logRefused(t)
		f.logUntimed(t)
		t.offset += int64(end)
		any = true
		if err := f.save(ctx, t); err != nil {
			return any, err
		}
	}
}

// logRefused logs the first line of a block that could not be used.
func (f *Follower) logRefused(t *tail) {
	if t.said != "" || len(t.feed.tally.Problems) == 0 {
		return
	}
	p := t.feed.tally.Problems[0]
	t.said = p.Message
	f.o.Logger.Warn("a line of an access log was not used; further ones are counted and not shown",
		"file", t.path, "column", p.Column, "reason", p.Reason.String(), "problem", p.Message, "line", p.Text)
}

// logUntimed logs once that a file has no durations.
func (f *Follower) logUntimed(t *tail) {
	if t.warned || t.feed.tally.Untimed == 0 {
		return
	}
	t.warned = true
	f.o.Logger.Warn("an access log has no durations: only its requests and their sizes are counted; log $request_time too",
		"file", t.path, "service", t.watch.Source.Service, "format", t.feed.src.FormatName(), "log_format", Directive)
}

// restartTruncated begins at offset 0 if the file was emptied, after reading the rest of its
// copy.
func (f *Follower) restartTruncated(ctx context.Context, t *tail) error {
	info, err := t.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() >= t.offset && t.head.begins(t.file) {
		return nil
	}
	f.stats.truncations.Add(1)
	rest, err := f.find(t.watch, t.path, place{head: t.head, Offset: t.offset})
	if err != nil {
		return err
	}
	records := map[string]any{}
	t.place().followed(t.watch.Source.Service, records)
	if rest != nil {
		rest.from, rest.offset, rest.head, rest.feed, rest.replaced, rest.key = t.from, t.offset, t.head, t.feed, true, t.key+"\x00copy"
		if _, err := f.drain(ctx, rest); err != nil {
			rest.file.Close()
			return err
		}
		f.tails = append(f.tails, rest)
	}
	t.from, t.offset, t.head, t.feed = 0, 0, head{}, nil
	records[t.key] = t.place()
	return f.remember(ctx, t.watch, records)
}

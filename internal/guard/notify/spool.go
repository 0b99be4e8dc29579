package notify

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tailscope/internal/guard/check/event"
)

// keepResolved is the time for which a resolved incident is sent again, for receivers
// that lose state (Alertmanager, when it is killed). Prometheus keeps it as long:
// resolvedRetention in rules/alerting.go.
const keepResolved = 15 * time.Minute

// spool holds the messages that wait for one receiver, in files of one directory.
// Messages are appended to the last segment, and so is how far they are finished. A
// segment without waiting messages is deleted once a later one has a snapshot. It is
// not safe for concurrent use.
type spool struct {
	dir      string
	now      func() time.Time
	segments []*segment // oldest first; the last is appended to
	waiting  []entry    // by sequence
	bytes    int64      // of waiting
	next     uint64     // sequence of the next message; the first is 1
	finished uint64
	known    map[string]incident
	segBytes int64
	scratch  []byte
	// damaged counts frames that could not be read when the spool was opened.
	damaged int
	torn    int64 // bytes cut off the end, of a write that a crash broke off
}

type segment struct {
	id   uint64
	path string
	file *os.File
	size int64
	live int   // messages that wait
	fill int64 // size when it was begun or opened
	// whole is set if it begins with a snapshot: earlier segments are not needed for
	// known.
	whole bool
}

type entry struct {
	seq     uint64
	at      int64 // ns
	segment *segment
	offset  int64
	size    int // of the frame
}

// openSpool reads dir, and makes it if it is missing. limit bounds the waiting
// messages; segments are small against it.
func openSpool(dir string, limit int64, now func() time.Time) (*spool, error) {
	s := &spool{dir: dir, now: now, next: 1, known: map[string]incident{}}
	s.bound(limit)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the spool: %w", err)
	}
	ids, err := segmentIDs(dir)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		if err := s.loadSegment(id, i == len(ids)-1); err != nil {
			s.close()
			return nil, err
		}
	}
	s.dropThrough(s.finished)
	if n := len(s.segments); n == 0 || !s.segments[n-1].whole {
		if err := s.rotate(); err != nil {
			return nil, err
		}
	}
	s.removeSegments()
	return s, nil
}

func (s *spool) bound(limit int64) { s.segBytes = min(max(limit/8, 64<<10), 4<<20) }

func segmentIDs(dir string) ([]uint64, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the spool: %w", err)
	}
	var ids []uint64
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".spool")
		if !ok {
			continue
		}
		if id, err := strconv.ParseUint(name, 16, 64); err == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

func (s *spool) path(id uint64) string { return filepath.Join(s.dir, fmt.Sprintf("%016x.spool", id)) }

// loadSegment reads a segment. It cuts a torn end off the last one, so that messages
// appended to it can be read.
func (s *spool) loadSegment(id uint64, last bool) error {
	path := s.path(id)
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the spool: %w", err)
	}
	if len(b) < len(spoolMagic) || string(b[:len(spoolMagic)]) != spoolMagic {
		// Made during a crash, or not a segment: it is kept aside.
		if len(b) >= len(spoolMagic) {
			s.damaged++
			return os.Rename(path, path+".damaged")
		}
		return os.Remove(path)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open the spool: %w", err)
	}
	g := &segment{id: id, path: path, file: f}
	s.segments = append(s.segments, g)
	offset, good := len(spoolMagic), len(spoolMagic)
	damaged := 0
	for offset < len(b) {
		payload, size, err := nextFrame(b[offset:])
		if errors.Is(err, errTorn) {
			break
		}
		var r record
		if err == nil {
			r, err = decode(payload)
		}
		if err != nil {
			damaged++
		} else {
			s.damaged += damaged
			damaged = 0
			s.replay(r, g, int64(offset), size)
			good = offset + size
		}
		offset += size
	}
	g.size = int64(good)
	g.fill = g.size
	if cut := int64(len(b) - good); cut > 0 && last {
		s.torn += cut
		if err := f.Truncate(g.size); err != nil {
			return fmt.Errorf("cut the torn end of the spool: %w", err)
		}
	} else if cut > 0 {
		s.damaged += max(damaged, 1)
	}
	return nil
}

func (s *spool) replay(r record, g *segment, offset int64, size int) {
	switch r.kind {
	case frameEvent, frameResult:
		s.add(entry{r.message.seq, r.message.at.UnixNano(), g, offset, size})
		if r.message.event != nil {
			s.recordIncident(r.message.event)
		}
	case frameFinished:
		s.finished = max(s.finished, r.finished)
		s.next = max(s.next, r.finished+1)
	case frameSnapshot:
		g.whole = true
		s.finished = max(s.finished, r.snapshot.Finished)
		s.next = max(s.next, r.snapshot.Next, s.finished+1)
		s.known = r.snapshot.Known
		if s.known == nil {
			s.known = map[string]incident{}
		}
	}
}

func (s *spool) add(e entry) {
	s.next = max(s.next, e.seq+1)
	if n := len(s.waiting); n > 0 && s.waiting[n-1].seq >= e.seq {
		return // said twice: after a write that failed half-way
	}
	s.waiting = append(s.waiting, e)
	s.bytes += int64(e.size)
	e.segment.live++
}

// recordIncident keeps the last event of each incident.
func (s *spool) recordIncident(e *event.Event) {
	was, known := s.known[e.Incident]
	switch {
	case e.Incident == "":
		return
	case e.Kind == event.Resolved:
		if known {
			was.Event, was.Done = *e, e.Time
			s.known[e.Incident] = was
		}
	case known:
		was.Event, was.Done = *e, time.Time{}
		s.known[e.Incident] = was
	case e.To != event.OK && e.Kind != event.Flapping && e.Kind != event.Steady && e.Kind != event.Verdict:
		// A check has one incident at a time. One that was never resolved, because of a
		// crash at its beginning, is replaced.
		for id, k := range s.known {
			if k.Event.Key == e.Key {
				delete(s.known, id)
			}
		}
		s.known[e.Incident] = incident{Event: *e}
	}
}

// dropResolved drops incidents resolved long ago.
func (s *spool) dropResolved() {
	now := s.now()
	for id, k := range s.known {
		if !k.Done.IsZero() && now.Sub(k.Done) > keepResolved {
			delete(s.known, id)
		}
	}
}

// reconcile resolves known incidents that are not open any more. Their waiting
// messages stay.
func (s *spool) reconcile(open map[string]bool) (n int, err error) {
	now := s.now()
	for id, k := range s.known {
		if k.Done.IsZero() && !open[id] {
			e := &k.Event
			e.Kind, e.From, e.To, e.Time = event.Resolved, e.To, event.OK, now
			k.Done = now
			s.known[id] = k
			n++
		}
	}
	if n == 0 {
		return 0, nil
	}
	return n, s.rotate()
}

// append adds messages in one write, and gives sequence numbers to those without.
// With sync they survive a crash of the machine once it returns nil. After an error
// none of them count, though they may come back after a restart.
func (s *spool) append(messages []message, sync bool) error {
	if active := s.segments[len(s.segments)-1]; active.size-active.fill > s.segBytes {
		if err := s.rotate(); err != nil {
			return err
		}
	}
	g := s.segments[len(s.segments)-1]
	buf := s.scratch[:0]
	offset := g.size
	entries := make([]entry, 0, len(messages))
	for i := range messages {
		m := &messages[i]
		if m.seq == 0 {
			m.seq = s.next
			s.next++
		}
		payload, err := appendMessage(nil, *m)
		if err != nil {
			return err
		}
		from := len(buf)
		buf = appendFrame(buf, payload)
		entries = append(entries, entry{m.seq, m.at.UnixNano(), g, offset + int64(from), len(buf) - from})
	}
	if cap(buf) < 1<<20 {
		s.scratch = buf
	}
	if err := s.write(g, buf, sync); err != nil {
		return err
	}
	for _, e := range entries {
		s.add(e)
	}
	for i := range messages {
		if e := messages[i].event; e != nil {
			s.recordIncident(e)
		}
	}
	return nil
}

// write appends b to g. After a failure a new segment begins, because the file's end
// is unknown.
func (s *spool) write(g *segment, b []byte, sync bool) error {
	_, err := g.file.WriteAt(b, g.size)
	if err == nil && sync {
		err = g.file.Sync()
	}
	if err == nil {
		g.size += int64(len(b))
		return nil
	}
	err = fmt.Errorf("write the spool: %w", err)
	if cut := g.file.Truncate(g.size); cut != nil {
		err = errors.Join(err, cut)
	}
	if again := s.rotate(); again != nil {
		err = errors.Join(err, again)
	}
	return err
}

// rotate begins a new segment with a snapshot, on disk before it is used.
func (s *spool) rotate() error {
	s.dropResolved()
	id := uint64(1)
	if n := len(s.segments); n > 0 {
		id = s.segments[n-1].id + 1
	}
	payload, err := appendSnapshot(nil, snapshot{Next: s.next, Finished: s.finished, Known: s.known})
	if err != nil {
		return err
	}
	b := appendFrame([]byte(spoolMagic), payload)
	path := s.path(id)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		// Left by a rotation that failed.
		f, err = os.OpenFile(path, os.O_RDWR|os.O_TRUNC, 0o600)
	}
	if err != nil {
		return fmt.Errorf("begin a segment of the spool: %w", err)
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncDir(s.dir)
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(path)
		return fmt.Errorf("begin a segment of the spool: %w", err)
	}
	s.segments = append(s.segments, &segment{id: id, path: path, file: f, size: int64(len(b)), fill: int64(len(b)), whole: true})
	s.removeSegments()
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// dropThrough drops messages through seq from memory.
func (s *spool) dropThrough(seq uint64) {
	n := 0
	for n < len(s.waiting) && s.waiting[n].seq <= seq {
		s.bytes -= int64(s.waiting[n].size)
		s.waiting[n].segment.live--
		n++
	}
	s.waiting = s.waiting[n:]
	if len(s.waiting) == 0 {
		s.waiting = nil
	}
	s.finished = max(s.finished, seq)
	s.next = max(s.next, s.finished+1)
}

// markDone records that all messages through seq are finished. The record is written, not
// synced: it survives a kill, and after a power cut some messages may be sent again.
func (s *spool) markDone(seq uint64) error {
	before := len(s.waiting)
	s.dropThrough(seq)
	if len(s.waiting) == before {
		return nil
	}
	g := s.segments[len(s.segments)-1]
	if err := s.write(g, appendFrame(nil, appendFinished(nil, seq)), false); err != nil {
		return err
	}
	if len(s.waiting) == 0 && g.size-g.fill > s.segBytes {
		return s.rotate()
	}
	s.removeSegments()
	return nil
}

// removeSegments deletes segments without waiting messages. It deletes only those
// before the first that is needed, because a later one may finish its messages.
func (s *spool) removeSegments() {
	for len(s.segments) > 1 && s.segments[0].live == 0 {
		g := s.segments[0]
		if err := os.Remove(g.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
		_ = g.file.Close()
		s.segments = s.segments[1:]
	}
}

// read returns up to n messages from the front. Messages that cannot be read are
// counted in bad, and are finished with the others.
func (s *spool) read(n int) (messages []message, bad int, err error) {
	for _, e := range s.waiting[:min(n, len(s.waiting))] {
		if cap(s.scratch) < e.size {
			s.scratch = make([]byte, e.size)
		}
		b := s.scratch[:e.size]
		if _, err := e.segment.file.ReadAt(b, e.offset); err != nil {
			return messages, bad, fmt.Errorf("read the spool: %w", err)
		}
		payload, _, err := nextFrame(b)
		var r record
		if err == nil {
			r, err = decode(payload)
		}
		if err != nil || r.message.seq != e.seq {
			if len(messages) > 0 {
				return messages, bad, nil // it is the front of the next
			}
			bad++
			continue
		}
		messages = append(messages, r.message)
	}
	return messages, bad, nil
}

// close syncs and closes the files; they stay.
func (s *spool) close() error {
	var errs []error
	for i, g := range s.segments {
		if i == len(s.segments)-1 {
			errs = append(errs, g.file.Sync())
		}
		errs = append(errs, g.file.Close())
	}
	s.segments = nil
	return errors.Join(errs...)
}

package pebblestore

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

// Pebble's log holds the writes that are not in tables yet, and Pebble stops reading it
// at the first invalid chunk: right for the end of a log that was being written, and a
// silent loss anywhere else. So the logs are read before Pebble opens. Where something
// valid follows what is invalid, and was written after that had been synced, the log is
// damaged: the original goes to damaged/, and is replaced by a log that Pebble reads to
// its end. It holds
//
//   - every write before the damage;
//   - of the writes behind it those that stand alone: records, kept traces, and the state
//     of writers that have state only, as older versions wrote it.
//
// Generations of points behind the damage are left out: the aggregator keeps the journal
// of each until its points lie in a table (store.Durable), so it puts them again, and
// with one of them left in, the lost one before it would count as stored. Rollups and
// runs are left out too: Maintain makes them again.
//
// A log whose end is cut off cleanly looks like one that was being written. The
// aggregator puts again from its journals what that lost, and reports it.

// walLog is one of Pebble's logs.
type walLog struct {
	name    string
	num     uint64
	size    int64
	records records
}

func readLogs(fsys vfs.FS, dir string, names []string, least uint64) ([]*walLog, error) {
	var out []*walLog
	for _, n := range names {
		num, ok := logNumber(n)
		if !ok || num < least {
			continue
		}
		b, err := readWhole(fsys, fsys.PathJoin(dir, n))
		if err != nil {
			return nil, fmt.Errorf("read log: %w", err)
		}
		out = append(out, &walLog{n, num, int64(len(b)), readRecords(b, uint32(num))})
	}
	slices.SortFunc(out, func(a, b *walLog) int { return cmp.Compare(a.num, b.num) })
	return out, nil
}

// seqRange returns the sequence numbers of the first write of the logs and behind the last.
func seqRange(logs []*walLog) (first, end uint64) {
	for _, l := range logs {
		for _, r := range l.records.list {
			if h, ok := batchrepr.ReadHeader(r.payload); ok {
				if end == 0 {
					first = uint64(h.SeqNum)
				}
				end = max(end, uint64(h.SeqNum)+uint64(h.Count))
			}
		}
	}
	return first, end
}

// logDamage describes the damage of one log.
type logDamage struct {
	log     *walLog
	bytes   int64
	reason  string
	covered string // its content if all of that is made again, else empty
}

// lost describes the loss.
func (d logDamage) lost() string {
	switch {
	case d.covered != "":
		return ""
	case d.log.records.end:
		return fmt.Sprintf("%d bytes at the end of the log: up to the last marks, kept traces and records; generations of points are put again from their journals", d.bytes)
	}
	return fmt.Sprintf("%d bytes of the log", d.bytes)
}

// damagedLogs returns the damage in the existing logs, in order.
func damagedLogs(logs []*walLog, gone logsGone) (out []logDamage) {
	for i, l := range logs {
		d := logDamage{log: l}
		var parts []string
		for _, r := range l.records.damage {
			d.bytes += r[1] - r[0]
			parts = append(parts, fmt.Sprintf("bytes %d to %d of the log do not check, and what follows them does", r[0], r[1]))
		}
		if n := len(parts); l.records.end {
			r := l.records.damage[n-1]
			parts[n-1] = fmt.Sprintf("bytes %d to %d at the end of the log do not check, and are not a write that was cut short", r[0], r[1])
			if n == 1 {
				d.covered = coveredWrite(l.records.endHeld)
			}
		}
		// Pebble closes a log before it creates the next.
		if l.records.tail >= 0 && i < len(logs)-1 {
			d.bytes += l.size - l.records.tail
			parts = append(parts, fmt.Sprintf("the log ends at byte %d in something that does not check, and there is a later log", l.records.tail))
		} else if i < len(logs)-1 && !gone.between(l.num, logs[i+1].num) {
			if _, end := seqRange(logs[i : i+1]); end > 0 {
				if first, _ := seqRange(logs[i+1 : i+2]); first > end {
					parts = append(parts, fmt.Sprintf("the log ends %d keys before the next one begins", first-end))
				}
			}
		}
		if parts != nil {
			d.reason = strings.Join(parts, "; ")
			out = append(out, d)
		}
	}
	return out
}

// written describes the content of one write of the store.
type written struct {
	records, traces, other bool
	writer                 string // the writer whose generation it puts
	generation             uint64
	points                 bool // the writer has put points
	state                  bool // of the writer
	clock                  bool
}

func readWrite(payload []byte) (w written, err error) {
	if len(payload) < batchrepr.HeaderLen {
		return w, store.ErrCorrupt
	}
	r := batchrepr.Read(payload)
	for {
		kind, key, value, ok, err := r.Next()
		if err != nil {
			return w, err
		}
		if !ok {
			return w, nil
		}
		switch {
		case kind == pebble.InternalKeyKindLogData:
		case bytes.Equal(key, metaKey(metaClock, 0)):
			w.clock = true
		case len(key) == 0:
			w.other = true
		case key[0] == tableRecord || key[0] == tableMark || key[0] == tableMarkID, bytes.Equal(key, metaKey(metaRevision, 0)):
			w.records = true
		case key[0] >= tableTrace && key[0] < tableTraceEnd, bytes.Equal(key, metaKey(metaTraces, 0)):
			w.traces = true
		case key[0] == tableState:
			w.state = true
		case key[0] == tableWriter && kind == pebble.InternalKeyKindSet:
			v, err := decodeWriter(value)
			if err != nil {
				return w, err
			}
			w.writer, w.generation, w.points = string(key[1:]), v.flushed, v.points
		default:
			w.other = true
		}
	}
}

// coveredWrite describes the content of an invalid write if all of it is made again;
// else it returns "".
func coveredWrite(payload []byte) string {
	w, err := readWrite(payload)
	switch {
	case payload == nil || err != nil || w.records || w.traces || !w.other && (!w.clock || w.state || w.writer != ""):
		return ""
	case !w.other:
		return "the moment of the last maintenance, which is written every minute"
	case w.writer != "":
		return fmt.Sprintf("points of generation %d, which are put again from its journal", w.generation)
	case w.state:
		return ""
	}
	return "slots that were made of shorter ones, or left out for their age, which is done again"
}

// salvage chooses the writes to keep: all before the damage, and those behind it that
// stand alone.
type salvage struct {
	points  map[string]bool   // writers that put points
	flushed map[string]uint64 // by writer, before the damage and kept
	kept    int
	left    int
	gens    map[string][2]uint64 // left out: first and last generation by writer
}

func newSalvage(logs []*walLog) *salvage {
	s := &salvage{points: map[string]bool{}, flushed: map[string]uint64{}, gens: map[string][2]uint64{}}
	for _, l := range logs {
		for _, r := range l.records.list {
			if w, err := readWrite(r.payload); err == nil && w.writer != "" && (w.other || w.points) {
				s.points[w.writer] = true
			}
		}
	}
	return s
}

func (s *salvage) keep(payload []byte, after bool) bool {
	w, err := readWrite(payload)
	if err != nil {
		return false
	}
	if !after {
		if w.writer != "" {
			s.flushed[w.writer] = w.generation
		}
		return true
	}
	ok := !w.other
	if ok && w.writer != "" {
		before, known := s.flushed[w.writer]
		ok = !s.points[w.writer] && (!known || w.generation == before+1)
	}
	if !ok {
		s.left++
		if w.writer != "" {
			g, known := s.gens[w.writer]
			if !known {
				g[0] = w.generation
			}
			g[1] = w.generation
			s.gens[w.writer] = g
		}
		return false
	}
	s.kept++
	if w.writer != "" {
		s.flushed[w.writer] = w.generation
	}
	return true
}

// repairLogs replaces the logs, from the first damaged one on, by logs that Pebble reads
// to their ends. It replaces the first damaged one last, so that an interrupted start is
// repeated.
func (s *Store) repairLogs(logs []*walLog, gone logsGone) error {
	found := damagedLogs(logs, gone)
	if len(found) == 0 && !gone.any() {
		return nil
	}
	fsys := s.opts.FS
	sv := newSalvage(logs)
	var replaced []*walLog
	var content [][]byte
	after := false
	lost := gone.keys
	var next uint64 // the sequence number that the next write must have
	for _, l := range logs {
		var b bytes.Buffer
		w := record.NewWriter(&b)
		after = after || gone.before(l.num)
		before := after
		for _, r := range l.records.list {
			after = after || r.after
			if h, ok := batchrepr.ReadHeader(r.payload); ok {
				if seq := uint64(h.SeqNum); next > 0 && seq > next {
					lost += seq - next
				}
				next = uint64(h.SeqNum) + uint64(h.Count)
			}
			if !sv.keep(r.payload, after) {
				continue
			}
			if _, err := w.WriteRecord(r.payload); err != nil {
				return err
			}
		}
		isDamaged := slices.ContainsFunc(found, func(d logDamage) bool { return d.log == l })
		after = after || isDamaged
		if before || isDamaged {
			if err := w.Close(); err != nil {
				return err
			}
			replaced, content = append(replaced, l), append(content, b.Bytes())
		}
	}
	if gone.any() {
		seen := len(found) == 0 && slices.ContainsFunc(logs, func(l *walLog) bool { return !gone.after(l.num) && len(l.records.list) > 0 })
		s.damage.add(store.Damage{File: gone.path(fsys, s.opts.Dir), Reason: "a log of the store is missing: " + gone.words(), Observations: -1, Lost: sv.words(lost, seen)})
	}
	for i, l := range slices.Backward(replaced) {
		path := fsys.PathJoin(s.opts.Dir, l.name)
		kept, err := s.damage.aside.copy(path)
		if err != nil {
			return err
		}
		if err := writeWhole(fsys, path, content[i]); err != nil {
			return err
		}
		for _, d := range found {
			switch {
			case d.log != l:
			case d.covered != "" && lost == 0:
				s.damage.add(store.Damage{File: kept, Reason: d.reason + "; they held " + d.covered})
			case d.log.records.end && lost == 0:
				s.damage.add(store.Damage{File: kept, Reason: d.reason, Observations: -1, Lost: d.lost()})
			default:
				s.damage.add(store.Damage{File: kept, Reason: d.reason, Observations: -1, Lost: d.lost() + "; " + sv.words(lost, false)})
			}
		}
	}
	return nil
}

// words describes the fate of the writes behind the damage; allSeen reports that the
// number of keys would show in those that follow.
func (s *salvage) words(lost uint64, allSeen bool) string {
	gone := fmt.Sprintf("%d keys written there, marks and records among them, are gone", lost)
	switch {
	case lost == 0 && allSeen:
		gone = "nothing is known to be missing"
	case lost == 0:
		gone = "what was written there, marks and records among them, is gone"
	}
	out := fmt.Sprintf("%s; of the writes behind it %d that stand alone are kept", gone, s.kept)
	if s.left > 0 {
		out += fmt.Sprintf(" and %d are left out", s.left)
	}
	var writers []string
	for w := range s.gens {
		writers = append(writers, w)
	}
	slices.Sort(writers)
	for _, w := range writers {
		out += fmt.Sprintf(": generations %d to %d of writer %q, which are put again from its journal", s.gens[w][0], s.gens[w][1], w)
	}
	return out
}

// strayTables returns the tables in the directory that the manifest neither lists nor has
// removed, and that hold writes which neither the listed tables nor the logs can hold,
// or which others may have been made into while listed tables, or logs, are missing.
// They show that the manifest has lost edits: Pebble would delete them.
//
// A table that was begun after the manifest, and that it never lists, belongs to an
// unfinished flush or compaction: its content is in the logs or in listed tables. An
// older one may have been merged into another before, and its number of writes is not
// known any more.
func strayTables(fsys vfs.FS, dir string, names []string, m *manifest, logs []*walLog, missing bool) []string {
	first, end := seqRange(logs)
	var out []string
	for _, n := range names {
		num, ok := fileNumber(n)
		if !ok || !strings.HasSuffix(n, ".sst") || m.tables[num] != nil || m.removed[num] {
			continue
		}
		highest, err := highestSeq(fsys, fsys.PathJoin(dir, n))
		if err != nil {
			continue // it was being written
		}
		listed := m.maxSeq
		if num < m.first {
			listed = max(listed, m.lastSeq)
		}
		// Pebble deletes a log once its writes are in listed tables: those of a lost
		// edit come before every log in the directory. Behind the last write of the logs
		// there is only what a power failure took from them.
		if missing || highest > listed && (highest < first || end == 0) {
			out = append(out, n)
		}
	}
	return out
}

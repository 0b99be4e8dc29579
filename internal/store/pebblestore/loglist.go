package pebblestore

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// The file of logs lists the numbers of Pebble's newest logs, so that a log that is
// missing as a whole is noticed:
//
//	tailscope logs
//	4 7
//	crc32c 1d0f7a2c
//
// It is written after a log is created and before anything is written to it. A log is
// deleted once the manifest records that tables hold its content: a log that is listed,
// and that the manifest still needs, must exist.
const logsFile = "LOGS"

// listedLogs bounds the list. The manifest needs three or four at most.
const listedLogs = 16

func encodeLogList(logs []uint64) []byte {
	b := []byte("tailscope logs")
	for _, n := range logs {
		b = fmt.Appendf(b, " %d", n)
	}
	b = append(b, '\n')
	return fmt.Appendf(b, "crc32c %08x\n", crc32.Checksum(b, crcTable))
}

// readLogList returns the numbers in the file of logs, or none if it is missing or
// damaged.
func readLogList(fsys vfs.FS, dir string) ([]uint64, error) {
	b, err := readWhole(fsys, fsys.PathJoin(dir, logsFile))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	var out []uint64
	for _, s := range strings.Fields(strings.TrimPrefix(line, "tailscope logs")) {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return nil, nil
		}
		out = append(out, n)
	}
	if string(encodeLogList(out)) != string(b) {
		return nil, nil
	}
	return out, nil
}

// missingLogs returns the logs that are listed, not in tables, and missing.
func missingLogs(fsys vfs.FS, dir string, minLog uint64, logs []*walLog) ([]uint64, error) {
	listed, err := readLogList(fsys, dir)
	return slices.DeleteFunc(listed, func(n uint64) bool {
		return n < minLog || slices.ContainsFunc(logs, func(l *walLog) bool { return l.num == n })
	}), err
}

// listLogs keeps the file of logs up to date. A log that cannot be listed would not be
// missed; that is its only effect.
func (s *Store) listLogs(names []string) func(pebble.WALCreateInfo) {
	var list []uint64
	for _, n := range names {
		if num, ok := logNumber(n); ok {
			list = append(list, num)
		}
	}
	slices.Sort(list)
	return func(info pebble.WALCreateInfo) {
		if info.Err != nil {
			return
		}
		list = append(list, uint64(info.FileNum))
		list = list[max(0, len(list)-listedLogs):]
		if err := writeWhole(s.opts.FS, s.opts.FS.PathJoin(s.opts.Dir, logsFile), encodeLogList(list)); err != nil {
			s.opts.Logger.Warn("the newest log is not listed", "log", info.FileNum.String(), "error", err)
		}
	}
}

// syncLogs makes sure that a power failure takes nothing from logs that Pebble is about
// to read: what the last process wrote may not be on disk yet, and a table made of it
// would then hold more than logs and manifest record.
func syncLogs(fsys vfs.FS, dir string, logs []*walLog) error {
	for _, l := range logs {
		f, err := fsys.OpenReadWrite(fsys.PathJoin(dir, l.name), vfs.WriteCategoryUnspecified)
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err != nil {
			return fmt.Errorf("sync log %s: %w", l.name, classify(err))
		}
	}
	return nil
}

// logsGone describes the logs that are missing as a whole.
type logsGone struct {
	listed []uint64 // numbers of missing logs
	keys   uint64   // written before the first log in the directory, and not found anywhere
}

func (g logsGone) any() bool { return len(g.listed) > 0 || g.keys > 0 }

// before reports whether something is missing before a log.
func (g logsGone) before(num uint64) bool {
	return g.keys > 0 || len(g.listed) > 0 && g.listed[0] < num
}

// between reports whether a log is missing between two others.
func (g logsGone) between(a, b uint64) bool {
	return slices.ContainsFunc(g.listed, func(n uint64) bool { return a < n && n < b })
}

// after reports whether a log is missing after a log.
func (g logsGone) after(num uint64) bool {
	return len(g.listed) > 0 && g.listed[len(g.listed)-1] > num
}

// words names what is missing.
func (g logsGone) words() string {
	if len(g.listed) == 0 {
		return fmt.Sprintf("%d keys were written before the first log that is there", g.keys)
	}
	var names []string
	for _, n := range g.listed {
		names = append(names, logName(n))
	}
	return "there is no " + strings.Join(names, ", ")
}

// path returns the path of a missing log, as far as it is known.
func (g logsGone) path(fsys vfs.FS, dir string) string {
	if len(g.listed) == 0 {
		return fsys.PathJoin(dir, "*.log")
	}
	return fsys.PathJoin(dir, logName(g.listed[0]))
}

func logName(num uint64) string { return fmt.Sprintf("%06d.log", num) }

// firstSeq is the sequence number of the first write of a database.
const firstSeq = 10

// findGone finds logs that are missing as a whole: by the file of logs, and by writes
// that neither the tables of the manifest nor the logs can hold. A listed log that is
// missing held nothing that counts, or is in tables, if the writes of the tables reach
// up to those of the logs behind it: a manifest that was cut off may have lost only the
// edit which released the log.
func findGone(fsys vfs.FS, dir string, m *manifest, logs []*walLog) (g logsGone, err error) {
	if g.listed, err = missingLogs(fsys, dir, m.minLog, logs); err != nil {
		return g, err
	}
	slices.Sort(g.listed)
	if len(logs) > 0 && len(logs[0].records.damage) == 0 {
		first, _ := seqRange(logs)
		if next := max(m.lastSeq+1, m.maxSeq+1, firstSeq); first > next {
			g.keys = first - next
		}
		if first > 0 && first <= max(m.maxSeq+1, firstSeq) {
			first := slices.IndexFunc(logs, func(l *walLog) bool { return len(l.records.list) > 0 })
			g.listed = slices.DeleteFunc(g.listed, func(n uint64) bool { return n < logs[first].num })
		}
	}
	return g, nil
}

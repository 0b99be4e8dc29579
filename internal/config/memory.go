package config

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Auto is the value of a size that is derived: limits.memory from the control
// group or the machine, traces.memory from limits.memory.
const Auto int64 = -1

const (
	// LeastMemory is the least that limits.memory may be: the program, and every
	// share at its least.
	LeastMemory = 96 << 20
	// mostMemory bounds what is taken of a machine that gives no limit.
	mostMemory = 3 << 29
)

// Bound is a bound on the memory of the whole program.
type Bound struct {
	Bytes int64
	From  string // what it was derived from
}

// MemoryBound returns the bound on the memory of the whole program: what
// limits.memory says, at most nine tenths of what there is; else nine tenths of
// the control group's limit; else half of the machine's memory and at most
// 1.5 GiB. root is the file system that holds proc and sys.
func (c *Config) MemoryBound(root fs.FS) Bound {
	machine := machineMemory(root)
	there, from, group := machine, "the machine's "+roughSize(machine), false
	if limit, file := groupLimit(root); limit > 0 && (machine == 0 || limit < machine) {
		there, from, group = limit, "the control group's limit of "+roughSize(limit)+" in /"+file, true
	}
	most := max(there/10*9, LeastMemory)
	switch {
	case c.Memory != Auto && there > 0 && c.Memory > most:
		return Bound{most, from + ", which limits.memory exceeds"}
	case c.Memory != Auto:
		return Bound{c.Memory, "limits.memory"}
	case there == 0:
		return Bound{mostMemory, "the default: neither a control group nor the machine says how much memory there is"}
	case group:
		return Bound{most, from}
	}
	return Bound{min(max(there/2, LeastMemory), mostMemory), from}
}

// machineMemory returns the machine's memory in bytes, 0 if it is not known.
func machineMemory(root fs.FS) int64 {
	b, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// groupLimit returns the least memory limit of the process's control group and
// those above it, of version 2 or 1, and the file that says so. It returns 0 if
// there is no limit.
func groupLimit(root fs.FS) (limit int64, file string) {
	b, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0, ""
	}
	for line := range strings.Lines(string(b)) {
		// hierarchy:controllers:path; the one of version 2 names no controllers.
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, ok := strings.Cut(rest, ":")
		if !ok {
			continue
		}
		var mounts []string
		name := "memory.max"
		switch {
		case controllers == "":
			mounts = []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"}
		case strings.Contains(","+controllers+",", ",memory,"):
			mounts, name = []string{"sys/fs/cgroup/memory"}, "memory.limit_in_bytes"
		}
		for _, mount := range mounts {
			// Inside a container the path is that of the host, and what is mounted
			// is the group itself: then only the mount's own file exists.
			for at := path.Join("/", group); ; at = path.Dir(at) {
				f := path.Join(mount, at, name)
				if n := readLimit(root, f); n > 0 && (limit == 0 || n < limit) {
					limit, file = n, f
				}
				if at == "/" {
					break
				}
			}
		}
	}
	return limit, file
}

// readLimit returns the limit that a control group's file holds, 0 for none.
func readLimit(root fs.FS, file string) int64 {
	b, err := fs.ReadFile(root, file)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || n >= 1<<62 { // "max", and what version 1 writes in its place
		return 0
	}
	return n
}

// roughSize writes a size for people: 23.4 GiB.
func roughSize(n int64) string {
	if n >= 1<<30 {
		return strconv.FormatFloat(float64(n)/(1<<30), 'f', 1, 64) + " GiB"
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// Shares is how a bound on memory is divided. Each is a bound of its own, kept
// by the part that it is named after.
type Shares struct {
	OpenSlots  int64 // observations not flushed yet, series and tenants
	Traces     int64 // traces not closed yet, their breakdown; 0 breaks nothing down
	Questions  int64 // all questions at once
	Question   int64 // one question
	StoreCache int64 // blocks of the store
	Memtable   int64 // one of memtables
	Index      int64 // the store's label indexes
	Samples    int64 // raw samples that checks look up
	Ingest     int64 // requests being decoded
	Targets    int64 // what spans were resolved to, see otlp
}

// memtables bounds the memtables that the store holds at once.
const memtables = 3

// shares is the division of a bound, in parts of 192. What is left is for the
// program itself and for garbage that is not collected yet.
var shares = []struct {
	name  string
	of    func(*Shares) *int64
	part  int64
	least int64
	most  int64 // more is of no use
}{
	{"open_slots", func(s *Shares) *int64 { return &s.OpenSlots }, 32, 16 << 20, 0},
	{"traces", func(s *Shares) *int64 { return &s.Traces }, 16, 8 << 20, 0},
	{"questions", func(s *Shares) *int64 { return &s.Questions }, 64, 24 << 20, 0},
	{"store_cache", func(s *Shares) *int64 { return &s.StoreCache }, 6, 4 << 20, 0},
	{"memtable", func(s *Shares) *int64 { return &s.Memtable }, 2, 1 << 20, 64 << 20},
	{"index", func(s *Shares) *int64 { return &s.Index }, 12, 4 << 20, 0},
	{"samples", func(s *Shares) *int64 { return &s.Samples }, 12, 4 << 20, 0},
	{"ingest", func(s *Shares) *int64 { return &s.Ingest }, 12, 8 << 20, 0},
	{"targets", func(s *Shares) *int64 { return &s.Targets }, 3, 512 << 10, 12 << 20},
}

// MemoryShares divides a bound. traces.memory goes before its share.
func (c *Config) MemoryShares(bound int64) Shares {
	var s Shares
	for _, d := range shares {
		v := max(bound/192*d.part, d.least)
		if d.most > 0 {
			v = min(v, d.most)
		}
		*d.of(&s) = v
	}
	s.Question = s.Questions / 2
	if c.Traces.Memory != Auto {
		s.Traces = c.Traces.Memory
	}
	return s
}

// Memtables is what all memtables together may take.
func (s *Shares) Memtables() int64 { return memtables * s.Memtable }

// Sum is what all shares come to.
func (s *Shares) Sum() int64 {
	return s.OpenSlots + s.Traces + s.Questions + s.StoreCache + s.Memtables() + s.Index + s.Samples + s.Ingest + s.Targets
}

// List returns the shares by name, for the log and /metrics.
func (s *Shares) List() []Share {
	var out []Share
	for _, d := range shares {
		v := *d.of(s)
		name := d.name
		if name == "memtable" {
			name, v = "memtables", s.Memtables()
		}
		out = append(out, Share{name, v})
	}
	return out
}

// Share is one part's bound.
type Share struct {
	Part  string
	Bytes int64
}

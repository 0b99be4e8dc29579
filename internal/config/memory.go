package config

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Auto stands for a derived size: limits.memory is derived from the control group or the
// machine, traces.memory from limits.memory.
const Auto int64 = -1

const (
	// LeastMemory is the least value of limits.memory: the program, and the least of
	// every share.
	LeastMemory = 96 << 20
	// mostMemory bounds the memory used on a machine without a limit.
	mostMemory = 3 << 29
)

// Bound is a bound on the memory of the whole program.
type Bound struct {
	Bytes int64
	From  string // the source it was derived from
}

// MemoryBound returns the bound on the memory of the whole program: limits.memory, at
// most nine tenths of what there is; by default nine tenths of the control group's
// limit; else half of the machine's memory and at most 1.5 GiB. root is the file system
// with proc and sys.
func (c *Config) MemoryBound(root fs.FS) Bound {
	machine := machineMemory(root)
	there, from, group := machine, "the machine's "+sizeText(machine), false
	if limit, file := groupLimit(root); limit > 0 && (machine == 0 || limit < machine) {
		there, from, group = limit, "the control group's limit of "+sizeText(limit)+" in /"+file, true
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

// machineMemory returns the machine's memory in bytes, or 0 if it is not known.
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

// groupLimit returns the least memory limit of the process's control group and its
// parents, of version 2 or 1, and the file that holds it. It returns 0 if there is no
// limit.
func groupLimit(root fs.FS) (limit int64, file string) {
	b, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0, ""
	}
	for line := range strings.Lines(string(b)) {
		// hierarchy:controllers:path; version 2 names no controllers.
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
			// Inside a container the path is the host's, and the mount is the group
			// itself: then only the mount's own file exists.
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

// readLimit returns the limit in a control group's file, or 0 for none.
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

// sizeText writes a size with three digits and a unit: 23.4 GiB.
func sizeText(n int64) string {
	if n >= 1<<30 {
		return strconv.FormatFloat(float64(n)/(1<<30), 'f', 1, 64) + " GiB"
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// Shares divides a bound on memory. Each field bounds the part that it is named after,
// in bytes.
type Shares struct {
	OpenSlots  int64 // observations not flushed yet, series and tenants
	Traces     int64 // open traces and their breakdown; 0 disables the breakdown
	Questions  int64 // all questions at once
	Question   int64 // one question
	StoreCache int64 // blocks of the store
	Memtable   int64 // one memtable
	Index      int64 // the store's label indexes
	Samples    int64 // raw samples that checks look up
	Ingest     int64 // requests being decoded
	Targets    int64 // what spans were resolved to; see otlp
	Seconds    int64 // the newest requests in slots of one second
}

// memtables bounds the memtables that the store holds at once.
const memtables = 3

// shares divides a bound into parts of 192. The rest is for the program itself and for
// garbage that is not collected yet.
var shares = []struct {
	name  string
	of    func(*Shares) *int64
	part  int64
	least int64
	most  int64 // more brings no benefit
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
	{"seconds", func(s *Shares) *int64 { return &s.Seconds }, 4, 1 << 20, 64 << 20},
}

// MemoryShares divides a bound. traces.memory overrides its share.
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

// Memtables returns the bound on all memtables together.
func (s *Shares) Memtables() int64 { return memtables * s.Memtable }

// Sum returns the sum of all shares.
func (s *Shares) Sum() int64 {
	return s.OpenSlots + s.Traces + s.Questions + s.StoreCache + s.Memtables() + s.Index + s.Samples + s.Ingest + s.Targets + s.Seconds
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

// Share is the bound of one part.
type Share struct {
	Part  string
	Bytes int64
}

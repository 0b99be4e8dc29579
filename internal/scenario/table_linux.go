package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// usage is what a process took and holds (proc(5)).
type usage struct {
	pid, parent, group int
	state              byte
	started            uint64  // ticks after the machine's start: with pid, who it is
	cpu                float64 // seconds, its own and of children it waited for
	threads            int
	resident           float64 // bytes
}

// ticks a second of /proc's times: USER_HZ, 100 wherever Linux is (time(7)).
const ticks = 100

var pageSize = float64(os.Getpagesize())

// read reads one process.
func read(pid int) (usage, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return usage{}, err
	}
	return parseStat(pid, b)
}

func parseStat(pid int, b []byte) (usage, error) {
	// The name stands in parentheses and may hold any character.
	at := bytes.LastIndexByte(b, ')')
	if at < 0 {
		return usage{}, fmt.Errorf("/proc/%d/stat is not as expected", pid)
	}
	f := strings.Fields(string(b[at+1:]))
	if len(f) < 22 {
		return usage{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(f))
	}
	n := func(i int) float64 { v, _ := strconv.ParseFloat(f[i-3], 64); return v } // numbered as in proc(5)
	return usage{
		pid: pid, state: f[0][0], parent: int(n(4)), group: int(n(5)), started: uint64(n(22)),
		cpu: (n(14) + n(15) + n(16) + n(17)) / ticks, threads: int(n(20)), resident: n(24) * pageSize,
	}, nil
}

// table reads all processes there are, by their numbers.
func table() (map[int]usage, error) {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	out := make(map[int]usage, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		if u, err := read(pid); err == nil { // else it has just ended
			out[pid] = u
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no process is in /proc")
	}
	return out, nil
}

// groupLives says whether a process of a group is there that is more than a
// zombie nobody waits for.
func groupLives(group int) bool {
	all, err := table()
	if err != nil {
		return false
	}
	for _, u := range all {
		if u.group == group && u.state != 'Z' && u.state != 'X' {
			return true
		}
	}
	return false
}

// openFiles counts a process' descriptors; -1 if it may not be looked at.
func openFiles(pid int) int {
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fd")
	if err != nil {
		return -1
	}
	return len(entries)
}

// listener finds the process that listens on a TCP port; of several the one that
// began first, which is the parent of the others.
func listener(port int) (int, error) {
	sockets := map[string]bool{}
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "0A" { // LISTEN
				continue
			}
			_, hex, _ := strings.Cut(f[1], ":")
			if n, err := strconv.ParseUint(hex, 16, 16); err == nil && int(n) == port {
				sockets["socket:["+f[9]+"]"] = true
			}
		}
	}
	if len(sockets) == 0 {
		return 0, fmt.Errorf("nothing listens on port %d", port)
	}
	all, err := table()
	if err != nil {
		return 0, err
	}
	found := usage{}
	for pid, u := range all {
		if found.pid != 0 && (u.started > found.started || u.started == found.started && pid > found.pid) {
			continue
		}
		dir := "/proc/" + strconv.Itoa(pid) + "/fd/"
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if link, err := os.Readlink(dir + e.Name()); err == nil && sockets[link] {
				found = u
				break
			}
		}
	}
	if found.pid == 0 {
		return 0, fmt.Errorf("the process that listens on port %d belongs to somebody else; give its pid, or run as its user", port)
	}
	return found.pid, nil
}

package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/prometheus/procfs"
)

// usage holds the usage of a process (proc(5)).
type usage struct {
	pid, parent, group int
	state              byte
	started            uint64  // ticks after the machine's start: with pid, who it is
	cpu                float64 // seconds, its own and of children it waited for
	threads            int
	resident           float64 // bytes
}

// ticks a second of /proc's times: USER_HZ, 100 on every Linux (time(7)).
const ticks = 100

// read reads one process.
func read(pid int) (usage, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return usage{}, err
	}
	return readProc(p)
}

func readProc(p procfs.Proc) (usage, error) {
	s, err := p.Stat()
	if err != nil {
		return usage{}, err
	}
	return usage{
		pid: p.PID, state: s.State[0], parent: s.PPID, group: s.PGRP, started: s.Starttime,
		cpu: s.CPUTime() + float64(s.CUTime+s.CSTime)/ticks, threads: s.NumThreads, resident: float64(s.ResidentMemory()),
	}, nil
}

// table reads all processes, by their ids.
func table() (map[int]usage, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	out := make(map[int]usage, len(all))
	for _, p := range all {
		if u, err := readProc(p); err == nil { // else it has just ended
			out[p.PID] = u
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no process is in /proc")
	}
	return out, nil
}

// groupLives reports whether a group has a process other than a zombie nobody waits
// for.
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

// openFiles counts a process' descriptors; -1 without permission.
func openFiles(pid int) int {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return -1
	}
	n, err := p.FileDescriptorsLen()
	if err != nil {
		return -1
	}
	return n
}

// listener finds the process that listens on a TCP port. Of several it returns the
// oldest, which is the parent of the others.
func listener(port int) (int, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	v4, _ := fs.NetTCP()
	v6, _ := fs.NetTCP6()
	sockets := map[string]bool{}
	for _, s := range slices.Concat(v4, v6) {
		if s.St == 0x0A && s.LocalPort == uint64(port) { // LISTEN
			sockets["socket:["+strconv.FormatUint(s.Inode, 10)+"]"] = true
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
		p, err := fs.Proc(pid)
		if err != nil {
			continue
		}
		targets, _ := p.FileDescriptorTargets()
		if slices.ContainsFunc(targets, func(t string) bool { return sockets[t] }) {
			found = u
		}
	}
	if found.pid == 0 {
		return 0, fmt.Errorf("the process that listens on port %d belongs to somebody else; give its pid, or run as its user", port)
	}
	return found.pid, nil
}

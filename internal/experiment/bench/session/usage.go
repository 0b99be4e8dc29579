package session

import (
	"math"
	"os"
	"time"

	"github.com/prometheus/procfs"

	"tailscope/internal/proc"
)

// usage holds what the generator and its machine have used up to a moment.
type usage struct {
	at          time.Time
	cpu         time.Duration // of this process, user and system
	busy, total float64       // of all cores of the machine; total is 0 if it does not say
	cores, host float64       // shares, of a difference
}

// delays adds up how long the threads of this process waited for a core while they
// were ready to run: the second number of /proc/self/task/*/schedstat
// (Documentation/scheduler/sched-stats.rst in the kernel's sources), nanoseconds. A
// thread that ends takes its number along, so they are sampled during a run.
type delays struct {
	last  map[int]uint64
	sum   time.Duration
	known bool
}

func newDelays() *delays {
	d := &delays{last: map[int]uint64{}}
	d.sample()
	d.sum = 0 // what was before
	return d
}

func (d *delays) sample() {
	threads, err := procfs.AllThreads(os.Getpid())
	if err != nil {
		return
	}
	for _, t := range threads {
		s, err := t.Schedstat()
		if err != nil {
			continue
		}
		n, before := s.WaitingNanoseconds, d.last[t.PID]
		if n < before { // a new thread of the same number
			before = 0
		}
		d.sum += time.Duration(n - before)
		d.last[t.PID], d.known = n, true
	}
}

func measureUsage(now time.Time) usage {
	u := usage{at: now, cpu: proc.CPU()}
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if s, err := fs.Stat(); err == nil {
			u.busy, u.total = hostSeconds(s.CPUTotal)
		}
	}
	return u
}

// since returns u − before. Host and cores are NaN if they are not known.
func (u usage) since(before usage) usage {
	d := usage{at: u.at, cpu: u.cpu - before.cpu, cores: math.NaN(), host: math.NaN()}
	if s := u.at.Sub(before.at).Seconds(); s > 0 {
		d.cores = d.cpu.Seconds() / s
	}
	if t := u.total - before.total; t > 0 && before.total > 0 {
		d.host = min(max((u.busy-before.busy)/t, 0), 1)
	}
	return d
}

// hostSeconds adds up the times of all cores (proc_stat(5)). Guests are in user
// already. Stolen time is busy: another machine had the core.
func hostSeconds(c procfs.CPUStat) (busy, total float64) {
	busy = c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal
	return busy, busy + c.Idle + c.Iowait
}

package session

import (
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// usage is what the generator and its machine have used until a moment.
type usage struct {
	at          time.Time
	cpu         time.Duration // of this process, user and system
	busy, total float64       // of all cores of the machine; total is 0 if it does not say
	cores, host float64       // shares, of a difference
}

// delays adds up how long the threads of this process waited for a core while
// they were ready to run: the second number of /proc/self/task/*/schedstat
// (proc(5) leaves it to Documentation/scheduler/sched-stats.rst), nanoseconds. A
// thread that has ended takes its number along, so that they are looked at while
// a run goes.
type delays struct {
	tasks string // directory
	last  map[string]uint64
	sum   time.Duration
	known bool
}

func newDelays() *delays {
	d := &delays{tasks: "/proc/self/task", last: map[string]uint64{}}
	d.look()
	d.sum = 0 // what was before
	return d
}

func (d *delays) look() {
	threads, err := os.ReadDir(d.tasks)
	if err != nil {
		return
	}
	for _, t := range threads {
		b, err := os.ReadFile(d.tasks + "/" + t.Name() + "/schedstat")
		f := strings.Fields(string(b))
		if err != nil || len(f) < 2 {
			continue
		}
		if n, err := strconv.ParseUint(f[1], 10, 64); err == nil {
			before := d.last[t.Name()]
			if n < before { // a new thread of the same number
				before = 0
			}
			d.sum += time.Duration(n - before)
			d.last[t.Name()], d.known = n, true
		}
	}
}

func measureUsage(now time.Time) usage {
	u := usage{at: now, cpu: processCPU()}
	if b, err := os.ReadFile("/proc/stat"); err == nil {
		u.busy, u.total = hostTicks(string(b))
	}
	return u
}

// since is the difference: host and cores are NaN if they are not known.
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

// hostTicks reads the first line of proc_stat(5): user nice system idle iowait
// irq softirq steal, in ticks of all cores. Guests are in user already. Stolen
// time is busy: somebody else had the core.
func hostTicks(stat string) (busy, total float64) {
	line, _, _ := strings.Cut(stat, "\n")
	f := strings.Fields(line)
	if len(f) < 5 || f[0] != "cpu" {
		return 0, 0
	}
	for i, s := range f[1:min(len(f), 9)] {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return 0, 0
		}
		total += v
		if i != 3 && i != 4 {
			busy += v
		}
	}
	return busy, total
}

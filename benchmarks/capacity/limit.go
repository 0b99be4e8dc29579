package capacity

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Limit holds processes to a share of a processor, by a control group of their own:
// the kernel lets them run for so long in every period.
type Limit struct{ dir string }

// limitPeriod is short, so that what is limited is slow and does not stand still.
const limitPeriod = 10000 // µs

// LimitCPU makes a group that may use cores processors and goes before others up to that, in version 1 or 2 of control
// groups. Both need a system administrator's rights.
func LimitCPU(name string, cores float64) (*Limit, error) {
	quota := strconv.Itoa(int(cores * limitPeriod))
	period := strconv.Itoa(limitPeriod)
	name = fmt.Sprintf("%s-%d", name, os.Getpid())
	var tried error
	for _, g := range []struct {
		root, rest string
		set        [][2]string
	}{
		{"/sys/fs/cgroup/cpu", "cgroup.procs", [][2]string{{"cpu.cfs_period_us", period}, {"cpu.cfs_quota_us", quota}, {"cpu.shares", "10240"}}},
		{"/sys/fs/cgroup", "cgroup.procs", [][2]string{{"cpu.max", quota + " " + period}, {"cpu.weight", "1000"}}},
	} {
		if _, err := os.Stat(filepath.Join(g.root, g.rest)); err != nil {
			tried = errors.Join(tried, err)
			continue
		}
		l := &Limit{filepath.Join(g.root, name)}
		err := os.Mkdir(l.dir, 0o755)
		for _, s := range g.set {
			if err == nil {
				err = os.WriteFile(filepath.Join(l.dir, s[0]), []byte(s[1]), 0o644)
			}
		}
		if err == nil {
			return l, nil
		}
		tried = errors.Join(tried, err, l.Close())
	}
	return nil, fmt.Errorf("limit the CPU of a process: no control group can be made here (hint: run as root, with the cpu controller): %w", tried)
}

// Add puts a process in it.
func (l *Limit) Add(pid int) error {
	return os.WriteFile(filepath.Join(l.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644)
}

// Close removes it, once its processes have ended.
func (l *Limit) Close() error {
	if err := os.Remove(l.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

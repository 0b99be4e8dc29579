package config

import (
	"strings"
	"testing"
	"testing/fstest"
)

func root(files map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

// The bound follows the least limit of the control groups, of either version,
// and the machine where they give none.
func TestMemoryBound(t *testing.T) {
	const machine = "MemTotal:       16777216 kB\nMemFree:         1000 kB\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		set   int64
		want  int64
		from  string
	}{
		{"set", nil, 300 << 20, 300 << 20, "limits.memory"},
		{"set beyond the machine", map[string]string{"proc/meminfo": "MemTotal: 1048576 kB\n"}, 8 << 50, 1 << 30 / 10 * 9, "1.0 GiB, which limits.memory exceeds"},
		{"set beyond the control group", map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "268435456\n",
		}, 1 << 30, 268435456 / 10 * 9, "256 MiB in /sys/fs/cgroup/memory.max, which limits.memory exceeds"},
		{"nothing known", nil, Auto, mostMemory, "neither"},
		{"a large machine", map[string]string{"proc/meminfo": machine}, Auto, mostMemory, "the machine's 16.0 GiB"},
		{"a small machine", map[string]string{"proc/meminfo": "MemTotal: 1048576 kB\n"}, Auto, 512 << 20, "the machine's 1.0 GiB"},
		{"version 2, in a container", map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "268435456\n",
		}, Auto, 268435456 / 10 * 9, "256 MiB in /sys/fs/cgroup/memory.max"},
		{"version 2, a group above is tighter", map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/a.slice/b.service\n",
			"sys/fs/cgroup/a.slice/b.service/memory.max": "max\n", "sys/fs/cgroup/a.slice/memory.max": "536870912\n",
		}, Auto, 536870912 / 10 * 9, "a.slice/memory.max"},
		{"version 1", map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "9:name=systemd:/\n4:memory:/docker/x\n0::/\n",
			"sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": "536870912\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, Auto, 536870912 / 10 * 9, "docker/x"},
		{"version 1 in a container, where the host's path is not mounted", map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "4:cpu,memory:/docker/x\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n",
		}, Auto, 268435456 / 10 * 9, "256 MiB"},
		{"no limit", map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n",
		}, Auto, mostMemory, "the machine's"},
		{"a limit above the machine", map[string]string{
			"proc/meminfo": "MemTotal: 1048576 kB\n", "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "8589934592\n",
		}, Auto, 512 << 20, "the machine's"},
		{"a limit too small to run in", map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "67108864\n",
		}, Auto, LeastMemory, "64 MiB"},
	} {
		conf := Default()
		conf.Memory = c.set
		got := conf.MemoryBound(root(c.files))
		if got.Bytes != c.want || !strings.Contains(got.From, c.from) {
			t.Errorf("%s: %d from %q, want %d from %q", c.name, got.Bytes, got.From, c.want, c.from)
		}
	}
}

// All shares together leave an eighth for the program and for garbage, and each
// is useful by itself.
func TestMemoryShares(t *testing.T) {
	c := Default()
	for _, bound := range []int64{128 << 20, 230 << 20, 460 << 20, 1 << 30, mostMemory, 64 << 30} {
		s := c.MemoryShares(bound)
		if sum := s.Sum(); sum > bound/8*7 {
			t.Errorf("%d MiB: the shares sum to %d MiB", bound>>20, sum>>20)
		}
		for _, d := range shares {
			if v := *d.of(&s); v < d.least || d.most > 0 && v > d.most {
				t.Errorf("%d MiB: %s has %d", bound>>20, d.name, v)
			}
		}
		listed := int64(0)
		for _, l := range s.List() {
			listed += l.Bytes
		}
		if listed != s.Sum() {
			t.Errorf("%d MiB: the list sums to %d, the shares to %d", bound>>20, listed, s.Sum())
		}
	}
	if s := c.MemoryShares(LeastMemory); s.Sum() > LeastMemory {
		t.Errorf("the least bound of %d MiB holds %d MiB of shares", LeastMemory>>20, s.Sum()>>20)
	}
	s := c.MemoryShares(mostMemory)
	if s.OpenSlots != 256<<20 || s.Traces != 128<<20 || s.Questions != 512<<20 || s.Question != 256<<20 || s.StoreCache != 48<<20 {
		t.Errorf("the default's shares are %+v", s)
	}
	c.Traces.Memory = 0
	if s := c.MemoryShares(mostMemory); s.Traces != 0 {
		t.Errorf("traces.memory 0 leaves traces %d bytes", s.Traces)
	}
}

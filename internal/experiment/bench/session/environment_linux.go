package session

import (
	"github.com/prometheus/procfs"

	"tailscope/api"
)

// machine fills in what the kernel reports of itself and the machine.
func machine(e *api.Environment) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return
	}
	if release, err := fs.SysctlStrings("kernel.osrelease"); err == nil && len(release) > 0 {
		e.Kernel = release[0]
	}
	if cores, err := fs.CPUInfo(); err == nil && len(cores) > 0 {
		e.CPU = cores[0].ModelName
	}
	if m, err := fs.Meminfo(); err == nil && m.MemTotalBytes != nil {
		e.Memory = *m.MemTotalBytes
	}
}

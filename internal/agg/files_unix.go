//go:build unix

package agg

import "syscall"

func restrict(fd uintptr) error { return syscall.Fchmod(int(fd), 0o600) }

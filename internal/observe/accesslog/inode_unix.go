//go:build unix

package accesslog

import (
	"io/fs"
	"syscall"
)

func inode(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}

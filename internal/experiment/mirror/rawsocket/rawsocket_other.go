//go:build !unix

package rawsocket

import "syscall"

// Direct reports whether this system has the functions.
const Direct = false

// Read, Write and Peek are never called.
func Read(uintptr, []byte) (int, syscall.Errno)  { return 0, syscall.EINVAL }
func Write(uintptr, []byte) (int, syscall.Errno) { return 0, syscall.EINVAL }
func Peek(uintptr) (int, syscall.Errno)          { return 0, syscall.EINVAL }

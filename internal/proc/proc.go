// Package proc starts commands in process groups of their own, sends signals to
// processes, and reads the CPU time of this one. Groups and signals are those of Unix:
// on other systems what needs them fails with ErrNotUnix, and nothing is started.
package proc

import "errors"

// ErrNotUnix is returned on a system without process groups.
var ErrNotUnix = errors.New("commands and other processes need Linux or macOS: run this tailscope there, or in a Linux container")

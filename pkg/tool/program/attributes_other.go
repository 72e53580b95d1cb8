//go:build unix && !linux

package program

import "syscall"

// attributes makes the program the leader of a process group of its own, so
// that what it starts ends with it and the worker's terminal signals do not
// reach it. It outlives a worker that dies without a word: this system has no
// signal for that.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

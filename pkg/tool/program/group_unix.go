//go:build unix

package program

import "syscall"

const (
	terminateSignal = syscall.SIGTERM
	killSignal      = syscall.SIGKILL
)

// ownGroup makes the program the leader of a process group of its own, so that
// what it starts ends with it and the worker's terminal signals do not reach it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// signalGroup fails only when the group has no process any more.
func signalGroup(leader int, s syscall.Signal) { _ = syscall.Kill(-leader, s) }

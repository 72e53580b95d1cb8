//go:build unix

package program

import "syscall"

const (
	terminateSignal = syscall.SIGTERM
	killSignal      = syscall.SIGKILL
)

// signalGroup fails only when the group has no process any more.
func signalGroup(leader int, s syscall.Signal) { _ = syscall.Kill(-leader, s) }

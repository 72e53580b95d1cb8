//go:build unix && !linux

package machine

import "syscall"

// attributes makes a process the leader of a group of its own. It outlives a
// machine that dies without a word: this system has no signal for that.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

package machine

import "syscall"

// attributes makes a process the leader of a group of its own, and lets the
// kernel kill it when the thread that started it ends (Machine.loop).
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

package program

import "syscall"

// attributes makes the program the leader of a process group of its own, so
// that what it starts ends with it and the worker's terminal signals do not
// reach it. It is killed when the worker dies without a word (SIGKILL): the
// kernel sends that when the thread that started the program ends, so the
// program is started from a thread that lives as long (process.live). What the
// program itself started does not inherit it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: killSignal}
}

// Package supervise keeps a command running: what `crumb dev` does for the
// worker groups of a project.
//
// A command gets a process group of its own. When it ends it is started again
// after a wait that doubles up to a bound, so that one that cannot start costs
// nothing; a command that ran for a while starts at once. When it is to stop, the
// group gets SIGTERM, and after StopWait SIGKILL: nothing that the command
// started stays.
//
// Nobody is there to say so when the supervisor itself is killed. A command's standard
// input is therefore a pipe that is never written to: it is at its end as soon as the
// supervisor is gone, for whatever of the group has it.
package supervise

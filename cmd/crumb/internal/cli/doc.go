// Package cli is the command line: one file a command.
//
// # Streams
//
// What was asked for goes to standard output: tables, a run's output, and with
// --json one JSON document a line and nothing else, errors as {"error":{…}}.
// Progress, prompts and warnings go to standard error. A person is asked only
// when standard input and standard error are both terminals.
//
// # Exit status
//
//	0  completed
//	1  failed or cancelled, or the mesh could not be asked
//	2  usage or validation: nothing was started
//	3  suspended for a person; how to answer is printed
//
// A command that stops watching never stops the run: only `crumb runs cancel`
// does.
package cli

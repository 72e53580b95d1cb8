// Package terminal is what the command line knows of its three streams: whether
// a person sits there, how wide the window is, which colours it takes, and how a
// person is asked.
//
// A terminal is what the kernel says is one: /dev/null, a pipe, a file and a
// closed descriptor are none, so nothing is ever asked where nobody can answer.
package terminal

// Package nemesis plans what is done to a mesh: which process is killed, paused,
// cut off or restarted, when, and for how long. A plan is a pure function of a
// seed, so a campaign can be repeated. What the processes do in between is not:
// the same plan meets them at other lines.
package nemesis

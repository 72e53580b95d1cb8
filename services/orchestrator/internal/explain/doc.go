// Package explain says why a run is where it is. It is pure: what is known of the
// mesh comes in as Facts, so every case is a table test.
package explain

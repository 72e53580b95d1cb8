// Package reload tells when the files of a project folder have changed: what
// crumb.yaml and agents/ say, not the documents and stores beside them.
package reload

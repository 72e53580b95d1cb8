// Package reload tells when files of a project folder have changed: what crumb.yaml
// and agents/ say, or what the command of a group is made of; not the documents and
// stores beside them.
package reload

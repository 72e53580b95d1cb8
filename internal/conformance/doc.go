// Package conformance writes docs/conformance.md: which cases of the
// specification are pinned by which tests, and why the others are not.
//
// The cases stand in cases.txt, a line each; a test pins a case by carrying its id
// in its name. Nothing else ties the two together, so a test that is renamed or
// removed shows in the diff of the document. Run
//
//	make conformance
//
// after adding a test that names a case.
package conformance

// Package chart tests the Helm chart offline: helm lints and renders it, the API
// schemas of Kubernetes and of the operators check what comes out. It has tests
// only, behind the tag e2e.
package chart

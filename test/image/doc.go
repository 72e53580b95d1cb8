// Package image tests what the Dockerfile makes, without a registry: buildah builds
// its targets, podman runs them. It has tests only, behind the tag e2e.
package image

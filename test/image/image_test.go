//go:build e2e

package image_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const (
	root = "../.."
	name = "localhost/crumbmesh"

	// sizeMax is how large the image of the services may become, in bytes.
	sizeMax = 64 << 20
	user    = "65532:65532"
)

// engine builds and runs images in a store of its own.
type engine struct {
	t     *testing.T
	store []string // the flags that name it
}

func newEngine(t *testing.T) *engine {
	t.Helper()
	for _, program := range []string{"buildah", "podman", "runc", "busybox"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is missing; run `make test-all` as root, which installs it", program)
		}
	}
	// The plain directory driver and a chroot need no kernel support, so that this
	// runs in a container too.
	dir := t.TempDir()
	return &engine{t: t, store: []string{"--storage-driver", "vfs", "--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "run")}}
}

func (e *engine) command(program string, args ...string) *exec.Cmd {
	c := exec.CommandContext(e.t.Context(), program, append(slices.Clone(e.store), args...)...)
	c.Dir = root
	return c
}

// must runs a command that has to succeed and returns its standard output.
func (e *engine) must(program string, args ...string) string {
	e.t.Helper()
	c := e.command(program, args...)
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		e.t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(args, " "), err, out, errs.String())
	}
	return string(out)
}

// run runs an image as a careful deployment does, and returns what it printed and
// its exit status.
func (e *engine) run(args ...string) (string, int) {
	e.t.Helper()
	// The limits are those of a machine where podman may raise none.
	c := e.command("podman", append([]string{"--runtime", "runc", "run", "--rm", "--network", "none", "--read-only", "--cap-drop", "all",
		"--security-opt", "no-new-privileges", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"}, args...)...)
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		e.t.Fatalf("podman run %s: %v", strings.Join(args, " "), err)
	}
	return string(out), c.ProcessState.ExitCode()
}

// build builds the three targets; the tools' image is busybox.
func (e *engine) build() {
	e.t.Helper()
	base := e.t.TempDir()
	if err := os.Mkdir(filepath.Join(base, "bin"), 0o755); err != nil {
		e.t.Fatal(err)
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		e.t.Fatal(err)
	}
	if out, err := exec.CommandContext(e.t.Context(), "cp", busybox, filepath.Join(base, "bin", "busybox")).CombinedOutput(); err != nil {
		e.t.Fatalf("copy busybox: %v\n%s", err, out)
	}
	for _, applet := range []string{"sh", "cat", "sed", "awk", "printf"} {
		if err := os.Symlink("busybox", filepath.Join(base, "bin", applet)); err != nil {
			e.t.Fatal(err)
		}
	}
	file := filepath.Join(e.t.TempDir(), "Containerfile")
	if err := os.WriteFile(file, []byte("FROM scratch\nCOPY . /\n"), 0o600); err != nil {
		e.t.Fatal(err)
	}
	e.must("buildah", "bud", "--file", file, "--tag", "localhost/busybox", base)

	build := exec.CommandContext(e.t.Context(), "deploy/image/build", name, "crumb", "publisher", "toolexec")
	build.Dir = root
	build.Env = append(os.Environ(), "TOOLS=localhost/busybox", "BUILDAH=buildah "+strings.Join(e.store, " "))
	if out, err := build.CombinedOutput(); err != nil {
		e.t.Fatalf("build: %v\n%s", err, out)
	}
}

// inspected is what podman says of an image.
type inspected struct {
	Size   int64
	Config config
}

type config struct {
	User, WorkingDir string
	Entrypoint, Cmd  []string
}

func (e *engine) inspect(image string) inspected {
	e.t.Helper()
	var all []inspected
	if err := json.Unmarshal([]byte(e.must("podman", "image", "inspect", image)), &all); err != nil || len(all) != 1 {
		e.t.Fatalf("inspect %s: %v, %d images", image, err, len(all))
	}
	return all[0]
}

// mounted calls look with the folder where an image's files are.
func (e *engine) mounted(image string, look func(at string)) {
	e.t.Helper()
	container := strings.TrimSpace(e.must("buildah", "from", image))
	look(strings.TrimSpace(e.must("buildah", "mount", container)))
	e.must("buildah", "rm", container)
}

// files are those of an image, by path.
func (e *engine) files(image string) map[string]fs.FileMode {
	e.t.Helper()
	out := map[string]fs.FileMode{}
	e.mounted(image, func(at string) {
		err := filepath.WalkDir(at, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			out[strings.TrimPrefix(path, at)] = info.Mode()
			return nil
		})
		if err != nil {
			e.t.Fatal(err)
		}
	})
	return out
}

// owner is whose a file or folder of an image is: uid:gid. A named volume that is
// mounted there takes it over.
func (e *engine) owner(image, path string) string {
	e.t.Helper()
	var out string
	e.mounted(image, func(at string) {
		text, err := exec.CommandContext(e.t.Context(), "stat", "--format", "%u:%g", filepath.Join(at, path)).CombinedOutput()
		if err != nil {
			e.t.Fatalf("stat: %v\n%s", err, text)
		}
		out = strings.TrimSpace(string(text))
	})
	return out
}

// The images hold what they need, run as nobody, and work: the example runs end to
// end in the one with a shell.
func TestE2E_Images(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	e.build()

	for image, want := range map[string]config{
		name:                {user, "/var/lib/crumbmesh", []string{"/usr/local/bin/crumb"}, []string{"--help"}},
		name + "/publisher": {user, "/work", []string{"/usr/local/bin/publisher"}, nil},
		name + "/toolexec":  {user, "/project", []string{"/usr/local/bin/crumb"}, []string{"toolexec"}},
	} {
		got := e.inspect(image)
		if !reflect.DeepEqual(got.Config, want) {
			t.Errorf("%s: got %+v, want %+v", image, got.Config, want)
		}
		if got.Size == 0 || got.Size > sizeMax {
			t.Errorf("%s: got %d bytes, want at most %d", image, got.Size, sizeMax)
		}
	}

	got := e.files(name)
	want := map[string]fs.FileMode{"/usr/local/bin/crumb": 0o755, "/etc/passwd": 0o644, "/etc/group": 0o644, "/etc/ssl/certs/ca-certificates.crt": 0o644}
	for path, mode := range got {
		if want[path] != mode {
			t.Errorf("%s has %s with mode %v, want %v", name, path, mode, want[path])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s has %d files, want %d: %v", name, len(got), len(want), got)
	}

	for image, path := range map[string]string{name: "/var/lib/crumbmesh", name + "/publisher": "/work"} {
		if got := e.owner(image, path); got != user {
			t.Errorf("%s: %s belongs to %s, want %s, who writes there", image, path, got, user)
		}
	}

	if out, status := e.run(name, "version"); status != 0 || !strings.HasPrefix(out, "crumb ") {
		t.Errorf("crumb version: status %d\n%s", status, out)
	}
	if out, status := e.run(name, "health", "127.0.0.1:8481"); status != 1 || !strings.Contains(out, "UNAVAILABLE") {
		t.Errorf("crumb health where nothing listens: status %d\n%s", status, out)
	}
	if out, status := e.run(name + "/publisher"); status != 1 || !strings.Contains(out, "CRUMB_APPROVALS_PUBKEY") {
		t.Errorf("the worker without a key: status %d\n%s", status, out)
	}
	readme, err := filepath.Abs(filepath.Join(root, "examples/publisher/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if out, status := e.run("--tmpfs", "/tmp:mode=1777", "--volume", readme+":/project/README.md:ro", name+"/toolexec", "demo", "--yes"); status != 0 {
		t.Errorf("crumb demo: status %d\n%s", status, out)
	}
}

package authority

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/goccy/go-yaml"

	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
)

// ApprovalsKey is what decisions are signed with, as a name to rotate.
const ApprovalsKey = "approvals-key"

const (
	secretMode = 0o600
	folderMode = 0o700
	publicMode = 0o644
)

// Authority is the folder.
type Authority struct {
	Dir string

	plan plan
}

// plan is mesh.yaml.
type plan struct {
	Server    string   `yaml:"server"` // URL for the settings of roles
	Groups    []string `yaml:"groups"`
	Providers []string `yaml:"providers"`
	Hosts     []string `yaml:"tlsHosts,omitempty"` // TLS when there is one
}

// Request says what a mesh is made for; what an earlier one said stays.
type Request struct {
	Server            string // URL; mesh.DefaultServer for a new mesh
	Groups, Providers []string
	Hosts             []string // names and addresses of the servers; TLS when there is one
}

// Open reads the folder and adds what is asked for. Nothing is written yet. It fails
// with INVALID_CONFIG or INVALID_NAME.
func Open(dir string, r Request) (*Authority, error) {
	a := &Authority{Dir: dir}
	text, err := os.ReadFile(a.path("mesh.yaml"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, unusable(dir, err)
	}
	if err := yaml.UnmarshalWithOptions(text, &a.plan, yaml.Strict()); err != nil {
		return nil, fault.New(fault.InvalidConfig, "%s: %s", a.path("mesh.yaml"), yaml.FormatError(err, false, false))
	}
	a.plan.Server = cmp.Or(r.Server, a.plan.Server, mesh.DefaultServer)
	a.plan.Groups, a.plan.Providers, a.plan.Hosts = union(a.plan.Groups, r.Groups), union(a.plan.Providers, r.Providers), union(a.plan.Hosts, r.Hosts)
	return a, a.Mesh().Check()
}

func union(a, b []string) []string {
	out := append(slices.Clone(a), b...)
	slices.Sort(out)
	return slices.Compact(out)
}

// Mesh is what the accounts are made for.
func (a *Authority) Mesh() access.Mesh {
	return access.Mesh{Groups: a.plan.Groups, Providers: a.plan.Providers}
}

func (a *Authority) path(parts ...string) string {
	return filepath.Join(append([]string{a.Dir}, parts...)...)
}

// Write makes the keys that are not there and writes every file. It fails with
// INVALID_CONFIG when the folder cannot be used.
func (a *Authority) Write() error {
	for _, folder := range []string{"nats", "keys", cliFolder} {
		if err := os.MkdirAll(a.path(folder), folderMode); err != nil {
			return unusable(a.Dir, err)
		}
	}
	users := access.Users{}
	for _, r := range a.Mesh().Roles() {
		public, err := a.user(r.Name)
		if err != nil {
			return err
		}
		users[r.Name] = public
	}
	if _, err := decision.LoadOrCreate(a.path("keys", "approvals.key")); err != nil {
		return err
	}
	if err := a.certificates(); err != nil {
		return err
	}
	text, err := yaml.Marshal(a.plan)
	if err != nil {
		return fault.From(err)
	}
	files := map[string]string{"mesh.yaml": string(text), filepath.Join("nats", "accounts.conf"): a.Mesh().Accounts(users)}
	if err := a.settings(files); err != nil {
		return err
	}
	if err := a.contexts(files); err != nil {
		return err
	}
	if err := a.server(files); err != nil {
		return err
	}
	for name, text := range files {
		if err := replace(a.path(name), []byte(text), publicMode); err != nil {
			return unusable(a.Dir, err)
		}
	}
	return nil
}

// replace writes a file as a whole: whoever reads it sees the old or the new one.
func replace(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func unusable(dir string, err error) error {
	return fault.Wrap(fault.InvalidConfig, err, "--auth %s: %v", dir, err)
}

package local

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

// earlierFile is the file of a store that holds what was served from it: runs in
// flight, which outlive the process, keep the versions that they began with.
const earlierFile = "served.json"

// earlier is what was served from this store, by group, what the project has now
// first, then what it had before, newest first: exec tools, hooks and parsers. They
// are the commands as they stood in the files; the scripts that they start are those
// of now. Of what the project has no more, worker.EarlierMax versions of a group stay.
type earlier map[string][]agent.ExecTool

// version is one version of a command or subject.
type version struct {
	kind          agent.Announced
	handler, hash string
}

func versionOf(e agent.ExecTool) version {
	return version{e.Announcement.Kind, e.Announcement.Handler, e.Announcement.Hash()}
}

func versions(tools []agent.ExecTool) map[version]bool {
	out := make(map[version]bool, len(tools))
	for _, t := range tools {
		out[versionOf(t)] = true
	}
	return out
}

// add remembers what a project serves, and reports how many versions had to go.
func (e earlier) add(p *agent.Project) (forgotten int) {
	now := map[string][]agent.ExecTool{}
	for group := range e {
		now[group] = nil
	}
	for _, t := range p.ExecTools() {
		group := t.Announcement.Group
		now[group] = append(now[group], t)
	}
	for group, tools := range now {
		old := e.of(group, p)
		if more := len(old) - worker.EarlierMax; more > 0 {
			forgotten += more
			old = old[:worker.EarlierMax]
		}
		e[group] = append(tools, old...)
	}
	return forgotten
}

// of is what a group served before and p has no more.
func (e earlier) of(group string, p *agent.Project) []agent.ExecTool {
	now := versions(p.ExecTools())
	return slices.DeleteFunc(slices.Clone(e[group]), func(old agent.ExecTool) bool { return now[versionOf(old)] })
}

// readEarlier reads what was served from a store; nothing when it is new. It fails
// with INVALID_CONFIG when the file is none of ours.
func readEarlier(store string) (earlier, error) {
	path := filepath.Join(store, earlierFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return earlier{}, nil
	}
	e := earlier{}
	if err == nil {
		err = json.Unmarshal(raw, &e)
	}
	if err != nil {
		return nil, fault.Wrap(fault.InvalidConfig, err, "%s, the versions of tools and hooks that runs in flight keep, cannot be read: %v; put the file back, or remove it: runs that began before an edit then fail with TOOL_LOST or HOOK_ERROR", path, err)
	}
	return e, nil
}

// write keeps e in a store as a whole: whoever is killed leaves the old file or the
// new one.
func (e earlier) write(store string) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return fault.Wrap(fault.InternalError, err, "what is served does not encode")
	}
	path := filepath.Join(store, earlierFile)
	if old, err := os.ReadFile(path); err == nil && string(old) == string(raw) {
		return nil
	}
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) // the store is this process's alone
	if err == nil {
		_, err = f.Write(raw)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fault.Wrap(fault.InvalidConfig, err, "%s cannot be written: %v", path, err)
	}
	return nil
}

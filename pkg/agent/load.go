package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
)

// everyAgent in `agents` of crumb.yaml stands for every folder.
const everyAgent = "*"

// Load reads a project folder: crumb.yaml if it is there, and the agents it
// names under agents/. One fault in any file refuses the whole (CF-P26, L7, L8,
// W40): the error is Faults, with every fault of every file, or INVALID_CONFIG
// when dir is no folder.
func Load(dir string) (*Project, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidConfig, err, "the project folder %s has no absolute path", quote(dir))
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return nil, fault.Wrap(fault.InvalidConfig, err, "expected a project folder, got %s, which is none", quote(dir))
	}
	l := &loader{project: &Project{Dir: abs, Groups: map[string]Group{}, Providers: map[string]Provider{}, Models: map[string]Model{}}}
	agents := l.crumbYAML()
	for _, id := range l.chosen(agents) {
		l.agent(id)
	}
	if len(l.project.Agents) == 0 && len(l.faults) == 0 {
		l.nothing()
	}
	if err := ordered(l.faults); err != nil {
		return nil, err
	}
	return l.project, nil
}

// nothing says that there is no agent, and where the project may be: people name
// the folder they just wrote.
func (l *loader) nothing() {
	switch {
	case !l.missing(agentFile):
		l.fault(agentFile, "this is the folder of one agent: name the project folder, the one that holds %s/, from here ../..", agentsDir)
	case filepath.Base(l.project.Dir) == agentsDir && len(l.list(".")) > 0:
		l.fault(agentsDir, "no such folder here, and this one is called %s itself: name the project folder, the one that holds %s/, from here ..", agentsDir, agentsDir)
	default:
		l.fault(agentsDir, "no agent here: expected a folder %s/<id>/ with an %s", agentsDir, agentFile)
	}
}

type loader struct {
	project *Project
	config  *source // crumb.yaml, nil when absent
	faults  []Fault
}

// fault adds an INVALID_CONFIG about a file or folder as a whole.
func (l *loader) fault(file, format string, args ...any) {
	l.faults = append(l.faults, Fault{File: file, Err: invalidf(format, args...)})
}

func invalidf(format string, args ...any) *fault.Error {
	return fault.New(fault.InvalidConfig, format, args...)
}

// crumbYAML reads the project file and returns the agents it names.
func (l *loader) crumbYAML() []string {
	text, ok := l.read(projectFile)
	if !ok {
		return []string{everyAgent}
	}
	l.config = newSource(projectFile, text)
	agents := readProject(l.config, l.project)
	c := new(checker)
	c.project(l.project, agents)
	l.take(l.config, c.found)
	l.watched()
	l.sharedFolders()
	if l.config.isBroken(place{"agents"}) { // which are meant is not known: look at all
		return []string{everyAgent}
	}
	return agents
}

// watched warns of what groups are made of and is not there: likely a slip, which
// would never start anything again. It is no fault: where a project is applied from,
// the sources of its workers need not be.
func (l *loader) watched() {
	if l.config.root == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(l.project.Groups)) {
		at := place{"groups", name, "watch"}
		for i, p := range l.project.Groups[name].Watch {
			if folder, _ := path.Split(p); strings.ContainsAny(p, "*?[") {
				p = path.Clean(folder)
			}
			if insideProject(p) && l.missing(p) {
				line, column := l.config.root.position(at.index(i))
				l.project.Warnings = append(l.project.Warnings, fmt.Sprintf("%s:%d:%d: there is no %s", projectFile, line, column, quote(p)))
			}
		}
	}
}

// take adds the faults of a source and what a checker found about it.
func (l *loader) take(s *source, found []problem) {
	for _, p := range found {
		if f, ok := s.resolve(p); ok {
			l.faults = append(l.faults, f)
		}
	}
	l.faults = append(l.faults, s.faults...)
	s.faults = nil
}

// chosen returns the folders of the agents to serve, sorted. Where a name is no
// folder those it is close to are read too, all when nothing is left: a slip in
// crumb.yaml does not hide the faults of the agent it means.
func (l *loader) chosen(named []string) []string {
	folders := l.folders()
	if slices.Contains(named, everyAgent) {
		return folders
	}
	var ids, likely []string
	for i, id := range named {
		if slices.Contains(folders, id) {
			ids = append(ids, id)
			continue
		}
		likely = append(likely, closest(id, folders)...)
		if crumbs.CheckAgentID(id) == nil { // else refused already
			l.take(l.config, []problem{{file: projectFile, at: place{"agents"}.index(i), err: invalidf("agents[%d]: there is no folder %s/%s%s", i, agentsDir, id, meant(id, folders))}})
		}
	}
	if len(ids)+len(likely) == 0 && len(named) > 0 {
		return folders
	}
	ids = append(ids, likely...)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// folders are the names of the folders under agents/, sorted.
func (l *loader) folders() []string {
	var names []string
	for _, e := range l.list(agentsDir) {
		switch {
		case l.isDir(path.Join(agentsDir, e)):
			names = append(names, e)
		case isYAML(e):
			l.fault(path.Join(agentsDir, e), "an agent is a folder: move the file to %s/%s/%s", agentsDir, strings.TrimSuffix(e, path.Ext(e)), agentFile)
		}
	}
	if len(names) > AgentsMax {
		l.fault(agentsDir, "expected at most %d agents, got %d", AgentsMax, len(names))
		return nil
	}
	return names
}

// agent reads agents/<id>/.
func (l *loader) agent(id string) {
	a := &folder{loader: l, dir: path.Join(agentsDir, id), sources: map[string]*source{}}
	d := &Definition{ID: crumbs.AgentID(id), Scripts: map[string]Script{}}
	text, ok := l.read(path.Join(a.dir, agentFile))
	if !ok {
		if l.missing(path.Join(a.dir, agentFile)) {
			l.fault(a.dir, "the folder has no %s: write one, or move the folder out of %s/", agentFile, agentsDir)
		}
		return
	}
	readAgent(a.source(agentFile, text), d, l.project)
	if l.config != nil && l.config.isBroken(place{"models"}) { // what aliases stand for is not known
		a.sources[agentFile].broken = append(a.sources[agentFile].broken, place{"model"})
	}
	if text, ok := l.read(path.Join(a.dir, promptFile)); ok {
		d.System = a.prompt(text)
	}
	for _, f := range a.files(toolsDir) {
		d.Tools = append(d.Tools, readTool(f.source, f.name))
	}
	for _, f := range a.files(scriptsDir) {
		d.Scripts[f.name] = readScript(f.source, f.name)
	}
	a.strays()
	d.Tools = byName(d.Tools)
	d.fill()
	a.check(d)
	l.project.Agents = append(l.project.Agents, d)
}

// folder is an agent's folder being read.
type folder struct {
	*loader
	dir     string
	sources map[string]*source // by path inside the folder
}

func (a *folder) source(file string, text []byte) *source {
	s := newSource(path.Join(a.dir, file), text)
	a.sources[file] = s
	return s
}

func (a *folder) prompt(text []byte) string {
	if !utf8.Valid(text) || strings.ContainsRune(string(text), 0) {
		a.fault(path.Join(a.dir, promptFile), "the prompt is not UTF-8 text: save the file as UTF-8")
		return ""
	}
	return strings.TrimPrefix(string(text), "\ufeff")
}

type namedSource struct {
	name   string
	source *source
}

// files are the YAML files of a folder inside the agent's, by name.
func (a *folder) files(dir string) []namedSource {
	var out []namedSource
	for _, e := range a.list(path.Join(a.dir, dir)) {
		file := path.Join(dir, e)
		name, ok := strings.CutSuffix(e, yamlExt)
		if !ok {
			if isYAML(e) {
				a.fault(path.Join(a.dir, file), "expected the ending %s: rename the file", yamlExt)
			}
			continue
		}
		if text, ok := a.read(path.Join(a.dir, file)); ok {
			out = append(out, namedSource{name, a.source(file, text)})
		}
	}
	return out
}

// strays refuses what an author may think is read: other endings, and folders
// of the format that are not built (W40: nothing is skipped silently).
func (a *folder) strays() {
	for _, e := range a.list(a.dir) {
		file := path.Join(a.dir, e)
		switch {
		case (e == "skills" || e == "evals") && a.isDir(file):
			a.faults = append(a.faults, Fault{File: file, Err: notAvailable("the folder %s", e)})
		case e != agentFile && isYAML(e):
			a.fault(file, "expected %s, %s/<name>%s or %s/<name>%s here%s", agentFile, toolsDir, yamlExt, scriptsDir, yamlExt, meant(e, []string{agentFile}))
		}
	}
}

// check applies the rules and gives every complaint its line.
func (a *folder) check(d *Definition) {
	c := new(checker)
	c.definition(d)
	if a.config == nil || !a.config.isBroken(place{"providers"}) { // else what it has is not known
		c.provider(a.project, d)
	}
	for _, p := range c.found {
		s, ok := a.sources[p.file]
		if !ok {
			s = &source{file: path.Join(a.dir, p.file)}
		}
		a.take(s, []problem{p})
	}
	for _, file := range slices.Sorted(maps.Keys(a.sources)) {
		a.take(a.sources[file], nil)
	}
	a.commandFolders(d)
	a.groups(d)
	a.selectors(d)
	a.inert(d)
	a.schemas(d)
}

// commandFolders checks that the folders of commands are there.
func (a *folder) commandFolders(d *Definition) {
	for _, t := range d.Tools {
		file, own := a.sources[toolFile(t.Name)], ofTool(d.ID, t.Name)
		if t.Exec != nil {
			a.commandFolder(file, place{"dir"}, own.folder, t.Exec.Dir)
		}
		a.hookFolders(file, place{"hooks"}, own, t.Hooks)
	}
	a.hookFolders(a.sources[agentFile], place{"hooks"}, ofAgent(d.ID), d.Hooks)
}

func (l *loader) commandFolder(s *source, at place, base, dir string) {
	folder, inside := beneath(base, dir)
	if dir != "" && inside && !l.isDir(folder) {
		l.take(s, []problem{{at: at, err: invalidf("%s: the project has no folder %s", at, quote(folder))}})
	}
}

func (l *loader) hookFolders(s *source, at place, o owner, hooks Hooks) {
	for _, h := range hooks.each() {
		l.commandFolder(s, h.place(at).key("dir"), o.folder, h.Dir)
	}
}

// sharedFolders checks the folders of the commands of crumb.yaml, and its groups.
func (l *loader) sharedFolders() {
	for i, p := range l.project.Shared.Plugins {
		at := place{"plugins"}.index(i).key("hooks")
		l.hookFolders(l.config, at, ofPlugin(p.Name), p.Hooks)
		l.hookGroups(l.config, at, p.Hooks)
	}
	l.hookFolders(l.config, place{"hooks"}, ofProject(), l.project.Shared.Hooks)
	l.hookGroups(l.config, place{"hooks"}, l.project.Shared.Hooks)
}

// groups adds the default group and warns of groups that have no queue.
func (a *folder) groups(d *Definition) {
	for _, t := range d.Tools {
		at := place{"group"}
		if t.Kind() == KindWorker {
			at = place{"worker", "group"}
		}
		a.group(a.sources[toolFile(t.Name)], at, t.Group())
		a.hookGroups(a.sources[toolFile(t.Name)], place{"hooks"}, t.Hooks)
	}
	a.hookGroups(a.sources[agentFile], place{"hooks"}, d.Hooks)
	if f := d.Output.Custom; f != nil {
		a.group(a.sources[agentFile], place{"output", "format", "group"}, f.Group)
	}
}

func (l *loader) hookGroups(s *source, at place, hooks Hooks) {
	for _, h := range hooks.each() {
		at := h.place(at)
		if h.Worker != nil {
			at = at.key("worker")
		}
		l.group(s, at.key("group"), h.queue())
	}
}

// group sees to the queue of one group; at is where a file names it.
func (l *loader) group(s *source, at place, name string) {
	if _, ok := l.project.Groups[name]; ok || name == "" {
		return
	}
	if name == DefaultGroup {
		l.project.Groups[name] = Group{MaxInFlight: DefaultMaxInFlight, StartBeforeMs: DefaultStartBeforeMs}
		return
	}
	l.warn(s, at, "the group %s is not listed under groups of %s, so it has a queue only if another project makes one", quote(name), projectFile)
}

// selectors warns of selectors that match no tool: they are likely mistyped.
func (a *folder) selectors(d *Definition) {
	policy, err := perm.Compile(d.Permissions)
	if err != nil {
		return // refused already
	}
	var origins []perm.Origin
	for _, t := range d.Tools {
		origins = append(origins, t.Origin())
	}
	for _, s := range policy.Unmatched(origins) {
		a.warn(a.sources[agentFile], selectorPlace(d.Permissions, s), "the selector %q matches none of the agent's tools", s)
	}
}

// selectorPlace is where a selector stands first.
func selectorPlace(l perm.Lists, selector string) place {
	for _, list := range []struct {
		name      string
		selectors []string
	}{{"allow", l.Allow}, {"ask", l.Ask}, {"deny", l.Deny}} {
		if i := slices.Index(list.selectors, selector); i >= 0 {
			return place{"permissions", list.name}.index(i)
		}
	}
	return place{"permissions"}
}

// warn adds a warning about a place of a file; s may be nil or broken.
func (l *loader) warn(s *source, at place, format string, args ...any) {
	if s == nil || s.root == nil {
		return
	}
	line, column := s.root.position(at)
	l.project.Warnings = append(l.project.Warnings, fmt.Sprintf("%s:%d:%d: %s", s.file, line, column, fmt.Sprintf(format, args...)))
}

func toolFile(name string) string { return path.Join(toolsDir, name+yamlExt) }

// isYAML reports whether a name has an ending of YAML, ours or not.
func isYAML(name string) bool {
	ext := strings.ToLower(path.Ext(name))
	return ext == yamlExt || ext == ".yml"
}

// list are the names in a folder, sorted, without those that begin with a dot;
// none when the folder is not there.
func (l *loader) list(dir string) []string {
	entries, err := os.ReadDir(l.path(dir))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			l.fault(dir, "the folder cannot be read: %s", reason(err))
		}
		return nil
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

func (l *loader) path(file string) string {
	return filepath.Join(l.project.Dir, filepath.FromSlash(file))
}

func (l *loader) isDir(dir string) bool {
	info, err := os.Stat(l.path(dir))
	return err == nil && info.IsDir()
}

func (l *loader) missing(file string) bool {
	_, err := os.Stat(l.path(file))
	return errors.Is(err, fs.ErrNotExist)
}

// read returns the text of a file; ok is false when it is not there, or cannot
// be read, which is a fault.
func (l *loader) read(file string) (text []byte, ok bool) {
	info, err := os.Stat(l.path(file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	if err == nil && !info.Mode().IsRegular() {
		l.fault(file, "expected a file, got something else")
		return nil, false
	}
	if err == nil {
		text, err = l.readAtMost(file, FileBytesMax)
	}
	if err != nil {
		l.fault(file, "the file cannot be read: %s", reason(err))
		return nil, false
	}
	if len(text) > FileBytesMax {
		l.fault(file, "the file is larger than %d bytes", FileBytesMax)
		return nil, false
	}
	return text, true
}

// readAtMost reads one byte more than bytesMax at most.
func (l *loader) readAtMost(file string, bytesMax int64) ([]byte, error) {
	f, err := os.Open(l.path(file))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	return io.ReadAll(io.LimitReader(f, bytesMax+1))
}

// reason is an error of the file system without its path, which is said already.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

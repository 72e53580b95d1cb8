package reload

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Debounce is how long the folder must be quiet: an editor writes a file in
// several steps, a checkout many files.
const Debounce = 150 * time.Millisecond

// foldersMax bounds how many folders are watched.
const foldersMax = 10_000

// What of a project folder is watched.
const (
	projectFile = "crumb.yaml"
	agentsDir   = "agents"
)

// Changes returns a channel that gets a value after each burst of changes of what
// crumb.yaml and agents/ say; bursts that nobody took yet are one. It is closed when
// ctx ends, or when the system gives no more notice of changes. It fails with
// INVALID_CONFIG when the folder cannot be watched.
func Changes(ctx context.Context, dir string) (<-chan struct{}, error) {
	return Paths(ctx, dir, projectFile, agentsDir)
}

// Paths is Changes of other paths of the folder: a folder with all below it, a
// file, or a pattern of files (path.Match) whose last part only has wildcards. Paths
// have slashes; one that is not there yet counts once it comes.
func Paths(ctx context.Context, dir string, paths ...string) (<-chan struct{}, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, unwatchable(dir, err)
	}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, unwatchable(dir, err)
	}
	w := &watcher{dir: abs, paths: paths, notify: notify, out: make(chan struct{}, 1)}
	if err := w.begin(); err != nil {
		return nil, errors.Join(unwatchable(dir, err), notify.Close())
	}
	go w.run(ctx)
	return w.out, nil
}

func unwatchable(dir string, err error) error {
	return fault.Wrap(fault.InvalidConfig, err, "the folder %s cannot be watched for changes: %v", dir, err)
}

type watcher struct {
	dir     string
	paths   []string
	notify  *fsnotify.Watcher
	out     chan struct{}
	folders int
}

// begin watches the folder that each path stands in, since a file that an editor
// renames into place is another file, and the folders that are meant.
func (w *watcher) begin() error {
	if err := w.notify.Add(w.dir); err != nil {
		return err
	}
	for _, p := range w.paths {
		at := filepath.Join(w.dir, filepath.FromSlash(p))
		if parent := filepath.Dir(at); parent != w.dir && isFolder(parent) {
			if err := w.notify.Add(parent); err != nil {
				return err
			}
		}
		if isFolder(at) {
			if err := w.add(at); err != nil {
				return err
			}
		}
	}
	return nil
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// add watches a folder and all below it; one that is not there is no fault.
func (w *watcher) add(folder string) error {
	return filepath.WalkDir(folder, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !e.IsDir() {
			return err
		}
		if hidden(name) && name != w.dir {
			return fs.SkipDir
		}
		if w.folders++; w.folders > foldersMax {
			return fault.New(fault.InvalidConfig, "more than %d folders below %s", foldersMax, w.dir)
		}
		return w.notify.Add(name)
	})
}

// hidden reports files that are nobody's work: those that begin with a dot, and the
// copies that editors leave.
func hidden(name string) bool {
	base := filepath.Base(name)
	return strings.HasPrefix(base, ".") || strings.HasPrefix(base, "#") || strings.HasSuffix(base, "~")
}

func (w *watcher) run(ctx context.Context) {
	defer func() {
		close(w.out)
		_ = w.notify.Close() // only watched
	}()
	quiet := time.NewTimer(Debounce)
	quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.notify.Events:
			if !ok {
				return
			}
			if w.matters(e) {
				quiet.Reset(Debounce)
			}
		case _, ok := <-w.notify.Errors: // events were lost: look again
			if !ok {
				return
			}
			quiet.Reset(Debounce)
		case <-quiet.C:
			select {
			case w.out <- struct{}{}:
			default:
			}
		}
	}
}

// matters reports whether an event is one of a path that is meant. A new folder is
// watched from then on.
func (w *watcher) matters(e fsnotify.Event) bool {
	if e.Op == fsnotify.Chmod || hidden(e.Name) || !w.meant(e.Name) {
		return false
	}
	if isFolder(e.Name) {
		_ = w.add(e.Name) // what cannot be watched is seen at the next start
	}
	return true
}

// meant reports whether a file is one of the paths, below one, or a folder above
// one, which comes and goes with it.
func (w *watcher) meant(name string) bool {
	rel, err := filepath.Rel(w.dir, name)
	if err != nil {
		return false
	}
	rel = filepath.ToSlash(rel)
	for _, p := range w.paths {
		if p = path.Clean(p); p == "." || rel == p || strings.HasPrefix(rel, p+"/") || strings.HasPrefix(p, rel+"/") {
			return true
		}
		if ok, err := path.Match(p, rel); ok && err == nil {
			return true
		}
	}
	return false
}

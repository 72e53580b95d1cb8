package reload

import (
	"context"
	"errors"
	"io/fs"
	"os"
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

// Changes returns a channel that gets a value after each burst of changes; bursts
// that nobody took yet are one. It is closed when ctx ends, or when the system
// gives no more notice of changes. It fails with INVALID_CONFIG when the folder
// cannot be watched.
func Changes(ctx context.Context, dir string) (<-chan struct{}, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, unwatchable(dir, err)
	}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, unwatchable(dir, err)
	}
	w := &watcher{dir: abs, notify: notify, out: make(chan struct{}, 1)}
	if err := errors.Join(notify.Add(abs), w.add(filepath.Join(abs, agentsDir))); err != nil {
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
	notify  *fsnotify.Watcher
	out     chan struct{}
	folders int
}

// add watches a folder and all below it; one that is not there is no fault.
func (w *watcher) add(folder string) error {
	return filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !e.IsDir() {
			return err
		}
		if hidden(path) {
			return fs.SkipDir
		}
		if w.folders++; w.folders > foldersMax {
			return fault.New(fault.InvalidConfig, "more than %d folders below %s", foldersMax, w.dir)
		}
		return w.notify.Add(path)
	})
}

func hidden(path string) bool { return strings.HasPrefix(filepath.Base(path), ".") }

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

// matters reports whether an event may change the project. A new folder is
// watched from then on.
func (w *watcher) matters(e fsnotify.Event) bool {
	if e.Op == fsnotify.Chmod || hidden(e.Name) {
		return false
	}
	if filepath.Dir(e.Name) == w.dir && filepath.Base(e.Name) != projectFile && filepath.Base(e.Name) != agentsDir {
		return false
	}
	if info, err := os.Stat(e.Name); err == nil && info.IsDir() {
		_ = w.add(e.Name) // what cannot be watched is seen at the next start
	}
	return true
}

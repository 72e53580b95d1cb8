//go:build unix

package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// lockFile is the file whose lock is the right to use a store. It stays when the
// lock is gone: removing it would let two hold locks of two files of one name.
const lockFile = "lock"

// holderMax bounds what is read of a lock file, in bytes.
const holderMax = 256

// lock takes the store folder for this process until the file is closed. The
// kernel releases it with the process, kill -9 included, and no child inherits
// it. It fails with INVALID_CONFIG, naming the holder, when another process has
// it: two servers on one store destroy each other's streams.
func lock(store string) (*os.File, error) {
	path := filepath.Join(store, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidConfig, err, "the store folder %s cannot be locked: %v", store, err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		err = sign(f)
	}
	if err == nil {
		return f, nil
	}
	held := holder(f)
	_ = f.Close() // the lock is another's, or none
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fault.New(fault.InvalidConfig, "the store folder %s is in use by %s: two meshes on one store lose runs; stop that one, use the mesh it serves, or choose another folder with --store", store, held).
			With("store", store).With("holder", held)
	}
	return nil, fault.Wrap(fault.InvalidConfig, err, "the store folder %s cannot be locked: %v", store, err)
}

// sign writes who holds the lock, for whoever comes second.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendf(nil, "process %d\n", os.Getpid()), 0)
	return err
}

// holder is what the lock's holder wrote.
func holder(f *os.File) string {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, holderMax))
	if name := strings.TrimSpace(string(text)); err == nil && name != "" {
		return name
	}
	return "another process" // it has only just begun
}

package decision

import (
	"crypto/ed25519"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// A seed file is one line: the 32 bytes of the Ed25519 seed in base64url.
const (
	seedMode    = 0o600
	folderMode  = 0o700
	seedForeign = 0o027 // may not be set: another group's write, anything for others
	seedTextMax = 1024  // bytes read of a seed file
)

// LoadSeed reads a key from its seed file. It returns INVALID_CONFIG when the
// file is missing or no seed, and when others than its owner and group could
// read it or others than its owner write it.
func LoadSeed(path string) (Key, error) {
	f, err := os.Open(path)
	if err != nil {
		return Key{}, unreadable(path, err)
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return Key{}, unreadable(path, err)
	}
	if perm := info.Mode().Perm(); runtime.GOOS != "windows" && perm&seedForeign != 0 {
		return Key{}, fault.New(fault.InvalidConfig, "seed file %s has mode %04o: expected %04o; run `chmod 600 %s`, and make a new key if others may have read this one", path, perm, seedMode, path)
	}
	text, err := io.ReadAll(io.LimitReader(f, seedTextMax))
	if err != nil {
		return Key{}, unreadable(path, err)
	}
	seed, err := encoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return Key{}, fault.New(fault.InvalidConfig, "seed file %s: expected one line, %d bytes in base64url without padding", path, ed25519.SeedSize)
	}
	return Key{ed25519.NewKeyFromSeed(seed)}, nil
}

func unreadable(path string, err error) error {
	return fault.Wrap(fault.InvalidConfig, err, "cannot read seed file %s: %v", path, err)
}

// LoadOrCreate reads a key from its seed file, or makes both when there is no
// file. Processes that start at once on one path get one key. It returns
// INVALID_CONFIG as LoadSeed does, or when the file cannot be written.
func LoadOrCreate(path string) (Key, error) {
	k, err := LoadSeed(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	if err := create(path); err != nil {
		return Key{}, fault.Wrap(fault.InvalidConfig, err, "cannot create seed file %s: %v", path, err)
	}
	return LoadSeed(path)
}

// create writes a new seed beside path and links it there: the file appears
// whole, and whoever comes second leaves the first one's alone.
func create(path string) (err error) {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, folderMode); err != nil {
		return err
	}
	f, err := os.CreateTemp(folder, ".seed-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	if err := errors.Join(write(f), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func write(f *os.File) error {
	if _, err := f.WriteString(encoding.EncodeToString(NewKey().private.Seed()) + "\n"); err != nil {
		return err
	}
	return f.Sync()
}

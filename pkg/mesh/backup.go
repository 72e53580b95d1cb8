package mesh

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Files of a stream's backup; older releases of `nats` wrote the data as a tar.
const (
	backupMeta = "backup.json"
	backupData = "stream.arc.s2"
	backupTar  = "stream.tar.s2"
)

// backupMetaMax bounds the description of a stream: its configuration and state.
const backupMetaMax = 1 << 20

// Backup is one stream as `nats backup account DIR` keeps it.
type Backup struct {
	Stream    string
	Messages  uint64
	Last      uint64 // its last sequence; 0: it never had a message
	Consumers int    // that it had

	request []byte // what the server is told of the stream
	data    string // file
}

// ReadBackups reads the descriptions in a folder of backups, by name. It fails with
// INVALID_CONFIG when the folder holds none, or something else.
func ReadBackups(dir string) ([]Backup, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidConfig, err, "a folder of `nats backup account` was expected: %v", err)
	}
	var out []Backup
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		b, err := readBackup(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	if len(out) == 0 {
		return nil, fault.New(fault.InvalidConfig, "%s holds no backup; `nats backup account --force %s` makes one", dir, dir)
	}
	return out, nil
}

func readBackup(dir string) (Backup, error) {
	meta := filepath.Join(dir, backupMeta)
	info, err := os.Stat(meta)
	if err != nil {
		return Backup{}, fault.Wrap(fault.InvalidConfig, err, "%s is no backup of a stream: %v", dir, err)
	}
	if info.Size() > backupMetaMax {
		return Backup{}, fault.New(fault.InvalidConfig, "%s: %d bytes, expected %d at most", meta, info.Size(), backupMetaMax)
	}
	text, err := os.ReadFile(meta)
	if err != nil {
		return Backup{}, fault.Wrap(fault.InvalidConfig, err, "%s: %v", meta, err)
	}
	var of struct {
		Config struct {
			Name string `json:"name"`
		} `json:"config"`
		State struct {
			Messages  uint64 `json:"messages"`
			Last      uint64 `json:"last_seq"`
			Consumers int    `json:"consumer_count"`
		} `json:"state"`
	}
	if err := json.Unmarshal(text, &of); err != nil || of.Config.Name == "" {
		return Backup{}, fault.New(fault.InvalidConfig, "%s does not describe a stream: %v", meta, cmp.Or(err, errors.New("config.name is missing")))
	}
	b := Backup{Stream: of.Config.Name, Messages: of.State.Messages, Last: of.State.Last, Consumers: of.State.Consumers, request: text}
	for _, name := range []string{backupData, backupTar} {
		b.data = filepath.Join(dir, name)
		if _, err = os.Stat(b.data); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return Backup{}, fault.Wrap(fault.InvalidConfig, err, "%s lacks the stream's messages: %v", dir, err)
	}
	return b, nil
}

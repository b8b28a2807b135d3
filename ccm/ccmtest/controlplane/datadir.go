package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	dataDirPrefix = "fxccm-controlplane-"
	newDirPrefix  = "fxccm-new-controlplane-"
	lockName      = "lock"
)

// dataDir is the folder of one control plane: etcd's data, certificates, configuration. The
// operating system gives its lock back when we die, so that an aborted test's folder (etcd alone
// takes 64 MiB) can be told from one in use, and the next start removes it.
type dataDir struct {
	path string
	lock *os.File
}

func newDataDir() (*dataDir, error) {
	removeAbandoned(os.TempDir())
	// It gets its name when it is locked: another start may look for abandoned folders at any
	// moment.
	unlocked, err := os.MkdirTemp("", newDirPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a folder for the control plane: %w", err)
	}
	lock, err := lockFile(filepath.Join(unlocked, lockName))
	if err != nil {
		return nil,
			errors.Join(fmt.Errorf("lock the control plane's folder %s: %w", unlocked, err),
				os.RemoveAll(unlocked))
	}
	path := filepath.Join(filepath.Dir(unlocked),
		dataDirPrefix+strings.TrimPrefix(filepath.Base(unlocked), newDirPrefix))
	if err := os.Rename(unlocked, path); err != nil {
		return nil,
			errors.Join(fmt.Errorf("name the control plane's folder: %w", err), lock.Close(),
				os.RemoveAll(unlocked))
	}
	return &dataDir{path: path, lock: lock}, nil
}

func (d *dataDir) file(name string) string { return filepath.Join(d.path, name) }

func (d *dataDir) remove() error {
	err := os.RemoveAll(d.path)
	_ = d.lock.Close()
	if err != nil {
		return fmt.Errorf("remove the control plane's folder: %w", err)
	}
	return nil
}

// removeAbandoned removes the folders in parent whose owner is dead. Errors are ignored: they do
// not concern the caller.
func removeAbandoned(parent string) {
	dirs, err := filepath.Glob(filepath.Join(parent, dataDirPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, lockName)
		if _, err := os.Stat(path); err != nil {
			continue // not ours, or just being made
		}
		lock, err := lockFile(path)
		if err != nil {
			continue // in use
		}
		_ = os.RemoveAll(dir)
		_ = lock.Close()
	}
}

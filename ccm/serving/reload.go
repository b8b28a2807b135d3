package serving

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// recheck is how old the knowledge of a file may be.
const recheck = time.Second

// reloaded is what some files hold together, parsed. The files are looked at when the value is asked for, at most once in recheck:
// there is nothing to watch them, nothing to stop, and a Secret that the kubelet swaps in is in use with the next connection. What cannot be
// read or parsed changes nothing: a certificate is often replaced before its key.
type reloaded[T any] struct {
	paths []string
	parse func(contents [][]byte) (T, error)
	log   logr.Logger

	value atomic.Pointer[T]

	// mu is held by the one who looks; the others go on with the value at hand.
	mu       sync.Mutex
	contents [][]byte
	looked   time.Time
	trouble  string
}

// load reads the files for the first time.
func load[T any](log logr.Logger, parse func([][]byte) (T, error), paths ...string) (*reloaded[T], error) {
	r := &reloaded[T]{paths: paths, parse: parse, log: log}
	_, err := r.look()
	r.looked = time.Now()
	return r, err
}

// get returns what the files hold.
func (r *reloaded[T]) get() T {
	if r.mu.TryLock() {
		if time.Since(r.looked) >= recheck {
			changed, err := r.look()
			r.report(changed, err)
			r.looked = time.Now()
		}
		r.mu.Unlock()
	}
	return *r.value.Load()
}

func (r *reloaded[T]) look() (changed bool, err error) {
	contents := make([][]byte, len(r.paths))
	for i, path := range r.paths {
		if contents[i], err = os.ReadFile(path); err != nil {
			return false, err
		}
	}
	if slices.EqualFunc(contents, r.contents, bytes.Equal) {
		return false, nil
	}
	value, err := r.parse(contents)
	if err != nil {
		return false, fmt.Errorf("%s: %w", r.paths[0], err)
	}
	r.contents = contents
	r.value.Store(&value)
	return true, nil
}

// report tells of trouble once, not at each connection.
func (r *reloaded[T]) report(changed bool, err error) {
	trouble := ""
	if err != nil {
		trouble = err.Error()
	}
	switch {
	case trouble != "" && trouble != r.trouble:
		r.log.Error(err, "Files could not be read again; what they held before stays in use", "files", r.paths)
	case changed:
		r.log.Info("Files were read again", "files", r.paths)
	}
	r.trouble = trouble
}

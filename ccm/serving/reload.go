package serving

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/fxccm/fxccm/internal/configfile"
)

// recheckInterval limits how often files are read again.
const recheckInterval = time.Second

// reloaded is the parsed content of files. get reads the files again, at most once in
// recheckInterval. So no goroutine has to watch them, and the next connection uses a Secret that
// the kubelet replaced. If a file cannot be read or parsed, the previous value stays in use,
// because a certificate is often replaced before its key.
//
// k8s.io/apiserver/pkg/server/dynamiccertificates reloads files too, with goroutines that outlive
// its Run and with klog for its logs.
type reloaded[T any] struct {
	paths []string
	parse func(contents [][]byte) (T, error)
	log   logr.Logger

	value atomic.Pointer[T]

	// mu is held while the files are read; concurrent calls of get return the current value.
	mu       sync.Mutex
	contents [][]byte
	readAt   time.Time
	logged   string // the last logged error
}

// load reads the files for the first time.
func load[T any](
	log logr.Logger, parse func([][]byte) (T, error), paths ...string,
) (*reloaded[T], error) {
	r := &reloaded[T]{paths: paths, parse: parse, log: log}
	_, err := r.read()
	r.readAt = time.Now()
	return r, err
}

// get returns the current value.
func (r *reloaded[T]) get() T {
	if r.mu.TryLock() {
		if time.Since(r.readAt) >= recheckInterval {
			changed, err := r.read()
			r.report(changed, err)
			r.readAt = time.Now()
		}
		r.mu.Unlock()
	}
	return *r.value.Load()
}

func (r *reloaded[T]) read() (changed bool, err error) {
	contents := make([][]byte, len(r.paths))
	for i, path := range r.paths {
		if contents[i], err = configfile.Read(path); err != nil {
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

// report logs reloads, and errors unless they repeat the last one.
func (r *reloaded[T]) report(changed bool, err error) {
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	switch {
	case failure != "" && failure != r.logged:
		r.log.Error(err, "Reload failed; keeping the previous certificates", "files", r.paths)
	case changed:
		r.log.Info("Reloaded certificates", "files", r.paths)
	}
	r.logged = failure
}

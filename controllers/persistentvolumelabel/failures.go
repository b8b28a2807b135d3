package persistentvolumelabel

import (
	"slices"
	"sync"
)

// maxTold bounds the events of one volume: a message that holds, say, the ID of a request is a new
// one each time.
const maxTold = 5

// failures remembers why volumes are retried, and which failures have been reported. A volume is in
// it as long as it is tried again. It is safe for concurrent use.
type failures struct {
	mu      sync.Mutex
	volumes map[string]*failure
}

type failure struct {
	last string
	told []string
}

func newFailures() *failures { return &failures{volumes: map[string]*failure{}} }

// note remembers what went wrong last.
func (f *failures) note(volume string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.volumes[volume] == nil {
		f.volumes[volume] = &failure{}
	}
	f.volumes[volume].last = err.Error()
}

// untold returns what went wrong last if it is to be told. It counts as told then.
func (f *failures) untold(volume string) (message string, untold bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.volumes[volume]
	if v == nil || len(v.told) == maxTold || slices.Contains(v.told, v.last) {
		return "", false
	}
	v.told = append(v.told, v.last)
	return v.last, true
}

func (f *failures) forget(volume string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.volumes, volume)
}

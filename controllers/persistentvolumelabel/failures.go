package persistentvolumelabel

import (
	"slices"
	"sync"
)

// maxReported limits the events of one volume, because a message may differ each time, for example
// if it contains the ID of a request.
const maxReported = 5

// failures holds the last failure of each volume that is retried, and the reported failures. It is
// safe for concurrent use.
type failures struct {
	mu      sync.Mutex
	volumes map[string]*failure
}

type failure struct {
	last     string
	reported []string
}

func newFailures() *failures { return &failures{volumes: map[string]*failure{}} }

// record records the last failure of a volume.
func (f *failures) record(volume string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.volumes[volume] == nil {
		f.volumes[volume] = &failure{}
	}
	f.volumes[volume].last = err.Error()
}

// unreported returns the last failure if it has to be reported, and counts it as reported.
func (f *failures) unreported(volume string) (message string, isNew bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.volumes[volume]
	if v == nil || len(v.reported) == maxReported || slices.Contains(v.reported, v.last) {
		return "", false
	}
	v.reported = append(v.reported, v.last)
	return v.last, true
}

func (f *failures) forget(volume string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.volumes, volume)
}

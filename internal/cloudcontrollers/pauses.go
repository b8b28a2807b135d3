package cloudcontrollers

import (
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
)

const (
	// maxPause limits the pause before the next try.
	maxPause = time.Minute
	// repeatFailure is the time after which an unchanged failure is reported again. The API server
	// deletes events after an hour.
	repeatFailure = 30 * time.Minute
)

// pauses has the tries that failed. Upstream's controllers of nodes and routes try everything again
// in each pass, every few seconds, and log each failure. With pauses, they try later each time. It
// is safe for concurrent use.
type pauses struct {
	// first is the pause after the first failure. It doubles up to maxPause.
	first time.Duration

	mu     sync.Mutex
	failed map[string]failedTry
}

type failedTry struct {
	cause        string
	at, reported time.Time
	pause        time.Duration
}

// newPauses returns pauses for passes with a period. The second pass tries everything again.
func newPauses(period time.Duration) *pauses {
	return &pauses{first: period / 2, failed: map[string]failedTry{}}
}

// note records the result of a try. It returns true if the failure has to be reported: it is new,
// or it was reported long ago.
func (p *pauses) note(key string, err error) (report bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		delete(p.failed, key)
		return false
	}
	try, now := p.failed[key], time.Now()
	report = try.cause != err.Error() || now.Sub(try.reported) >= repeatFailure
	if report {
		try.reported = now
	}
	try.cause, try.at = err.Error(), now
	try.pause = min(max(2*try.pause, p.first), maxPause)
	p.failed[key] = try
	return report
}

// last reports whether the pause after a failure has not ended.
func (p *pauses) last(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	try := p.failed[key]
	return time.Since(try.at) < try.pause
}

// keep forgets all failures except those with the keys.
func (p *pauses) keep(keys map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.failed, func(key string, _ failedTry) bool { return !keys[key] })
}

// shownNodes gives upstream a lister of the nodes that show selects.
type shownNodes struct {
	coreinformers.NodeInformer
	show func(all []*v1.Node) []*v1.Node
}

// Lister implements coreinformers.NodeInformer.
func (n shownNodes) Lister() corelisters.NodeLister {
	return shownLister{n.NodeInformer.Lister(), n.show}
}

type shownLister struct {
	corelisters.NodeLister
	show func(all []*v1.Node) []*v1.Node
}

// List implements corelisters.NodeLister.
func (l shownLister) List(selector labels.Selector) ([]*v1.Node, error) {
	all, err := l.NodeLister.List(selector)
	if err != nil {
		return nil, err
	}
	return l.show(all), nil
}

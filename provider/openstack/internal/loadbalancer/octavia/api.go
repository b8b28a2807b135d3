// Package octavia reads and writes load balancers with Octavia's API.
//
// Concurrent calls share their requests and their answers, so callers must not change answers. No
// answer is older than its call, unless the caller permits it.
package octavia

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/openstack/internal/capability"
	"github.com/fxccm/fxccm/provider/openstack/internal/sharing"
)

var (
	// ErrNotFound is wrapped by the error for an object that does not exist, and for a load
	// balancer that is DELETED.
	ErrNotFound = errors.New("it does not exist")
	// ErrForbidden is wrapped by the error for an object of another project.
	ErrForbidden = errors.New(
		"forbidden: it belongs to another project, or Octavia's policy denies access")
	// ErrPending is wrapped by the error of [API.Settled] for a load balancer that Octavia is still
	// at work on.
	ErrPending = errors.New("it is still pending")
	// ErrClosed is wrapped by the error of a request after [API.Close].
	ErrClosed = errors.New("the Octavia client is closed")
)

// Config is what [New] needs. Only Pause, Share and MaxAge are optional.
type Config struct {
	// Client returns the client of Octavia. It is called for each request, and must cache the
	// client.
	Client func(context.Context) (*gophercloud.ServiceClient, error)
	// Project returns the ID of the project that owns the load balancers.
	Project func(context.Context) (string, error)
	// Share shares lists of the project with other clusters. It may be nil. MaxAge is the highest
	// age of a list that callers permit, if that is more than some seconds.
	Share  sharing.Read
	MaxAge time.Duration
	// Pause is the first pause after a change, until the duration of changes is known.
	Pause  time.Duration
	Clock  clock.Clock
	Logger logr.Logger
}

// API is a client of Octavia. It is safe for concurrent use. [API.Close] ends it.
type API struct {
	config Config

	minor   *capability.Fact[int]
	surveys *sharing.Lookup[*survey]
	// reads is nil if the lists are shared with other clusters.
	reads *sharing.Reads

	// closing is closed by Close.
	closing chan struct{}
	close   sync.Once

	mu sync.Mutex
	// last is the newest list of load balancers; nil before the first.
	last *Snapshot
	// waiting is how many Settled calls are in flight.
	waiting int

	paces paces
	cache Cache
}

// Cache returns the cache of the contents of load balancers.
func (a *API) Cache() *Cache { return &a.cache }

// New makes no request.
func New(c Config) *API {
	a := &API{
		config: c, closing: make(chan struct{}),
		cache: Cache{writeLife: 2 * max(sharingPause, c.MaxAge)},
	}
	a.minor = capability.New(a.askVersion,
		capability.Options{Clock: c.Clock, Share: c.Share, Key: "version of Octavia"})
	a.surveys = sharing.NewLookup(ErrClosed, c.Clock, surveyAge, a.survey)
	a.surveys.Keeps = func(s *survey) bool { return !s.updated.IsZero() }
	if c.Share == nil {
		a.reads = sharing.NewReads(c.Clock, ErrClosed)
		a.config.Share = a.reads.Read
	}
	return a
}

// Close ends waits, cancels shared requests and waits for their end. Later requests fail with
// [ErrClosed]. It is idempotent.
func (a *API) Close() {
	a.close.Do(func() { close(a.closing) })
	a.surveys.Close()
	if a.reads != nil {
		a.reads.Close()
	}
}

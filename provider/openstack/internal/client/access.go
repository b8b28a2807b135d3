package client

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"sync"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/apiconn"
	"github.com/fxccm/fxccm/provider/internal/kit/ratelimit"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/sharing"
	"github.com/fxccm/fxccm/provider/openstack/internal/trouble"
)

// access holds the connections and the login of one set of credentials.
type access struct {
	transport *http.Transport
	// guarded is the transport with its guard, for all requests.
	guarded     http.RoundTripper
	connections *apiconn.Dialer
	keystone    *keystone
	session     *session
	answers     *trouble.Answers

	// queue and reads are nil unless several Clients share the access.
	queue *ratelimit.Queue
	reads *sharing.Reads

	// shared is the Shared that holds the access under the entry key, with the number of its users;
	// nil if the access is not shared. shared.mu guards users.
	shared *Shared
	key    [sha256.Size]byte
	users  int
}

// newAccess reads the certificate and key files and sends no request.
func newAccess(g cloudconf.Global, o Options) (*access, error) {
	who, err := newCredentials(g)
	if err != nil {
		return nil, err
	}
	transport, err := newTransport(g)
	if err != nil {
		return nil, err
	}
	var guarded http.RoundTripper = transport
	if o.Guard != nil {
		guarded = o.Guard(transport)
	}
	connections := apiconn.NewDialer(transport.DialContext)
	transport.DialContext = connections.Dial
	answers := trouble.NewAnswers(o.Clock)
	return &access{
		transport: transport, guarded: guarded, connections: connections, answers: answers,
		keystone: &keystone{credentials: who}, session: newSession(o.Clock, o.random, answers),
	}, nil
}

func (a *access) isShared() bool { return a.shared != nil }

// authURL is an address of Keystone.
func (a *access) authURL() *url.URL { return a.keystone.credentials.authURL }

// endSession ends the login of an access that is not shared.
func (a *access) endSession() {
	if !a.isShared() {
		a.session.end()
		a.transport.CloseIdleConnections()
	}
}

// leave ends one use. The last one closes all connections permanently: no request is in flight
// then, but an HTTP/2 connection may still be busy, and another may still be dialed, so it is not
// enough to close idle connections.
func (a *access) leave(report *trouble.Report) {
	a.answers.Unfollow(report)
	if a.isShared() && !a.shared.drop(a) {
		return
	}
	a.session.end()
	if a.isShared() {
		a.reads.Close()
		a.queue.Close()
	}
	a.transport.CloseIdleConnections()
	a.connections.Close()
}

// SharedOptions limit the requests of all clusters of one project together.
type SharedOptions struct {
	// Rate is the average number of requests per second, rate.Inf for no limit. Burst is the number
	// of requests at once.
	Rate  rate.Limit
	Burst int
	// Clock is the clock of limits and reads. Default: the real one.
	Clock clock.Clock
}

// Shared lets Clients share an access if their credentials, cloud, region and TLS settings are
// equal in every field. It holds an access while a Clients uses it. It is safe for concurrent use.
type Shared struct {
	options SharedOptions

	mu       sync.Mutex
	accesses map[[sha256.Size]byte]*access
}

// NewShared starts no goroutine.
func NewShared(o SharedOptions) *Shared {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Shared{options: o, accesses: map[[sha256.Size]byte]*access{}}
}

// join returns the access of the configuration. Each use ends with access.leave.
func (s *Shared) join(g cloudconf.Global, o Options) (*access, error) {
	key := accessKey(g, o.Guard != nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accesses[key]
	if a == nil {
		o.Clock = s.options.Clock
		var err error
		if a, err = newAccess(g, o); err != nil {
			return nil, err
		}
		a.shared, a.key = s, key
		a.queue = ratelimit.New(s.options.Rate, s.options.Burst, s.options.Clock)
		a.reads = sharing.NewReads(s.options.Clock, ErrClosed)
		s.accesses[key] = a
	}
	a.users++
	return a, nil
}

// drop reports whether this was the last use.
func (s *Shared) drop(a *access) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.users--; a.users > 0 {
		return false
	}
	delete(s.accesses, a.key)
	return true
}

// accessKey differs if any field of the configuration or any of its files differs, because each may
// change the user or the visible objects. A transport with a guard differs from one without.
func accessKey(g cloudconf.Global, isGuarded bool) (key [sha256.Size]byte) {
	hash := sha256.New()
	fmt.Fprintln(hash, isGuarded)
	fields := reflect.ValueOf(g)
	for i := range fields.NumField() {
		// The kind is used, because a Secret prints as redacted.
		switch field := fields.Field(i); field.Kind() {
		case reflect.String:
			fmt.Fprintf(hash, "%d %q\n", i, field.String())
		default:
			fmt.Fprintf(hash, "%d %#v\n", i, field.Interface())
		}
	}
	fmt.Fprint(hash, fingerprint([]string{g.CAFile, g.CertFile, g.KeyFile}))
	hash.Sum(key[:0])
	return key
}

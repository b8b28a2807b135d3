package registered

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/hosting/internal/optional"
	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/informerview"
)

// Shared returns a provider that builds and initializes the cloud of p once for the process, and
// uses it in all later terms. It is for a provider that owns a port, or writes global variables,
// and therefore cannot be built again. [Provider] and [Factory] return a p. stop ends the
// goroutines of the cloud; the host closes it at its own end.
//
// Clients and Transport of the environment send each request in the current term, and are refused
// between terms. Fail, ReportTrouble and Recorder are those of the current term, too. The informers
// belong to the cloud. They pause between terms, and continue within seconds of the next term's
// begin. Logger and Term are those of the first term.
//
// The cloud is never closed. One result serves one Manager.
func Shared(p ccm.Provider, stop <-chan struct{}) ccm.Provider {
	if p.New == nil {
		return p // an error of ccm.New
	}
	s := &shared{build: p.New, stop: stop, step: notBuilt}
	p.New = s.begin
	return p
}

// sharedInformers is the client of the term's informers. It has the Manager's permissions to read,
// even if each controller has a ServiceAccount.
const sharedInformers = "shared-informers"

// shared is the cloud of all terms. It is safe for concurrent use.
type shared struct {
	build func(context.Context, ccm.ProviderEnv) (cloudprovider.Interface, error)
	stop  <-chan struct{}

	mu    sync.Mutex
	step  string
	owner string
	term  *boundTerm
	cloud cloudprovider.Interface
	// informers are the cloud's own.
	informers *informerview.View
}

// These are the steps of a shared cloud. A cloud that stays in a step "is being ..." hangs or has
// panicked there.
const (
	notBuilt     = "not built"
	building     = "being built"
	built        = "built"
	initializing = "being initialized"
	ready        = "ready"
)

// boundTerm is the term whose clients the cloud uses.
type boundTerm struct {
	env ccm.ProviderEnv
	// replaced is closed when the next term begins.
	replaced chan struct{}

	mu         sync.Mutex
	transports map[string]http.RoundTripper
}

// begin is [ccm.Provider].New.
func (s *shared) begin(_ context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
	isFirst, err := s.bind(env)
	if err != nil {
		return nil, err
	}
	if isFirst {
		if err := s.make(env); err != nil {
			return nil, err
		}
	}
	labels, _ := s.cloud.(cloudprovider.PVLabeler)
	reports, _ := s.cloud.(ccm.ObjectReporter)
	return optional.Add(&sharedCloud{Interface: s.cloud, shared: s}, labels, reports), nil
}

// bind lets the cloud use the clients of the term, and reports whether the cloud must be built.
func (s *shared) bind(env ccm.ProviderEnv) (isFirst bool, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	owner := fmt.Sprintf("%q with identity %q", env.Manager, env.Identity)
	switch {
	case s.owner != "" && s.owner != owner:
		return false, fmt.Errorf("the shared cloud belongs to the Manager %s, not to %s: "+
			"give each Manager a provider of its own", s.owner, owner)
	case s.step == building || s.step == initializing:
		return false, fmt.Errorf("the shared cloud is still %s by term %d: "+
			"it hangs or has panicked, and only a restart of the process can build it again",
			s.step, s.term.env.Term)
	}
	if s.term != nil {
		close(s.term.replaced)
	}
	s.owner = owner
	s.term = &boundTerm{
		env: env, replaced: make(chan struct{}), transports: map[string]http.RoundTripper{},
	}
	if isFirst = s.step == notBuilt; isFirst {
		s.step = building
	}
	return isFirst, nil
}

func (s *shared) make(env ccm.ProviderEnv) error {
	client, err := boundClients{s, true}.Client(sharedInformers)
	if err != nil {
		s.advance(building, notBuilt)
		return err
	}
	env.Fail = func(err error) { s.current().env.Fail(err) }
	factory := informers.NewSharedInformerFactoryWithOptions(informerview.ListingClient(client),
		env.Config.MinResyncPeriod.Duration,
		informers.WithTransform(informerview.RefuseNames(env.Fail,
			informerview.StripManagedFields)))
	view := informerview.New(factory, informerview.WithPanicHandler(func(err error) {
		env.Fail(fmt.Errorf("event handler: %w", err))
	}))
	env.Clients, env.Informers = boundClients{s, false}, view
	env.ReportTrouble = func(subject string, cause error) {
		s.current().env.ReportTrouble(subject, cause)
	}
	env.Recorder = func(component string) record.EventRecorder {
		return boundRecorder{s, component}
	}
	env.Transport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			return s.current().env.Transport(next).RoundTrip(req)
		})
	}
	cloud, err := s.build(wait.ContextForChannel(s.stop), env)
	if err == nil && cloud == nil {
		err = errors.New("its factory returned neither a cloud nor an error")
	}
	if err != nil {
		s.advance(building, notBuilt)
		return err
	}
	s.cloud, s.informers = cloud, view
	s.advance(building, built)
	return nil
}

func (s *shared) advance(from, to string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.step != from {
		return false
	}
	s.step = to
	return true
}

// current returns the current term; between terms the last one, whose fence refuses requests.
func (s *shared) current() *boundTerm {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.term
}

// sharedCloud is the cloud in one term. It hides SetInformers.
type sharedCloud struct {
	cloudprovider.Interface
	shared *shared
}

// Initialize starts the cloud in the first term. In each term it waits for the cloud's informers.
func (c *sharedCloud) Initialize(_ cloudprovider.ControllerClientBuilder, ended <-chan struct{}) {
	s := c.shared
	if s.advance(built, initializing) {
		c.Interface.Initialize(boundClients{s, false}, s.stop)
		if user, ok := c.Interface.(cloudprovider.InformerUser); ok {
			user.SetInformers(s.informers)
		}
		s.advance(initializing, ready)
	}
	s.informers.Start(s.stop)
	env := s.current().env
	syncing, cancel := context.WithTimeout(wait.ContextForChannel(ended),
		env.Config.CacheSyncTimeout.Duration)
	defer cancel()
	if err := s.informers.WaitForSync(syncing); err != nil {
		env.Fail(fmt.Errorf("informers of the shared cloud: %w", err))
	}
}

// Close keeps the cloud for the next term.
func (c *sharedCloud) Close() error { return nil }

// CleanUpCluster implements ccm.ClusterCleaner.
func (c *sharedCloud) CleanUpCluster(ctx context.Context, uid string) ([]string, error) {
	if cleaner, ok := c.Interface.(ccm.ClusterCleaner); ok {
		return cleaner.CleanUpCluster(ctx, uid)
	}
	return nil, fmt.Errorf("the shared cloud %s cannot clean up after a deleted cluster: %w",
		c.ProviderName(), errors.ErrUnsupported)
}

// boundClients builds clients that send their requests in the current term.
type boundClients struct {
	shared *shared
	// wait makes requests wait for the next term instead of failing between terms.
	wait bool
}

var _ cloudprovider.ControllerClientBuilder = boundClients{}

// Config implements cloudprovider.ControllerClientBuilder.
func (c boundClients) Config(name string) (*rest.Config, error) {
	config, err := c.shared.current().env.Clients.Config(name)
	if err != nil {
		return nil, err
	}
	return c.bound(name, config), nil
}

// bound replaces the term's transport in a configuration.
func (c boundClients) bound(name string, config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.WrapTransport = nil
	config.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
		return c.roundTrip(name, req)
	})
	return config
}

func (c boundClients) roundTrip(name string, req *http.Request) (*http.Response, error) {
	for {
		term := c.shared.current()
		transport, err := term.transport(name)
		if err != nil {
			return nil, err
		}
		resp, err := transport.RoundTrip(req)
		if !c.wait || !errors.Is(err, fence.ErrClosed) {
			return resp, err
		}
		select {
		case <-term.replaced:
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
}

// transport returns the term's transport for a client, which keeps the client's token.
func (t *boundTerm) transport(name string) (http.RoundTripper, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.transports[name]; known != nil {
		return known, nil
	}
	config, err := t.env.Clients.Config(name)
	if err != nil {
		return nil, err
	}
	made, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("client %q: %w", name, err)
	}
	t.transports[name] = made
	return made, nil
}

// Client implements cloudprovider.ControllerClientBuilder.
func (c boundClients) Client(name string) (kubernetes.Interface, error) {
	config, err := c.Config(name)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// ConfigOrDie implements cloudprovider.ControllerClientBuilder. The term's builder panics with an
// error that ends the term.
func (c boundClients) ConfigOrDie(name string) *rest.Config {
	return c.bound(name, c.shared.current().env.Clients.ConfigOrDie(name))
}

// ClientOrDie implements cloudprovider.ControllerClientBuilder, like ConfigOrDie.
func (c boundClients) ClientOrDie(name string) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(c.ConfigOrDie(name))
}

// boundRecorder records events in the current term.
type boundRecorder struct {
	shared    *shared
	component string
}

func (r boundRecorder) recorder() record.EventRecorder {
	return r.shared.current().env.Recorder(r.component)
}

// Event implements record.EventRecorder.
func (r boundRecorder) Event(object runtime.Object, kind, reason, message string) {
	r.recorder().Event(object, kind, reason, message)
}

// Eventf implements record.EventRecorder.
func (r boundRecorder) Eventf(
	object runtime.Object, kind, reason, format string, args ...any,
) {
	r.recorder().Eventf(object, kind, reason, format, args...)
}

// AnnotatedEventf implements record.EventRecorder.
func (r boundRecorder) AnnotatedEventf(
	object runtime.Object, annotations map[string]string, kind, reason, format string, args ...any,
) {
	r.recorder().AnnotatedEventf(object, annotations, kind, reason, format, args...)
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

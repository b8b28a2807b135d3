package process

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/events"
	"github.com/fxccm/fxccm/internal/informerview"
	"github.com/fxccm/fxccm/internal/kubeproxy"
	"github.com/fxccm/fxccm/internal/rescue"
	"github.com/fxccm/fxccm/internal/wireerror"
)

// expiryCheck limits the wait for the expiry of leadership: timers stand still while the machine is
// suspended.
const expiryCheck = time.Second

// backgroundGrace is the time for goroutines of the provider at an orderly stop. fxccm cannot
// observe their end.
const backgroundGrace = 500 * time.Millisecond

// errExpired ends a child whose parent has not renewed its leadership, or is frozen.
var errExpired = errors.New("leadership expired without a renewal")

// errDisconnected ends a child that cannot receive messages or answer them.
var errDisconnected = errors.New("connection to the parent process ended")

// hasMain has an element when this process has called [Main].
var hasMain = make(chan struct{}, 1)

// Main runs a provider and ends the process, if [Provider] has started the process. In any other
// process it returns at once. Call it first in main, before flags are parsed.
func Main(providers ...ccm.Provider) {
	select {
	case hasMain <- struct{}{}:
	default:
	}
	if os.Getenv(variable) == "" {
		return
	}
	// Programs that the provider starts are not children of fxccm.
	_ = os.Unsetenv(variable)
	// The parent gets signals to all processes of a service, and stops its children in order.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	if err := runChild(providers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		if errors.Is(err, errExpired) || errors.Is(err, errDisconnected) {
			// The host is frozen or dead, and cannot end the programs that the provider has
			// started.
			killOwnGroup()
		}
		os.Exit(1)
	}
	os.Exit(0)
}

// child is the child's side.
type child struct {
	providers []ccm.Provider
	link      *link
	stop      chan struct{}
	// ends receives the reason why the child ends; nil after a stop.
	ends chan error
	// calls are the calls in flight.
	calls sync.WaitGroup

	mu     sync.Mutex
	until  time.Time
	cancel map[uint64]context.CancelFunc

	// build, which comes first, sets these fields.
	cloud   cloudprovider.Interface
	offered *offered
	clients clients
	// informers are nil in a term without them.
	informers informers.SharedInformerFactory
	events    *events.Broadcaster
}

func runChild(providers []ccm.Provider) error {
	conn, err := inherited()
	if err != nil {
		return fmt.Errorf("connect to the parent process: %w", err)
	}
	c := &child{
		providers: providers, link: newLink(conn, maxFromChild, maxFromHost),
		stop: make(chan struct{}), ends: make(chan error, 1),
		cancel: map[uint64]context.CancelFunc{},
	}
	go c.receive()
	timer := time.NewTicker(expiryCheck / 4)
	defer timer.Stop()
	for {
		select {
		case err := <-c.ends:
			return err
		case <-timer.C:
			if c.expired() {
				return errExpired
			}
		}
	}
}

func (c *child) expired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.until.IsZero() && remaining(c.until) <= 0
}

func (c *child) end(err error) {
	select {
	case c.ends <- err:
	default:
	}
}

// receive handles messages in order; calls run concurrently.
func (c *child) receive() {
	isStopped := false
	for {
		m, err := c.link.receive()
		if err != nil {
			c.end(fmt.Errorf("%w: %w", errDisconnected, err))
			return
		}
		switch m.Kind {
		case expiry:
			c.setExpiry(m.Time)
		case cancel:
			c.mu.Lock()
			if end, ok := c.cancel[m.ID]; ok {
				end()
			}
			c.mu.Unlock()
		case stop:
			isStopped = true
			close(c.stop)
			go c.drain()
		case build, initialize, serves, call, report:
			if m.Kind == build {
				c.setExpiry(m.Time)
				m.Time = time.Time{}
			}
			if isStopped {
				// The drain waits for the calls that it finds, and then closes the provider.
				c.reply(message{
					Kind: answer, ID: m.ID, Err: wireerror.Encode(ccm.ErrStopped),
				})
				continue
			}
			c.begin(m)
		}
	}
}

// setExpiry gives the wall clock's time a monotonic reading, so that neither clock can extend it.
func (c *child) setExpiry(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = until
	if !until.IsZero() {
		c.until = time.Now().Add(time.Until(until))
	}
}

// begin answers a message in its own goroutine. It registers the call first, so that a later
// message can cancel it.
func (c *child) begin(m message) {
	ctx, end := context.WithCancel(context.Background())
	if !m.Time.IsZero() {
		ctx, end = context.WithDeadline(context.Background(), m.Time)
	}
	c.mu.Lock()
	c.cancel[m.ID] = func() {
		// A deadline that has passed ends the call with its own error.
		if deadline, ok := ctx.Deadline(); !ok || time.Now().Before(deadline) {
			end()
		}
	}
	c.mu.Unlock()
	c.calls.Go(func() {
		reply := c.handle(ctx, m)
		c.mu.Lock()
		delete(c.cancel, m.ID)
		c.mu.Unlock()
		end()
		c.reply(reply)
	})
}

func (c *child) reply(m message) {
	err := c.link.send(m)
	if errors.Is(err, errTooLarge) {
		err = c.link.send(message{Kind: m.Kind, ID: m.ID, Err: wireerror.Encode(err)})
	}
	if err != nil {
		c.end(fmt.Errorf("%w: %w", errDisconnected, err))
	}
}

// handle returns the answer to a message.
func (c *child) handle(ctx context.Context, m message) message {
	reply := message{Kind: answer, ID: m.ID}
	err := rescue.Call(func() (err error) {
		switch m.Kind {
		case build:
			reply.Results, err = c.build(*m.Env)
		case initialize:
			err = c.initialize(ctx)
		case serves:
			reply.Results.Yes = c.offered.serves(m.Method)
		case call:
			reply.Results, err = c.offered.dispatch(ctx, m.Method, m.Args)
		case report:
			if reporter, ok := c.cloud.(ccm.ObjectReporter); ok {
				reply.Results.LoadBalancers = reporter.LoadBalancerStatus()
				reply.Results.WaitingNodes = reporter.NodeStatus()
			}
		}
		return err
	}, func(value any) error {
		text := fmt.Sprint(value)
		reply.Panic = &text
		klog.Background().Error(nil, "Cloud provider panicked", "call", m.Method,
			"panic", text, "stack", string(debug.Stack()))
		return nil
	})
	reply.Err = wireerror.Encode(err)
	return reply
}

func (c *child) build(env environment) (results, error) {
	if env.Protocol != protocol {
		return results{}, fmt.Errorf("host speaks version %d of the protocol, its child %d; "+
			"build both with the same fxccm", env.Protocol, protocol)
	}
	at := slices.IndexFunc(c.providers, func(p ccm.Provider) bool { return p.Name == env.Provider })
	if at < 0 {
		return results{}, fmt.Errorf("process.Main was not called with the provider %q",
			env.Provider)
	}
	if err := setVerbosity(env.Verbosity); err != nil {
		return results{}, err
	}
	c.clients = clients{env}
	client, err := c.clients.Client("shared-informers")
	if err != nil {
		return results{}, err
	}
	if !env.NoInformers {
		c.informers = informers.NewSharedInformerFactoryWithOptions(
			informerview.ListingClient(client), 0, informers.WithTransform(
				informerview.RefuseNames(c.end, informerview.StripManagedFields)))
	}
	own, err := c.clients.Client("cloud-controller-manager")
	if err != nil {
		return results{}, err
	}
	c.events = events.New(own.CoreV1(), klog.Background())
	cloud, err := c.providers[at].New(c.whileRunning(), c.providerEnv(env))
	if err != nil {
		return results{}, err
	}
	if cloud == nil {
		return results{}, errors.New("provider returned neither a cloud nor an error")
	}
	c.cloud, c.offered = cloud, offer(cloud)
	got := results{Text: cloud.ProviderName(), Yes: cloud.HasClusterID()}
	if _, ok := cloud.(cloudprovider.PVLabeler); ok {
		got.Names = append(got.Names, labelerName)
	}
	if _, ok := cloud.(ccm.ObjectReporter); ok {
		got.Names = append(got.Names, reporterName)
	}
	return got, nil
}

// setVerbosity sets the host's verbosity for klog. A flag that New parses overrides it.
func setVerbosity(verbosity int) error {
	var level klog.Level
	return level.Set(strconv.Itoa(verbosity))
}

// whileRunning returns a context that ends at the stop.
func (c *child) whileRunning() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	go func() {
		<-c.stop
		end(ccm.ErrStopped)
	}()
	return ctx
}

func (c *child) providerEnv(env environment) ccm.ProviderEnv {
	selected := env.Config.CloudProvider
	return ccm.ProviderEnv{
		Config: env.Config, ClusterName: env.Config.ClusterName,
		ConfigFile: selected.ConfigFile, ConfigStrict: selected.ConfigStrict,
		UserAgents: selected.UserAgents, Identity: env.Identity,
		Owner: env.Owner, RequireOwnerMark: env.RequireOwnerMark,
		Term: env.Term, Manager: env.Manager, Logger: klog.Background(), Clock: clock.RealClock{},
		Recorder:  func(name string) record.EventRecorder { return c.events.Recorder(name) },
		Clients:   c.clients,
		Informers: c.informers,
		Fail: func(err error) {
			if err != nil {
				c.end(err)
			}
		},
		// The parent holds the leadership, and waits for this process.
		Leadership: ccm.Leadership{Begin: func(string) (func(), error) { return func() {}, nil }},
		ReportTrouble: func(subject string, cause error) {
			_ = c.link.send(message{
				Kind: trouble, Subject: subject, Err: wireerror.Encode(cause),
			})
		},
		Transport: func(next http.RoundTripper) http.RoundTripper { return next },
	}
}

// initialize initializes the provider as a Manager does in its own process.
func (c *child) initialize(ctx context.Context) error {
	c.cloud.Initialize(c.clients, c.stop)
	if c.informers == nil {
		return ctx.Err()
	}
	if user, ok := c.cloud.(cloudprovider.InformerUser); ok {
		user.SetInformers(c.informers)
	}
	c.informers.Start(c.stop)
	for kind, synced := range c.informers.WaitForCacheSync(c.stop) {
		if !synced {
			return fmt.Errorf("informer of %s has not synced before the stop", kind)
		}
	}
	return ctx.Err()
}

// drain ends the child in order: first the calls, whose callers have canceled them, then the
// goroutines of the provider, then the provider.
func (c *child) drain() {
	grace := time.NewTimer(backgroundGrace)
	defer grace.Stop()
	c.calls.Wait()
	if c.cloud != nil {
		if c.informers != nil {
			c.informers.Shutdown()
		}
		<-grace.C
	}
	if closer, ok := c.cloud.(interface{ Close() error }); ok {
		if err := rescue.Panic(closer.Close); err != nil {
			klog.Background().Error(err, "Cloud provider did not close cleanly")
		}
	}
	if c.events != nil {
		c.events.Close()
	}
	c.end(nil)
}

// clients builds clients of the parent's proxy.
type clients struct{ env environment }

var _ cloudprovider.ControllerClientBuilder = clients{}

// Config implements cloudprovider.ControllerClientBuilder.
func (c clients) Config(name string) (*rest.Config, error) {
	if name == "" {
		return nil, errors.New("a client needs a name")
	}
	connection := c.env.Config.ClientConnection
	qps := connection.QPS
	if qps <= 0 {
		qps = -1 // no limit in client-go
	}
	return &rest.Config{
		Host: c.env.Server, BearerToken: kubeproxy.ClientToken(c.env.Token, name),
		QPS: qps, Burst: connection.Burst,
		ContentConfig: rest.ContentConfig{ContentType: connection.ContentType},
	}, nil
}

// Client implements cloudprovider.ControllerClientBuilder.
func (c clients) Client(name string) (kubernetes.Interface, error) {
	config, err := c.Config(name)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// ConfigOrDie implements cloudprovider.ControllerClientBuilder.
func (c clients) ConfigOrDie(name string) *rest.Config {
	config, err := c.Config(name)
	if err != nil {
		panic(err)
	}
	return config
}

// ClientOrDie implements cloudprovider.ControllerClientBuilder.
func (c clients) ClientOrDie(name string) kubernetes.Interface {
	client, err := c.Client(name)
	if err != nil {
		panic(err)
	}
	return client
}

package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/childprocess"
	"github.com/fxccm/fxccm/internal/kubeproxy"
)

const (
	// stopTimeout limits the orderly end of a child.
	stopTimeout = 2 * time.Second
	// expiryInterval is the pause between two looks at the expiry of leadership, which the child
	// must know.
	expiryInterval = 250 * time.Millisecond
	// exitGrace is the time between the end of the connection and that of a child that exits.
	exitGrace = time.Second
)

// errNotBuilt ends a child whose provider was not built.
var errNotBuilt = errors.New("provider was not built")

// Options describe the child.
type Options struct {
	// Name is the name of the provider: one that the program gives to [Main]. Required.
	Name string

	// Path is the program of the child. Default: the program of this process.
	Path string

	// Args are the arguments of the child.
	Args []string

	// Env is the whole environment of the child, as "key=value". Nil: that of this process.
	Env []string
}

// Provider returns a provider whose code runs in a child process. Each term starts a child.
func Provider(o Options) ccm.Provider {
	return ccm.Provider{Name: o.Name, New: o.start}
}

func (o Options) start(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
	p, err := o.spawn(env)
	if err != nil {
		return nil, err
	}
	p.running.Go(p.receive)
	p.running.Go(p.pushExpiry)
	supervised, abandon := context.WithCancelCause(ctx)
	context.AfterFunc(ctx, func() { abandon(nil) })
	go p.supervise(supervised)
	config := env.Config.ClientConnection
	built, err := p.request(ctx, message{Kind: build, Time: p.validUntil(), Env: &environment{
		Protocol: protocol, Provider: o.Name,
		ClusterName: env.ClusterName, ClusterCIDR: env.Config.ClusterCIDR,
		ConfigFile: env.ConfigFile, ConfigStrict: env.ConfigStrict, UserAgents: env.UserAgents,
		Identity: env.Identity, Manager: env.Manager, Term: env.Term,
		Server: p.proxy.Address(), Token: p.proxy.Token(),
		QPS: config.QPS, Burst: int(config.Burst), ContentType: config.ContentType,
	}})
	if err != nil {
		abandon(errNotBuilt)
		<-p.ended
		return nil, err
	}
	c := &cloud{parent: p, name: built.Text, hasClusterID: built.Yes}
	if slices.Contains(built.Names, "PVLabeler") {
		return labelingCloud{c}, nil
	}
	return c, nil
}

// spawn starts the child and all that it needs.
func (o Options) spawn(env ccm.ProviderEnv) (_ *parent, err error) {
	path := o.Path
	if path == "" {
		if path, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find the program of this process: %w", err)
		}
	}
	name := fmt.Sprintf("process of provider %q", o.Name)
	done, err := env.Leadership.Begin(name)
	if err != nil {
		return nil, err
	}
	proxy, err := kubeproxy.Start(env.Clients.Config, env.Logger)
	if err != nil {
		done()
		return nil, err
	}
	conn, theirs, err := socketPair()
	if err != nil {
		proxy.Close()
		done()
		return nil, err
	}
	environ := o.Env
	if environ == nil {
		environ = os.Environ()
	}
	child, err := childprocess.Start(childprocess.Spec{
		Name: name, Path: path, Args: o.Args, Env: append(slices.Clone(environ), variable+"=1"),
		Files: []*os.File{theirs}, Log: env.Logger,
	})
	_ = theirs.Close()
	if err != nil {
		_ = conn.Close()
		proxy.Close()
		done()
		return nil, err
	}
	p := &parent{
		env: env, proxy: proxy, conn: conn, link: newLink(conn), child: child, done: done,
		broken: make(chan struct{}), ended: make(chan struct{}), pending: map[uint64]chan message{},
	}
	p.memory = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "fxccm_provider_process_resident_memory_bytes",
		Help:        "Resident memory of the process of a provider.",
		ConstLabels: prometheus.Labels{"manager": env.Manager, "provider": o.Name},
	}, child.Memory)
	if env.Registerer != nil {
		if err := env.Registerer.Register(p.memory); err != nil {
			env.Logger.Error(err, "Memory of the provider's process is not measured")
		}
	}
	return p, nil
}

// parent is the host's side of one child.
type parent struct {
	env    ccm.ProviderEnv
	proxy  *kubeproxy.Proxy
	conn   net.Conn
	link   *link
	child  *childprocess.Process
	memory prometheus.Collector
	// done tells the term that the child cannot act any more.
	done func()

	// running are the goroutines that end with the connection.
	running sync.WaitGroup
	// broken is closed when the connection has ended, ended when the child and all else have.
	broken, ended chan struct{}

	mu      sync.Mutex
	last    uint64
	pending map[uint64]chan message // nil when the child has ended
}

// supervise ends the child with the term, and the term with the child.
func (p *parent) supervise(ctx context.Context) {
	defer p.cleanUp()
	select {
	case <-p.child.Done():
	case <-p.broken:
		p.awaitExit(nil, exitGrace)
	case <-p.env.Leadership.Lost:
		p.awaitExit(nil, 0)
		return
	case <-ctx.Done():
		cause := context.Cause(ctx)
		if errors.Is(cause, ccm.ErrLeadershipLost) || errors.Is(cause, errNotBuilt) {
			p.awaitExit(nil, 0)
			return
		}
		p.running.Go(func() { _ = p.link.send(message{Kind: stop}) })
		p.awaitExit(p.env.Leadership.Lost, stopTimeout)
		return
	}
	if ctx.Err() == nil {
		p.env.Fail(p.child.Err())
	}
}

// awaitExit waits for the end of the child, and kills it after the grace or when lost is closed.
func (p *parent) awaitExit(lost <-chan struct{}, grace time.Duration) {
	limit := time.NewTimer(grace)
	defer limit.Stop()
	select {
	case <-p.child.Done():
		return
	case <-lost:
	case <-limit.C:
	}
	p.child.Kill()
	<-p.child.Done()
}

func (p *parent) cleanUp() {
	defer close(p.ended)
	_ = p.conn.Close()
	p.running.Wait()
	p.proxy.Close()
	if p.env.Registerer != nil {
		p.env.Registerer.Unregister(p.memory)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, waiting := range p.pending {
		close(waiting)
	}
	p.pending = nil
	p.done()
}

// receive passes on what the child sends.
func (p *parent) receive() {
	defer close(p.broken)
	for {
		m, err := p.link.receive()
		if err != nil {
			select {
			case <-p.child.Done():
			default:
				p.env.Logger.V(2).Info("Connection to the provider's process ended",
					"reason", err.Error())
			}
			return
		}
		switch m.Kind {
		case answer:
			p.mu.Lock()
			waiting := p.pending[m.ID]
			delete(p.pending, m.ID)
			p.mu.Unlock()
			if waiting != nil {
				waiting <- m
			}
		case trouble:
			p.env.ReportTrouble(m.Subject, m.Err.Decode())
		}
	}
}

func (p *parent) validUntil() time.Time {
	if p.env.Leadership.ValidUntil == nil {
		return time.Time{}
	}
	return p.env.Leadership.ValidUntil()
}

// pushExpiry tells the child how long it may act, so that it ends when this process is frozen.
func (p *parent) pushExpiry() {
	if p.env.Leadership.ValidUntil == nil {
		return
	}
	ticker := time.NewTicker(expiryInterval)
	defer ticker.Stop()
	var last time.Time
	for {
		if until := p.validUntil(); !until.Equal(last) {
			last = until
			if p.link.send(message{Kind: expiry, Time: until}) != nil {
				return
			}
		}
		select {
		case <-ticker.C:
		case <-p.broken:
			return
		}
	}
}

// request sends a message and waits for its answer. When ctx ends the child is told, and the wait
// continues until the child answers or is dead: a provider that ignores its context may still act.
func (p *parent) request(ctx context.Context, m message) (results, error) {
	waiting := make(chan message, 1)
	p.mu.Lock()
	if p.pending == nil {
		p.mu.Unlock()
		return results{}, p.child.Err()
	}
	p.last++
	m.ID = p.last
	p.pending[m.ID] = waiting
	p.mu.Unlock()
	// An error is that of a connection that has ended, and so will the child.
	_ = p.link.send(m)
	select {
	case got, ok := <-waiting:
		return p.unpack(got, ok)
	case <-ctx.Done():
	}
	_ = p.link.send(message{Kind: cancel, ID: m.ID})
	got, ok := <-waiting
	return p.unpack(got, ok)
}

func (p *parent) unpack(got message, ok bool) (results, error) {
	if !ok {
		return results{}, p.child.Err()
	}
	return got.Results, got.Err.Decode()
}

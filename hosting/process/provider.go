package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/hosting/internal/termprocess"
	"github.com/fxccm/fxccm/internal/kubeproxy"
	"github.com/fxccm/fxccm/internal/requestlog"
)

const (
	// stopTimeout limits the orderly end of a child.
	stopTimeout = 2 * time.Second
	// brokenTimeout limits the time between the end of the connection and that of the child.
	brokenTimeout = time.Second
	// expiryInterval is the pause between two checks of the expiry of leadership, which the child
	// must know.
	expiryInterval = 250 * time.Millisecond
)

// Options describe the child.
type Options struct {
	// Name is the name of the provider: one that the program gives to [Main]. Required.
	Name string

	// Path is the program of the child. Default: the program of this process.
	Path string

	// Args are the arguments of the child.
	Args []string

	// Env is the whole environment of the child, as "key=value". Nil: that of this process, without
	// the variables by which a client finds the API server of a Pod's cluster.
	Env []string
}

// Provider returns a provider whose code runs in a child process. Each term starts a child.
func Provider(o Options) ccm.Provider {
	return ccm.Provider{
		Name: o.Name, New: o.start,
		Validate: func(ccm.Config) error { return o.check(len(hasMain) > 0) },
	}
}

// check refuses a child that would be a second copy of this program, with an election of its own.
func (o Options) check(hasMain bool) error {
	if o.Path == "" && !hasMain {
		return errors.New("the program does not call process.Main, so that its child would be " +
			"a second copy of it; call process.Main first in main")
	}
	return nil
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
	go func() {
		defer close(p.ended)
		p.Supervise(termprocess.Supervision{
			Context: supervised,
			Stop: func() {
				p.running.Go(func() { _ = p.link.send(message{Kind: stop}) })
			},
			StopTimeout:   stopTimeout,
			Broken:        p.broken,
			BrokenTimeout: brokenTimeout,
			CleanUp:       p.cleanUp,
		})
	}()
	isBuilt := false
	defer func() {
		// This includes a panic of the provider.
		if !isBuilt {
			abandon(termprocess.ErrAbandoned)
			<-p.ended
		}
	}()
	built, err := p.request(ctx, message{Kind: build, Time: p.validUntil(), Env: &environment{
		Protocol: protocol, Provider: o.Name, Config: env.Config,
		Identity: env.Identity, Manager: env.Manager, Owner: env.Owner, Term: env.Term,
		Server: p.Proxy.Address(), Token: p.Proxy.Token(), Verbosity: verbosity(env.Logger),
		NoInformers: env.Informers == nil, RequireOwnerMark: env.RequireOwnerMark,
	}})
	if err != nil {
		return nil, err
	}
	isBuilt = true
	return newCloud(p, built), nil
}

// spawn starts the child.
func (o Options) spawn(env ccm.ProviderEnv) (*parent, error) {
	if os.Getenv(variable) != "" {
		// Otherwise each child would start a child.
		return nil, errors.New("this process is the child of a provider, " +
			"and its main function has not begun with a call of process.Main")
	}
	path := o.Path
	if path == "" {
		var err error
		if path, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find the program of this process: %w", err)
		}
	}
	environ := o.Env
	if environ == nil {
		environ = termprocess.Environment()
	}
	conn, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	process, err := termprocess.Start(env, termprocess.Spec{
		Provider: o.Name, Name: fmt.Sprintf("process of provider %q", o.Name),
		Path: path, Args: o.Args, Env: append(slices.Clone(environ), variable+"=1"),
		Files: func(*kubeproxy.Proxy) ([]*os.File, error) { return []*os.File{theirs}, nil },
	})
	_ = theirs.Close()
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &parent{
		Process: process, env: env, conn: conn, link: newLink(conn, maxFromHost, maxFromChild),
		broken: make(chan struct{}), ended: make(chan struct{}), pending: map[uint64]chan message{},
	}, nil
}

// verbosity is the most verbose level that a logger logs, without those at which the clients of the
// child log the bodies of requests.
func verbosity(log logr.Logger) int {
	level := 0
	for level < requestlog.MaxVerbosity && log.V(level+1).Enabled() {
		level++
	}
	return level
}

// parent is the host's side of one child.
type parent struct {
	*termprocess.Process
	env  ccm.ProviderEnv
	conn net.Conn
	link *link

	// running are the goroutines that end with the connection.
	running sync.WaitGroup
	// broken is closed when the connection has ended, ended when the child and all goroutines have.
	broken, ended chan struct{}

	mu      sync.Mutex
	last    uint64
	pending map[uint64]chan message // nil when the child has ended
}

// cleanUp ends the waits for the child, which is dead.
func (p *parent) cleanUp() {
	_ = p.conn.Close()
	p.running.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, waiting := range p.pending {
		close(waiting)
	}
	p.pending = nil
}

// receive handles the messages of the child.
func (p *parent) receive() {
	defer close(p.broken)
	for {
		m, err := p.link.receive()
		if err != nil {
			p.killUnlessClosed("receive a message from it", err)
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

// killUnlessClosed kills the child after an error of the connection. If the connection is closed,
// the child has ended or is about to, with a cause of its own.
func (p *parent) killUnlessClosed(what string, err error) {
	_, isClosed := errors.AsType[*net.OpError](err)
	if isClosed || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		p.env.Logger.V(2).Info("Connection to the provider's process ended", "reason", err.Error())
		_ = p.conn.Close() // also if the child has closed one direction only
		return
	}
	p.Kill(fmt.Errorf("%s: %w", what, err))
}

func (p *parent) validUntil() time.Time {
	if p.env.Leadership.ValidUntil == nil {
		return time.Time{}
	}
	return p.env.Leadership.ValidUntil()
}

// pushExpiry sends the expiry of leadership to the child, so that the child ends when this process
// is frozen.
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

// request sends a message and waits for its answer. When ctx ends it cancels the call in the child,
// and waits until the child answers or is dead: a provider that ignores its context may still act.
func (p *parent) request(ctx context.Context, m message) (results, error) {
	waiting := make(chan message, 1)
	p.mu.Lock()
	if p.pending == nil {
		p.mu.Unlock()
		return results{}, p.Err()
	}
	p.last++
	m.ID = p.last
	p.pending[m.ID] = waiting
	p.mu.Unlock()
	if err := p.link.send(m); err != nil {
		// The message may be incomplete, so no other can follow.
		p.killUnlessClosed("send a message to it", err)
	}
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
		return results{}, p.Err()
	}
	if got.Panic != nil {
		// The guard of the term reports panics of a provider.
		panic(*got.Panic)
	}
	return got.Results, got.Err.Decode()
}

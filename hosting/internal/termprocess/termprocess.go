// Package termprocess runs a process for one term. The process reaches the API server through the
// term's fence, the term ends with the process, and the process is dead when the term is over.
package termprocess

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/internal/childprocess"
	"github.com/fxccm/fxccm/internal/kubeproxy"
	"github.com/fxccm/fxccm/internal/metrics"
)

// ErrAbandoned as the cause of [Supervision].Context kills the process at once.
var ErrAbandoned = errors.New("provider was not built")

// errBroken is the cause for killing a process that has closed its connection, and does not end.
var errBroken = errors.New("its connection to the host has ended")

// Spec describes a process.
type Spec struct {
	// Provider is the name of the provider, and Name is the name of the process in errors.
	Provider, Name string

	Path string
	Args []string
	// Env is the whole environment; see [Environment].
	Env []string

	// UsesKubeconfig serves the API server with TLS, which a kubeconfig with a token needs.
	UsesKubeconfig bool

	// Files returns the files of the process from descriptor 3. Start closes them.
	Files func(*kubeproxy.Proxy) ([]*os.File, error)
}

// Environment returns the environment of this process, without the variables by which client-go
// finds the API server of a Pod's cluster: such clients would bypass the fence.
func Environment() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "KUBERNETES_SERVICE_HOST=") ||
			strings.HasPrefix(entry, "KUBERNETES_SERVICE_PORT=")
	})
}

// A Process is the process of a term. [Process.Supervise] must be called.
type Process struct {
	*childprocess.Process
	// Proxy serves the API server to the process.
	Proxy *kubeproxy.Proxy

	env    ccm.ProviderEnv
	memory prometheus.Collector
	// done reports to the term that the process can no longer act.
	done func()
}

// Start starts a process for the term.
func Start(env ccm.ProviderEnv, spec Spec) (_ *Process, err error) {
	p := &Process{env: env}
	if p.done, err = env.Leadership.Begin(spec.Name); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.done()
		}
	}()
	serve := kubeproxy.Start
	if spec.UsesKubeconfig {
		serve = kubeproxy.StartTLS
	}
	if p.Proxy, err = serve(env.Clients.Config, env.Logger); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.Proxy.Close()
		}
	}()
	files, err := spec.Files(p.Proxy)
	if err != nil {
		return nil, err
	}
	p.Process, err = childprocess.Start(childprocess.Spec{
		Name: spec.Name, Path: spec.Path, Args: spec.Args, Env: spec.Env, Files: files,
		Log: env.Logger,
	})
	for _, file := range files {
		_ = file.Close()
	}
	if err != nil {
		return nil, err
	}
	p.measure(spec.Provider)
	return p, nil
}

// measure adds the memory of the process to the metrics.
func (p *Process) measure(provider string) {
	if p.env.Registerer == nil {
		return
	}
	metric := metrics.ProcessMemory()
	p.memory = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: metric.Name, Help: metric.Help,
		ConstLabels: prometheus.Labels{"manager": p.env.Manager, "provider": provider},
	}, p.Memory)
	if err := p.env.Registerer.Register(p.memory); err != nil {
		p.memory = nil
		p.env.Logger.Error(err, "Memory of the provider's process is not measured")
	}
}

// Supervision defines how a process ends.
type Supervision struct {
	// Context is the term's; see also [ErrAbandoned].
	Context context.Context
	// Stop requests the orderly end of the process. It does not block.
	Stop func()
	// StopTimeout limits the orderly end. The process is killed after it.
	StopTimeout time.Duration
	// Broken is closed when the connection to the process has ended, and the process should end.
	// Nil: never.
	Broken <-chan struct{}
	// BrokenTimeout limits the end after that. The process is killed after it.
	BrokenTimeout time.Duration
	// CleanUp is called when the process is dead, before the term can end. Optional.
	CleanUp func()
}

// Supervise ends the process with the term, and the term with the process. It returns when the
// process is dead.
func (p *Process) Supervise(s Supervision) {
	defer p.cleanUp(s.CleanUp)
	select {
	case <-p.Done():
	case <-s.Broken:
		if !p.awaitExit(s.BrokenTimeout, errBroken) {
			return
		}
	case <-p.env.Leadership.Lost:
		p.kill(nil)
		return
	case <-s.Context.Done():
		cause := context.Cause(s.Context)
		if errors.Is(cause, election.ErrLost) || errors.Is(cause, ErrAbandoned) {
			p.kill(nil)
			return
		}
		s.Stop()
		p.awaitExit(s.StopTimeout, nil)
		return
	}
	if s.Context.Err() == nil {
		p.env.Fail(p.Err())
	}
}

// awaitExit waits for the end of the process. It kills the process with the cause after the grace,
// or when leadership is lost, and reports whether the leadership has lasted.
func (p *Process) awaitExit(grace time.Duration, cause error) (hasLed bool) {
	limit := time.NewTimer(grace)
	defer limit.Stop()
	select {
	case <-p.Done():
		return true
	case <-p.env.Leadership.Lost:
		p.kill(nil)
		return false
	case <-limit.C:
		p.kill(cause)
		return true
	}
}

// kill ends the process and waits for its end.
func (p *Process) kill(cause error) {
	p.Kill(cause)
	<-p.Done()
}

func (p *Process) cleanUp(own func()) {
	defer p.done()
	if own != nil {
		own()
	}
	p.Proxy.Close()
	if p.memory != nil {
		p.env.Registerer.Unregister(p.memory)
	}
}

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/fxccm/fxccm/provider/fake"
)

// stopGrace is how long a candidate has to end when it is asked to.
const stopGrace = 30 * time.Second

// errLimit is the cause that a trial's context ends with when it takes too long.
var errLimit = errors.New("the limit of a trial was reached")

// A trial is one measurement: an empty cluster, an empty cloud, and the processes that are started
// in it.
type trial struct {
	bench     *bench
	cloud     *fake.Cloud
	fail      context.CancelCauseFunc
	processes []*process
	// title says what is measured.
	title string
	// after is called, if it is set, when the processes have ended.
	after func() error
}

// trial resets everything, runs body, and ends what body has started. The context that body gets
// ends when a process dies, or with errLimit.
func (b *bench) trial(
	ctx context.Context, latency time.Duration, body func(context.Context, *trial) error,
) error {
	return b.trialWithin(ctx, b.settings.limit, latency, body)
}

// trialWithin is a trial with a limit of its own.
func (b *bench) trialWithin(
	ctx context.Context, limit, latency time.Duration, body func(context.Context, *trial) error,
) (err error) {
	if err := b.cluster.reset(ctx); err != nil {
		return err
	}
	t := &trial{bench: b, cloud: b.cloud.renew(latency)}
	// The cloud is served from here; the garbage of one trial is not for the next to clean up.
	runtime.GC()
	limited, cancel := context.WithTimeoutCause(ctx, limit, errLimit)
	defer cancel()
	within, fail := context.WithCancelCause(limited)
	t.fail = fail
	defer fail(nil)
	defer func() { err = errors.Join(err, t.end(ctx)) }()
	return body(within, t)
}

// start starts a candidate.
func (t *trial) start(c candidate) (*replica, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	b := t.bench
	name := fmt.Sprintf("%s, replica %d", c.name, len(t.processes)+1)
	args := append([]string{
		"--kubeconfig=" + b.kubeconfig,
		// In a cluster both are the account's own, without a word about it.
		"--authentication-kubeconfig=" + b.kubeconfig,
		"--authorization-kubeconfig=" + b.kubeconfig,
		"--cloud-provider=fake",
		"--cloud-config=" + b.cloudConfig,
		// Fake nodes have no pod ranges, so there are no routes to make.
		"--configure-cloud-routes=false",
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
	}, c.flags...)
	p, err := t.startProgram(name, c.program, args...)
	if err != nil {
		return nil, err
	}
	return &replica{process: p, port: port}, nil
}

// lead calls start, which starts a process, and returns when the Lease has a holder.
func (t *trial) lead(ctx context.Context, start func() error) (time.Time, error) {
	lease, err := t.bench.cluster.watchLease(ctx, isHeld)
	if err != nil {
		return time.Time{}, err
	}
	if err := start(); err != nil {
		return time.Time{}, err
	}
	at, err := lease.wait()
	if err != nil {
		return at, fmt.Errorf("wait for the lease to be held: %w", err)
	}
	return at, nil
}

// startProgram starts a program that ends with the trial.
func (t *trial) startProgram(name, program string, args ...string) (*process, error) {
	b := t.bench
	log := filepath.Join(b.dir, fmt.Sprintf("%s-%d.log", program, len(t.processes)+1))
	p, err := startProcess(name, filepath.Join(b.settings.programs, program), args, log, t.fail)
	if err != nil {
		return nil, err
	}
	t.processes = append(t.processes, p)
	return p, nil
}

// end ends all processes; when ctx, that of the whole run, is over already, without asking.
func (t *trial) end(ctx context.Context) (err error) {
	grace := stopGrace
	if ctx.Err() != nil {
		grace = 0
	}
	for _, p := range t.processes {
		err = errors.Join(err, p.stop(grace))
	}
	if t.after != nil {
		err = errors.Join(err, t.after())
	}
	return err
}

// A replica is a candidate's process.
type replica struct {
	*process
	port int
}

// pollInterval is how often a replica is asked whether it is there.
const pollInterval = 25 * time.Millisecond

// awaitServing waits until the replica answers on its secure port.
func (r *replica) awaitServing(ctx context.Context) error {
	// The certificate is one that the process has just signed for itself.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet,
			fmt.Sprintf("https://127.0.0.1:%d/healthz", r.port), nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			return nil
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return fmt.Errorf("wait for %s to serve: %w", r.name, context.Cause(ctx))
		}
	}
}

// Ports are taken from below those that the system hands out by itself (from 32768 on Linux):
// another process could take one of those before the process under test binds it.
const (
	firstPort    = 20000
	lastPort     = 31999
	portAttempts = 100
)

// freePort finds an unused port.
func freePort() (int, error) {
	var last error
	for range portAttempts {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, fmt.Errorf("give back port %d: %w", port, err)
		}
		return port, nil
	}
	return 0, fmt.Errorf("find a free port: %w", last)
}

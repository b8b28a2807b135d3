package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"runtime"
	"time"

	"github.com/fxccm/fxccm/internal/freeport"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/attempt"
	"github.com/fxccm/fxccm/test/internal/program"
)

// stopGrace is how long a candidate has to end when it is asked to.
const stopGrace = 30 * time.Second

// pollInterval is the time between two looks at what cannot be watched.
const pollInterval = 25 * time.Millisecond

// errLimit is the cause that a trial's context ends with when it takes too long.
var errLimit = errors.New("the limit of a trial was reached")

// A trial is one measurement: an empty cluster, an empty cloud, and the processes that are started
// in it. What fails ends it; so does a process that dies.
type trial struct {
	*attempt.T
	*bench
	cloud *fake.Cloud
	// title says what is measured.
	title string
	// started is how many processes were.
	started int
}

// trial resets everything, runs body, and ends what body has started. If that fails, the benchmark
// ends.
func (b *bench) trial(title string, latency time.Duration, body func(*trial)) {
	b.run.Check(b.trialWithin(b.limit, title, latency, body))
}

// trialWithin is a trial with a limit of its own. Its error is one of the trial.
func (b *bench) trialWithin(
	limit time.Duration, title string, latency time.Duration, body func(*trial),
) error {
	ctx, cancel := context.WithTimeoutCause(b.run.Context(), limit, errLimit)
	defer cancel()
	err := attempt.Run(ctx, func(a *attempt.T) {
		t := &trial{T: a, bench: b, title: title, cloud: b.cloud.renew(latency)}
		t.reset()
		// The cloud is served from here; the garbage of one trial is not for the next to clean up.
		runtime.GC()
		body(t)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", title, err)
	}
	return nil
}

// update tells how far the trial is.
func (t *trial) update(format string, args ...any) {
	t.progress.update(t.title + ": " + fmt.Sprintf(format, args...))
}

// until asks again and again whether it is so.
func (t *trial) until(isSo func() bool) {
	for !isSo() {
		t.pause(pollInterval)
	}
}

func (t *trial) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Check(context.Cause(t.Context()))
	}
}

// letPass waits, and says what for.
func (t *trial) letPass(d time.Duration, what string) {
	for ; d > 0; d -= time.Second {
		t.update("%s for another %s", what, d)
		t.pause(min(d, time.Second))
	}
}

// A process is one under test. It ends with its trial.
type process struct {
	*program.Process
	name string
	// url is where it serves.
	url string
	// parts are the clusters that it serves in a fleet.
	parts []*part
}

// startProgram starts a program of the benchmark that serves at url.
func (t *trial) startProgram(name, file, url string, args ...string) *process {
	t.started++
	log := filepath.Join(t.dir, fmt.Sprintf("%s-%d.log", file, t.started))
	running, err := program.Start(filepath.Join(t.programs, file), log, args...)
	t.Check(err)
	p := &process{Process: running, name: name, url: url}
	go func() {
		<-p.Exited
		if err := p.Trouble(); err != nil {
			t.Abort(fmt.Errorf("%s: %w", name, err))
		}
	}()
	t.Cleanup(func() {
		if t.run.Context().Err() != nil {
			t.Check(p.Kill()) // without asking: the whole benchmark is interrupted
		}
		t.end(p)
	})
	return p
}

// end asks a process to end and waits until it has.
func (t *trial) end(p *process) {
	if err := p.End(stopGrace); err != nil {
		t.Fatalf("%s: %w", p.name, err)
	}
}

// start starts a candidate. Of flags that are given twice the last one counts.
func (t *trial) start(c candidate) *process {
	port := t.freePort()
	return t.startProgram(fmt.Sprintf("%s, replica %d", c.name, t.started+1), c.program,
		fmt.Sprintf("https://127.0.0.1:%d", port), append([]string{
			"--kubeconfig=" + t.kubeconfig,
			// In a cluster both are the account's own, without a word about it.
			"--authentication-kubeconfig=" + t.kubeconfig,
			"--authorization-kubeconfig=" + t.kubeconfig,
			"--cloud-provider=fake",
			"--cloud-config=" + t.cloudConfig,
			// Fake nodes have no pod ranges, so there are no routes to make.
			"--configure-cloud-routes=false",
			"--bind-address=127.0.0.1",
			fmt.Sprintf("--secure-port=%d", port),
		}, c.flags...)...)
}

func (t *trial) freePort() int {
	port, err := freeport.Choose()
	t.Check(err)
	t.Cleanup(func() { t.Check(port.Close()) })
	return port.Number
}

// lead starts a candidate, and returns when the Lease has a holder.
func (t *trial) lead(c candidate) (p *process, at time.Time) {
	lease := t.watchLease("holder of the Lease", isHeld)
	p = t.start(c)
	return p, lease.wait()
}

// get asks a process for a path, with the administrator's certificate. The answer must be closed.
func (t *trial) get(p *process, path string) (io.ReadCloser, error) {
	admin := t.plane.RESTConfig()
	certificate, err := tls.X509KeyPair(admin.CertData, admin.KeyData)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{
			// The server's certificate is one that the process has signed for itself.
			InsecureSkipVerify: true,
			Certificates:       []tls.Certificate{certificate},
		},
		DisableKeepAlives: true,
	}}).Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer func() { _ = resp.Body.Close() }()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return nil, fmt.Errorf("%s answers %s: %s", p.name, resp.Status, text)
	}
	return resp.Body, nil
}

// isServing tells whether a process answers on its port.
func (t *trial) isServing(p *process) bool {
	body, err := t.get(p, "/healthz")
	if err != nil {
		return false
	}
	_ = body.Close()
	return true
}

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fxccm/fxccm/internal/authority"
	"github.com/fxccm/fxccm/internal/freeport"
	"github.com/fxccm/fxccm/internal/startturn"
)

// etcdGrace is how long etcd may take to stop: while kube-apiserver is connected, etcd waits five
// seconds or longer for it to disconnect. Its data survive a kill.
const etcdGrace = time.Second

var errStopped = errors.New("the control plane has been stopped")

// ControlPlane is a running etcd with a kube-apiserver. Its methods are safe for concurrent use;
// those that start or stop a process run one at a time.
type ControlPlane struct {
	opts     Options
	binaries Binaries
	// dir holds etcd's data, certificates and configuration.
	dir, logDir string
	pki         *pki
	files       pkiFiles
	admin       authority.Pair
	audit       *AuditLog

	// The ports do not change after Start has returned.
	etcdPort, apiPort freeport.Port

	mu              sync.Mutex
	etcd, apiServer *process
	stopped         bool
}

// Start starts etcd and kube-apiserver and returns when the API server is ready: RBAC with the
// default roles authorizes requests, the system namespaces exist, and Services can be created. ctx
// and [Options.StartTimeout] limit only the start, not the life of the control plane, which the
// caller ends with [ControlPlane.Stop]. As many control planes as the machine has cores start at
// once, over all processes of the user; the others wait, which does not count for the timeout.
//
// The error names the process that failed, with the end of its log; both processes are stopped
// then. It wraps [ErrNoBinaries] if a binary is missing.
func Start(ctx context.Context, opts Options) (*ControlPlane, error) {
	c, err := prepare(opts)
	if err != nil {
		return nil, fmt.Errorf("start a control plane: %w", err)
	}
	if err := c.startInTurn(ctx); err != nil {
		// ctx may have ended the start, so discard does not use it.
		return nil, errors.Join(fmt.Errorf("start a control plane: %w", err), c.discard())
	}
	return c, nil
}

// startInTurn starts both processes while few others start.
func (c *ControlPlane) startInTurn(ctx context.Context) error {
	timeout, err := c.opts.startTimeout()
	if err != nil {
		return err
	}
	end, err := startturn.Take(ctx)
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return c.start(ctx)
}

// prepare creates the folders and files, before a process starts.
func prepare(opts Options) (c *ControlPlane, err error) {
	c = &ControlPlane{opts: opts}
	if c.binaries, err = FindBinaries(); err != nil {
		return nil, err
	}
	if c.pki, err = newPKI(); err != nil {
		return nil, err
	}
	if c.admin, err = c.pki.issueUser(adminUser, adminGroup); err != nil {
		return nil, err
	}
	if c.dir, err = os.MkdirTemp("", "fxccm-controlplane-"); err != nil {
		return nil, fmt.Errorf("make a folder for the control plane: %w", err)
	}
	if err := c.fillDir(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(c.dir))
	}
	return c, nil
}

func (c *ControlPlane) fillDir() (err error) {
	if c.files, err = c.pki.write(c.dir); err != nil {
		return err
	}
	c.logDir = c.opts.LogDir
	if c.logDir == "" {
		c.logDir = filepath.Join(c.dir, "logs")
	}
	if err := os.MkdirAll(c.logDir, 0o700); err != nil {
		return fmt.Errorf("make the folder of the logs: %w", err)
	}
	if c.opts.DisableAudit {
		c.audit = &AuditLog{}
		return nil
	}
	if err := os.WriteFile(c.auditPolicy(), []byte(auditPolicy), 0o600); err != nil {
		return fmt.Errorf("write the audit policy: %w", err)
	}
	c.audit = &AuditLog{path: filepath.Join(c.logDir, "audit.log")}
	return nil
}

// start starts both processes on the first free ports that they can bind.
func (c *ControlPlane) start(ctx context.Context) error {
	if err := onFreePort(&c.etcdPort, func() error { return c.startEtcd(ctx) }); err != nil {
		return err
	}
	return onFreePort(&c.apiPort, func() error { return c.startAPIServer(ctx) })
}

func onFreePort(port *freeport.Port, start func() error) error {
	for attempt := 1; ; attempt++ {
		free, err := freeport.Choose()
		if err != nil {
			return err
		}
		*port = free
		if err = start(); err == nil {
			return nil
		}
		_ = port.Close()
		if attempt == bindAttempts || !errors.Is(err, errPortTaken) {
			return err
		}
	}
}

func (c *ControlPlane) startEtcd(ctx context.Context) error {
	if c.etcd.running() {
		return nil
	}
	check, err := c.etcdCheck()
	if err != nil {
		return err
	}
	c.etcd, err = startReady(ctx, "etcd", c.binaries.Etcd, c.etcdArgs(), c.logFile("etcd"), check)
	return err
}

func (c *ControlPlane) startAPIServer(ctx context.Context) error {
	if c.apiServer.running() {
		return nil
	}
	if err := c.audit.repair(); err != nil {
		return err
	}
	check, done, err := c.apiServerCheck()
	if err != nil {
		return err
	}
	defer done()
	c.apiServer, err = startReady(ctx, "kube-apiserver", c.binaries.APIServer, c.apiServerArgs(),
		c.logFile("kube-apiserver"), check)
	return err
}

// Stop ends both processes and removes their data. The logs stay if [Options.LogDir] is set. A
// process that has not ended after ten seconds, or when ctx ends, is killed. If a process had
// already ended by itself, Stop returns an error with the end of its log. A second Stop does
// nothing.
func (c *ControlPlane) Stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil
	}
	c.stopped = true
	// The API server stops first, because it cannot stop gracefully without etcd.
	err := errors.Join(c.endAPIServer(ctx), c.endEtcd(ctx), c.etcdPort.Close(), c.apiPort.Close(),
		os.RemoveAll(c.dir))
	if err != nil {
		return fmt.Errorf("stop the control plane: %w", err)
	}
	return nil
}

// discard ends a control plane that could not be started.
func (c *ControlPlane) discard() error {
	_, _ = c.etcdPort.Close(), c.apiPort.Close()
	return errors.Join(c.etcd.kill(), os.RemoveAll(c.dir))
}

func (c *ControlPlane) endAPIServer(ctx context.Context) error {
	p := c.apiServer
	c.apiServer = nil
	return p.stop(ctx, stopTimeout)
}

func (c *ControlPlane) endEtcd(ctx context.Context) error {
	p := c.etcd
	c.etcd = nil
	return p.stop(ctx, etcdGrace)
}

// StopAPIServer ends kube-apiserver and leaves etcd with the data. Clients see refused connections.
// It does nothing if the server is stopped. A server that ends slowly is killed as by
// [ControlPlane.Stop].
func (c *ControlPlane) StopAPIServer(ctx context.Context) error {
	return c.withProcesses(func() error { return c.endAPIServer(ctx) })
}

// StartAPIServer starts kube-apiserver again, on the same port and with the same data, and returns
// when it is ready. It does nothing if the server runs. It also starts a server that a test has
// killed.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	return c.withProcesses(func() error {
		timeout, err := c.opts.startTimeout()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return c.startAPIServer(ctx)
	})
}

func (c *ControlPlane) withProcesses(do func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return errStopped
	}
	return do()
}

// APIServerPID is the process ID of kube-apiserver, for a test that freezes or kills it; 0 if it
// does not run.
func (c *ControlPlane) APIServerPID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.apiServer.pid()
}

// EtcdPID is the process ID of etcd; 0 if it does not run.
func (c *ControlPlane) EtcdPID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.etcd.pid()
}

// Audit is the log of all requests.
func (c *ControlPlane) Audit() *AuditLog { return c.audit }

func (c *ControlPlane) auditPolicy() string { return filepath.Join(c.dir, "audit-policy.yaml") }

func (c *ControlPlane) logFile(name string) string { return filepath.Join(c.logDir, name+".log") }

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fxccm/fxccm/test/internal/program"
)

// stopLimit is longer than the drain of the binary; a replica that takes longer is killed.
const stopLimit = 30 * time.Second

// A replica is an example binary as a process. It can be started again after it has ended. Its
// methods are safe for concurrent use.
type replica struct {
	name   string
	binary string
	args   []string
	port   int
	log    string
	// readyURL is its readiness check.
	readyURL string
	// process is the last started process; nil before the first start.
	process atomic.Pointer[program.Process]
}

// start starts the process; its output is appended to the log.
func (r *replica) start() error {
	p, err := program.Start(r.binary, r.log, r.args...)
	if err != nil {
		return fmt.Errorf("start %s: %w", r.name, err)
	}
	r.process.Store(p)
	return nil
}

// stop signals the process to end, waits until it has, and returns its exit code.
func (r *replica) stop() (code int, err error) {
	p := r.process.Load()
	if err := p.End(stopLimit); err != nil {
		return 0, fmt.Errorf("%s: %w", r.name, err)
	}
	return p.ExitCode(), nil
}

// pid is 0 if the process does not run.
func (r *replica) pid() int {
	if p := r.process.Load(); p != nil && !p.HasExited() {
		return p.PID()
	}
	return 0
}

// trouble returns an error if the process has ended by itself.
func (r *replica) trouble() error {
	p := r.process.Load()
	if p == nil || p.IsAsked() || !p.HasExited() {
		return nil
	}
	return fmt.Errorf("%s has ended by itself with exit code %d", r.name, p.ExitCode())
}

// state is the process's state in the table. leads means that the lease has its name.
func (r *replica) state(leads bool) string {
	p := r.process.Load()
	switch {
	case p == nil:
		return "not started"
	case p.HasExited() && p.ExitCode() == 0:
		return "stopped, exit code 0"
	case p.HasExited():
		return fmt.Sprintf("ended, exit code %d", p.ExitCode())
	case p.IsAsked():
		return "stopping"
	case leads:
		return "leads"
	}
	return "stands by"
}

// ready checks whether the replica leads or is ready to lead. The replica's certificate is
// self-signed.
func (r *replica) ready(ctx context.Context) error {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.readyURL, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s whether it is ready: %w", r.name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s is not ready: %s answers %d: %s", r.name, r.readyURL, resp.StatusCode,
			strings.TrimSpace(string(body)))
	}
	return err
}

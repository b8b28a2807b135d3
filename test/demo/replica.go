package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopLimit is more than the binary takes to drain; after it a replica is killed.
const stopLimit = 30 * time.Second

// A replica is an example binary as a process of its own. It can be started again after it has
// ended. Its methods are safe for concurrent use.
type replica struct {
	name   string
	binary string
	args   []string
	port   int
	log    string
	// readyURL is its readiness check.
	readyURL string

	mu sync.Mutex
	// process is nil before the first start. exited is closed when it has ended, and code is its
	// exit code then.
	process *os.Process
	exited  chan struct{}
	code    int
	// stopping says that it was asked to end.
	stopping bool
}

// start starts the process; its output is appended to the log.
func (r *replica) start() error {
	out, err := os.OpenFile(r.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", r.name, err)
	}
	cmd := exec.Command(r.binary, r.args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = childAttributes()

	exited := make(chan struct{})
	started := make(chan error)
	go func() {
		defer close(exited)
		// Where a child dies with its parent, it is the parent's thread that counts.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		_ = out.Close() // the child has its own
		if err == nil {
			r.mu.Lock()
			r.process, r.exited, r.stopping = cmd.Process, exited, false
			r.mu.Unlock()
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // the exit code says enough
			r.mu.Lock()
			r.code = cmd.ProcessState.ExitCode()
			r.mu.Unlock()
		}
	}()
	if err := <-started; err != nil {
		<-exited
		return fmt.Errorf("start %s: %w", r.name, err)
	}
	return nil
}

// stop sends SIGTERM, waits until the process has ended, and returns its exit code. A process that
// does not end is killed, which is an error. There is nothing to stop before the first start.
func (r *replica) stop() (code int, err error) {
	r.mu.Lock()
	process, exited := r.process, r.exited
	r.stopping = true
	r.mu.Unlock()
	if process == nil {
		return 0, nil
	}
	if err := process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, fmt.Errorf("stop %s: %w", r.name, err)
	}
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case <-exited:
	case <-limit.C:
		_ = process.Kill()
		<-exited
		err = fmt.Errorf("%s did not end within %s of SIGTERM and was killed", r.name, stopLimit)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.code, err
}

// kill ends the process as a lost machine does, and waits until it has ended.
func (r *replica) kill() error {
	r.mu.Lock()
	process, exited := r.process, r.exited
	r.stopping = true
	r.mu.Unlock()
	if err := process.Kill(); err != nil {
		return fmt.Errorf("kill %s: %w", r.name, err)
	}
	<-exited
	return nil
}

// pid is 0 when the process does not run.
func (r *replica) pid() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil || r.hasExited() {
		return 0
	}
	return r.process.Pid
}

func (r *replica) hasExited() bool {
	select {
	case <-r.exited:
		return true
	default:
		return false
	}
}

// trouble is an error if the process has ended by itself.
func (r *replica) trouble() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil || r.stopping || !r.hasExited() {
		return nil
	}
	return fmt.Errorf("%s has ended by itself with exit code %d", r.name, r.code)
}

// state is the process's state in the table. leads: its name is in its lease.
func (r *replica) state(leads bool) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.process == nil:
		return "not started"
	case r.hasExited() && r.code == 0:
		return "stopped, exit code 0"
	case r.hasExited():
		return fmt.Sprintf("ended, exit code %d", r.code)
	case r.stopping:
		return "stopping"
	case leads:
		return "leads"
	}
	return "stands by"
}

// ready asks whether the replica leads or is ready to. The replica's certificate is self-signed.
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

// logTail is the end of the log, or "".
func (r *replica) logTail(lines int) string {
	data, err := os.ReadFile(r.log)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

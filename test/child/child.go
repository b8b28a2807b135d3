// Package child runs a program as a process in tests, with its output in memory.
package child

import (
	"bytes"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/fxccm/fxccm/internal/waittest"
)

// A Process is a program that runs at most until the end of the test. A failed test shows its
// output.
type Process struct {
	Output *Output
	// Exited is closed when the process has ended.
	Exited <-chan struct{}

	t   testing.TB
	cmd *exec.Cmd
}

// Start runs the program.
func Start(t testing.TB, program string, args ...string) *Process {
	t.Helper()
	exited := make(chan struct{})
	p := &Process{t: t, cmd: exec.Command(program, args...), Output: &Output{}, Exited: exited}
	p.cmd.Stdout, p.cmd.Stderr = p.Output, p.Output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(exited)
		_ = p.cmd.Wait() // callers read the exit code
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the output of %s:\n%s", program, p.Output)
		}
	})
	return p
}

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("send %s: %v", s, err)
	}
}

// Kill ends the process.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.Exited
}

// Wait waits for the end of the process, and returns its exit code.
func (p *Process) Wait() int {
	p.t.Helper()
	select {
	case <-p.Exited:
		return p.ExitCode()
	case <-time.After(waittest.Limit):
		p.t.Fatalf("the process has not ended within %s", waittest.Limit)
		return 0
	}
}

// ExitCode returns the exit code of a process that has ended.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Output is the output of a process so far. It is safe for concurrent use.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns the text.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

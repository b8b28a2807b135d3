// Package program runs programs as processes, with their output in files.
package program

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fxccm/fxccm/internal/childprocess"
)

// failureTail is how many lines of its log the error of a process shows.
const failureTail = 20

// A Process is a child whose output goes to a file. Its methods are safe for concurrent use.
type Process struct {
	// Log is the path of the file.
	Log string
	// Started is the time right before the process was started.
	Started time.Time
	// Exited is closed when it has ended.
	Exited chan struct{}

	cmd   *exec.Cmd
	asked atomic.Bool
}

// Start runs the program; it appends to the file log.
func Start(program, log string, args ...string) (*Process, error) {
	return Run(exec.Command(program, args...), log)
}

// Run is Start of a command.
func Run(cmd *exec.Cmd, log string) (*Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the child has its own
	cmd.Stdout, cmd.Stderr = out, out
	p := &Process{Log: log, cmd: cmd, Exited: make(chan struct{}), Started: time.Now()}
	return p, childprocess.Begin(cmd, func(error) { close(p.Exited) })
}

// PID is the process ID, also after the end.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// HasExited reports whether the process has ended.
func (p *Process) HasExited() bool {
	select {
	case <-p.Exited:
		return true
	default:
		return false
	}
}

// ExitCode waits for the end of the process. It is -1 after a signal.
func (p *Process) ExitCode() int {
	<-p.Exited
	return p.cmd.ProcessState.ExitCode()
}

// IsAsked reports whether the process was signaled to end, or killed.
func (p *Process) IsAsked() bool { return p.asked.Load() }

// Trouble returns an error with the end of the log if the process has ended by itself.
func (p *Process) Trouble() error {
	if !p.HasExited() || p.IsAsked() {
		return nil
	}
	return fmt.Errorf("it ended by itself with exit code %d; the end of %s:\n%s", p.ExitCode(),
		p.Log, p.Tail(failureTail))
}

// Stop signals the process to end, once: a second signal may end it without a cleanup.
func (p *Process) Stop() {
	if !p.asked.Swap(true) {
		_ = p.Signal(syscall.SIGTERM)
	}
}

// End stops the process, and returns when it has ended. If it has not ended after grace, it is
// killed, which is an error.
func (p *Process) End(grace time.Duration) error {
	p.Stop()
	select {
	case <-p.Exited:
		return nil
	case <-time.After(grace):
		return errors.Join(p.Kill(), fmt.Errorf(
			"it did not end within %s of SIGTERM and was killed; the end of %s:\n%s", grace, p.Log,
			p.Tail(failureTail)))
	}
}

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Kill kills the process without a cleanup, and waits for its end.
func (p *Process) Kill() error {
	p.asked.Store(true)
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.Exited
	return nil
}

// Tail is the end of the log.
func (p *Process) Tail(lines int) string {
	text, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	return Tail(string(text), lines)
}

// Logs are the files in a folder, by name.
func Logs(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = string(text)
	}
	return all
}

// Tail is the end of a log, without the periodic lines of the election, and the ends of long lines.
func Tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	all = slices.DeleteFunc(all, func(line string) bool {
		return strings.Contains(line, "leaderelection") || strings.Contains(line, "round_trippers")
	})
	all = all[max(0, len(all)-lines):]
	for i, line := range all {
		all[i] = line[:min(len(line), 500)]
	}
	return strings.Join(all, "\n")
}

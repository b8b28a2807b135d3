//go:build linux

package replica

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/test/internal/program"
)

// logTail is how many lines of each process's log a failed test shows.
const logTail = 15

// A Process is a child process whose output goes to a file. It ends with its test.
type Process struct {
	*program.Process
	// Name is the program's own name (argv[0]).
	Name string
}

// StartProcess runs a program under a name of its own, with the variables added to its environment.
// Its output is appended to the file <name>.log in dir.
func StartProcess(
	t testing.TB, dir, name string, variables []string, path string, args ...string,
) *Process {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Args[0] = name
	cmd.Env = append(os.Environ(), variables...)
	started, err := program.Run(cmd, filepath.Join(dir, name+".log"))
	if err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	p := &Process{started, name}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the end of %s:\n%s", p.Log, p.Tail(logTail))
		}
	})
	return p
}

// Signal sends a signal; it fails the test if the process does not exist any more.
func (p *Process) Signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatalf("send %s to %s (pid %d): %v", s, p.Name, p.PID(), err)
	}
}

// Wait waits for the end of the process, and returns its exit code.
func (p *Process) Wait(t testing.TB) int {
	t.Helper()
	select {
	case <-p.Exited:
		return p.ExitCode()
	case <-time.After(waittest.Limit):
		t.Fatalf("%s has not ended within %s", p.Name, waittest.Limit)
		return 0
	}
}

// Freeze stops the process, and returns when the kernel reports that all of its threads are
// stopped.
func (p *Process) Freeze(t testing.TB) {
	t.Helper()
	p.Signal(t, syscall.SIGSTOP)
	waittest.Until(t, p.Name+" stands still", func() error { return StandsStill(p.PID()) })
}

// StandsStill returns nil when the kernel reports that all threads of the process are stopped.
func StandsStill(pid int) error {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(tasks) == 0 {
		return fmt.Errorf("no threads of process %d: %w", pid, err)
	}
	for _, task := range tasks {
		data, err := os.ReadFile(task)
		if err != nil {
			return err
		}
		// The state follows the name, which is in brackets and may contain any character (proc(5)).
		_, state, _ := strings.Cut(string(data[strings.LastIndexByte(string(data), ')'):]), " ")
		if !strings.HasPrefix(state, "T") {
			return fmt.Errorf("a thread is in state %.1s", state)
		}
	}
	return nil
}

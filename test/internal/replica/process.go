//go:build linux

package replica

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// logTail is how many lines of each process's log a failed test shows.
const logTail = 15

// A Process is a child whose output goes to a file. It is ended with its test.
type Process struct {
	// Name is what the program knows itself as (argv[0]).
	Name string
	// Log is the path of the file with its output.
	Log string
	PID int

	proc   *os.Process
	stdin  io.Closer
	exited chan struct{}
	code   int
}

// StartProcess runs a program under a name of its own. Its output is appended to the file
// <name>.log in dir.
func StartProcess(t testing.TB, dir, name, program string, args ...string) *Process {
	t.Helper()
	p := &Process{Name: name, Log: filepath.Join(dir, name+".log"), exited: make(chan struct{})}
	out, err := os.OpenFile(p.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatalf("open the log of %s: %v", name, err)
	}
	cmd := exec.Command(program, args...)
	cmd.Args[0] = name
	cmd.Stdout, cmd.Stderr = out, out
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	// It must not outlive a test binary that is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		defer close(p.exited)
		// The signal comes when the thread ends that has started the child (prctl(2),
		// PR_SET_PDEATHSIG).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		_ = out.Close() // the child has its own
		if err == nil {
			p.proc, p.PID = cmd.Process, cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // the exit code tells
			p.code = cmd.ProcessState.ExitCode()
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the end of %s:\n%s", p.Log, p.Tail(logTail))
		}
	})
	return p
}

// Running tells whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// ExitCode is the exit code of a process that has ended, -1 after a signal.
func (p *Process) ExitCode() int {
	<-p.exited
	return p.code
}

// Signal sends a signal; it fails the test if there is no process any more.
func (p *Process) Signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.proc.Signal(s); err != nil {
		t.Fatalf("send %s to %s (pid %d): %v", s, p.Name, p.PID, err)
	}
}

// Kill ends the process at once, and waits for its end.
func (p *Process) Kill() {
	if err := p.proc.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return
	}
	<-p.exited
}

// Wait waits for the end of the process, and returns its exit code.
func (p *Process) Wait(t testing.TB) int {
	t.Helper()
	select {
	case <-p.exited:
		return p.code
	case <-time.After(WaitLimit):
		t.Fatalf("%s has not ended within %s", p.Name, WaitLimit)
		return 0
	}
}

// Freeze stops the process, and returns when the kernel says that all of it stands still.
func (p *Process) Freeze(t testing.TB) {
	t.Helper()
	p.Signal(t, syscall.SIGSTOP)
	Eventually(t, p.Name+" stands still", func() error { return StandsStill(p.PID) })
}

// StandsStill is nil when the kernel says that all threads of the process are stopped.
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
		// The state follows the name, which is in brackets and may hold anything (proc(5)).
		_, state, _ := strings.Cut(string(data[strings.LastIndexByte(string(data), ')'):]), " ")
		if !strings.HasPrefix(state, "T") {
			return fmt.Errorf("a thread is in state %.1s", state)
		}
	}
	return nil
}

// OpenFiles counts what the process has open: files, and connections above all.
func (p *Process) OpenFiles() (int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID))
	return len(entries), err
}

// Tail is the end of the log.
func (p *Process) Tail(lines int) string {
	data, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	for i, line := range all {
		if len(line) > 400 {
			all[i] = line[:400] + "…"
		}
	}
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

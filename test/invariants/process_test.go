//go:build linux

package invariants_test

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

// A process is a child whose output goes to a file. It is ended with its test.
type process struct {
	name string
	log  string
	pid  int

	proc   *os.Process
	stdin  io.Closer
	exited chan struct{}
	// code is the exit code, -1 after a signal. It may be read when exited is closed.
	code int
}

// startProcess runs a program under a name of its own, as which it knows itself (argv[0]).
func startProcess(t *testing.T, dir, name, program string, args []string) *process {
	t.Helper()
	p := &process{name: name, log: filepath.Join(dir, name+".log"), exited: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
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
		// The signal comes when the thread ends that has started the child (prctl(2), PR_SET_PDEATHSIG).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		_ = out.Close() // the child has its own
		if err == nil {
			p.proc, p.pid = cmd.Process, cmd.Process.Pid
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
		p.kill()
		if t.Failed() {
			t.Logf("the end of %s:\n%s", p.log, p.tail(logTail))
		}
	})
	return p
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// signal sends a signal; it fails the test if there is no process any more.
func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.proc.Signal(s); err != nil {
		t.Fatalf("send %s to %s (pid %d): %v", s, p.name, p.pid, err)
	}
}

// kill ends the process at once, and waits for its end.
func (p *process) kill() {
	if err := p.proc.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return
	}
	<-p.exited
}

// wait waits for the end of the process, and returns its exit code.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exited:
		return p.code
	case <-time.After(waitLimit):
		t.Fatalf("%s has not ended within %s", p.name, waitLimit)
		return 0
	}
}

// freeze stops the process, and returns when the kernel says that all of it stands still.
func (p *process) freeze(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGSTOP)
	eventually(t, p.name+" stands still", func() error {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.pid))
		if err != nil || len(tasks) == 0 {
			return fmt.Errorf("no threads of process %d: %w", p.pid, err)
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
	})
}

// openFiles counts what the process has open: files, and connections above all.
func (p *process) openFiles() (int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid))
	return len(entries), err
}

func (p *process) tail(lines int) string {
	data, err := os.ReadFile(p.log)
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

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// tailLines is how much of a process's log an error shows.
const tailLines = 20

// A process is a child whose output goes to a file.
type process struct {
	name, log string
	started   time.Time
	cmd       *exec.Cmd
	// done is closed when the process has ended and was waited for.
	done chan struct{}

	mu    sync.Mutex
	asked bool
}

// startProcess starts the program at path. died is called when the process ends before it was asked
// to.
func startProcess(
	name, path string, args []string, log string, died func(error),
) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("make the log of %s: %w", name, err)
	}
	p := &process{name: name, log: log, cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = childAttributes()
	started := make(chan error)
	go func() {
		defer close(p.done)
		// The parent death signal comes when the thread ends that has started the child (prctl(2)),
		// so that thread is kept.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		p.started = time.Now()
		err := p.cmd.Start()
		_ = out.Close() // the child has its own
		started <- err
		if err != nil {
			return
		}
		if err := p.cmd.Wait(); !p.wasAsked() {
			died(fmt.Errorf("%s ended by itself (%s); the end of its log:\n%s", name, exitText(err),
				p.logTail()))
		}
	}()
	if err := <-started; err != nil {
		<-p.done
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

func exitText(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

func (p *process) wasAsked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// terminate asks the process to end.
func (p *process) terminate() error { return p.signal(syscall.SIGTERM) }

func (p *process) signal(s os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = true
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s to %s (pid %d): %w", s, p.name, p.cmd.Process.Pid, err)
	}
	return nil
}

// stop asks the process to end, kills it after grace, and returns when it has ended. To have to
// kill it is an error, unless there was no grace.
func (p *process) stop(grace time.Duration) error {
	if grace <= 0 {
		return p.kill()
	}
	if err := p.terminate(); err != nil {
		return errors.Join(err, p.kill())
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(grace):
		return errors.Join(p.kill(),
			fmt.Errorf("%s did not end within %s of SIGTERM; the end of its log:\n%s", p.name,
				grace, p.logTail()))
	}
}

func (p *process) kill() error {
	err := p.signal(syscall.SIGKILL)
	if err == nil {
		<-p.done
	}
	return err
}

// peakMemory is the most memory the process has had resident so far, in bytes: VmHWM of proc(5).
func (p *process) peakMemory() (int64, error) {
	memory, err := p.memory()
	return int64(memory["VmHWM"]), err
}

// memory reads what the kernel knows of the process's memory, in bytes.
func (p *process) memory() (map[string]float64, error) {
	status, err := os.Open(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return nil, fmt.Errorf("read the memory of %s: %w", p.name, err)
	}
	defer func() { _ = status.Close() }()
	found := map[string]float64{}
	for lines := bufio.NewScanner(status); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), ":")
		text, isSize := strings.CutSuffix(strings.TrimSpace(text), " kB")
		if !isSize {
			continue
		}
		kib, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("read the memory of %s: %w", p.name, err)
		}
		found[name] = kib * (1 << 10)
	}
	for _, name := range []string{"VmRSS", "RssAnon", "VmHWM"} {
		if _, ok := found[name]; !ok {
			return nil, fmt.Errorf("read the memory of %s: the kernel shows no %s", p.name, name)
		}
	}
	return found, nil
}

// cpuTime is how long the process has computed so far.
func (p *process) cpuTime() (time.Duration, error) { return cpuTime(p.cmd.Process.Pid) }

func (p *process) logTail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

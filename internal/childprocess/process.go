// Package childprocess runs a program that acts for a term: it logs its output, reports why it
// ended, and ends with this process.
package childprocess

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
)

const (
	// maxLine limits a logged line; the rest becomes further lines.
	maxLine = 16 << 10
	// tailLines and maxTailLine limit the lines that an error shows.
	tailLines   = 8
	maxTailLine = 300
	// keptLines are remembered, so that the first line of a panic is among them.
	keptLines = 200
	// outputGrace limits the wait for output after the end of the program, which a process that it
	// has started may hold open.
	outputGrace = time.Second
)

// Spec describes a program.
type Spec struct {
	// Name is the name of the process in errors.
	Name string
	Path string
	Args []string
	// Env is the whole environment. Nil: that of this process.
	Env []string
	// Files are the files of the child from descriptor 3.
	Files []*os.File
	// Log receives each line of output.
	Log logr.Logger
}

// A Process is a child process. It is safe for concurrent use.
type Process struct {
	name string
	cmd  *exec.Cmd
	// done is closed when the process has ended; err is set before.
	done chan struct{}
	err  error
}

// Start starts a program. The caller kills it, or waits for its end.
func Start(spec Spec) (*Process, error) {
	tail := &tail{}
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env, cmd.ExtraFiles = spec.Env, spec.Files
	stdout := &lines{log: spec.Log.WithValues("stream", "stdout"), tail: tail}
	stderr := &lines{log: spec.Log.WithValues("stream", "stderr"), tail: tail}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = attributes()
	cmd.WaitDelay = outputGrace
	p := &Process{name: spec.Name, cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Linux ends the child when the thread that has started it ends (PR_SET_PDEATHSIG), so the
		// thread is kept for the life of the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.wait(stdout, stderr, tail)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start the %s: %w", spec.Name, err)
	}
	return p, nil
}

func (p *Process) wait(stdout, stderr *lines, tail *tail) {
	defer close(p.done)
	result := p.cmd.Wait()
	stdout.line(string(stdout.rest))
	stderr.line(string(stderr.rest))
	killGroup(p.cmd.Process)
	reason := "exit status 0"
	if result != nil && !errors.Is(result, exec.ErrWaitDelay) {
		reason = result.Error()
	}
	p.err = fmt.Errorf("the %s (pid %d) ended: %s", p.name, p.PID(), reason)
	if text := tail.String(); text != "" {
		p.err = fmt.Errorf("%w; its last lines: %s", p.err, text)
	}
}

// PID is the ID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and its output is logged.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is why the process ended, with its last lines. It is valid after Done.
func (p *Process) Err() error { return p.err }

// Kill ends the process and those that it has started at once. It does not wait.
func (p *Process) Kill() {
	select {
	case <-p.done:
	default:
		killGroup(p.cmd.Process)
		_ = p.cmd.Process.Kill()
	}
}

// Terminate asks the process to end (SIGTERM). It does not wait.
func (p *Process) Terminate() { _ = p.cmd.Process.Signal(syscall.SIGTERM) }

// lines logs what is written to it, line by line. exec calls it from one goroutine.
type lines struct {
	log  logr.Logger
	tail *tail
	rest []byte
}

// Write implements io.Writer.
func (l *lines) Write(data []byte) (int, error) {
	written := len(data)
	for len(data) > 0 {
		part, after, complete := bytes.Cut(data, []byte("\n"))
		l.rest = append(l.rest, part...)
		data = after
		for len(l.rest) > maxLine {
			l.line(string(l.rest[:maxLine]))
			l.rest = append([]byte(nil), l.rest[maxLine:]...)
		}
		if complete {
			l.line(string(l.rest))
			l.rest = l.rest[:0]
		}
	}
	return written, nil
}

func (l *lines) line(text string) {
	text = strings.TrimRight(text, "\r")
	if text == "" {
		return
	}
	l.log.Info(text)
	l.tail.add(text)
}

// tail keeps the last lines of both streams.
type tail struct {
	mu   sync.Mutex
	kept []string
}

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, line[:min(len(line), maxTailLine)])
	if len(t.kept) > keptLines {
		t.kept = slices.Clone(t.kept[len(t.kept)-keptLines:])
	}
}

// String returns the lines that explain the end: those of a panic, or the last ones.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := slices.IndexFunc(t.kept, func(line string) bool {
		return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
	})
	if from < 0 {
		from = max(0, len(t.kept)-tailLines)
	}
	return strings.Join(t.kept[from:min(len(t.kept), from+tailLines)], " | ")
}

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
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
)

const (
	// maxLine limits a logged line; the rest becomes further lines.
	maxLine = 16 << 10
	// tailLines and maxTailLine limit the lines that an error shows.
	tailLines   = 8
	maxTailLine = 300
	// outputGrace limits the wait for output after the end of the program, because a child of the
	// program may keep the output open.
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
	// done is closed when the process has ended. err is set before that.
	done chan struct{}
	err  error
	// killed is the first cause that Kill has received.
	killed atomic.Pointer[error]
}

// Start starts a program. The caller must kill it, or wait for its end.
func Start(spec Spec) (*Process, error) {
	tail := &tail{}
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env, cmd.ExtraFiles = spec.Env, spec.Files
	stdout := &lines{log: spec.Log.WithValues("stream", "stdout"), tail: tail}
	stderr := &lines{log: spec.Log.WithValues("stream", "stderr"), tail: tail}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = outputGrace
	p := &Process{name: spec.Name, cmd: cmd, done: make(chan struct{})}
	err := Begin(cmd, func(result error) { p.end(result, stdout, stderr, tail) })
	if err != nil {
		return nil, fmt.Errorf("start the %s: %w", spec.Name, err)
	}
	return p, nil
}

// Begin starts a program that ends with this process, even if this process is killed. It has its
// own process group, so that a terminal's Ctrl-C does not reach it. Both need Linux. When the
// program has ended, ended is called with the result of cmd.Wait.
func Begin(cmd *exec.Cmd, ended func(result error)) error {
	cmd.SysProcAttr = attributes()
	started := make(chan error)
	go func() {
		// Linux ends the child when the thread that started it ends (PR_SET_PDEATHSIG), so the
		// goroutine keeps its thread until the child ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended(cmd.Wait())
		}
	}()
	return <-started
}

func (p *Process) end(result error, stdout, stderr *lines, tail *tail) {
	defer close(p.done)
	stdout.line(stdout.rest)
	stderr.line(stderr.rest)
	killGroup(p.cmd.Process)
	reason := "exit status 0"
	if result != nil && !errors.Is(result, exec.ErrWaitDelay) {
		reason = result.Error()
	}
	p.err = fmt.Errorf("the %s (pid %d) ended: %s", p.name, p.PID(), reason)
	// A process that ended before the kill has another reason.
	if cause := p.killed.Load(); cause != nil && wasKilled(p.cmd.ProcessState) {
		p.err = fmt.Errorf("the %s (pid %d) was killed: %w", p.name, p.PID(), *cause)
	}
	if text := explain(tail, stdout, stderr); text != "" {
		p.err = fmt.Errorf("%w; its last lines: %s", p.err, text)
	}
}

func wasKilled(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// PID is the ID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and its output is logged.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is why the process ended, with its last lines. It is valid after Done.
func (p *Process) Err() error { return p.err }

// Kill ends the process and its children at once. It does not wait. Err has the cause, which may be
// nil.
func (p *Process) Kill(cause error) {
	if cause != nil {
		p.killed.CompareAndSwap(nil, &cause)
	}
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
	// crash is the trace at the end of this stream.
	crash crash
}

// Write implements io.Writer.
func (l *lines) Write(data []byte) (int, error) {
	written := len(data)
	for len(data) > 0 {
		part, after, complete := bytes.Cut(data, []byte("\n"))
		l.rest = append(l.rest, part...)
		data = after
		for len(l.rest) > maxLine {
			first := beginning(l.rest, maxLine)
			l.line(first)
			l.rest = slices.Clone(l.rest[len(first):])
		}
		if complete {
			l.line(l.rest)
			l.rest = l.rest[:0]
		}
	}
	return written, nil
}

func (l *lines) line(data []byte) {
	text := string(bytes.TrimRight(data, "\r"))
	if text == "" {
		return
	}
	l.log.Info(text)
	short := string(beginning([]byte(text), maxTailLine))
	l.crash.add(short)
	l.tail.add(short)
}

// beginning returns the first bytes of a text. It does not cut inside a character.
func beginning(text []byte, limit int) []byte {
	if len(text) <= limit {
		return text
	}
	for n := limit; n > limit-utf8.UTFMax; n-- {
		if utf8.RuneStart(text[n]) {
			return text[:n]
		}
	}
	return text[:limit]
}

// crash is the trace with which a Go program or klog.Fatal ends the output. Other lines follow a
// panic that was only logged.
type crash struct {
	// first are the first lines of the trace.
	first []string
	// isTrace reports whether the stack of a goroutine followed the reason.
	isTrace bool
}

// isCrashReason reports whether a line begins like the reason of a crash of the Go runtime or of
// klog.Fatal.
func isCrashReason(line string) bool {
	const digits = 4 // the month and the day
	isFatal := len(line) > 1+digits && line[0] == 'F' && line[1+digits] == ' ' &&
		strings.Trim(line[1:1+digits], "0123456789") == ""
	return isFatal || hasPrefix(line, "panic: ", "fatal error: ")
}

// isOfTrace reports whether a line belongs to a trace, after the line of its first goroutine.
func isOfTrace(line string) bool {
	return strings.HasSuffix(line, ")") || hasPrefix(line,
		"\t", "goroutine ", "created by ", "runtime stack:", "exit status ", "...")
}

func hasPrefix(line string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(line, p) })
}

func (c *crash) add(line string) {
	switch {
	case isCrashReason(line):
		*c = crash{}
	case c.first == nil:
		return
	case strings.HasPrefix(line, "goroutine "):
		c.isTrace = true
	case c.isTrace && !isOfTrace(line):
		*c = crash{}
		return
	}
	if len(c.first) < tailLines {
		c.first = append(c.first, line)
	}
}

// tail keeps the last lines of both streams.
type tail struct {
	mu   sync.Mutex
	last []string
}

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last = append(t.last, line); len(t.last) > tailLines {
		t.last = slices.Delete(t.last, 0, 1)
	}
}

// explain returns the lines that explain the end: those of a crash, or the last ones.
func explain(tail *tail, streams ...*lines) string {
	shown := tail.last
	for _, stream := range streams {
		if stream.crash.isTrace {
			shown = stream.crash.first
		}
	}
	return strings.Join(shown, " | ")
}

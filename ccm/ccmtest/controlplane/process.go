package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/fxccm/fxccm/internal/childprocess"
)

const (
	// tailLines is how much of a log an error shows.
	tailLines = 20
	// pollInterval is the pause between two checks.
	pollInterval = 25 * time.Millisecond
	// checkTimeout limits one check: another program that uses the port may never answer.
	checkTimeout = 5 * time.Second
)

// process is a child process whose output goes to a log file. A nil process does not run.
type process struct {
	name string
	log  string

	cmd *exec.Cmd
	// done is closed after the process has ended; result may be read then.
	done   chan struct{}
	result error
}

// startProcess starts path and appends its output to the file log. The caller must stop the
// process.
func startProcess(name, path string, args []string, log string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = out, out

	p := &process{name: name, log: log, cmd: cmd, done: make(chan struct{})}
	err = childprocess.Begin(cmd, func(result error) {
		p.result = result
		close(p.done)
	})
	_ = out.Close() // the child has its own
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// startReady starts a process and returns it when check succeeds. After an error, the process does
// not run.
func startReady(
	ctx context.Context, name, path string, args []string, log string,
	check func(context.Context) error,
) (*process, error) {
	p, err := startProcess(name, path, args, log)
	if err != nil {
		return nil, err
	}
	if err := p.await(ctx, check); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	return p, nil
}

// await polls check until it succeeds, the process ends, or ctx ends.
func (p *process) await(ctx context.Context, check func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := within(ctx, checkTimeout, check)
		if err == nil && !p.ended() {
			return nil
		}
		select {
		case <-p.done:
			return p.endError()
		case <-ctx.Done():
			return fmt.Errorf(
				"%s was not ready in time: %w; its last answer: %w; the end of %s:\n%s",
				p.name, context.Cause(ctx), err, p.log, logTail(p.log, tailLines))
		case <-ticker.C:
		}
	}
}

func within(
	ctx context.Context, limit time.Duration, check func(context.Context) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return check(ctx)
}

// pid is 0 if the process does not run.
func (p *process) pid() int {
	if !p.running() {
		return 0
	}
	return p.cmd.Process.Pid
}

func (p *process) running() bool { return p != nil && !p.ended() }

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// endError describes an unexpected end of the process.
func (p *process) endError() error {
	result := "exit status 0"
	if p.result != nil {
		result = p.result.Error()
	}
	tail := logTail(p.log, tailLines)
	err := fmt.Errorf("%s ended by itself (%s); the end of %s:\n%s", p.name, result, p.log, tail)
	if saysPortTaken(tail) {
		err = fmt.Errorf("%w: %w", errPortTaken, err)
	}
	return err
}

// stop signals the process to end, kills it after grace or when ctx ends, and returns when it has
// ended. It returns an error if the process had ended before. A nil process is a no-op.
func (p *process) stop(ctx context.Context, grace time.Duration) error {
	if p == nil {
		return nil
	}
	if p.ended() {
		return p.endError()
	}
	limit := time.NewTimer(grace)
	defer limit.Stop()
	if err := terminate(p.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return errors.Join(fmt.Errorf("ask %s (pid %d) to end: %w", p.name, p.cmd.Process.Pid, err),
			p.kill())
	}
	select {
	case <-p.done:
		return nil
	case <-limit.C:
	case <-ctx.Done():
	}
	return p.kill()
}

// kill ends the process at once and returns when it has ended.
func (p *process) kill() error {
	if p == nil {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s (pid %d): %w", p.name, p.cmd.Process.Pid, err)
	}
	<-p.done
	return nil
}

// logTail returns the last lines of a log, for an error or a failed test, or the error of reading
// it.
func logTail(path string, lines int) string {
	const enough = 64 << 10
	f, err := os.Open(path)
	if err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > enough {
		if _, err := f.Seek(-enough, io.SeekEnd); err != nil {
			return fmt.Sprintf("(%v)", err)
		}
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

//go:build linux

// Package program runs the example binary in tests, with its output in a file.
package program

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A Process is a child whose output goes to a file.
type Process struct {
	cmd *exec.Cmd
	// Exited is closed when it has ended.
	Exited chan struct{}
}

// Start runs the program; it appends to the file log.
func Start(program, log string, args ...string) (*Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(program, args...), Exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	// It must not outlive a test binary that is killed.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		defer close(p.Exited)
		// The signal comes when the thread ends that has started the child (prctl(2),
		// PR_SET_PDEATHSIG).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		_ = out.Close() // the child has its own
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
	}()
	return p, <-started
}

// Stop asks the process to end.
func (p *Process) Stop() { _ = p.cmd.Process.Signal(syscall.SIGTERM) }

// Kill ends the process at once, with no chance to clean up, and waits for its end.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.Exited
	return nil
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

// Tail is the end of a log, without the election's news of each second, and the ends of long lines.
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

//go:build linux

package program_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fxccm/fxccm/test/internal/program"
)

func start(t *testing.T, script string) *program.Process {
	t.Helper()
	p, err := program.Start("/bin/sh", filepath.Join(t.TempDir(), "sh.log"), "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestProcess_EndsByItself_ErrorShowsExitCodeAndLog(t *testing.T) {
	p := start(t, "echo no cloud; exit 7")
	if code := p.ExitCode(); code != 7 {
		t.Errorf("the exit code is %d, want 7", code)
	}
	if err := p.Trouble(); err == nil || !strings.Contains(err.Error(), "exit code 7") ||
		!strings.Contains(err.Error(), "no cloud") {
		t.Errorf("the error is %v, want one with the exit code and the log", err)
	}
}

// ready waits until the script has set its trap.
func ready(t *testing.T, p *program.Process) {
	t.Helper()
	for end := time.Now().Add(time.Minute); p.Tail(1) != "ready"; {
		if time.Now().After(end) {
			t.Fatalf("the log is %q", p.Tail(1))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestProcess_End_IsNotAnError(t *testing.T) {
	p := start(t, "trap 'exit 3' TERM; echo ready; while :; do sleep 0.1; done")
	ready(t, p)
	if p.HasExited() || p.IsAsked() {
		t.Error("the process has ended, or was asked to")
	}
	if err := p.End(time.Minute); err != nil || p.ExitCode() != 3 || p.Trouble() != nil {
		t.Errorf("ended with %v, exit code %d, %v", err, p.ExitCode(), p.Trouble())
	}
}

func TestProcess_IgnoresSIGTERM_IsKilled(t *testing.T) {
	p := start(t, "trap '' TERM; echo ready; while :; do sleep 0.1; done")
	ready(t, p)
	err := p.End(50 * time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "was killed") || !p.HasExited() {
		t.Errorf("the error is %v, ended %v", err, p.HasExited())
	}
}

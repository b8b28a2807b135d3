package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// endGrace is how long processes may take to end after their test has killed them.
const endGrace = 15 * time.Second

// runGroup runs a command in a process group of its own, which it kills when the context ends.
func runGroup(ctx context.Context, cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	isDone := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	err := cmd.Wait()
	if !isDone() {
		return fmt.Errorf("killed: %w", context.Cause(ctx))
	}
	return err
}

// marker is the variable by which the processes of a package are found.
func marker(name string) string { return "FXCCM_TESTS_OF=" + name }

// leftovers kills the processes that the tests of a package have started and that do not end, and
// names them. It needs /proc.
func leftovers(name string) []string {
	deadline := time.Now().Add(endGrace)
	// A process that executes a program has no environment for a moment, so that one look may miss
	// it.
	for clean := 0; ; {
		left := marked(name)
		if clean++; len(left) > 0 {
			clean = 0
		}
		if clean == 2 {
			return nil
		}
		if len(left) > 0 && time.Now().After(deadline) {
			var lines []string
			for _, pid := range left {
				lines = append(lines, fmt.Sprintf("%d %s", pid, commandLine(pid)))
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			return lines
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func marked(name string) (pids []int) {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		environment, err := os.ReadFile(filepath.Join(folder, "environ"))
		if err != nil || !bytes.Contains(append(environment, 0), []byte(marker(name)+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(folder)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func commandLine(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	text := strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
	return text[:min(len(text), 120)]
}

//go:build unix

package controlplane_test

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/waittest"
)

func TestStop_LeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	cp, err := controlplane.Start(t.Context(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pids := []int{cp.APIServerPID(), cp.EtcdPID()}
	for _, pid := range pids {
		if !alive(pid) {
			t.Errorf("process %d does not run although the control plane does", pid)
		}
	}
	// A frozen server does not handle SIGTERM.
	if err := syscall.Kill(pids[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}

	if err := cp.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d runs after Stop", pid)
		}
	}
	expectEmpty(t, tmp)
	if err := cp.Stop(t.Context()); err != nil {
		t.Errorf("the second Stop: %v", err)
	}
	if err := cp.StartAPIServer(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "has been stopped") {
		t.Errorf("StartAPIServer after Stop: %v, want an error that it has been stopped", err)
	}
}

func TestStop_ProcessDiedBefore_IsAnError(t *testing.T) {
	t.Parallel()
	cp, err := controlplane.Start(t.Context(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pid := cp.EtcdPID()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "etcd is gone", func() bool { return cp.EtcdPID() == 0 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // kube-apiserver need not wait for etcd
	if err := cp.Stop(ctx); err == nil ||
		!strings.Contains(err.Error(), "etcd ended by itself (signal: killed)") {
		t.Errorf("Stop: %v, want an error that etcd ended by itself", err)
	}
}

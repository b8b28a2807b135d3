package controlplane_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

func TestTestBinaryKilled_ControlPlaneDiesWithItAndTheNextStartCleansUp(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), abandonEnv+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	killed := cmd.Process.Kill()
	_ = cmd.Wait() // killed
	if err != nil || killed != nil {
		t.Fatal(err, killed)
	}

	var apiServer, etcd int
	if _, err := fmt.Sscan(line, &apiServer, &etcd); err != nil {
		t.Fatalf("the program says %q: %v", line, err)
	}
	eventually(t, "both processes are gone",
		func() bool { return !alive(apiServer) && !alive(etcd) })

	abandoned, err := filepath.Glob(filepath.Join(tmp, "fxccm-controlplane-*"))
	if err != nil || len(abandoned) != 1 {
		t.Fatalf("left behind are %v (%v), want the folder of the one control plane", abandoned,
			err)
	}
	controlplane.ForTest(t)
	if _, err := os.Stat(abandoned[0]); !os.IsNotExist(err) {
		t.Errorf("the abandoned folder after the next start: %v, want that it is gone", err)
	}
	if _, err := os.Stat(shared.LogDir()); err != nil {
		t.Errorf("the folder of a control plane that runs: %v", err)
	}
}

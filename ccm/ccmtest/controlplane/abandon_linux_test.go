package controlplane_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/fxccm/fxccm/internal/waittest"
)

func TestTestBinaryKilled_ControlPlaneDiesWithIt(t *testing.T) {
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
	waittest.Until(t, "both processes are gone",
		func() bool { return !alive(apiServer) && !alive(etcd) })
}

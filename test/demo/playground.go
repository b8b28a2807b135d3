package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fxccm/fxccm/test/internal/attempt"
)

// machineCount is the number of servers in the playground's OpenStack.
const machineCount = 3

// playground runs a control plane and a simulated OpenStack, without a cloud controller manager,
// until a signal ends it. While it runs, dir has the files for the reader's own commands.
func playground(t *attempt.T, dir string) {
	dir, err := filepath.Abs(dir)
	t.Check(err)
	t.Check(os.MkdirAll(filepath.Dir(dir), 0o755))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatalf("%w: another playground runs, or remove the folder", err)
	}
	c := &cluster{stage: stage{dir: dir}}
	t.Cleanup(func() { t.Check(c.stop(false)) })
	if err := attempt.Run(onSignal(t), c.play); !errors.Is(err, errInterrupted) {
		t.Check(err)
	}
}

// play runs the playground until the context ends.
func (c *cluster) play(t *attempt.T) {
	program, err := os.Executable()
	t.Check(err)
	fmt.Println("Starting etcd, kube-apiserver and a simulated OpenStack.")
	c.startControlPlane(t)
	c.allowReplicas(t)
	c.serveOpenStack(t, machineCount)
	environment := fmt.Sprintf(`export KUBECONFIG=%s
export CCM_KUBECONFIG=%s
export CLOUD_CONFIG=%s
export OPENSTACK=%s
export PATH=%s:$PATH
`, c.file("admin.kubeconfig"), c.file("ccm.kubeconfig"), c.file("cloud.conf"),
		c.openStack.server.URL(), filepath.Dir(program))
	t.Check(os.WriteFile(c.file("env"), []byte(environment), 0o600))
	fmt.Printf("Ready. In another terminal: source %s\nCtrl-C ends it.\n", c.file("env"))
	<-t.Context().Done()
}

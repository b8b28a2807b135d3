package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// machineCount is how many servers the playground's OpenStack has.
const machineCount = 3

// playground runs a control plane and a simulated OpenStack, without a cloud controller manager,
// until ctx ends. The files for a reader's own commands are in dir while it runs.
func playground(ctx context.Context, dir string) (err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("%w: another playground runs, or remove the folder", err)
	}
	c := &cluster{dir: dir}
	defer func() { err = errors.Join(err, c.stop(context.WithoutCancel(ctx), false)) }()

	fmt.Println("Starting etcd, kube-apiserver and a simulated OpenStack.")
	if err := c.startControlPlane(ctx); err != nil {
		return err
	}
	if c.openStack, err = serveOpenStack(); err != nil {
		return err
	}
	for i := range machineCount {
		c.openStack.addMachine(nodeName(i + 1))
	}
	if err := c.openStack.writeCloudConf(c.file("cloud.conf")); err != nil {
		return err
	}
	environment := fmt.Sprintf(`export KUBECONFIG=%s
export CCM_KUBECONFIG=%s
export CLOUD_CONFIG=%s
export OPENSTACK=%s
export PATH=%s:$PATH
`, c.file("admin.kubeconfig"), c.file("ccm.kubeconfig"), c.file("cloud.conf"),
		c.openStack.server.URL(), filepath.Dir(program))
	if err := os.WriteFile(c.file("env"), []byte(environment), 0o600); err != nil {
		return err
	}
	fmt.Printf("Ready. In another terminal: source %s\nCtrl-C ends it.\n", c.file("env"))
	<-ctx.Done()
	return nil
}

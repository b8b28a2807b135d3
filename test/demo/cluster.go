package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/deploy"
	"github.com/fxccm/fxccm/test/internal/ports"
)

const (
	// retryPeriod is --leader-elect-retry-period, the leader's pause between two renewals.
	retryPeriod = 2 * time.Second

	leaseName   = "cloud-controller-manager"
	clusterCIDR = "10.200.0.0/16"

	// cloudLatency is about that of a real cloud, so changes are visible.
	cloudLatency = 100 * time.Millisecond

	pollPeriod = 50 * time.Millisecond
)

// cluster is everything that the demo runs: a control plane, two replicas on OpenStack, and a host
// on a fake cloud.
type cluster struct {
	dir      string
	replicas []*replica
	// host is the binary of another control plane, with the cloud controller manager
	// inside.
	host *replica
	fake fakeCloud

	// These fields are not changed after startControlPlane and serveClouds.
	controlPlane *controlplane.ControlPlane
	client       kubernetes.Interface
	openStack    *openStack
	fakeServer   *http.Server
	fakeURL      string

	// OpenStack's objects before the Service, and the Service's load balancer.
	unserved holdings
	web      served
}

func newCluster(binary, embedded string) (*cluster, error) {
	path, err := executable("binary", binary)
	if err != nil {
		return nil, err
	}
	hostPath, err := executable("embedded", embedded)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "fxccm-demo-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the demo: %w", err)
	}
	c := &cluster{dir: dir, fake: newFakeCloud()}
	for _, name := range []string{"replica-a", "replica-b"} {
		port, err := ports.Free()
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		c.replicas = append(c.replicas, c.newReplica(name, path, port))
	}
	port, err := ports.Free()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	c.host = c.newHost(hostPath, port)
	return c, nil
}

// executable is the absolute path that a flag names.
func executable(flag, path string) (string, error) {
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	return path, nil
}

// newReplica has the flags that differ from the manifests.
func (c *cluster) newReplica(name, binary string, port int) *replica {
	url := fmt.Sprintf("https://127.0.0.1:%d/readyz", port)
	return &replica{
		name: name, binary: binary, port: port, readyURL: url,
		log: c.file(name + ".log"), args: []string{
			"--kubeconfig=" + c.file("ccm.kubeconfig"),
			"--cloud-provider=openstack",
			"--cloud-config=" + c.file("cloud.conf"),
			"--user-agent=" + name, // names the replica in OpenStack's record of calls
			"--cluster-cidr=" + clusterCIDR,
			"--leader-elect-identity=" + name,
			"--leader-elect-retry-period=" + retryPeriod.String(),
			"--bind-address=127.0.0.1",
			"--secure-port=" + strconv.Itoa(port),
			"--v=2",
			// A short period keeps the demo short.
			"--route-reconciliation-period=1s",
			"--node-monitor-period=500ms",
		},
	}
}

func (c *cluster) folder() string { return c.dir }

func (c *cluster) file(name string) string { return filepath.Join(c.dir, name) }

// startControlPlane starts etcd and kube-apiserver, and applies the shipped RBAC rules.
func (c *cluster) startControlPlane(ctx context.Context) (err error) {
	if c.controlPlane, err = controlplane.Start(ctx,
		controlplane.Options{LogDir: c.file("control-plane")}); err != nil {
		return err
	}
	admin := c.controlPlane.RESTConfig()
	if c.client, err = kubernetes.NewForConfig(admin); err != nil {
		return err
	}
	rules, err := deploy.Read(deploy.RBAC)
	if err != nil {
		return err
	}
	if err := deploy.Create(ctx, admin, metav1.CreateOptions{}, rules...); err != nil {
		return err
	}
	identity, err := c.controlPlane.ServiceAccountConfig(metav1.NamespaceSystem, leaseName)
	if err != nil {
		return err
	}
	return errors.Join(
		controlplane.WriteKubeconfig(c.file("admin.kubeconfig"), admin),
		controlplane.WriteKubeconfig(c.file("ccm.kubeconfig"), identity),
	)
}

// serveClouds serves the clouds to replicas and host, and to a user with curl.
func (c *cluster) serveClouds() (err error) {
	if c.openStack, err = serveOpenStack(); err != nil {
		return err
	}
	if err := c.openStack.writeCloudConf(c.file("cloud.conf")); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("serve the fake cloud: %w", err)
	}
	c.fakeURL = "http://" + listener.Addr().String()
	c.fakeServer = &http.Server{Handler: c.fake.Handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = c.fakeServer.Serve(listener) }() // until stop closes it
	return os.WriteFile(c.file("cloud.yaml"), []byte("endpoint: "+c.fakeURL+"\n"), 0o600)
}

// processes are the replicas and the host.
func (c *cluster) processes() []*replica {
	if c.host == nil {
		return c.replicas
	}
	return append(slices.Clone(c.replicas), c.host)
}

func (c *cluster) startReplicas() error {
	for _, r := range c.replicas {
		if err := r.start(); err != nil {
			return err
		}
	}
	return nil
}

// stopProcesses stops running processes together, so that none takes over. An exit code other than
// 0 is an error.
func stopProcesses(processes ...*replica) error {
	errs := make([]error, len(processes))
	var stopped sync.WaitGroup
	for i, r := range processes {
		if r.pid() == 0 {
			continue
		}
		stopped.Go(func() {
			code, err := r.stop()
			errs[i] = errors.Join(err, expect("the exit code of "+r.name, code, 0))
		})
	}
	stopped.Wait()
	return errors.Join(errs...)
}

// stop ends all that was started, and removes the folder unless its logs are worth keeping. It can
// be called again.
func (c *cluster) stop(ctx context.Context, keepLogs bool) error {
	errs := []error{stopProcesses(c.processes()...)}
	if c.controlPlane != nil {
		errs = append(errs, c.controlPlane.Stop(ctx))
	}
	if c.openStack != nil {
		c.openStack.server.Close()
	}
	if c.fakeServer != nil {
		errs = append(errs, c.fakeServer.Close())
	}
	if !keepLogs {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}

// holder is the holder of a lease, or "".
func (c *cluster) holder(ctx context.Context, lease string) string {
	read, err := c.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, lease,
		metav1.GetOptions{})
	if err != nil || read.Spec.HolderIdentity == nil {
		return ""
	}
	return *read.Spec.HolderIdentity
}

// leaderAndOther are the replica that leads and the one that does not.
func (c *cluster) leaderAndOther(ctx context.Context) (leader, other *replica, err error) {
	holder := c.holder(ctx, leaseName)
	for i, r := range c.replicas {
		if r.name == holder {
			return r, c.replicas[1-i], nil
		}
	}
	return nil, nil, fmt.Errorf("no replica leads: the lease names %q", holder)
}

// until waits until cond returns nil, see [until].
func (c *cluster) until(ctx context.Context, cond func(ctx context.Context) error) error {
	return until(ctx, c.processes(), cond)
}

// until waits until cond returns nil. When the context ends first, or a process does, the error is
// that, and cond's last.
func until(
	ctx context.Context, processes []*replica, cond func(ctx context.Context) error,
) error {
	ticker := time.NewTicker(pollPeriod)
	defer ticker.Stop()
	var last error
	for {
		err := cond(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // a request that the context ended says less
		}
		for _, r := range processes {
			if err := r.trouble(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last seen: %w", context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}

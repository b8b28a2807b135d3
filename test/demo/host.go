package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/util/retry"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/deploy"
)

const (
	// hostLease is the lease of the host's own election, hostAccount its ServiceAccount.
	hostLease   = "control-plane"
	hostAccount = "control-plane"

	// stranger takes the host's lease away.
	stranger = "another-process"

	hostNodeCount = 3
	strandedNode  = "vm-4"
	strandedApp   = "chat"
)

// newHost has the host's command line. The flags of the embedded cloud controller manager have a
// prefix.
func (c *cluster) newHost(binary string, port int) *replica {
	address := fmt.Sprintf("127.0.0.1:%d", port)
	return &replica{
		name: "host", binary: binary, port: port,
		readyURL: "http://" + address + "/ccm/readyz", log: c.file("host.log"), args: []string{
			"--kubeconfig=" + c.file("host.kubeconfig"),
			"--listen=" + address,
			"--leader-elect-identity=host",
			"--leader-elect-retry-period=1s",
			"--ccm-cloud-config=" + c.file("cloud.yaml"),
			"--ccm-cluster-cidr=" + clusterCIDR,
			"--ccm-route-reconciliation-period=1s",
			"--ccm-node-monitor-period=1s",
		},
	}
}

func (c *cluster) hostURL() string { return fmt.Sprintf("http://127.0.0.1:%d", c.host.port) }

// prepareHost gives the host an identity, with the rules that the binary is shipped with.
func (c *cluster) prepareHost(ctx context.Context) error {
	rules, err := exec.CommandContext(ctx, c.host.binary, "--print-rbac").Output()
	if err != nil {
		return fmt.Errorf("ask the host's binary for its rules: %w", err)
	}
	var objects []*unstructured.Unstructured
	for decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(string(rules)), 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the rules of the host: %w", err)
		}
		objects = append(objects, object)
	}
	if err := deploy.Create(ctx, c.controlPlane.RESTConfig(), metav1.CreateOptions{},
		objects...); err != nil {
		return err
	}
	identity, err := c.controlPlane.ServiceAccountConfig(metav1.NamespaceSystem, hostAccount)
	if err != nil {
		return err
	}
	return controlplane.WriteKubeconfig(c.file("host.kubeconfig"), identity)
}

// startHost comes after the end of the replicas: with its own lease it would act beside them.
func startHost(ctx context.Context, c *cluster) (string, error) {
	if err := c.changeClouds(ctx); err != nil {
		return "", err
	}
	if err := c.prepareHost(ctx); err != nil {
		return "", err
	}
	if err := c.host.start(); err != nil {
		return "", err
	}
	if err := c.awaitHost(ctx, ccm.StateLeading, 1); err != nil {
		return "", err
	}
	if err := c.awaitReconciled(ctx, metav1.NamespaceDefault); err != nil {
		return "", err
	}
	for i := range hostNodeCount {
		if err := c.awaitInitialised(ctx, c.fake, hostNodeName(i+1)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf(
		"process %d leads, term 1; its %d nodes are initialised, and its own reconciler has labelled the namespaces", c.host.pid(), hostNodeCount), nil
}

func hostNodeName(i int) string { return fmt.Sprintf("vm-%d", i) }

// changeClouds replaces the nodes of OpenStack by nodes of the fake cloud.
func (c *cluster) changeClouds(ctx context.Context) error {
	if err := c.client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{}); err != nil {
		return fmt.Errorf("delete the nodes of OpenStack: %w", err)
	}
	for i := range hostNodeCount {
		name := hostNodeName(i + 1)
		if err := errors.Join(c.fake.addMachine(name), c.join(ctx, name, i+1)); err != nil {
			return err
		}
	}
	return nil
}

// takeLease writes another name into the host's lease. New work in cluster and cloud must wait.
func takeLease(ctx context.Context, c *cluster) (string, error) {
	pid := c.host.pid()
	if err := c.writeHostLease(ctx, stranger); err != nil {
		return "", err
	}
	if err := c.awaitHost(ctx, ccm.StateStandby, 1); err != nil {
		return "", err
	}
	last := len(c.fake.Calls())
	if err := c.fake.addMachine(strandedNode); err != nil {
		return "", err
	}
	if err := c.join(ctx, strandedNode, hostNodeCount+1); err != nil {
		return "", err
	}
	if err := c.createService(ctx, strandedApp); err != nil {
		return "", err
	}
	// Twice the period of its controllers.
	if err := pause(ctx, 2*time.Second); err != nil {
		return "", err
	}
	if calls := c.fake.Calls()[last:]; len(calls) > 0 {
		return "",
			fmt.Errorf("the host called the cloud without the lease, %d times, such as: %+v",
				len(calls), calls[0])
	}
	if err := errors.Join(expect("the host's pid", c.host.pid(), pid),
		c.awaitHost(ctx, ccm.StateStandby, 1)); err != nil {
		return "", err
	}
	return fmt.Sprintf("process %d continues; %s and Service %s wait, and the cloud receives no call",
		pid, strandedNode, strandedApp), nil
}

func giveLeaseBack(ctx context.Context, c *cluster) (string, error) {
	pid := c.host.pid()
	if err := c.writeHostLease(ctx, ""); err != nil {
		return "", err
	}
	if err := c.awaitHost(ctx, ccm.StateLeading, 2); err != nil {
		return "", err
	}
	if err := c.awaitInitialised(ctx, c.fake, strandedNode); err != nil {
		return "", err
	}
	address, err := c.awaitAddress(ctx, strandedApp)
	if err != nil {
		return "", err
	}
	if err := c.awaitRoutes(ctx, c.fake); err != nil {
		return "", err
	}
	if err := expect("the host's pid", c.host.pid(), pid); err != nil {
		return "", err
	}
	return fmt.Sprintf("still process %d, term 2; %s is initialised, Service %s has %s", pid,
		strandedNode, strandedApp, address), nil
}

func endHost(ctx context.Context, c *cluster) (string, error) {
	if err := stopProcesses(c.host); err != nil {
		return "", err
	}
	if holder := c.holder(ctx, hostLease); holder != "" {
		return "", fmt.Errorf("the host's lease still names %s", holder)
	}
	return "exit code 0, the lease has no holder", nil
}

// writeHostLease makes a stranger the holder of the host's lease, or releases the lease as a holder
// does: fxccm waits out the last holder of a lease that is edited in another way.
func (c *cluster) writeHostLease(ctx context.Context, holder string) error {
	leases := c.client.CoordinationV1().Leases(metav1.NamespaceSystem)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		lease, err := leases.Get(ctx, hostLease, metav1.GetOptions{})
		if err != nil {
			return err
		}
		duration := int32(time.Hour.Seconds()) // it does not expire by itself
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &holder, &duration
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		if holder == "" {
			duration, lease.Spec.AcquireTime = 1, lease.Spec.RenewTime
		}
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("write the lease %s: %w", hostLease, err)
	}
	return nil
}

// awaitHost waits until the embedded cloud controller manager has a state and a term.
func (c *cluster) awaitHost(ctx context.Context, state ccm.State, term uint64) error {
	return c.until(ctx, func(ctx context.Context) error {
		status, err := c.hostStatus(ctx)
		if err != nil {
			return err
		}
		return errors.Join(
			expect("the host's state", status.State, state),
			expect("the host's term", status.Term, term),
			expect("that the host's term is ready", status.Ready, state == ccm.StateLeading),
		)
	})
}

func (c *cluster) hostStatus(ctx context.Context) (status ccm.Status, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.hostURL()+"/ccm/statusz", nil)
	if err != nil {
		return status, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return status, fmt.Errorf("ask the host for its state: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		return status, fmt.Errorf("the host's state: %w", err)
	}
	return status, nil
}

// awaitReconciled waits until the host's own reconciler has labelled a namespace.
func (c *cluster) awaitReconciled(ctx context.Context, name string) error {
	return c.until(ctx, func(ctx context.Context) error {
		namespace, err := c.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return expectNot("the Pod Security level of namespace "+name,
			namespace.Labels["pod-security.kubernetes.io/enforce"], "")
	})
}

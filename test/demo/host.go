package main

import (
	"crypto/sha256"
	"encoding/hex"
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

	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/test/internal/attempt"
)

const (
	// hostLease is the lease of the host's own election, hostAccount its ServiceAccount.
	hostLease   = "control-plane"
	hostAccount = "control-plane"

	// stranger is the process that takes the host's lease.
	stranger = "another-process"

	hostNodeCount = 3
	strandedNode  = "vm-4"
	strandedApp   = "chat"
)

// addHost adds the host with its command line. The flags of the embedded cloud controller manager
// have a prefix.
func (c *cluster) addHost(t *attempt.T, binary string) *replica {
	return c.add(t, "host", binary, "http", "/ccm/readyz", func(port int) []string {
		return []string{
			"--kubeconfig=" + c.file("host.kubeconfig"),
			fmt.Sprintf("--listen=127.0.0.1:%d", port),
			"--leader-elect-identity=host",
			"--leader-elect-retry-period=1s",
			"--ccm-cloud-config=" + c.file("cloud.yaml"),
			"--ccm-cluster-cidr=" + clusterCIDR,
			"--ccm-route-reconciliation-period=1s",
			"--ccm-node-monitor-period=1s",
		}
	})
}

func (c *cluster) hostURL() string { return fmt.Sprintf("http://127.0.0.1:%d", c.host.port) }

// allowHost gives the host an identity with the rules that the binary is shipped with.
func (c *cluster) allowHost(t *attempt.T) {
	text, err := exec.CommandContext(t.Context(), c.host.binary, "--print-rbac").Output()
	t.Check(err)
	var rules []*unstructured.Unstructured
	for decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(string(text)), 4096); ; {
		rule := &unstructured.Unstructured{}
		err := decoder.Decode(rule)
		if errors.Is(err, io.EOF) {
			break
		}
		t.Check(err)
		rules = append(rules, rule)
	}
	c.allow(t, rules, metav1.NamespaceSystem, hostAccount, "host.kubeconfig")
}

// startHost runs after the replicas have ended, because the host has its own lease and would act
// beside them. Nodes of the fake cloud replace the nodes of OpenStack.
func (c *cluster) startHost(t *attempt.T) string {
	t.Check(c.client.CoreV1().Nodes().DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{}))
	for i := range hostNodeCount {
		t.Check(c.fake.addMachine(hostNodeName(i + 1)))
		c.join(t, hostNodeName(i+1), i+1)
	}
	c.allowHost(t)
	c.start(t, c.host)
	c.awaitHost(t, status.Leading, 1)
	// The host's own reconciler labels namespaces.
	c.until(t, func() error {
		namespace, err := c.client.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceDefault,
			metav1.GetOptions{})
		if err != nil {
			return err
		}
		return expectNot("the Pod Security level of namespace "+namespace.Name,
			namespace.Labels["pod-security.kubernetes.io/enforce"], "")
	})
	for i := range hostNodeCount {
		c.awaitInitialized(t, c.fake, hostNodeName(i+1))
	}
	return fmt.Sprintf(
		"process %d leads, term 1; its %d nodes are initialized, and its own reconciler has labeled the namespaces", c.host.pid(), hostNodeCount)
}

func hostNodeName(i int) string { return fmt.Sprintf("vm-%d", i) }

// takeLease writes another name into the host's lease. New work in the cluster and the cloud must
// wait.
func (c *cluster) takeLease(t *attempt.T) string {
	pid := c.host.pid()
	c.writeHostLease(t, stranger)
	c.awaitHost(t, status.Standby, 1)
	last := len(c.fake.Calls())
	t.Check(c.fake.addMachine(strandedNode))
	c.join(t, strandedNode, hostNodeCount+1)
	c.createService(t, strandedApp)
	// Twice the period of its controllers.
	t.Check(sleep(t.Context(), 2*time.Second))
	if calls := c.fake.Calls()[last:]; len(calls) > 0 {
		t.Fatalf("the host called the cloud without the lease, %d times, such as: %+v", len(calls),
			calls[0])
	}
	t.Check(expect("the host's pid", c.host.pid(), pid))
	c.awaitHost(t, status.Standby, 1)
	return fmt.Sprintf("process %d continues; %s and Service %s wait, and the cloud receives no call",
		pid, strandedNode, strandedApp)
}

func (c *cluster) giveLeaseBack(t *attempt.T) string {
	pid := c.host.pid()
	c.writeHostLease(t, "")
	c.awaitHost(t, status.Leading, 2)
	c.awaitInitialized(t, c.fake, strandedNode)
	address := c.awaitAddress(t, strandedApp)
	c.awaitRoutes(t, c.fake)
	t.Check(expect("the host's pid", c.host.pid(), pid))
	return fmt.Sprintf("still process %d, term 2; %s is initialized, Service %s has %s", pid,
		strandedNode, strandedApp, address)
}

func (c *cluster) endHost(t *attempt.T) string {
	t.Check(stopProcesses(c.host))
	t.Check(expect("the holder of the host's lease", c.holder(t.Context(), hostLease), ""))
	return "exit code 0, the lease has no holder"
}

// strangersToken and its digest prove the stranger's release: docs/explanation/term-and-fence.md.
const strangersToken = "stranger"

// writeHostLease makes a stranger the holder of the host's lease, or releases the lease like a
// holder. After any other edit, fxccm waits until the last holder's lease expires.
func (c *cluster) writeHostLease(t *attempt.T, holder string) {
	leases := c.client.CoordinationV1().Leases(metav1.NamespaceSystem)
	t.Check(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		lease, err := leases.Get(t.Context(), hostLease, metav1.GetOptions{})
		if err != nil {
			return err
		}
		duration := int32(time.Hour.Seconds()) // the host waits for twice its own duration
		digest := sha256.Sum256([]byte(strangersToken))
		lease.Annotations = map[string]string{
			"fxccm.dev/release-digest": hex.EncodeToString(digest[:]),
		}
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &holder, &duration
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		if holder == "" {
			duration, lease.Spec.AcquireTime = 1, lease.Spec.RenewTime
			lease.Annotations = map[string]string{"fxccm.dev/release-token": strangersToken}
		}
		_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
		return err
	}))
}

// awaitHost waits until the embedded cloud controller manager has a state and a term.
func (c *cluster) awaitHost(t *attempt.T, state status.State, term uint64) {
	c.until(t, func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			c.hostURL()+"/ccm/statusz", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		var current status.Manager
		if err := json.NewDecoder(resp.Body).Decode(&current); err != nil {
			return fmt.Errorf("the host's state: %w", err)
		}
		return errors.Join(
			expect("the host's state", current.State, state),
			expect("the host's term", current.Term, term),
			expect("that the host's term is ready", current.Ready, state == status.Leading),
		)
	})
}

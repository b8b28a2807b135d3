package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/deploy"
	"github.com/fxccm/fxccm/test/internal/attempt"
)

const (
	// retryPeriod is --leader-elect-retry-period, the leader's pause between two renewals.
	retryPeriod = 2 * time.Second

	leaseName   = "cloud-controller-manager"
	clusterCIDR = "10.200.0.0/16"

	// cloudLatency resembles that of a real cloud, so that changes are visible.
	cloudLatency = 100 * time.Millisecond

	nodeCount = 6
	// Each of these nodes has its own step.
	stoppedNode = "node-2"
	silentNode  = "node-3"
	lostNode    = "node-6"
	lateNode    = "node-7"

	// handOverLimit is shorter than the lease, so it is exceeded if the lease is not released.
	handOverLimit = 10 * time.Second
)

// cluster is the world of the demo: a control plane, two replicas on OpenStack, and a host on a
// fake cloud.
type cluster struct {
	stage
	replicas []*replica
	// host is the binary of another control plane, with the cloud controller manager
	// inside.
	host *replica

	// openStack is not changed after the first steps. The fake cloud is served at fakeURL.
	openStack *openStack
	fake      fakeCloud
	fakeURL   string

	// unserved counts OpenStack's objects before the Service, and web is the Service's load
	// balancer.
	unserved holdings
	web      served
}

func newCluster(t *attempt.T, binary, embedded string) *cluster {
	binary, embedded = executable(t, "binary", binary), executable(t, "embedded", embedded)
	c := &cluster{stage: newStage(t), fake: newFakeCloud()}
	for _, name := range []string{"replica-a", "replica-b"} {
		c.replicas = append(c.replicas, c.addReplica(t, name, binary))
	}
	c.host = c.addHost(t, embedded)
	return c
}

// addReplica adds a process with the flags that differ from the manifests.
func (c *cluster) addReplica(t *attempt.T, name, binary string) *replica {
	return c.add(t, name, binary, "https", "/readyz", func(port int) []string {
		return []string{
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
		}
	})
}

func (c *cluster) story() story {
	return story{
		preparation: []step{
			{"a control plane starts", 2 * time.Minute, c.prepareControlPlane},
			{"the clouds are served", 10 * time.Second, c.prepareClouds},
		},
		chapters: []step{
			{"two replicas start, one leads", time.Minute, c.startReplicas},
			{"nodes join and are initialized", time.Minute, c.joinNodes},
			{"nodes get routes to their pods", time.Minute, c.awaitNodeRoutes},
			{"a Service gets a load balancer and a floating IP", time.Minute, c.createBalanced},
			{"a machine is switched off and on", time.Minute, c.stopMachine},
			{"Keystone fails, no node is deleted", time.Minute, c.failLogins},
			{"Nova finds no machine, no node is deleted", time.Minute, c.hideMachines},
			{"a machine is deleted, and so is its node", time.Minute, c.loseMachine},
			{"the leader is stopped, the other takes over", time.Minute, c.stopLeader},
			{"the new leader works", time.Minute, c.workAgain},
			{"the stopped replica comes back", time.Minute, c.startStopped},
			{"the Service is deleted, with all it had in OpenStack", time.Minute, c.deleteBalanced},
			{"both replicas stop cleanly", time.Minute, c.endReplicas},
			{"a host that embeds fxccm starts, on a fake cloud", time.Minute, c.startHost},
			{"Services get load balancers from the fake cloud", time.Minute, c.createServices},
			{"the host loses its lease and stands by", time.Minute, c.takeLease},
			{"the host leads again", time.Minute, c.giveLeaseBack},
			{"no request was forbidden, no terms overlapped", 30 * time.Second, c.lookBack},
		},
		ending: []step{
			{"the host stops cleanly", time.Minute, c.endHost},
			{"no process and no file is left", time.Minute, c.end},
		},
	}
}

func (c *cluster) prepareControlPlane(t *attempt.T) string {
	c.startControlPlane(t)
	c.allowReplicas(t)
	version, err := c.client.Discovery().ServerVersion()
	t.Check(err)
	return fmt.Sprintf("Kubernetes %s at %s", version.GitVersion, c.controlPlane.RESTConfig().Host)
}

// allowReplicas applies the shipped RBAC rules.
func (c *cluster) allowReplicas(t *attempt.T) {
	rules, err := deploy.Read(deploy.RBAC)
	t.Check(err)
	c.allow(t, rules, metav1.NamespaceSystem, leaseName, "ccm.kubeconfig")
}

// prepareClouds serves the clouds to the replicas, the host, and a user with curl.
func (c *cluster) prepareClouds(t *attempt.T) string {
	c.serveOpenStack(t, nodeCount)
	server := httptest.NewServer(c.fake.Handler())
	c.closers = append(c.closers, func() error {
		server.Close()
		return nil
	})
	c.fakeURL = server.URL
	t.Check(os.WriteFile(c.file("cloud.yaml"), []byte("endpoint: "+c.fakeURL+"\n"), 0o600))
	return fmt.Sprintf("OpenStack with %d machines at %s, and a fake cloud; a call takes %s",
		nodeCount, c.openStack.server.URL(), cloudLatency)
}

// serveOpenStack serves an OpenStack with machines, and writes its cloud.conf.
func (c *cluster) serveOpenStack(t *attempt.T, machines int) {
	var err error
	c.openStack, err = serveOpenStack()
	t.Check(err)
	c.closers = append(c.closers, func() error {
		c.openStack.server.Close()
		return nil
	})
	for i := range machines {
		c.openStack.addMachine(nodeName(i + 1))
	}
	t.Check(c.openStack.writeCloudConf(c.file("cloud.conf")))
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// holder is the holder of a lease, or "".
func (c *cluster) holder(ctx context.Context, lease string) string {
	read, err := c.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, lease,
		metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return ptr.Deref(read.Spec.HolderIdentity, "")
}

// leaderAndOther are the leading replica and the other one.
func (c *cluster) leaderAndOther(ctx context.Context) (leader, other *replica, err error) {
	holder := c.holder(ctx, leaseName)
	for i, r := range c.replicas {
		if r.name == holder {
			return r, c.replicas[1-i], nil
		}
	}
	return nil, nil, fmt.Errorf("no replica leads: the lease names %q", holder)
}

func (c *cluster) howToLookAround() string {
	return fmt.Sprintf(`Look around from another terminal:
  export KUBECONFIG=%[1]s
  kubectl get nodes -o wide
  kubectl -n kube-system get leases
  kubectl get events
  curl -s %[2]s/_sim/counts
  curl -s %[2]s/_sim/servers
  curl -sk %[3]s?verbose
  tail -f %[4]s
and when the host runs:
  curl -s %[5]s/ccm/statusz
  curl -s %[6]s/v1/routes
  kubectl create service loadbalancer mine --tcp=80
`, c.file("admin.kubeconfig"), c.openStack.server.URL(), c.replicas[0].readyURL, c.replicas[0].log, c.hostURL(), c.fakeURL)
}

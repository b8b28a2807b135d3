//go:build linux

package packets_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/test/internal/project"
	"github.com/fxccm/fxccm/test/internal/replica"
)

// endLimit is how long a replica may take to end after SIGTERM.
const endLimit = time.Minute

// replicas are processes of fxccm that compete for the lease, like those of the Deployment.
type replicas struct {
	t            *testing.T
	binary, logs string
	flags        []string
}

// patientLease is for a machine that is busy with OpenStack, where a shorter lease may be lost
// without a fault.
func patientLease() replica.LeaseTimes {
	return replica.LeaseTimes{
		Duration: 10 * time.Second, Renew: 7 * time.Second, Retry: time.Second,
	}
}

// newReplicas builds the program, and writes its configuration. It starts none.
func (c *cluster) newReplicas(change func(*cloudconf.Config)) *replicas {
	c.t.Helper()
	dir := c.t.TempDir()
	conf, kubeconfig := filepath.Join(dir, "cloud.conf"), filepath.Join(dir, "kubeconfig")
	text, err := cloudconf.RenderWithSecrets(c.config(change))
	if err == nil {
		err = os.WriteFile(conf, []byte(text), 0o600)
	}
	if err == nil {
		err = controlplane.WriteKubeconfig(kubeconfig, c.plane.Identity)
	}
	if err == nil {
		err = replica.Build("../../..", dir, "./cmd/fxccm")
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return &replicas{
		t: c.t, binary: filepath.Join(dir, "fxccm"), logs: replica.LogDir(c.t),
		flags: append([]string{
			"--cloud-provider=openstack", "--cloud-config=" + conf, "--kubeconfig=" + kubeconfig,
			"--cluster-cidr=" + ccmtest.ClusterCIDR, "--secure-port=0", "--logging-format=json",
		}, patientLease().Flags()...),
	}
}

// start starts a replica, which ends with the test.
func (r *replicas) start(name string) *replica.Replica {
	r.t.Helper()
	return &replica.Replica{Process: replica.StartProcess(r.t, r.logs, name, nil, r.binary,
		append(slices.Clone(r.flags), "--leader-elect-identity="+name)...)}
}

// waitWork waits until the replica leads, and initializes a node that joins after that. No load
// balancer gets the node.
func (c *cluster) waitWork(leader *replica.Replica, node string) {
	c.t.Helper()
	waittest.Until(c.t, leader.Name+" leads", leader.Leads)
	c.tell("%s leads", leader.Name)
	c.join([]string{node}, ccmtest.NodeLabel(corev1.LabelNodeExcludeBalancers, "true"))
}

// balancers are the load balancers of the project, with their parts.
func (c *cluster) balancers() project.Inventory {
	c.t.Helper()
	all := c.Inventory()
	maps.DeleteFunc(all, func(key string, _ project.Object) bool {
		return !slices.ContainsFunc(parts,
			func(kind string) bool { return strings.HasPrefix(key, kind+" ") })
	})
	return all
}

// Each leader is a process of its own with a lease. The next leader works: it initializes a node.
func TestLeader_KilledFrozenAndUpgraded_NoRequestFails(t *testing.T) {
	onEachOf(t, []string{"node-1", "node-2", "late-1", "late-2", "late-3"}, testLeaders)
}

func testLeaders(t *testing.T, c *cluster) {
	client := c.addClients("client")[0]
	r := c.newReplicas(internal)
	first := r.start("first")
	waittest.Until(t, "the first replica leads", first.Leads)
	c.join([]string{"node-1", "node-2"})
	_, target := c.expose("web")
	c.waitProvider(2)
	c.waitAnswers("the nodes answer", client, target, "node-1", "node-2")
	before := c.balancers()

	// during lets a client send requests before, during and after a change of the leader.
	var sent []any
	during := func(what string, change func()) {
		t.Helper()
		finish := client.load(t, target)
		time.Sleep(time.Second)
		change()
		time.Sleep(3 * time.Second)
		report := finish()
		c.wantAllAnswered(what, report, 50)
		sent = append(sent, report.Sent)
		// The order of a pool's members in Octavia's answer is not theirs.
		if changed := before.Differences(c.balancers(), "members"); len(changed) > 0 {
			t.Errorf("after %s the load balancer differs: %q", what, changed)
		}
	}

	// A killed process releases no lease, and its connections end.
	second := r.start("second")
	during("the leader's death", func() {
		if err := first.Kill(); err != nil {
			t.Fatal(err)
		}
		c.waitWork(second, "late-1")
	})

	// A frozen process has its connections and believes to lead when it wakes.
	third := r.start("third")
	during("the leader's freeze", func() {
		second.Freeze(t)
		c.waitWork(third, "late-2")
		second.Signal(t, syscall.SIGCONT)
		second.AwaitEntry(t, 1, replica.Standby)
	})
	if err := second.End(endLimit); err != nil {
		t.Fatal(err)
	}

	// An upgrade by a Deployment: the new process starts, then the old one releases the lease.
	fourth := r.start("fourth")
	during("the upgrade", func() {
		if err := third.End(endLimit); err != nil {
			t.Fatal(err)
		}
		c.waitWork(fourth, "late-3")
	})
	c.note("the leader was killed, frozen until another replica led, and replaced by an upgrade: "+
		"of %d, %d and %d requests, 20 a second, none failed; each next leader initialized a node, "+
		"and the load balancer was unchanged", sent...)
}

package manager_test

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
	"github.com/fxccm/fxccm/test/internal/project"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// A cluster has its nodes in a project.
type cluster struct {
	*project.Project
	t    *testing.T
	kube kubernetes.Interface
	// plane is where kube leads.
	plane *suite.Suite

	// servers are by the names of their nodes.
	servers map[string]project.Server
	began   time.Time
}

// newCluster takes a control plane, and creates a project.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	plane := shared.Take(t)
	return &cluster{
		Project: project.New(t,
			project.OnSimulator(openstacktest.WithProvisioning(200*time.Millisecond))),
		t: t, kube: plane.Admin, plane: plane,
		servers: map[string]project.Server{}, began: time.Now(),
	}
}

// config is the configuration of all tests: with routes, and confirmations short enough to wait
// for.
func (c *cluster) config() cloudconf.Config {
	cfg := c.Config()
	cfg.Route.RouterID = c.Router
	cfg.Client.RequestRate, cfg.Client.RequestBurst = 1000, 1000
	cfg.Instances.MetadataMaxAge, cfg.Instances.StatusMaxAge = 2*c.pace(), c.pace()
	cfg.Instances.AbsenceConfirmation = 3 * c.pace()
	return cfg
}

// pace is the CCM's period for checks of the cloud. A lab on a small machine needs several seconds
// for a change that a cloud makes in one.
func (c *cluster) pace() time.Duration {
	if c.Real() {
		return 5 * time.Second
	}
	return 400 * time.Millisecond
}

// tell logs the progress of the test.
func (c *cluster) tell(format string, args ...any) {
	c.t.Helper()
	c.t.Logf("%5.1fs  %s", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

// seed is the seed of a test's random changes: the variable FXCCM_SEED, or a new one.
func seed(t *testing.T) uint64 {
	t.Helper()
	n := rand.Uint64()
	if text := os.Getenv("FXCCM_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("FXCCM_SEED: %v", err)
		}
	}
	t.Logf("FXCCM_SEED=%d", n)
	return n
}

// chance is a separate random sequence for each name.
func chance(seed uint64, what string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(what))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// names are as many, counted from 1.
func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d", prefix, i+1)
	}
	return all
}

// addServers creates the servers of future nodes, as many in parallel as Nova in a lab can handle.
func (c *cluster) addServers(names ...string) {
	c.t.Helper()
	for some := range slices.Chunk(names, 10) {
		for _, s := range c.AddServers(some) {
			c.servers[s.Name] = s
		}
	}
}

// join creates the nodes of servers, like their kubelets and kube-controller-manager's allocator of
// pod ranges.
func (c *cluster) join(names ...string) {
	c.t.Helper()
	all, err := c.nodes().List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	used := map[string]bool{}
	for _, n := range all.Items {
		used[n.Spec.PodCIDR] = true
	}
	free := 0
	for _, name := range names {
		pods := ""
		for pods == "" || used[pods] {
			pods = fmt.Sprintf("10.244.%d.0/24", free)
			free++
		}
		ccmtest.CreateNode(c.t, c.kube, ccmtest.TaintedNode(name, ccmtest.NodePodCIDRs(pods)))
	}
}

// leave deletes nodes. Their servers stay.
func (c *cluster) leave(names ...string) {
	c.t.Helper()
	for _, name := range names {
		if err := c.nodes().Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *cluster) nodes() corev1client.NodeInterface { return c.kube.CoreV1().Nodes() }

func (c *cluster) services() corev1client.ServiceInterface {
	return c.kube.CoreV1().Services(metav1.NamespaceDefault)
}

// kubelet sets whether the node is ready.
func (c *cluster) kubelet(name string, ready corev1.ConditionStatus) {
	c.t.Helper()
	c.retry(func() error {
		node, err := c.nodes().Get(c.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range node.Status.Conditions {
			if node.Status.Conditions[i].Type == corev1.NodeReady {
				node.Status.Conditions[i].Status = ready
			}
		}
		_, err = c.nodes().UpdateStatus(c.t.Context(), node, metav1.UpdateOptions{})
		return err
	})
}

// exclude removes the node from load balancers, or adds it again.
func (c *cluster) exclude(name string, out bool) {
	c.t.Helper()
	c.retry(func() error {
		node, err := c.nodes().Get(c.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		delete(node.Labels, corev1.LabelNodeExcludeBalancers)
		if out {
			node.Labels[corev1.LabelNodeExcludeBalancers] = "true"
		}
		_, err = c.nodes().Update(c.t.Context(), node, metav1.UpdateOptions{})
		return err
	})
}

// retry repeats a change after a conflict.
func (c *cluster) retry(change func() error) {
	c.t.Helper()
	if err := retry.RetryOnConflict(retry.DefaultBackoff, change); err != nil {
		c.t.Fatal(err)
	}
}

// expose creates a Service with three ports.
func (c *cluster) expose(name string) {
	c.t.Helper()
	ccmtest.CreateService(c.t, c.kube,
		ccmtest.LoadBalancerService(name, ccmtest.ServicePorts(80, 443, 9000)))
}

// edit changes a Service of type LoadBalancer, and sets that type first.
func (c *cluster) edit(name string, change func(*corev1.Service)) {
	c.t.Helper()
	c.retry(func() error {
		service, err := c.services().Get(c.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		service.Spec.Type = corev1.ServiceTypeLoadBalancer
		change(service)
		_, err = c.services().Update(c.t.Context(), service, metav1.UpdateOptions{})
		return err
	})
}

// remove deletes a Service, which exists until its load balancer is deleted.
func (c *cluster) remove(name string) {
	c.t.Helper()
	if err := c.services().Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil &&
		!apierrors.IsNotFound(err) {
		c.t.Fatal(err)
	}
}

// waitServicesGone waits until the Services are gone, and their load balancers with them.
func (c *cluster) waitServicesGone(names ...string) {
	c.t.Helper()
	c.wait(fmt.Sprintf("%d Services are gone", len(names)), func() (there []string) {
		all, _ := c.list()
		for _, s := range all {
			if slices.Contains(names, s.Name) {
				there = append(there, s.Name+" is there")
			}
		}
		return there
	})
}

// list returns the current Services and nodes.
func (c *cluster) list() (services []corev1.Service, nodes []corev1.Node) {
	c.t.Helper()
	s, err := c.services().List(c.t.Context(), metav1.ListOptions{})
	n, err2 := c.nodes().List(c.t.Context(), metav1.ListOptions{})
	if err := errors.Join(err, err2); err != nil {
		c.t.Fatal(err)
	}
	// The API server's own.
	return slices.DeleteFunc(s.Items,
		func(s corev1.Service) bool { return s.Name == "kubernetes" }), n.Items
}

// wait waits until check returns no sentence.
func (c *cluster) wait(what string, check func() []string) {
	c.t.Helper()
	c.Wait(what, func() error {
		if said := check(); len(said) > 0 {
			return errors.New(lines(said))
		}
		return nil
	})
	c.tell("%s", what)
}

// waitAgreement waits until cluster and cloud agree.
func (c *cluster) waitAgreement(what string) {
	c.t.Helper()
	c.wait(what, func() []string {
		services, nodes := c.list()
		if busy := c.busy(len(services)); busy != nil {
			return busy
		}
		return c.disagreements(services, nodes, c.Inventory())
	})
}

// busy tells by one list what load balancers are being worked on, which is when it is too early to
// look at them all.
func (c *cluster) busy(most int) (said []string) {
	all := c.User().List(project.LoadBalancer, "/lbaas/loadbalancers", "loadbalancers")
	if len(all) > most {
		said = append(said,
			fmt.Sprintf("there are %d load balancers, want at most %d", len(all), most))
	}
	for _, lb := range all {
		if status := project.Text(lb, "provisioning_status"); status != "ACTIVE" {
			said = append(said,
				fmt.Sprintf("load balancer %s is %s", project.Text(lb, "name"), status))
		}
	}
	return said
}

// lines are at most so many that they can be read.
func lines(all []string) string {
	const most = 40
	text := ""
	for i, line := range all {
		if i == most {
			return text + fmt.Sprintf("… and %d more\n", len(all)-most)
		}
		text += line + "\n"
	}
	return text
}

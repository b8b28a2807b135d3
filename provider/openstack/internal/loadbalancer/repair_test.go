package loadbalancer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// watched returns a cluster whose provider reads the API server's objects from informers.
func watched(t *testing.T, s *site) (c *cluster, stop chan struct{}) {
	t.Helper()
	c = s.begin("cluster-1", s.kube)
	factory := informers.NewSharedInformerFactory(s.kube, 0)
	c.SetInformers(factory, factory.Core().V1().Nodes().Lister())
	stop = make(chan struct{})
	c.EndWith(stop)
	ending := make(chan struct{})
	factory.Start(ending)
	factory.WaitForCacheSync(ending)
	<-s.watching
	<-s.watching
	t.Cleanup(func() {
		close(ending)
		factory.Shutdown()
	})
	return c, stop
}

func (s *site) register(node *v1.Node) *v1.Node {
	s.t.Helper()
	made, err := s.kube.CoreV1().Nodes().Create(s.t.Context(), node, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return made
}

func TestRepair_FollowsNodesAndTheCloud_UntilTheTermEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.defaults.LoadBalancer.DriftPeriod = 200 * time.Millisecond
	c, stop := watched(t, s)
	first := s.register(s.addNode("a"))
	service := s.addService("web", 80)
	waittest.Until(t, "the provider sees the Service",
		func() bool { _, ok := c.objects.Load().current(service); return ok })
	waittest.Until(t, "the provider sees the node",
		func() bool { return len(c.objects.Load().nodesOr(nil)) == 1 })
	if lbs := s.LoadBalancers(); len(lbs) > 0 {
		t.Fatalf("the load balancers are %v", lbs)
	}
	c.ensure(service)

	weight := func() int {
		if lbs := s.LoadBalancers(); len(lbs) == 1 && len(lbs[0].Pools) == 1 &&
			len(lbs[0].Pools[0].Members) > 0 {
			return lbs[0].Pools[0].Members[0].Weight
		}
		return -1
	}
	// The service controller leaves out a node that is about to be removed.
	first.Spec.Taints = []v1.Taint{{
		Key:    "ToBeDeletedByClusterAutoscaler",
		Effect: v1.TaintEffectNoSchedule,
	}}
	if _, err := s.kube.CoreV1().Nodes().Update(t.Context(), first,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the node gets no new connections", func() bool {
		if err := c.UpdateLoadBalancer(t.Context(), "kubernetes", service, nil); err != nil {
			t.Fatal(err)
		}
		return weight() == 0
	})

	if err := s.DeleteLoadBalancer(s.LoadBalancers()[0].ID); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "there is another load balancer, and the Service names it", func() bool {
		lbs := s.LoadBalancers()
		return len(lbs) == 1 && lbs[0].ProvisioningStatus == openstacktest.StatusActive &&
			s.now(service).Annotations["loadbalancer.openstack.org/load-balancer-id"] == lbs[0].ID
	})
	ip := s.FloatingIPs()[0]
	if err := s.DeleteFloatingIP(ip.ID); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the status has the new address", func() bool {
		ips, ingress := s.FloatingIPs(), s.now(service).Status.LoadBalancer.Ingress
		return len(ips) == 1 && len(ingress) == 1 && ingress[0].IP == ips[0].Address &&
			ips[0].Address != ip.Address
	})

	close(stop)
	c.repairs.alive.Wait()
	if err := s.DeleteLoadBalancer(s.LoadBalancers()[0].ID); err != nil {
		t.Fatal(err)
	}
	mark := s.mark()
	c.repairs.ask()
	if calls := s.counts(mark); len(calls) > 0 || len(s.LoadBalancers()) > 0 {
		t.Errorf("the calls after the end are %v", calls)
	}
}

func TestRepair_ServiceControllerRetries_RepairDoesNot(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.defaults.LoadBalancer.DriftPeriod = 0
	c, _ := watched(t, s)
	node, service := s.register(s.addNode("a")), s.addService("web", 80)
	waittest.Until(t, "the provider sees Service and node", func() bool {
		_, ok := c.objects.Load().current(service)
		return ok && len(c.objects.Load().nodesOr(nil)) == 1
	})
	c.ensure(service, node)
	allow := s.Inject(openstacktest.Fault{
		Operation: "loadbalancer_create", Status: http.StatusForbidden,
	})
	if err := s.DeleteLoadBalancer(s.LoadBalancers()[0].ID); err != nil {
		t.Fatal(err)
	}
	attempts := func(item repair) (posts, retries int) {
		t.Helper()
		mark := s.mark()
		c.repairs.settle(item, c.repairs.do(item))
		retries = c.repairs.queue.NumRequeues(item)
		c.repairs.queue.Forget(item)
		return s.counts(mark)["loadbalancer_create"], retries
	}
	drift := repair{service: service.UID}
	if posts, retries := attempts(drift); posts != 1 || retries != 1 {
		t.Errorf("after its own failure a repair has sent %d POSTs and has %d retries, want 1 and 1",
			posts, retries)
	}
	if _, err := c.EnsureLoadBalancer(t.Context(), "kubernetes", s.now(service),
		[]*v1.Node{node}); err == nil {
		t.Fatal("the load balancer was created")
	}
	if posts, retries := attempts(drift); posts+retries > 0 {
		t.Errorf("beside the service controller a repair has sent %d POSTs and has %d retries", posts,
			retries)
	}
	allow()
	c.ensure(service, node)
	if c.repairs.isRetried(service.UID) {
		t.Error("the service controller still retries for a Service that is served")
	}
}

func TestRepair_FailureStays_IsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		r := newRepairs(&LoadBalancers{config: Config{
			Logger: funcr.New(func(_, line string) { lines = append(lines, line) },
				funcr.Options{}),
		}})
		defer r.close()
		item := repair{service: "uid-1"}
		// fail settles attempts of an hour, and returns their number.
		fail := func(err error) (attempts int) {
			for begun := time.Now(); time.Since(begun) < time.Hour; attempts++ {
				r.settle(item, err)
				if next, over := r.queue.Get(); next != item || over {
					t.Fatalf("the next repair is %v, over: %t", next, over)
				}
				r.queue.Done(item)
			}
			return attempts
		}
		for _, err := range []error{errors.New("403"), errors.New("503")} {
			lines = nil
			if n := fail(err); n < 10 {
				t.Errorf("%d attempts in an hour", n)
			}
			if len(lines) != 1 || !strings.Contains(lines[0], err.Error()) {
				t.Errorf("of %v the log has %q, want one line", err, lines)
			}
		}
		lines = nil
		r.settle(item, nil)
		r.settle(item, errors.New("503"))
		if len(lines) != 1 {
			t.Errorf("after a success the log has %q, want one line", lines)
		}
	})
}

// A machine that is no server is never found, so a retry must cost little.
func TestRepair_NodeIsUnknown_IsRetriedUntilItIsAMember(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		// isElsewhere: the node may be in another region, so it needs no action.
		isElsewhere bool
		events      int
	}{
		"its server is unknown": {false, 1},
		"its region is unknown": {true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.defaults.LoadBalancer.DriftPeriod = 0
			c, _ := watched(t, s)
			var isKnown atomic.Bool
			c.config.Addresses = func(
				_ context.Context, nodes []*v1.Node,
			) map[string][]v1.NodeAddress {
				all := map[string][]v1.NodeAddress{}
				for _, node := range nodes {
					if isKnown.Load() {
						all[node.Name] = node.Status.Addresses
					}
				}
				return all
			}
			if test.isElsewhere {
				c.config.SortNodes = func(
					_ context.Context, nodes []*v1.Node,
				) (here, unknown []*v1.Node) {
					if isKnown.Load() {
						return nodes, nil
					}
					return nil, nodes
				}
			}
			node, service := s.register(s.addNode("a")), s.addService("web", 80)
			waittest.Until(t, "the provider sees Service and node", func() bool {
				_, ok := c.objects.Load().current(service)
				return ok && len(c.objects.Load().nodesOr(nil)) == 1
			})
			c.ensure(service, node)
			item := repair{service: service.UID}
			for range 2 {
				if err := c.repairs.do(item); !errors.Is(err, errUnverified) {
					t.Errorf("a repair has the error %v, want %v", err, errUnverified)
				}
			}
			mark := s.mark()
			if err := c.repairs.do(item); !errors.Is(err, errUnverified) {
				t.Errorf("a repair has the error %v, want %v", err, errUnverified)
			}
			counts := s.counts(mark)
			for _, read := range []string{
				"loadbalancer_status", "loadbalancer_listener_list", "loadbalancer_pool_list",
				"loadbalancer_member_list",
			} {
				if counts[read] > 0 {
					t.Errorf("the requests of a retry are %v, want none that reads the parts", counts)
				}
			}
			if said := s.said("not a member yet"); len(said) != test.events {
				t.Errorf("the events are %q, want %d", said, test.events)
			}

			isKnown.Store(true)
			waittest.Until(t, "the node is known", func() error { return c.repairs.do(item) })
			if members := s.LoadBalancers()[0].Pools[0].Members; len(members) != 1 {
				t.Errorf("the members are %+v, want that of the node", members)
			}
		})
	}
}

func TestRepair_ServiceIsDeletedMeanwhile_IsNotRetried(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c, _ := watched(t, s)
	item := repair{service: "gone"}
	_, err := c.LoadBalancers.ensure(t.Context(), request{
		cluster: "kubernetes",
		service: &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gone"}},
	})
	c.repairs.settle(item, err)
	if n := c.repairs.queue.NumRequeues(item); err == nil || n > 0 {
		t.Errorf("after %v the repair of a deleted Service is retried %d times", err, n)
	}
}

// Octavia rounds the time of a change to the second, so UpdatedAt may not show a change during a
// slow read.
func TestRepair_AnotherClientChangesDuringASlowRead_TheNextMendsIt(t *testing.T) {
	t.Parallel()
	s, now := newTickingSite(t)
	s.defaults.LoadBalancer.DriftPeriod = 0
	c := s.begin("cluster-1", s.kube)
	node, service := s.addNode("a"), s.addService("web", 80)
	c.ensure(service, node)
	repair := func() (weight int) {
		t.Helper()
		if _, err := c.ensure1(request{
			cluster: "kubernetes", service: s.now(service), nodes: []*v1.Node{node},
			mode: mode{create: true, repair: true, deep: true},
		}); err != nil {
			t.Fatal(err)
		}
		return s.LoadBalancers()[0].Pools[0].Members[0].Weight
	}
	// The change is in the same second as fxccm's own last change.
	if err := s.ChangeLoadBalancer(s.LoadBalancers()[0].ID, func(lb *openstacktest.LoadBalancer) {
		lb.Pools[0].Members[0].Weight = 7
	}); err != nil {
		t.Fatal(err)
	}
	remove := s.Inject(openstacktest.Fault{
		Operation: "loadbalancer_member_list", Times: 1,
		Rewrite: func(_ openstacktest.Call, status int, body []byte) (int, []byte) {
			now.Step(3 * time.Second)
			return status, bytes.ReplaceAll(body, []byte(`"weight":7`), []byte(`"weight":1`))
		},
	})
	defer remove()
	if weight := repair(); weight != 7 {
		t.Fatalf("the repair that read too early has set the weight %d", weight)
	}
	now.Step(10 * time.Second)
	if weight := repair(); weight != 1 {
		t.Errorf("the weight is %d, want 1", weight)
	}
}

func TestRepairs_ServicesAreDeleted_OnePassComparesOneBatchInAllFields(t *testing.T) {
	l := New(Config{})
	defer l.Close()
	deep := func() (compared []types.UID) {
		l.repairs.ask()
		for l.repairs.queue.Len() > 0 {
			item, _ := l.repairs.queue.Get()
			l.repairs.queue.Done(item)
			if item.deep {
				compared = append(compared, item.service)
			}
		}
		return compared
	}
	const services = 4 * deepScanBatch
	for i := range services {
		l.tracked.set(types.UID(fmt.Sprintf("%04d", i)), serviceName{})
	}
	seen := map[types.UID]bool{}
	for range services / deepScanBatch {
		for _, uid := range deep() {
			seen[uid] = true
		}
	}
	if len(seen) != services {
		t.Errorf("the passes compared %d Services in all fields, want %d", len(seen), services)
	}
	for range services/deepScanBatch - 1 {
		deep()
	}
	for i := range services - deepScanBatch - 1 {
		l.tracked.forget(types.UID(fmt.Sprintf("%04d", i)))
	}
	if compared := deep(); len(compared) != deepScanBatch {
		t.Errorf("%d of the %d remaining Services are compared in all fields, want %d",
			len(compared), deepScanBatch+1, deepScanBatch)
	}
}

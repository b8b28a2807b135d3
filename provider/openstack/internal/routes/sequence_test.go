package routes

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// Nodes leave and come back, perhaps with another pod CIDR, requests fail before or after they
// took effect, and the process restarts. When requests succeed again, the routes and the address
// pairs are those of the nodes.
func TestAnySequence_Converges(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			if seed%2 == 0 {
				sequence(t, newSite(t), seed)
			} else {
				sequence(t, newSite(t, withoutAtomic()), seed)
			}
		})
	}
}

func sequence(t *testing.T, s *site, seed uint64) {
	t.Helper()
	random, faults := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	clock := fakeClock()
	c := newCluster(t, s, clock)
	const nodes = 4
	address := func(n int) string { return fmt.Sprintf("10.0.0.%d", 11+n) }
	cidr := func(n int) string { return fmt.Sprintf("10.244.%d.0/24", n) }
	pods := map[int]int{} // the number of the pod CIDR of each present node
	for n := range nodes {
		s.addPort(fmt.Sprintf("server-%d", n), address(n))
	}
	join := func(n, with int) {
		pods[n] = with
		c.setNode(node(fmt.Sprintf("node-%d", n), []string{address(n)}, cidr(with)))
	}
	// After a restart, the route of a node that left meanwhile is foreign, because its server is
	// still there. So nodes keep their CIDRs, and all come back.
	restarts := seed%4 >= 2
	for range 60 {
		n := random.IntN(nodes)
		_, present := pods[n]
		switch free := random.IntN(nodes + 1); {
		case present && random.IntN(3) == 0:
			delete(pods, n)
			c.removeNode(fmt.Sprintf("node-%d", n))
		case !present && restarts:
			join(n, n)
		case !present && !slices.Contains(slices.Collect(maps.Values(pods)), free):
			join(n, free)
		}
		if restarts && random.IntN(10) == 0 {
			c.start()
		}
		s.Inject(openstacktest.Fault{
			Match:       func(openstacktest.Call) bool { return faults.IntN(3) == 0 },
			Status:      http.StatusInternalServerError,
			AfterEffect: random.IntN(2) == 0,
		})
		c.reconcile()
		s.RemoveFaults()
		clock.Step(10 * time.Second)
	}
	for n := range nodes {
		if _, present := pods[n]; restarts && !present {
			join(n, n)
		}
	}
	c.reconcile()
	clock.Step(10 * time.Second)
	if errs := c.reconcile(); len(errs) > 0 {
		t.Errorf("no request fails, but %v", errs)
	}
	var wanted []string
	for n := range nodes {
		pairs := []string{}
		if with, present := pods[n]; present {
			wanted = append(wanted, cidr(with)+via+address(n))
			pairs = append(pairs, cidr(with))
		}
		if got := s.pairs(address(n)); !slices.Equal(got, pairs) {
			t.Errorf("node %d may send from %v, want %v", n, got, pairs)
		}
	}
	s.wantRoutes(wanted...)
}

// reconcile does what upstream's controller does every ten seconds, with one worker, and returns
// the errors.
func (c *cluster) reconcile() (errs []error) {
	c.t.Helper()
	listed, err := c.ListRoutes(c.t.Context(), "cluster")
	if err != nil {
		return []error{err}
	}
	has := map[string]bool{}
	for _, r := range listed {
		n, _, _ := c.nodes.GetByKey(string(r.TargetNode))
		if n, ok := n.(*v1.Node); ok && !r.Blackhole &&
			slices.Contains(n.Spec.PodCIDRs, r.DestinationCIDR) {
			has[n.Name+r.DestinationCIDR] = true
		} else if err := c.DeleteRoute(c.t.Context(), "cluster", r); err != nil {
			errs = append(errs, err)
		}
	}
	for _, n := range c.nodes.List() {
		n := n.(*v1.Node)
		for _, destination := range n.Spec.PodCIDRs {
			if !has[n.Name+destination] {
				if err := c.create(n.Name, destination); err != nil {
					errs = append(errs, err)
				}
			}
		}
	}
	return errs
}

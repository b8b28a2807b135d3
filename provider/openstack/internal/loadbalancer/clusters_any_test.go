package loadbalancer

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// Two clusters share one project. After any sequence of actions and lost tags, each cluster is
// served, changes only its own objects, and leaves none.
func TestClusters_AnySequence_EachIsServedAndTouchesItsOwn(t *testing.T) {
	t.Parallel()
	for seed := range *sequences {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			p := newSharedProject(t, seed)
			for range 8 {
				p.happen()
				if p.IntN(3) > 0 {
					p.settle()
				}
			}
			p.settle()
			for len(p.tenants) > 0 {
				p.leave()
			}
			p.wantNothingLeft()
			if t.Failed() {
				t.Logf("what happened:\n%s", strings.Join(p.log, "\n"))
			}
		})
	}
}

// sharedProject is a project of two clusters.
type sharedProject struct {
	*rand.Rand
	*site
	time     *clocktesting.FakeClock
	clusters [2]*cluster
	nodes    [2]*v1.Node
	tenants  []*tenant
	// makers maps each load balancer, listener, pool and floating IP, even a deleted one, to the
	// cluster that created it.
	makers map[string]int
	// spared are the load balancers that may stay, because their creator's cluster left before
	// another one. wiped have lost all tags: the last cluster may delete them and leave a floating
	// IP.
	spared, wiped map[string]bool
	users         string
	// hasSameNames: the Services of both clusters have the same names. OCCM cannot tell them apart.
	hasSameNames bool
	log          []string
}

// tenant is a Service.
type tenant struct {
	cluster int
	service *v1.Service
	isGuest bool
}

func (t *tenant) String() string {
	return fmt.Sprintf("%s of cluster %d", t.service.Name, t.cluster)
}

func newSharedProject(t *testing.T, seed uint64) *sharedProject {
	t.Helper()
	now := clocktesting.NewFakeClock(time.Now().Truncate(time.Second))
	p := &sharedProject{
		Rand: rand.New(rand.NewPCG(seed, 3)), time: now,
		site:   newSite(t, openstacktest.WithClock(now)),
		makers: map[string]int{}, spared: map[string]bool{}, wiped: map[string]bool{},
		hasSameNames: seed%2 == 0,
	}
	p.site.defaults.LoadBalancer.MaxSharedLB = 100
	p.site.clock = now
	p.users = p.AddLoadBalancer(openstacktest.LoadBalancer{
		OctaviaResource: openstacktest.OctaviaResource{Name: "users", Tags: []string{"users"}},
		VIPSubnetID:     p.subnet,
	})
	for i, at := range []*site{p.site, p.another()} {
		p.nodes[i] = at.addNode(fmt.Sprint("node-", i))
		p.clusters[i] = at.begin(clusterUID(i), at.kube)
	}
	p.add(0, 0, nil)
	p.add(p.IntN(2), 1, p.balancer(p.tenants[0]))
	if !p.hasSameNames {
		p.becomeOCCMs()
	}
	return p
}

func clusterUID(i int) string { return fmt.Sprint("cluster-", i) }

// happen takes one random action.
func (p *sharedProject) happen() {
	p.time.Step(3 * time.Second)
	all := []func(){p.join, p.join, p.join, p.changePorts, p.leave, p.restartAny, p.loseTags}
	if p.hasSameNames {
		all = append(all, p.loseAllTags)
	} else {
		all = append(all, p.becomeOCCMs)
	}
	all[p.IntN(len(all))]()
}

func (p *sharedProject) note(format string, arguments ...any) {
	p.log = append(p.log, fmt.Sprintf(format, arguments...))
}

// join adds a Service, with a load balancer of its own or an existing one.
func (p *sharedProject) join() {
	var in *openstacktest.LoadBalancer
	if lbs := p.LoadBalancers(); p.IntN(3) > 0 {
		in = &lbs[p.IntN(len(lbs))]
	}
	p.add(p.IntN(2), p.IntN(3), in)
}

// add adds the Service with this number, unless it exists.
func (p *sharedProject) add(cluster, number int, in *openstacktest.LoadBalancer) {
	name := []string{"web", "api", "db"}[number]
	if cluster == 1 && !p.hasSameNames {
		name += "-1"
	}
	if slices.ContainsFunc(p.tenants, func(of *tenant) bool {
		return of.cluster == cluster && of.service.Name == name
	}) {
		return
	}
	s := p.clusters[cluster].site
	of := &tenant{
		cluster: cluster, service: s.addService(name, p.ports(cluster, number)...),
		isGuest: in != nil,
	}
	if of.isGuest {
		of.service.Annotations[settings.AnnotationLoadBalancerID] = in.ID
		s.update(of.service)
		p.note("%s joins %s", of, in.Name)
	} else {
		p.note("%s wants a load balancer", of)
	}
	p.tenants = append(p.tenants, of)
	p.pass(of)
}

// ports are one to three ports that no other Service has.
func (p *sharedProject) ports(cluster, name int) []int32 {
	var ports []int32
	for i := range 1 + p.IntN(3) {
		ports = append(ports, int32(1000*(1+cluster)+100*name+i))
	}
	return ports
}

func (p *sharedProject) any() *tenant {
	if len(p.tenants) == 0 {
		return nil
	}
	return p.tenants[p.IntN(len(p.tenants))]
}

func (p *sharedProject) changePorts() {
	of := p.any()
	if of == nil {
		return
	}
	s := p.clusters[of.cluster].site
	now := s.now(of.service)
	first := now.Spec.Ports[0]
	now.Spec.Ports = []v1.ServicePort{first}
	for i := range p.IntN(3) {
		port := first
		port.Port, port.NodePort = first.Port+int32(i)+1, first.NodePort+int32(i)+1
		port.Name = fmt.Sprint("p", port.Port)
		now.Spec.Ports = append(now.Spec.Ports, port)
	}
	s.update(now)
	p.note("%s has %d ports", of, len(now.Spec.Ports))
}

func (p *sharedProject) restartAny() { p.restart(p.IntN(2)) }

func (p *sharedProject) restart(i int) {
	s := p.clusters[i].site
	p.clusters[i] = s.begin(clusterUID(i), s.kube)
	p.note("cluster %d restarts", i)
}

// balancer is the load balancer that the Service uses; nil if it has none yet.
func (p *sharedProject) balancer(of *tenant) *openstacktest.LoadBalancer {
	id := p.clusters[of.cluster].site.now(of.service).Annotations[settings.AnnotationLoadBalancerID]
	lb, err := p.LoadBalancer(id)
	if err != nil {
		return nil
	}
	return &lb
}

// sharers are the Services that use a load balancer.
func (p *sharedProject) sharers(id string) (all []*tenant) {
	for _, of := range p.tenants {
		if lb := p.balancer(of); lb != nil && lb.ID == id {
			all = append(all, of)
		}
	}
	return all
}

// loseTags has a client write tags that it read before a guest joined.
func (p *sharedProject) loseTags() {
	of := p.any()
	if of == nil || !of.isGuest || p.balancer(of) == nil {
		return
	}
	lb := p.balancer(of)
	lost := []string{"fxccm-service=" + string(of.service.UID)}
	isAlone := !slices.ContainsFunc(p.sharers(lb.ID), func(other *tenant) bool {
		return other != of && other.cluster == of.cluster
	})
	if isAlone {
		lost = append(lost, "fxccm-cluster="+clusterUID(of.cluster),
			"fxccm-guest="+clusterUID(of.cluster))
	}
	p.setTags(lb.ID, slices.DeleteFunc(slices.Clone(lb.Tags),
		func(tag string) bool { return slices.Contains(lost, tag) }))
	p.note("%s loses its tags on %s", of, lb.Name)
}

func (p *sharedProject) setTags(id string, tags []string) {
	if err := p.ChangeLoadBalancer(id, func(lb *openstacktest.LoadBalancer) {
		lb.Tags, lb.UpdatedAt = tags, p.time.Now()
	}); err != nil {
		p.site.t.Error(err)
	}
}

func (p *sharedProject) loseAllTags() {
	lbs := p.LoadBalancers()
	lb := lbs[p.IntN(len(lbs))]
	p.setTags(lb.ID, nil)
	p.spared[lb.ID], p.wiped[lb.ID] = true, true
	for _, ip := range p.FloatingIPs() {
		p.wiped[ip.ID] = p.wiped[ip.ID] || ip.PortID == lb.VIPPortID
	}
	p.note("%s loses all tags", lb.Name)
}

// becomeOCCMs leaves a load balancer as OCCM does: its only tags are the names of its Services.
func (p *sharedProject) becomeOCCMs() {
	tags, lbs := []string{}, p.LoadBalancers()
	lbs = slices.DeleteFunc(lbs, func(lb openstacktest.LoadBalancer) bool {
		return lb.ID == p.users || len(p.sharers(lb.ID)) < 2
	})
	if len(lbs) == 0 {
		return
	}
	lb := lbs[p.IntN(len(lbs))]
	for _, of := range p.sharers(lb.ID) {
		tags = append(tags, "kube_service_kubernetes_default_"+of.service.Name)
	}
	if !slices.Contains(tags, lb.Name) {
		// The owner has left.
		return
	}
	p.setTags(lb.ID, tags)
	if err := p.ChangeLoadBalancer(lb.ID, func(lb *openstacktest.LoadBalancer) {
		for i, l := range lb.Listeners {
			lb.Listeners[i].Tags = l.Tags[:1]
		}
		for i := range lb.Pools {
			lb.Pools[i].Tags = nil
		}
	}); err != nil {
		p.site.t.Error(err)
	}
	for _, ip := range p.FloatingIPs() {
		if ip.PortID == lb.VIPPortID {
			if err := p.UpdateFloatingIP(ip.ID,
				func(ip *openstacktest.FloatingIP) { ip.Tags = nil }); err != nil {
				p.site.t.Error(err)
			}
		}
	}
	p.note("%s becomes OCCM's", lb.Name)
	p.restart(0)
	p.restart(1)
}

// pass reconciles a Service until it is served.
func (p *sharedProject) pass(of *tenant) {
	p.site.t.Helper()
	c := p.clusters[of.cluster]
	var err error
	for range 30 {
		p.time.Step(3 * time.Second)
		now := c.site.now(of.service)
		err = p.watch(of.cluster, func() error {
			status, err := c.ensure1(request{
				cluster: "kubernetes", service: now, nodes: p.nodes[of.cluster:][:1],
				mode: mode{create: true, repair: true, deep: true},
			})
			if err == nil {
				now = c.site.now(of.service)
				now.Status.LoadBalancer = *status
				c.site.update(now)
			}
			return err
		})
		if err == nil {
			return
		}
	}
	p.site.t.Fatalf("%s is not served: %v\n%s", of, err, strings.Join(p.log, "\n"))
}

// watch fails the test if the cluster changes an object of another one. New objects belong to the
// cluster.
func (p *sharedProject) watch(cluster int, do func() error) error {
	p.site.t.Helper()
	mark := p.mark()
	err := do()
	for _, write := range p.writes(mark) {
		for id, maker := range p.makers {
			isWhole := strings.HasSuffix(write, "/loadbalancers/"+id)
			isTags := isWhole && strings.HasPrefix(write, http.MethodPut)
			if maker != cluster && strings.Contains(write, id) && !isTags &&
				(!isWhole || !p.wiped[id] || p.isUsed(id, 1-cluster)) {
				p.site.t.Errorf("cluster %d: %s, which cluster %d has made", cluster, write, maker)
			}
		}
	}
	made := func(id string) {
		if _, known := p.makers[id]; !known {
			p.makers[id] = cluster
		}
	}
	for _, lb := range p.LoadBalancers() {
		if lb.ID != p.users {
			made(lb.ID)
		}
		for _, l := range lb.Listeners {
			made(l.ID)
		}
		for _, pool := range lb.Pools {
			made(pool.ID)
		}
	}
	for _, ip := range p.FloatingIPs() {
		made(ip.ID)
	}
	return err
}

// isUsed reports whether the annotation of a Service of the cluster names the load balancer.
func (p *sharedProject) isUsed(id string, by int) bool {
	return slices.ContainsFunc(p.tenants, func(of *tenant) bool {
		now := p.clusters[by].site.now
		return of.cluster == by &&
			now(of.service).Annotations[settings.AnnotationLoadBalancerID] == id
	})
}

// settle reconciles all Services, in random order, until no pass changes anything.
func (p *sharedProject) settle() {
	p.site.t.Helper()
	for range 10 {
		mark := p.mark()
		for _, i := range p.Perm(len(p.tenants)) {
			p.pass(p.tenants[i])
		}
		if len(p.writes(mark)) == 0 {
			p.wantServed()
			return
		}
	}
	p.site.t.Fatalf("ten passes of each Service have changed something\n%s",
		strings.Join(p.log, "\n"))
}

// wantServed fails the test unless each port of each Service, and no other port, leads to its
// cluster.
func (p *sharedProject) wantServed() {
	p.site.t.Helper()
	want, got := []string{}, []string{}
	for _, of := range p.tenants {
		now := p.clusters[of.cluster].site.now(of.service)
		id := now.Annotations[settings.AnnotationLoadBalancerID]
		for _, port := range now.Spec.Ports {
			want = append(want, fmt.Sprintf("%s %d to node-%d", id, port.Port, of.cluster))
		}
	}
	for _, lb := range p.LoadBalancers() {
		for _, l := range lb.Listeners {
			to := "nothing"
			for _, pool := range lb.Pools {
				if pool.ID == l.DefaultPoolID && len(pool.Members) == 1 {
					to = pool.Members[0].Name
				}
			}
			got = append(got, fmt.Sprintf("%s %d to %s", lb.ID, l.ProtocolPort, to))
		}
		if len(lb.Pools) != len(lb.Listeners) {
			got = append(got, fmt.Sprintf("%s has %d pools", lb.ID, len(lb.Pools)))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		p.site.t.Fatalf("the ports are\n%s\nwant\n%s\n%s", strings.Join(got, "\n"),
			strings.Join(want, "\n"), strings.Join(p.log, "\n"))
	}
}

// leave deletes a Service.
func (p *sharedProject) leave() {
	of := p.any()
	if of == nil {
		return
	}
	if lb := p.balancer(of); lb != nil {
		left := slices.DeleteFunc(p.sharers(lb.ID),
			func(other *tenant) bool { return other == of })
		isMakers := func(other *tenant) bool { return other.cluster == p.makers[lb.ID] }
		if len(left) > 0 && !slices.ContainsFunc(left, isMakers) {
			p.spared[lb.ID] = true
		}
	}
	p.note("%s leaves", of)
	p.tenants = slices.DeleteFunc(p.tenants, func(other *tenant) bool { return other == of })
	c := p.clusters[of.cluster]
	_ = p.watch(of.cluster, func() error { c.persistRemoving(of.service); return nil })
	if err := c.site.kube.CoreV1().Services(of.service.Namespace).Delete(p.site.t.Context(),
		of.service.Name, metav1.DeleteOptions{}); err != nil {
		p.site.t.Fatal(err)
	}
}

// wantNothingLeft fails the test if anything remains but the user's load balancer, and empty ones
// that their creator's cluster left earlier than another one.
func (p *sharedProject) wantNothingLeft() {
	p.site.t.Helper()
	p.wantServed()
	ports := map[string]bool{}
	for _, lb := range p.LoadBalancers() {
		ports[lb.VIPPortID] = true
		if lb.ID != p.users && !p.spared[lb.ID] {
			p.site.t.Errorf("load balancer %s with tags %q is left", lb.Name, lb.Tags)
		}
	}
	for _, ip := range p.FloatingIPs() {
		if !ports[ip.PortID] && !p.wiped[ip.ID] {
			p.site.t.Errorf("floating IP %s is left", ip.Address)
		}
	}
}

package loadbalancer

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// story is a change of a Service that was served, with its preparation.
type story struct {
	prepare func(*site)
	change  func(*v1.Service)
	// nodes is the number of nodes after the change; before it there are 2.
	nodes int
}

func annotations(pairs ...string) func(*v1.Service) {
	return func(service *v1.Service) {
		for i := 0; i < len(pairs); i += 2 {
			service.Annotations[settings.Prefix+pairs[i]] = pairs[i+1]
		}
	}
}

func stories() map[string]story {
	opened := func(s *site) {
		s.defaults.LoadBalancer.ManageSecurityGroups, s.defaults.LoadBalancer.CreateMonitor = true,
			true
	}
	serial := func(s *site) {
		opened(s)
		s.defaults.LoadBalancer.ProviderRequiresSerialAPICalls = true
	}
	port := func(n int32) v1.ServicePort {
		return v1.ServicePort{
			Name: fmt.Sprintf("p%d", n), Protocol: v1.ProtocolTCP, Port: n,
			NodePort: 30000 + n,
		}
	}
	return map[string]story{
		"nothing":               {prepare: opened},
		"nothing, one by one":   {prepare: serial},
		"other ports":           {prepare: opened, change: func(s *v1.Service) { s.Spec.Ports = []v1.ServicePort{port(1), port(2)} }},
		"other ports, serially": {prepare: serial, change: func(s *v1.Service) { s.Spec.Ports = []v1.ServicePort{port(1), port(2)} }},
		"other node ports":      {prepare: opened, change: func(s *v1.Service) { s.Spec.Ports[0].NodePort++ }},
		"HTTP":                  {prepare: opened, change: annotations("x-forwarded-for", "true")},
		"the PROXY protocol":    {prepare: opened, change: annotations("proxy-protocol", "true")},
		"internal": {prepare: opened, change: func(s *v1.Service) {
			s.Annotations["service.beta.kubernetes.io/openstack-internal-load-balancer"] = "true"
		}},
		"no monitor":      {prepare: opened, change: annotations("enable-health-monitor", "false")},
		"source ranges":   {prepare: opened, change: func(s *v1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"198.51.100.0/24"} }},
		"affinity":        {prepare: opened, change: func(s *v1.Service) { s.Spec.SessionAffinity = v1.ServiceAffinityClientIP }},
		"a node more":     {prepare: opened, nodes: 3},
		"a node less":     {prepare: opened, nodes: 1},
		"another, serial": {prepare: serial, nodes: 3},
		"recreated": {prepare: func(s *site) {
			opened(s)
			s.AddLoadBalancerZone("second")
		}, change: annotations("availability-zone", "second", "recreate", "true")},
	}
}

// tell creates a Service on a new cloud, makes the change of the story, and then deletes the
// Service. fault, which may be nil, is injected before the change or, if at is "creation" or
// "deletion", before that.
func tell(
	t *testing.T, kube *fake.Clientset, of story, at string, fault *openstacktest.Fault,
) (state string, writes int) {
	t.Helper()
	s := newSite(t)
	s.kube = kube
	if of.prepare != nil {
		of.prepare(s)
	}
	nodes := []*v1.Node{s.addNode("a"), s.addNode("b"), s.addNode("c")}
	service := s.addService("web", 80, 443)
	c := s.begin("cluster-1", s.kube)
	mark := s.mark()
	here := func(name string) {
		if at != name {
			return
		}
		mark = s.mark()
		if fault != nil {
			s.Inject(*fault)
		}
	}
	counted := func(name string) {
		if at == name {
			writes = len(s.writes(mark))
		}
	}
	here("creation")
	c.persist(service, nodes[:2])
	counted("creation")
	if of.change != nil {
		service = s.now(service)
		of.change(service)
		s.update(service)
	}
	n := 2
	if of.nodes > 0 {
		n = of.nodes
	}
	here("change")
	c.persist(service, nodes[:n])
	counted("change")
	if strings.Contains(s.picture(), " 0 tags") {
		// Tags that failed are written ten minutes later, or by the next term.
		c = s.begin("cluster-1", s.kube)
		c.persist(service, nodes[:n])
	}
	state = s.picture()
	quiet := s.mark()
	c.persist(service, nodes[:n])
	if again := s.writes(quiet); len(again) > 0 {
		t.Errorf("a second pass writes %q", again)
	}
	here("deletion")
	c.persistRemoving(service)
	counted("deletion")
	if left := s.picture(); left != "" {
		t.Errorf("after the deletion these remain:\n%s", left)
	}
	if err := kube.CoreV1().Services(service.Namespace).Delete(t.Context(), service.Name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	return state, writes
}

func (s *site) update(service *v1.Service) {
	s.t.Helper()
	if _, err := s.kube.CoreV1().Services(service.Namespace).Update(s.t.Context(), service,
		metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// persist reconciles until one reconcile succeeds, whatever the errors.
func (c *cluster) persist(service *v1.Service, nodes []*v1.Node) {
	c.site.t.Helper()
	var err error
	for range 60 {
		service = c.site.now(service)
		var status *v1.LoadBalancerStatus
		if status, err = c.EnsureLoadBalancer(c.site.t.Context(), "kubernetes", service,
			nodes); err == nil {
			service.Status.LoadBalancer = *status
			if _, err := c.site.kube.CoreV1().Services(service.Namespace).UpdateStatus(
				c.site.t.Context(), service, metav1.UpdateOptions{}); err != nil {
				c.site.t.Fatal(err)
			}
			return
		}
		_ = c.forgetList(service.UID)
	}
	c.site.t.Fatalf("%s is not served: %v", service.Name, err)
}

func (c *cluster) persistRemoving(service *v1.Service) {
	c.site.t.Helper()
	service = c.site.now(service)
	now := metav1.Now()
	service.DeletionTimestamp = &now
	var err error
	for range 60 {
		exists := false
		if _, exists, err = c.GetLoadBalancer(c.site.t.Context(), "kubernetes",
			service); err == nil && !exists {
			return
		}
		if err == nil {
			if err = c.EnsureLoadBalancerDeleted(c.site.t.Context(), "kubernetes",
				service); err == nil {
				return
			}
		}
		_ = c.forgetList(service.UID)
	}
	c.site.t.Fatalf("%s is not deleted: %v", service.Name, err)
}

func (s *site) picture() string {
	return picture(s.Cloud, func(openstacktest.LoadBalancer) bool { return true })
}

// picture describes some load balancers in the cloud and their related objects, without IDs.
func picture(s *openstacktest.Cloud, of func(openstacktest.LoadBalancer) bool) string {
	var lines []string
	for _, lb := range s.LoadBalancers() {
		if !of(lb) {
			continue
		}
		lines = append(lines,
			fmt.Sprintf("load balancer %s %s zone %q tags %q", lb.Name, lb.ProvisioningStatus,
				lb.AvailabilityZone, lb.Tags))
		for _, l := range lb.Listeners {
			lines = append(lines,
				fmt.Sprintf("listener %s %d %v %v %q", l.Protocol, l.ProtocolPort, l.AllowedCIDRs,
					l.InsertHeaders, l.Tags))
			for _, p := range lb.Pools {
				if p.ID == l.DefaultPoolID {
					lines = append(lines,
						fmt.Sprintf("pool of %d %s %s %v %s", l.ProtocolPort, p.Protocol,
							p.LBAlgorithm, p.SessionPersistence, memberTexts(p)))
				}
			}
		}
		lines = append(lines, fmt.Sprintf("%d pools", len(lb.Pools)))
	}
	for _, ip := range s.FloatingIPs() {
		lines = append(lines,
			fmt.Sprintf("floating IP attached %t, %d tags", ip.PortID != "", len(ip.Tags)))
	}
	rules := 0
	for _, group := range s.SecurityGroups() {
		if !strings.HasPrefix(group.Name, "lb-sg-") {
			continue
		}
		for _, rule := range s.SecurityGroupRules() {
			if rule.SecurityGroupID == group.ID {
				rules++
			}
		}
		ports := 0
		for _, port := range s.Ports() {
			if slices.Contains(port.SecurityGroups, group.ID) {
				ports++
			}
		}
		lines = append(lines,
			fmt.Sprintf("security group %s with %d rules, on %d ports, %d tags", group.Name, rules,
				ports, len(group.Tags)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func memberTexts(p openstacktest.Pool) string {
	var all []string
	for _, m := range p.Members {
		all = append(all, fmt.Sprintf("%s=%s:%d*%d", m.Name, m.Address, m.ProtocolPort, m.Weight))
	}
	slices.Sort(all)
	monitor := "no monitor"
	if p.Monitor != nil {
		monitor = "monitor " + p.Monitor.Type
	}
	return strings.Join(all, " ") + " " + monitor
}

// A request that fails, whether it was carried out or not, ends the pass. In both cases the
// following passes reach the same state, and the Service's deletion leaves no object.
func TestFailure_AfterEachRequest_IsMadeGood(t *testing.T) {
	t.Parallel()
	for name, of := range stories() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kube := newKube()
			phases := []string{"change"}
			if strings.HasPrefix(name, "nothing") {
				phases = []string{"creation", "deletion"}
			}
			for _, at := range phases {
				want, writes := tell(t, kube, of, at, nil)
				if writes == 0 {
					t.Fatalf("%s: nothing is written", at)
				}
				for i := range writes {
					for _, carriedOut := range []bool{false, true} {
						fault := &openstacktest.Fault{
							Match: func(c openstacktest.Call) bool {
								return c.Method != http.MethodGet &&
									c.Service != openstacktest.ServiceIdentity
							},
							Skip: i, Times: 1, Status: http.StatusBadRequest,
							AfterEffect: carriedOut,
						}
						if got, _ := tell(t, kube, of, at, fault); got != want {
							t.Errorf(
								"%s: after write %d of %d failed (carried out: %t) there is\n%s\n\nwant\n%s", at, i+1, writes, carriedOut, got, want)
						}
					}
				}
			}
		})
	}
}

// Without the version, fxccm does not know whether Octavia supports source ranges and tags.
func TestVersion_CannotBeRead_NothingIsCreatedOrDeleted(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	unknown := openstacktest.Fault{
		Operation: "version_list", Status: http.StatusBadRequest,
		Match: func(c openstacktest.Call) bool {
			return c.Service == openstacktest.ServiceLoadBalancer
		},
	}
	service := s.addService("web", 80)
	restore := s.Inject(unknown)
	mark := s.mark()
	if _, err := c.EnsureLoadBalancer(t.Context(), "kubernetes", s.now(service),
		[]*v1.Node{node}); err == nil || len(s.writes(mark)) > 0 {
		t.Errorf("the creation ended with %v, after %v", err, s.writes(mark))
	}
	restore()
	s.begin("cluster-1", s.kube).ensure(service, node)

	next := s.begin("cluster-1", s.kube)
	restore = s.Inject(unknown)
	mark = s.mark()
	if err := next.EnsureLoadBalancerDeleted(t.Context(), "kubernetes",
		s.now(service)); err == nil || len(s.writes(mark)) > 0 {
		t.Errorf("the deletion ended with %v, after %v", err, s.writes(mark))
	}
	restore()
	s.begin("cluster-1", s.kube).remove(service)
}

// An old Octavia fails with an empty batch of members.
func TestMembers_EmptyBatchFails_AreDeletedOneByOne(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	service := s.addService("web", 80)
	c.ensure(service, node, s.addNode("b"))
	s.Inject(openstacktest.Fault{
		Operation: "loadbalancer_members_update", Status: http.StatusInternalServerError,
	})
	mark := s.mark()
	c.ensure(service)
	counts := s.counts(mark)
	if counts["loadbalancer_members_update"] != 1 || counts["loadbalancer_member_delete"] != 2 {
		t.Errorf("the calls are %v, want one batch and two deletions", counts)
	}
}

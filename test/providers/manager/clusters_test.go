package manager_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/test/internal/project"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// A sharer is one of two clusters in a project: its own API server, Manager and node.
type sharer struct {
	*cluster
	name string
	// uid is that of the cluster's kube-system.
	uid     string
	manager *ccmtest.CCM
}

// newSharers starts two Managers with the same cluster name. Their requests to OpenStack are
// recorded separately.
func newSharers(t *testing.T) (first, second *sharer) {
	t.Helper()
	first = &sharer{name: "first", cluster: newCluster(t)}
	other, err := controlplane.Start(t.Context(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := other.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	admin, err := kubernetes.NewForConfig(other.RESTConfig())
	if err == nil {
		err = first.plane.Rules.Apply(t.Context(), admin)
	}
	if err != nil {
		t.Fatal(err)
	}
	identity, err := other.ServiceAccountConfig("kube-system", "cloud-controller-manager")
	if err != nil {
		t.Fatal(err)
	}
	second = &sharer{name: "second"}
	inSecond, beside := *first.cluster, *first.Project
	beside.Wire = &project.Wire{}
	inSecond.Project, inSecond.kube = &beside, admin
	inSecond.plane = &suite.Suite{ControlPlane: other, Identity: identity}
	inSecond.servers = map[string]project.Server{}
	second.cluster = &inSecond
	first.begin()
	second.begin()
	return first, second
}

// begin starts the Manager, and lets the node join.
func (s *sharer) begin() {
	s.t.Helper()
	system, err := s.kube.CoreV1().Namespaces().Get(s.t.Context(), metav1.NamespaceSystem,
		metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.uid = string(system.UID)
	cfg := s.config()
	// The clusters' routes would be on one router.
	cfg.Route.RouterID = ""
	cfg.LoadBalancer.DriftPeriod, cfg.LoadBalancer.MaxSharedLB = 5*s.pace(), 4
	s.manager = ccmtest.StartManager(s.t, s.plane.ControlPlane, nil,
		ccmtest.WithProvider(s.Provider(openstack.WithConfig(cfg))),
		ccmtest.WithIdentity(s.plane.Identity))
	node := s.name + "-node"
	s.addServers(node)
	s.join(node)
	s.wait("node "+node+" is initialized", func() []string {
		n, err := s.nodes().Get(s.t.Context(), node, metav1.GetOptions{})
		if err != nil || n.Spec.ProviderID == "" || len(n.Spec.Taints) > 0 {
			return []string{fmt.Sprintf("%v, %v", n.Spec, err)}
		}
		return nil
	})
}

// service is a Service as the API server has it; nil if it does not exist.
func (s *sharer) service(name string) *corev1.Service {
	s.t.Helper()
	service, err := s.services().Get(s.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return service
}

// setPorts replaces the Service's ports.
func (s *sharer) setPorts(name string, ports ...int32) {
	s.t.Helper()
	s.edit(name, func(service *corev1.Service) {
		service.Spec.Ports = ccmtest.LoadBalancerService(name,
			ccmtest.ServicePorts(ports...)).Spec.Ports
	})
}

// A sharedBalancer is the load balancer that both clusters use.
type sharedBalancer struct {
	*project.Project
	t             *testing.T
	id, address   string
	first, second *sharer
	// owners are the clusters by the IDs of their listeners and pools, of all times.
	owners map[string]string
}

// wait waits until the load balancer has exactly these ports, such as "80 of first to first-node",
// and tags of exactly these clusters.
func (b *sharedBalancer) wait(what string, clusters []string, ports ...string) {
	b.t.Helper()
	slices.Sort(ports)
	slices.Sort(clusters)
	b.first.wait(what, func() []string {
		all := b.Inventory()
		lb := all["load balancer "+b.id]
		if status := project.Text(lb, "provisioning_status"); status != "ACTIVE" {
			return []string{fmt.Sprintf("the load balancer is %q", status)}
		}
		if got := b.ports(all); !slices.Equal(got, ports) {
			return []string{fmt.Sprintf("the ports are %q, want %q", got, ports)}
		}
		if got := b.clustersOf(lb); !slices.Equal(got, clusters) {
			return []string{fmt.Sprintf("the tags name the clusters %q, want %q", got, clusters)}
		}
		return nil
	})
}

// ports are the listeners of the load balancer, with their cluster and members.
func (b *sharedBalancer) ports(all project.Inventory) (ports []string) {
	used := map[string]bool{}
	for _, listener := range all.Of("listener") {
		if project.ID(first(listener, "loadbalancers")) != b.id {
			continue
		}
		cluster := strings.Join(b.clustersOf(listener), "+")
		pool := all["pool "+project.Text(listener, "default_pool_id")]
		b.owners[project.ID(listener)] = cluster
		if pool != nil {
			b.owners[project.ID(pool)], used[project.ID(pool)] = cluster, true
		}
		var members []string
		for _, reference := range objects(pool, "members") {
			members = append(members, project.Text(all["member "+project.ID(reference)], "name"))
		}
		ports = append(ports, fmt.Sprintf("%d of %s to %s", number(listener, "protocol_port"),
			cluster, strings.Join(members, "+")))
	}
	for _, pool := range all.Of("pool") {
		if !used[project.ID(pool)] {
			ports = append(ports, "pool without a listener: "+project.Text(pool, "name"))
		}
	}
	slices.Sort(ports)
	return ports
}

// clustersOf are the names of the clusters in an object's tags.
func (b *sharedBalancer) clustersOf(o project.Object) (clusters []string) {
	names := map[string]string{b.first.uid: b.first.name, b.second.uid: b.second.name}
	tags, _ := o["tags"].([]any)
	for _, tag := range tags {
		if uid, is := strings.CutPrefix(fmt.Sprint(tag), "fxccm-cluster="); is {
			clusters = append(clusters, names[uid])
		}
	}
	slices.Sort(clusters)
	return clusters
}

// serves waits until the Service has the address of the load balancer.
func (b *sharedBalancer) serves(s *sharer, name string) {
	b.t.Helper()
	s.wait(fmt.Sprintf("%s in cluster %s is served", name, s.name), func() []string {
		if in := s.service(name).Status.LoadBalancer.Ingress; len(in) != 1 ||
			in[0].IP != b.address {
			return []string{fmt.Sprintf("it has %v, want %s", in, b.address)}
		}
		return nil
	})
}

// refuses waits until the Service has the reason in its condition.
func (b *sharedBalancer) refuses(s *sharer, name, reason string) {
	b.t.Helper()
	s.wait(fmt.Sprintf("%s in cluster %s is refused", name, s.name), func() []string {
		conditions := s.service(name).Status.Conditions
		if len(conditions) != 1 || conditions[0].Reason != reason {
			return []string{fmt.Sprintf("the conditions are %v, want %s", conditions, reason)}
		}
		return nil
	})
}

// loseTags takes the cluster's tags from the load balancer, as a client does that has read them
// before the cluster joined.
func (b *sharedBalancer) loseTags(s *sharer) {
	b.t.Helper()
	lb := b.WaitBalancer(b.id)
	services, _ := s.list()
	lost := []string{"fxccm-cluster=" + s.uid, "fxccm-guest=" + s.uid}
	for _, service := range services {
		lost = append(lost, "fxccm-service="+string(service.UID))
	}
	kept := []any{}
	tags, _ := lb["tags"].([]any)
	for _, tag := range tags {
		if !slices.Contains(lost, fmt.Sprint(tag)) {
			kept = append(kept, tag)
		}
	}
	b.User().Must(http.MethodPut, project.LoadBalancer, "/lbaas/loadbalancers/"+b.id,
		project.Object{"loadbalancer": project.Object{"tags": kept}})
	b.WaitBalancer(b.id)
}

// deleteEmpty deletes the load balancer and its floating IP, as the operator of the project does.
func (b *sharedBalancer) deleteEmpty() {
	b.t.Helper()
	user := b.User()
	user.Must(http.MethodDelete, project.LoadBalancer, "/lbaas/loadbalancers/"+b.id, nil)
	b.WaitBalancer(b.id, true)
	for _, ip := range b.Inventory().Of("floating IP") {
		if project.Text(ip, "floating_ip_address") == b.address {
			user.Must(http.MethodDelete, project.Network, "/floatingips/"+project.ID(ip), nil)
		}
	}
}

// wantOwnOnly fails the test if the cluster has changed listeners or pools of the other one, or if
// a guest has deleted a load balancer or a floating IP.
func (b *sharedBalancer) wantOwnOnly(s *sharer) {
	b.t.Helper()
	changes := s.Wire.Since(0, project.Call.Changes)
	own := 0
	for _, call := range changes {
		for id, owner := range b.owners {
			switch {
			case !strings.Contains(call.Path, id):
			case owner == s.name:
				own++
			default:
				b.t.Errorf("cluster %s has sent %s %s, which belongs to cluster %s", s.name,
					call.Method, call.Path, owner)
			}
		}
		if s != b.first && call.Method == http.MethodDelete && (strings.HasSuffix(call.Route,
			"/loadbalancers/{id}") || strings.HasSuffix(call.Route, "/floatingips/{id}")) {
			b.t.Errorf("cluster %s has sent %s %s", s.name, call.Method, call.Path)
		}
	}
	if own == 0 {
		b.t.Errorf("none of %d changes of cluster %s is on its own listeners", len(changes), s.name)
	}
}

// Two clusters of the same name, with Services of the same name, share a load balancer. Clients
// overwrite the tags, and a Manager restarts.
func TestTwoClusters_ShareALoadBalancer_EachServesAndTouchesItsOwn(t *testing.T) {
	t.Parallel()
	one, two := newSharers(t)
	before := one.Inventory()
	ccmtest.CreateService(t, one.kube, ccmtest.LoadBalancerService("web"))
	b := &sharedBalancer{
		Project: one.Project, t: t, first: one, second: two, owners: map[string]string{},
	}
	one.wait("web in cluster first is served", func() []string {
		service := one.service("web")
		b.id, b.address = service.Annotations[annotationID], service.Annotations[annotationAddress]
		if len(service.Status.LoadBalancer.Ingress) == 0 {
			return []string{"it has no address"}
		}
		return nil
	})
	const ownersPort, guestsPort = "80 of first to first-node", "443 of second to second-node"
	onlyFirst, onlySecond, both := []string{"first"}, []string{"second"},
		[]string{"first", "second"}
	b.wait("cluster first uses it alone", onlyFirst, ownersPort)

	joins := ccmtest.ServiceAnnotation(annotationID, b.id)
	ccmtest.CreateService(t, two.kube,
		ccmtest.LoadBalancerService("web", joins, ccmtest.ServicePorts(443)))
	b.serves(two, "web")
	b.wait("both clusters use it", both, ownersPort, guestsPort)

	ccmtest.CreateService(t, two.kube, ccmtest.LoadBalancerService("taken", joins))
	b.refuses(two, "taken", "LoadBalancerPortInUse")
	two.remove("taken")
	two.waitServicesGone("taken")
	b.wait("the refused Service has left nothing", both, ownersPort, guestsPort)

	one.setPorts("web", 80, 8080)
	two.setPorts("web", 443, 8443)
	b.wait("each has a port more", both, ownersPort, guestsPort, "8080 of first to first-node",
		"8443 of second to second-node")

	two.manager.Stop()
	two.setPorts("web", 443)
	b.loseTags(two)
	one.setPorts("web", 80)
	b.wait("cluster second has lost its tags", onlyFirst, ownersPort, guestsPort,
		"8443 of second to second-node")
	two.manager.Start()
	b.wait("cluster second has its tags again", both, ownersPort, guestsPort)

	one.remove("web")
	one.waitServicesGone("web")
	b.wait("the owner has left", onlySecond, guestsPort)
	b.serves(two, "web")

	ccmtest.CreateService(t, one.kube, ccmtest.LoadBalancerService("web", joins))
	b.serves(one, "web")
	b.wait("the owner's cluster is a guest", both, ownersPort, guestsPort)

	two.remove("web")
	two.waitServicesGone("web")
	b.wait("cluster second has left", onlyFirst, ownersPort)
	one.remove("web")
	one.waitServicesGone("web")
	b.wait("the last guest leaves an empty load balancer", nil)
	b.deleteEmpty()
	one.wait("nothing is left", func() []string { return before.Differences(one.Inventory()) })
	b.wantOwnOnly(one)
	b.wantOwnOnly(two)
}

package openstack_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// The annotations that fxccm writes to a Service, and the prefix of those that it reads.
const (
	annotation          = "loadbalancer.openstack.org/"
	annotationID        = annotation + "load-balancer-id"
	annotationAddress   = annotation + "load-balancer-address"
	annotationInternal  = "service.beta.kubernetes.io/openstack-internal-load-balancer"
	annotationSelector  = annotation + "node-selector"
	annotationRanges    = corev1.AnnotationLoadBalancerSourceRangesKey
	annotationForwarded = annotation + "x-forwarded-for"
)

// provisioning is the duration of Octavia's work on each change.
const provisioning = 200 * time.Millisecond

// newBalancedSite is a cloud whose Octavia is slow.
func newBalancedSite(t *testing.T, options ...openstacktest.Option) *site {
	t.Helper()
	return newSite(t,
		append([]openstacktest.Option{openstacktest.WithProvisioning(provisioning)}, options...)...)
}

// addNodes makes servers, and their nodes as they are when they have been initialized.
func (s *site) addNodes(client kubernetes.Interface, names ...string) []machine {
	s.t.Helper()
	machines := s.addServers(names...)
	for _, m := range machines {
		ccmtest.CreateNode(s.t, client, s.node(m))
	}
	return machines
}

func (s *site) node(m machine, options ...ccmtest.NodeOption) *corev1.Node {
	node := ccmtest.ReadyNode(m.name,
		append([]ccmtest.NodeOption{ccmtest.NodeProviderID(m.providerID())}, options...)...)
	addresses := []corev1.NodeAddress{}
	for version := range s.subnets {
		addresses = append(addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: s.address(m, version)})
	}
	node.Status.Addresses = append(addresses, node.Status.Addresses...)
	return node
}

// balancing sets the subnets and settings of load balancers. Drift is not repaired.
func balancing(s *site, change ...func(*cloudconf.LoadBalancer)) func(*launch) {
	return configured(func(c *cloudconf.Config) {
		c.LoadBalancer.SubnetID, c.LoadBalancer.FloatingNetworkID = s.subnets[4], s.public
		c.LoadBalancer.DriftPeriod = 0
		for _, f := range change {
			f(&c.LoadBalancer)
		}
	})
}

// drifting makes the provider check load balancers about once a second.
func drifting(c *cloudconf.LoadBalancer) { c.DriftPeriod = 10 * time.Second }

// serving runs a CCM with the service controller.
func serving(t *testing.T, s *site, change ...func(*launch)) *replica {
	t.Helper()
	return ready(t, s, append([]func(*launch){balancing(s)}, change...)...)
}

// A serviceOption changes a Service before it is created.
type serviceOption = ccmtest.ServiceOption

func annotated(name, value string) serviceOption { return ccmtest.ServiceAnnotation(name, value) }

func createService(
	t *testing.T, client kubernetes.Interface, name string, options ...serviceOption,
) *corev1.Service {
	t.Helper()
	return ccmtest.CreateService(t, client, ccmtest.LoadBalancerService(name, options...))
}

// served creates a Service and returns it when it has an address.
func served(t *testing.T, name string, options ...serviceOption) *corev1.Service {
	t.Helper()
	createService(t, shared.Client(t), name, options...)
	return waitServed(t, shared.Client(t), name)
}

func waitServed(t *testing.T, client kubernetes.Interface, name string) *corev1.Service {
	t.Helper()
	ccmtest.Eventually(t, "the Service has an address",
		ccmtest.ServiceAddress(client, metav1.NamespaceDefault, name))
	return ccmtest.Eventually(t, "Service "+name+" is annotated",
		ccmtest.Object(client.CoreV1().Services(metav1.NamespaceDefault).Get,
			name, func(s *corev1.Service) error {
				if s.Annotations[annotationID] == "" ||
					s.Annotations[annotationAddress] == "" {
					return errors.New("it has no annotations of a load balancer")
				}
				return nil
			}))
}

func getService(t *testing.T, client kubernetes.Interface, name string) *corev1.Service {
	t.Helper()
	service, err := client.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), name,
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return service
}

// editService changes a Service like its owner, and returns the result.
func editService(t *testing.T, name string, edit func(*corev1.Service)) (service *corev1.Service) {
	t.Helper()
	services := shared.Client(t).CoreV1().Services(metav1.NamespaceDefault)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() (err error) {
		if service, err = services.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		edit(service)
		service, err = services.Update(t.Context(), service, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatalf("edit Service %s: %v", name, err)
	}
	return service
}

func annotateService(t *testing.T, name, key, value string) *corev1.Service {
	t.Helper()
	return editService(t, name, annotated(key, value))
}

// deleteService returns when the Service and all of its objects are deleted.
func deleteService(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	if err := client.CoreV1().Services(metav1.NamespaceDefault).Delete(t.Context(), name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ccmtest.Eventually(t, "the Service is gone",
		ccmtest.Gone(client.CoreV1().Services(metav1.NamespaceDefault).Get, name))
}

func hasFinalizer(s *corev1.Service) bool { return servicehelpers.HasLBFinalizer(s) }

// balancerName is OCCM's name for the load balancer of a Service, and its tag.
func balancerName(service string) string { return "kube_service_kubernetes_default_" + service }

func balancerDescription(service string) string {
	return "Kubernetes external service default/" + service + " from cluster kubernetes"
}

// clusterUID distinguishes a cluster from another of the same name.
func clusterUID(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	namespace, err := client.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem,
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(namespace.UID)
}

// ownTags are the tags by which fxccm recognizes objects of a Service.
func ownTags(t *testing.T, client kubernetes.Interface, service *corev1.Service) []string {
	t.Helper()
	return []string{
		"fxccm-cluster=" + clusterUID(t, client),
		"fxccm-service=" + string(service.UID),
	}
}

func hasTags(tags []string, want ...string) bool {
	return !slices.ContainsFunc(want, func(tag string) bool { return !slices.Contains(tags, tag) })
}

// waitBalancer waits until the load balancer of the ID or the name meets the condition.
func (s *site) waitBalancer(
	idOrName, what string, cond func(openstacktest.LoadBalancer) error,
) openstacktest.LoadBalancer {
	s.t.Helper()
	return ccmtest.Eventually(s.t, what, func(context.Context) (openstacktest.LoadBalancer, error) {
		lb, err := s.LoadBalancer(idOrName)
		if err != nil {
			return lb, err
		}
		if lb.ProvisioningStatus != openstacktest.StatusActive {
			return lb, fmt.Errorf("it is %s", lb.ProvisioningStatus)
		}
		return lb, cond(lb)
	})
}

// shape describes a load balancer, with a line for each listener and its members.
func shape(lb openstacktest.LoadBalancer) string {
	var lines []string
	for _, l := range lb.Listeners {
		lines = append(lines, shapeOfListener(lb, l))
	}
	for _, p := range lb.Pools {
		if !slices.ContainsFunc(lb.Listeners,
			func(l openstacktest.Listener) bool { return l.DefaultPoolID == p.ID }) {
			lines = append(lines, "stray pool "+p.Name)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func shapeOfListener(lb openstacktest.LoadBalancer, l openstacktest.Listener) string {
	line := fmt.Sprintf("%s:%d", l.Protocol, l.ProtocolPort)
	// OCCM also writes the range that allows all clients.
	if allClients := []string{"0.0.0.0/0"}; len(l.AllowedCIDRs) > 0 &&
		!slices.Equal(l.AllowedCIDRs, allClients) {
		line += fmt.Sprint(" for ", slices.Sorted(slices.Values(l.AllowedCIDRs)))
	}
	if l.ConnectionLimit != -1 {
		line += fmt.Sprint(" limit ", l.ConnectionLimit)
	}
	if len(l.InsertHeaders) > 0 {
		line += fmt.Sprint(" inserts ", slices.Sorted(maps.Keys(l.InsertHeaders)))
	}
	for _, p := range lb.Pools {
		if p.ID != l.DefaultPoolID {
			continue
		}
		line += fmt.Sprintf(" -> %s %s", p.Protocol, p.LBAlgorithm)
		if p.SessionPersistence != nil {
			line += " keeps " + p.SessionPersistence.Type
		}
		if p.Monitor != nil {
			line += fmt.Sprintf(" checks %s", p.Monitor.Type)
		}
		var members []string
		for _, m := range p.Members {
			member := net.JoinHostPort(m.Address, strconv.Itoa(m.ProtocolPort))
			if m.Weight != 1 {
				member += fmt.Sprint(" weight ", m.Weight)
			}
			if m.MonitorPort != 0 {
				member += fmt.Sprint(" checked at ", m.MonitorPort)
			}
			members = append(members, member)
		}
		slices.Sort(members)
		line += " " + fmt.Sprint(members)
	}
	return line
}

// usual is the shape of a load balancer without special settings: a listener for each port, and all
// machines as members.
func (s *site) usual(service *corev1.Service, machines ...machine) string {
	s.t.Helper()
	var lines []string
	for _, port := range service.Spec.Ports {
		var members []string
		for _, m := range machines {
			members = append(members,
				net.JoinHostPort(s.address(m, 4), strconv.Itoa(int(port.NodePort))))
		}
		slices.Sort(members)
		lines = append(lines,
			fmt.Sprintf("%[1]s:%[2]d -> %[1]s ROUND_ROBIN %[3]v", port.Protocol, port.Port,
				members))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// waitShape waits until the Service's load balancer has the shape.
func (s *site) waitShape(service *corev1.Service, want string) openstacktest.LoadBalancer {
	s.t.Helper()
	what := fmt.Sprintf("the load balancer of %s is\n%s\n", service.Name, want)
	return s.waitBalancer(balancerName(service.Name), what,
		func(lb openstacktest.LoadBalancer) error {
			if got := shape(lb); got != want {
				return fmt.Errorf("it is\n%s", got)
			}
			return nil
		})
}

// floatingIPs are the floating IPs of the load balancer.
func (s *site) floatingIPs(lb openstacktest.LoadBalancer) []openstacktest.FloatingIP {
	return slices.DeleteFunc(s.FloatingIPs(),
		func(f openstacktest.FloatingIP) bool { return f.PortID != lb.VIPPortID })
}

// groups are the security groups of Services.
func (s *site) groups() []openstacktest.SecurityGroup {
	return slices.DeleteFunc(s.SecurityGroups(), func(g openstacktest.SecurityGroup) bool {
		return !strings.HasPrefix(g.Name, "lb-sg-")
	})
}

// wantNothingLeft fails the test if an object of a load balancer is left in the cloud.
func (s *site) wantNothingLeft() {
	s.t.Helper()
	for _, lb := range s.LoadBalancers() {
		s.t.Errorf("load balancer %s (%s) is left, %s", lb.ID, lb.Name, lb.ProvisioningStatus)
	}
	for _, f := range s.FloatingIPs() {
		s.t.Errorf("floating IP %s is left: %q, at port %q", f.Address, f.Description, f.PortID)
	}
	for _, g := range s.groups() {
		s.t.Errorf("security group %s is left", g.Name)
	}
	for _, p := range s.Ports() {
		if p.DeviceOwner == openstacktest.OwnerLoadBalancer {
			s.t.Errorf("port %s of a load balancer is left", p.ID)
		}
	}
}

// eventsOf are the events about exactly this Service, without those of the API server.
func eventsOf(
	ctx context.Context, client kubernetes.Interface, service *corev1.Service,
) ([]corev1.Event, error) {
	selector := fields.Set{
		"involvedObject.kind": "Service",
		"involvedObject.uid":  string(service.UID),
	}.AsSelector().String()
	list, err := client.CoreV1().Events(service.Namespace).List(ctx,
		metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(e corev1.Event) bool {
		return strings.Contains(e.Source.Component, "ipallocator")
	}), nil
}

func textOf(events []corev1.Event) string {
	var lines []string
	for _, e := range events {
		lines = append(lines, fmt.Sprintf("%s %s x%d: %s", e.Type, e.Reason, e.Count, e.Message))
	}
	return strings.Join(lines, "\n")
}

// waitServiceEvent waits for an event whose reason and message have the texts.
func waitServiceEvent(
	t *testing.T, service *corev1.Service, kind string, texts ...string,
) corev1.Event {
	t.Helper()
	return ccmtest.Eventually(t,
		fmt.Sprintf("a %s about Service %s with %q exists", kind, service.Name, texts),
		func(ctx context.Context) (corev1.Event, error) {
			events, err := eventsOf(ctx, shared.Client(t), service)
			if err != nil {
				return corev1.Event{}, err
			}
			for _, e := range events {
				if e.Type == kind && hasTexts(e.Reason+" "+e.Message, texts) {
					return e, nil
				}
			}
			return corev1.Event{}, fmt.Errorf("the events are\n%s", textOf(events))
		})
}

func hasTexts(text string, all []string) bool {
	return !slices.ContainsFunc(all,
		func(each string) bool { return !strings.Contains(text, each) })
}

// wantNoWarnings fails the test if the Service has a warning without one of the texts.
func wantNoWarnings(t *testing.T, service *corev1.Service, but ...string) {
	t.Helper()
	wantNoEvents(t, service, func(e corev1.Event) bool {
		expected := slices.ContainsFunc(but, func(text string) bool {
			return strings.Contains(e.Reason+" "+e.Message, text)
		})
		return e.Type == corev1.EventTypeWarning && !expected
	})
}

// wantToldOnce fails the test if an event of the Service was repeated. Upstream reports the begin
// of each pass: when a wait begins and ends, and after each annotation.
func wantToldOnce(t *testing.T, service *corev1.Service) {
	t.Helper()
	wantNoEvents(t, service, func(e corev1.Event) bool {
		most := int32(1)
		if e.Reason == "EnsuringLoadBalancer" {
			most = 5
		}
		return e.Count > most
	})
}

func wantNoEvents(t *testing.T, service *corev1.Service, which func(corev1.Event) bool) {
	t.Helper()
	events, err := eventsOf(t.Context(), shared.Client(t), service)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		// The API server may also record an event: ClusterIPNotAllocated, by its own repair of
		// addresses.
		ours := e.Source.Component == "service-controller" ||
			e.Source.Component == "cloud-provider-openstack"
		if ours && which(e) {
			t.Errorf("the Service has the repeated event\n%s", textOf([]corev1.Event{e}))
		}
	}
}

// loadBalancerChanges selects the calls that change load balancers and their objects.
func loadBalancerChanges(c openstacktest.Call) bool {
	return changes(c) &&
		(c.Service == openstacktest.ServiceLoadBalancer ||
			operations("floating_ip_*", "security_group*", "port_update")(c))
}

// waitQuiet waits until Octavia's work has ended and the CCM has handled the Service: no change
// follows.
func (s *site) waitQuiet(which func(openstacktest.Call) bool) {
	s.t.Helper()
	const quiet = 2 * time.Second
	last, since := -1, time.Now()
	waittest.Until(s.t, "nothing is changed any more", func() error {
		if n := len(s.since(0, which)); n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) < quiet {
			return fmt.Errorf("there were %d changes", last)
		}
		return nil
	})
}

package takeover_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/test/internal/project"
)

// The whole way: OCCM has run a cluster, fxccm takes it over, works on it, and OCCM could go on.
func TestTakeover_OfAllThatOCCMMakes_AndBack(t *testing.T) {
	t.Parallel()
	o := newOCCM(t, "prod_eu-1")
	o.manageSecurityGroups, o.subnetID = true, o.Subnets[4]
	edge := o.AddSubnet(o.AddNetwork("edge"), "10.1.0.0/24")
	o.Connect(o.Router, edge)
	o.classes = map[string]string{"edge": edge}

	servers := o.AddServers([]string{"node-1", "node-2"})
	var nodes []*corev1.Node
	for i, s := range servers {
		podCIDR := fmt.Sprintf("10.244.%d.0/24", i+1)
		nodes = append(nodes,
			o.node(s, o.Zones[i], podCIDR, map[string]string{"pool": []string{"a", "b"}[i]}))
		o.route(s, podCIDR)
	}
	// One floating IP is the users' own.
	reserved := o.User().Create(project.Network, "/floatingips", "floatingip",
		project.Object{"floating_network_id": o.Public, "description": "ours"})
	base := o.inventory()
	if o.leave(servers, nodes, project.Text(reserved, "floating_ip_address")); t.Failed() {
		t.FailNow()
	}
	before := o.inventory()
	services, told := o.services(), spoken(o.services(), o.nodes())

	step := func(name string, check func(o *occm)) {
		t.Helper()
		if !t.Run(name, func(t *testing.T) { check(o.in(t)) }) {
			t.FailNow()
		}
	}
	step("OCCM itself has nothing to do", func(o *occm) {
		// An OCCM that was stopped before it wrote the annotations writes them.
		o.wantDeeds(before,
			`rewrite annotation `+annotationAddress+` "" -> `,
			`rewrite annotation `+annotationID+` "" -> `,
			`rewrite the status [] of Service unfinished`)
	})
	var stop func()
	step("nothing but tags is changed", func(o *occm) {
		stop = o.in(t).run()
		o.waitTagged()
		o.waitCompared(0)
		mark := o.Wire.Mark()
		o.patchNode("node-1",
			`{"metadata":{"annotations":{"example.com/seen":"1"},"labels":{"example.com/rack":"7"}}}`)
		o.waitLooked(mark)
		o.wantOnlyTags(before)
	})
	step("a restart changes nothing", func(o *occm) {
		stop()
		mark, then := o.Wire.Mark(), o.inventory()
		stop = o.in(t).run()
		o.waitCompared(mark)
		if made := o.Wire.Since(mark, project.Call.Changes); len(made) > 0 {
			o.t.Errorf("it was changed by\n%s", describe(made))
		}
		if lines := then.Differences(o.inventory()); len(lines) > 0 {
			o.t.Errorf("it is another:\n%s", strings.Join(lines, "\n"))
		}
		o.wantOnlyTags(before)
		o.patchNode("node-1", `{"metadata":{"labels":{"example.com/rack":null}}}`)
	})
	step("Services and nodes are told nothing new", func(o *occm) {
		now := spoken(o.services(), o.nodes())
		for i := range now {
			// Its annotations and its status are what OCCM had yet to write.
			now[i] = strings.ReplaceAll(now[i], `"fxccm.dev/served-load-balancer-class":"",`, "")
			if now[i] != told[i] && !strings.Contains(told[i], "unfinished") {
				o.t.Errorf("it was\n%s\nand is\n%s", told[i], now[i])
			}
		}
		for _, service := range services {
			o.wantNoWarnings(service)
		}
		o.wantDeeds(o.inventory())
	})
	step("changes are carried out", func(o *occm) {
		o.edit("web", func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports,
				corev1.ServicePort{
					Name: "more", Protocol: corev1.ProtocolTCP, Port: 8080,
					TargetPort: intstr.FromInt32(8080),
				})
		})
		o.edit("sticky", func(s *corev1.Service) {
			s.Spec.LoadBalancerSourceRanges = []string{"198.51.100.0/24"}
		})
		o.edit("local", ccmtest.ServiceAnnotation(prefix+"health-monitor-delay", "20"))
		s := o.AddServer("node-3")
		ccmtest.CreateNode(t, o.cluster.Admin,
			ccmtest.TaintedNode(s.Name, ccmtest.NodePodCIDRs("10.244.3.0/24"),
				ccmtest.NodeLabel("pool", "a")))
		o.waitLikeOCCM()
		for _, service := range o.services() {
			o.wantNoWarnings(service)
		}
	})
	step("what fxccm makes is as OCCM makes it", func(o *occm) {
		all := o.in(t)
		all.create("own", ccmtest.ServicePorts(80, 443), monitored)
		all.create("own-internal", internal, monitored, local)
		all.create("own-affine", ccmtest.ServicePorts(5000), affine,
			ccmtest.ServiceAnnotation(prefix+"proxy-protocol", "v2"))
		o.waitServed()
		all.create("own-guest", ccmtest.ServicePorts(9000), monitored,
			ccmtest.ServiceAnnotation(annotationID, o.service("own").Annotations[annotationID]))
		o.waitServed()
		o.edit("own", func(s *corev1.Service) {
			s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		})
		o.edit("own-affine",
			func(s *corev1.Service) { delete(s.Annotations, prefix+"proxy-protocol") })
		o.edit("own-internal",
			func(s *corev1.Service) { delete(s.Annotations, annotationInternal) })
		o.waitLikeOCCM()
	})
	step("what changes its place is renamed by OCCM, and no more", func(o *occm) {
		o.edit("own", func(s *corev1.Service) {
			s.Spec.Ports = append(
				[]corev1.ServicePort{{
					Name: "first", Protocol: corev1.ProtocolTCP, Port: 22,
					TargetPort: intstr.FromInt32(22),
				}}, s.Spec.Ports...)
		})
		o.waitLikeOCCM("rewrite name monitor_0_", "rewrite name monitor_1_")
	})
	step("deletion leaves nothing", func(o *occm) {
		kept := o.service("kept").Annotations[annotationAddress]
		for _, service := range o.services() {
			if err := o.cluster.Admin.CoreV1().Services(service.Namespace).Delete(o.t.Context(),
				service.Name, metav1.DeleteOptions{}); err != nil {
				o.t.Fatal(err)
			}
		}
		o.Wait("all Services are gone", func() error {
			if left := o.services(); len(left) > 0 {
				return fmt.Errorf("%d are left, %s is the first", len(left), left[0].Name)
			}
			return nil
		})
		third := o.nodes()[2]
		if err := o.cluster.Admin.CoreV1().Nodes().Delete(o.t.Context(), third.Name,
			metav1.DeleteOptions{}); err != nil {
			o.t.Fatal(err)
		}
		id := strings.TrimPrefix(third.Spec.ProviderID, "openstack:///")
		o.Wait("the router has two routes", func() error {
			if routes := o.User().Get(project.Network, "/routers/"+o.Router,
				"router")["routes"]; len(routes.([]any)) != 2 {
				return fmt.Errorf("it has %v", routes)
			}
			return nil
		})
		o.User().Delete(project.Compute, "/servers/"+id)
		o.WaitServer(id, "")
		o.wantAsBefore(base, kept)
	})
}

// OCCM does not know share-as: it creates a load balancer for each Service. The first Service's
// becomes the shared one, with its address.
func TestTakeover_ServiceHasAShareName_KeepsItsAddressAndAnotherServiceJoins(t *testing.T) {
	t.Parallel()
	o := newOCCM(t, "shared")
	const podCIDR = "10.244.1.0/24"
	server := o.AddServers([]string{"node-1"})[0]
	node := o.node(server, o.Zones[0], podCIDR, nil)
	o.route(server, podCIDR)
	shares := ccmtest.ServiceAnnotation(prefix+"share-as", "web")
	first := o.created("first", shares)
	id, address := o.serve(first, []*corev1.Node{node})
	o.told(first, id, address)
	before := o.inventory()

	o.run()
	o.waitTagged()
	o.waitCompared(0)
	o.Wait("the load balancer has the tag of its share name", func() error {
		tags := texts(o.inventory()["load balancer "+id]["tags"])
		if !slices.ContainsFunc(tags,
			func(tag string) bool { return strings.HasPrefix(tag, "fxccm-share=") }) {
			return fmt.Errorf("it has %q", tags)
		}
		return nil
	})
	o.wantOnlyTags(before)

	o.create("second", ccmtest.ServicePorts(443), shares)
	o.waitServed()
	for _, service := range o.services() {
		if got := service.Annotations[annotationID]; got != id {
			t.Errorf("Service %s has load balancer %s, want OCCM's %s", service.Name, got, id)
		}
		if got := service.Status.LoadBalancer.Ingress[0].IP; got != address {
			t.Errorf("Service %s has the address %s, want %s", service.Name, got, address)
		}
		o.wantNoWarnings(service)
	}
	if found := o.inventory().Of("load balancer"); len(found) != 1 {
		t.Errorf("%d load balancers, want 1", len(found))
	}
}

// A feature is a Service that uses some of OCCM's features.
type feature struct {
	name    string
	options []ccmtest.ServiceOption
}

// features are Services with all of OCCM's features between them. The guest shares the owner's load
// balancer. reserved is a floating IP of the user.
func features(reserved string) []feature {
	udp := func(port int32) ccmtest.ServiceOption {
		return func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports,
				corev1.ServicePort{
					Name: fmt.Sprint("udp-", port), Protocol: corev1.ProtocolUDP,
					Port: port, TargetPort: intstr.FromInt32(port),
				})
		}
	}
	say := func(name, value string) ccmtest.ServiceOption {
		return ccmtest.ServiceAnnotation(prefix+name, value)
	}
	of := func(name string, options ...ccmtest.ServiceOption) feature {
		return feature{name, options}
	}
	return []feature{
		of("web", ccmtest.ServicePorts(80, 443), udp(443)),
		of("local", internal, local, monitored, say("health-monitor-delay", "10"),
			say("health-monitor-timeout", "7"),
			say("health-monitor-max-retries", "2"), say("health-monitor-max-retries-down", "4")),
		of("kept", say("keep-floatingip", "true"), say("proxy-protocol", "true"),
			func(s *corev1.Service) {
				s.Spec.LoadBalancerSourceRanges = []string{"203.0.113.0/24", "192.0.2.0/24"}
			}),
		of("sticky", udp(53), affine, monitored, say("timeout-client-data", "120000"),
			say("timeout-member-connect", "7000"),
			say("timeout-member-data", "110000"), say("timeout-tcp-inspect", "5"),
			say("connection-limit", "2000"),
			say("lb-method", "LEAST_CONNECTIONS"), say("node-selector", "pool=a"),
			func(s *corev1.Service) { s.Spec.LoadBalancerIP = reserved }),
		of("owner", say("x-forwarded-for", "true"), monitored),
		of("guest", ccmtest.ServicePorts(8443), monitored),
		of("unfinished", ccmtest.ServicePorts(25)),
		of("classed", say("class", "edge")),
	}
}

// leave makes Services as they are when OCCM has served them, with all of its features between
// them.
func (o *occm) leave(servers []project.Server, nodes []*corev1.Node, reserved string) {
	o.t.Helper()
	var services []*corev1.Service
	for _, f := range features(reserved) {
		services = append(services, o.created(f.name, f.options...))
	}
	groups := make([]string, len(services))
	// The guest needs the owner's; all others are made side by side, as far as the machine has
	// processors.
	o.t.Run("OCCM serves them", func(t *testing.T) {
		for i, service := range services {
			if service.Name == "guest" {
				continue
			}
			t.Run(service.Name, func(t *testing.T) {
				t.Parallel()
				o := o.in(t)
				groups[i] = o.openNodes(service)
				id, address := o.serve(service, nodes)
				if service.Name == "owner" {
					groups[i+1] = o.openNodes(services[i+1])
					o.join(services[i+1], id, nodes)
					o.told(services[i+1], id, address)
				}
				if service.Name != "unfinished" {
					o.told(service, id, address)
				}
			})
		}
	})
	for i, s := range servers {
		var on []string
		for j, service := range services {
			if o.of(service).selects(nodes[i]) {
				on = append(on, groups[j])
			}
		}
		o.admit(s.Port, on)
	}
	// By an older version.
	o.tagged(servers[0].Port, groups[0])
}

func internal(s *corev1.Service) { ccmtest.ServiceAnnotation(annotationInternal, "true")(s) }

func monitored(s *corev1.Service) {
	ccmtest.ServiceAnnotation(prefix+"enable-health-monitor", "true")(s)
}

func local(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

func affine(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }

// create makes a Service as its user.
func (o *occm) create(name string, options ...ccmtest.ServiceOption) {
	o.t.Helper()
	ccmtest.CreateService(o.t, o.cluster.Admin, ccmtest.LoadBalancerService(name, options...))
}

func (o *occm) patchNode(name, patch string) {
	o.t.Helper()
	_, err := o.cluster.Admin.CoreV1().Nodes().Patch(o.t.Context(), name,
		types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		o.t.Fatal(err)
	}
}

// waitServed waits until all Services have an address.
func (o *occm) waitServed() {
	o.t.Helper()
	o.Wait("all Services are served", func() error {
		for _, service := range o.services() {
			if len(service.Status.LoadBalancer.Ingress) == 0 {
				return fmt.Errorf("%s is not", service.Name)
			}
		}
		return nil
	})
}

// wantOnlyTags fails the test if anything is otherwise than before but for tags, or if anything
// else was ever written.
func (o *occm) wantOnlyTags(before project.Inventory) {
	o.t.Helper()
	if lines := before.Differences(o.inventory(), "tags"); len(lines) > 0 {
		o.t.Errorf("more than tags is changed:\n%s", strings.Join(lines, "\n"))
	}
	made := o.Wire.Since(0, project.Call.Changes)
	if more := beyondTags(before, made); len(more) > 0 {
		o.t.Errorf("these calls are about more than tags:\n%s\nof all that change something:\n%s",
			describe(more), describe(made))
	}
}

// wantDeeds fails the test if OCCM would do anything else than what begins so.
func (o *occm) wantDeeds(cloud project.Inventory, want ...string) {
	o.t.Helper()
	if err := o.compareDeeds(cloud, want); err != nil {
		o.t.Error(err)
	}
}

func (o *occm) compareDeeds(cloud project.Inventory, want []string) error {
	deeds := o.look(cloud, o.services(), o.nodes())
	is := func(d deed, prefix string) bool { return strings.HasPrefix(d.String(), prefix) }
	var lines []string
	for _, d := range deeds {
		if !slices.ContainsFunc(want, func(prefix string) bool { return is(d, prefix) }) {
			lines = append(lines, d.String())
		}
	}
	for _, prefix := range want {
		if !slices.ContainsFunc(deeds, func(d deed) bool { return is(d, prefix) }) {
			lines = append(lines, "and it would not "+prefix)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return errors.New("OCCM would\n" + strings.Join(lines, "\n"))
}

// waitLikeOCCM waits until all is as OCCM would have made it, but for what begins so.
func (o *occm) waitLikeOCCM(but ...string) {
	o.t.Helper()
	o.Wait("all is as OCCM would have it",
		func() error { return o.compareDeeds(o.inventory(), but) })
}

// wantNoWarnings fails the test if the Service was warned.
func (o *occm) wantNoWarnings(service *corev1.Service) {
	o.t.Helper()
	events, err := o.cluster.Admin.CoreV1().Events(service.Namespace).List(o.t.Context(),
		metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(service.UID)})
	if err != nil {
		o.t.Fatal(err)
	}
	for _, e := range events.Items {
		// The API server has something to say, too.
		ours := e.Source.Component == "service-controller" ||
			e.Source.Component == "cloud-provider-openstack"
		if ours && e.Type == corev1.EventTypeWarning {
			o.t.Errorf("Service %s was told %s: %s", service.Name, e.Reason, e.Message)
		}
	}
}

// wantAsBefore fails the test if there is more than before, or less, but for a floating IP that was
// to be kept, and is unused now.
func (o *occm) wantAsBefore(base project.Inventory, kept string) {
	o.t.Helper()
	now := o.inventory()
	for _, f := range now.Of("floating IP") {
		if project.Text(f, "floating_ip_address") == kept {
			if tags := texts(f["tags"]); project.Text(f, "port_id") != "" || len(tags) > 0 {
				o.t.Errorf("the floating IP that is kept leads to %q, with the tags %q",
					project.Text(f, "port_id"), tags)
			}
			delete(now, "floating IP "+project.ID(f))
			kept = ""
		}
	}
	if kept != "" {
		o.t.Errorf("floating IP %s is not kept", kept)
	}
	// The tags of ports, by which older versions of OCCM found them again, stay:
	// no client uses them any more.
	for _, port := range base.Of("port") {
		if is := now["port "+project.ID(port)]; is != nil {
			is["tags"] = port["tags"]
		}
	}
	if lines := base.Differences(now); len(lines) > 0 {
		o.t.Errorf("it is not as it was:\n%s", strings.Join(lines, "\n"))
	}
}

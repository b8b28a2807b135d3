package loadbalancer

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cloud-provider/api"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/provider/huaweicloud/internal/client"
	"github.com/fxccm/fxccm/provider/huaweicloud/internal/stub"
)

// world is a Service with nodes, and the cloud.
type world struct {
	*Balancers
	t       *testing.T
	cloud   *stub.Cloud
	service *v1.Service
	nodes   []*v1.Node
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, cloud: stub.New(t)}
	c := client.New(client.Config{
		ELB: w.cloud.URL, EIP: w.cloud.URL, ProjectID: stub.ProjectID,
		AccessKeyID: stub.AccessKeyID, AccessKeySecret: stub.AccessKeySecret,
		Rate: rate.Inf,
	})
	t.Cleanup(c.Close)
	w.Balancers = New(Config{
		Client: c, VPC: stub.VPC, SubnetID: stub.Subnet, Logger: logr.Discard(),
	})
	w.service = newService("web", "11111111-2222-4333-8444-555555555555")
	w.nodes = []*v1.Node{newNode("a", "192.168.0.1"), newNode("b", "192.168.0.2")}
	return w
}

func newService(name, uid string) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(uid), Annotations: map[string]string{},
		},
		Spec: v1.ServiceSpec{
			Type: v1.ServiceTypeLoadBalancer,
			Ports: []v1.ServicePort{
				{Port: 80, NodePort: 30080, Protocol: v1.ProtocolTCP},
				{Port: 53, NodePort: 30053, Protocol: v1.ProtocolUDP},
			},
		},
	}
}

func newNode(name, address string) *v1.Node {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Addresses = []v1.NodeAddress{
		{Type: v1.NodeExternalIP, Address: "198.51.100.1"},
		{Type: v1.NodeInternalIP, Address: "fd00::1"},
		{Type: v1.NodeInternalIP, Address: address},
	}
	return node
}

func (w *world) annotate(name, value string) { w.service.Annotations[name] = value }

func (w *world) ensure() (*v1.LoadBalancerStatus, error) {
	return w.EnsureLoadBalancer(w.t.Context(), "prod", w.service, w.nodes)
}

func (w *world) mustEnsure() v1.LoadBalancerIngress {
	w.t.Helper()
	status, err := w.ensure()
	if err != nil {
		w.t.Fatal(err)
	}
	return status.Ingress[0]
}

func (w *world) mustDelete() {
	w.t.Helper()
	if err := w.EnsureLoadBalancerDeleted(w.t.Context(), "prod", w.service); err != nil {
		w.t.Fatal(err)
	}
	if _, exists, err := w.GetLoadBalancer(w.t.Context(), "prod", w.service); exists || err != nil {
		w.t.Fatalf("after the deletion: exists %t, %v", exists, err)
	}
}

// state describes all objects in the cloud without their IDs.
func (w *world) state() string {
	var lines []string
	for _, b := range w.cloud.Balancers() {
		line := fmt.Sprintf("balancer %s %q", b.Name, b.Description)
		for _, ip := range b.Publicips {
			line += " with EIP " + ip.PublicipAddress
		}
		lines = append(lines, line)
	}
	pools := map[string]string{}
	for _, p := range w.cloud.Pools() {
		line := fmt.Sprintf("pool %s %s %s %v", p.Name, p.Protocol, p.LbAlgorithm,
			w.cloud.Members(p.Id))
		if s := p.SessionPersistence; s != nil {
			line += fmt.Sprintf(" %s %d min", s.Type, *s.PersistenceTimeout)
		}
		pools[p.Id] = p.Name
		lines = append(lines, line)
	}
	for _, l := range w.cloud.Listeners() {
		lines = append(lines, fmt.Sprintf("listener %s %d -> %s %s", l.Protocol, l.ProtocolPort,
			pools[l.DefaultPoolId], l.DefaultTlsContainerRef))
	}
	for _, m := range w.cloud.Monitors() {
		lines = append(lines, fmt.Sprintf("monitor of %s: %s %s port %d every %d s, timeout %d s, "+
			"%d times", pools[m.Pools[0].Id], m.Type, m.UrlPath, m.MonitorPort, m.Delay, m.Timeout,
			m.MaxRetries))
	}
	for _, ip := range w.cloud.PublicIPs() {
		lines = append(lines, fmt.Sprintf("EIP %s bound %t", *ip.Alias, ip.PortId != nil))
	}
	if groups := w.cloud.Groups(); len(groups) > 0 {
		lines = append(lines, fmt.Sprintf("%d IP address groups", len(groups)))
		lines = append(lines, w.access()...)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (w *world) mustBe(want ...string) {
	w.t.Helper()
	slices.Sort(want)
	if got := w.state(); got != strings.Join(want, "\n") {
		w.t.Errorf("the cloud has\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// mustSettle checks that another pass changes nothing.
func (w *world) mustSettle() {
	w.t.Helper()
	w.cloud.Forget()
	w.mustEnsure()
	if got := w.cloud.Writes(); len(got) > 0 {
		w.t.Errorf("another pass changes the cloud: %v", got)
	}
}

const (
	name = "a1111111122224333844455555555555"
	mark = "fxccm cluster=prod service=default/web uid=11111111-2222-4333-8444-555555555555"

	balancer = "balancer " + name + ` "` + mark + `"`
	poolTCP  = "pool " + name + "-tcp-80 TCP ROUND_ROBIN [192.168.0.1:30080 192.168.0.2:30080]"
	poolUDP  = "pool " + name + "-udp-53 UDP ROUND_ROBIN [192.168.0.1:30053 192.168.0.2:30053]"
	portTCP  = "listener TCP 80 -> " + name + "-tcp-80 "
	portUDP  = "listener UDP 53 -> " + name + "-udp-53 "
	checkTCP = "monitor of " + name + "-tcp-80: TCP  port 0 every 5 s, timeout 3 s, 3 times"
	checkUDP = "monitor of " + name + "-udp-53: UDP_CONNECT  port 0 every 5 s, timeout 3 s, 3 times"
)

var complete = []string{balancer, poolTCP, poolUDP, portTCP, portUDP, checkTCP, checkUDP}

// replaced returns the complete state with changes: pairs of a line and its replacement, where ""
// removes the line.
func replaced(pairs ...string) []string {
	state := slices.Clone(complete)
	for at := 0; at < len(pairs); at += 2 {
		i := slices.Index(state, pairs[at])
		state[i] = pairs[at+1]
	}
	return slices.DeleteFunc(state, func(line string) bool { return line == "" })
}

func TestService_CreateAndDelete(t *testing.T) {
	w := newWorld(t)
	ingress := w.mustEnsure()
	w.mustBe(complete...)
	if want := w.cloud.Balancers()[0].VipAddress; ingress.IP != want || ingress.IPMode != nil {
		t.Errorf("ingress %+v, want %s", ingress, want)
	}
	w.mustSettle()
	if _, exists, err := w.GetLoadBalancer(t.Context(), "prod", w.service); !exists || err != nil {
		t.Errorf("exists %t, %v", exists, err)
	}
	w.mustDelete()
	w.mustBe()
}

func TestService_Changes(t *testing.T) {
	httpCheck := `{"protocol": "http", "path": "/ready", "delay": 10, "timeout": 9, "max_retries": 2}`
	for _, c := range []struct {
		name   string
		change func(*world)
		want   []string
	}{
		{"a node leaves", func(w *world) { w.nodes = w.nodes[1:] }, replaced(
			poolTCP, strings.Replace(poolTCP, "192.168.0.1:30080 ", "", 1),
			poolUDP, strings.Replace(poolUDP, "192.168.0.1:30053 ", "", 1))},
		{"a node is marked for removal", func(w *world) {
			w.config.RemovalTaints = []string{"example.com/leaving"}
			w.nodes[0].Spec.Taints = []v1.Taint{{Key: "example.com/leaving"}}
		}, replaced(
			poolTCP, strings.Replace(poolTCP, "192.168.0.1:30080 ", "", 1),
			poolUDP, strings.Replace(poolUDP, "192.168.0.1:30053 ", "", 1))},
		{"a node joins", func(w *world) {
			w.nodes = append(w.nodes, newNode("c", "192.168.0.3"))
		}, replaced(
			poolTCP, strings.Replace(poolTCP, "]", " 192.168.0.3:30080]", 1),
			poolUDP, strings.Replace(poolUDP, "]", " 192.168.0.3:30053]", 1))},
		{"a port is removed", func(w *world) {
			w.service.Spec.Ports = w.service.Spec.Ports[:1]
		}, replaced(poolUDP, "", portUDP, "", checkUDP, "")},
		{"the node port changes", func(w *world) {
			w.service.Spec.Ports[0].NodePort = 31000
		}, replaced(poolTCP, strings.ReplaceAll(poolTCP, "30080", "31000"))},
		{"another algorithm", func(w *world) {
			w.annotate(annotationAlgorithm, "LEAST_CONNECTIONS")
		}, replaced(
			poolTCP, strings.Replace(poolTCP, "ROUND_ROBIN", "LEAST_CONNECTIONS", 1),
			poolUDP, strings.Replace(poolUDP, "ROUND_ROBIN", "LEAST_CONNECTIONS", 1))},
		{"session affinity", func(w *world) {
			w.service.Spec.SessionAffinity = v1.ServiceAffinityClientIP
			w.service.Spec.SessionAffinityConfig = &v1.SessionAffinityConfig{
				ClientIP: &v1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](601)},
			}
		}, replaced(poolTCP, poolTCP+" SOURCE_IP 11 min", poolUDP, poolUDP+" SOURCE_IP 11 min")},
		{
			"health checks off", func(w *world) { w.annotate(annotationCheck, "off") },
			replaced(checkTCP, "", checkUDP, ""),
		},
		{
			"health checks by HTTP", func(w *world) {
				w.annotate(annotationCheckOption, httpCheck)
			},
			replaced(
				checkTCP, "monitor of "+name+
					"-tcp-80: HTTP /ready port 0 every 10 s, timeout 9 s, 2 times",
				checkUDP, "monitor of "+name+
					"-udp-53: UDP_CONNECT  port 0 every 10 s, timeout 9 s, 2 times"),
		},
		{"traffic policy Local", func(w *world) {
			w.service.Spec.Ports = w.service.Spec.Ports[:1]
			w.service.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
			w.service.Spec.HealthCheckNodePort = 32000
		}, replaced(poolUDP, "", portUDP, "", checkUDP, "",
			checkTCP, "monitor of "+name+
				"-tcp-80: HTTP /healthz port 32000 every 5 s, timeout 3 s, 3 times")},
		{"TLS ends at the load balancer", func(w *world) {
			w.annotate(annotationPorts, "https:80")
			w.annotate(annotationCertificate, "cert-1")
		}, replaced(portTCP, "listener HTTPS 80 -> "+name+"-tcp-80 cert-1",
			poolTCP, strings.Replace(poolTCP, "80 TCP", "80 HTTP", 1))},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.mustEnsure()
			c.change(w)
			if err := w.UpdateLoadBalancer(t.Context(), "prod", w.service, w.nodes); err != nil {
				t.Fatal(err)
			}
			w.mustBe(c.want...)
			w.mustSettle()
			w.mustDelete()
			w.mustBe()
		})
	}
}

func TestCertificate_IsReplaced_AndInClusterTrafficUsesTheLoadBalancer(t *testing.T) {
	w := newWorld(t)
	w.service.Spec.Ports = w.service.Spec.Ports[:1]
	w.annotate(annotationPorts, "tls:80")
	w.annotate(annotationCertificate, "cert-1")
	w.mustEnsure()
	w.annotate(annotationCertificate, "cert-2")
	w.cloud.Forget()
	ingress := w.mustEnsure()
	if ptr.Deref(ingress.IPMode, "") != v1.LoadBalancerIPModeProxy {
		t.Errorf("IP mode %v", ingress.IPMode)
	}
	if got := w.cloud.Writes(); !slices.Equal(got, []string{"PUT listeners"}) {
		t.Errorf("writes %v", got)
	}
	if l := w.cloud.Listeners()[0]; l.DefaultTlsContainerRef != "cert-2" || l.Protocol != "TLS" {
		t.Errorf("listener %+v", l)
	}
}

func TestExistingBalancer_GetsListenersAndSurvives(t *testing.T) {
	w := newWorld(t)
	theirs := w.cloud.AddBalancer("theirs")
	w.cloud.AddListener(theirs.Id, "TCP", 8080)
	before := w.state()
	w.annotate(annotationID, theirs.Id)
	if ingress := w.mustEnsure(); ingress.IP != theirs.VipAddress {
		t.Errorf("ingress %+v, want %s", ingress, theirs.VipAddress)
	}
	const foreign = "listener TCP 8080 ->  "
	w.mustBe(append(replaced(balancer, `balancer theirs ""`), foreign)...)
	w.mustSettle()

	delete(w.service.Annotations, annotationID)
	w.mustEnsure()
	w.mustBe(append(replaced(), `balancer theirs ""`, foreign)...)
	w.mustSettle()

	w.annotate(annotationID, theirs.Id)
	w.mustEnsure()
	w.mustBe(append(replaced(balancer, `balancer theirs ""`), foreign)...)

	// Without the annotation, too, the deletion finds the listeners on it.
	delete(w.service.Annotations, annotationID)
	w.mustDelete()
	w.mustBe(strings.Split(before, "\n")...)
}

// Any change of an existing load balancer may be the last one. The objects are found by their mark,
// even without the annotation.
func TestExistingBalancer_AdoptionInterrupted_DeletionFindsTheChanges(t *testing.T) {
	adopt := func(w *world) (before string) {
		theirs := w.cloud.AddBalancer("theirs")
		w.cloud.AddListener(theirs.Id, "TCP", 8080)
		before = w.state()
		w.annotate(annotationID, theirs.Id)
		w.annotate(annotationNewEIP, `{"bandwidth_size": 5}`)
		w.limit("10.0.0.0/8")
		return before
	}
	clean := newWorld(t)
	adopt(clean)
	clean.mustEnsure()
	writes := clean.cloud.Writes()
	for at := range writes {
		w := newWorld(t)
		before := adopt(w)
		w.failAt(writes, at)
		if _, err := w.ensure(); err == nil {
			t.Errorf("%s: no error", writes[at])
		}
		if got := w.cloud.Writes(); len(got) != at+1 {
			t.Errorf("%s failed, but %v follow", writes[at], got[at+1:])
		}
		delete(w.service.Annotations, annotationID)
		w.mustDelete()
		w.mustBe(strings.Split(before, "\n")...)
	}
}

func TestNodes_InSeveralSubnets_AreMembersInTheirSubnet(t *testing.T) {
	w := newWorld(t)
	w.nodes = append(w.nodes, newNode("c", "192.168.200.3"))
	if _, err := w.ensure(); err == nil || !strings.Contains(err.Error(), "invalid member") {
		t.Errorf("a node outside the known subnets: %v", err)
	}
	w.config.MemberSubnets = map[netip.Prefix]string{
		netip.MustParsePrefix("192.168.0.0/16"):   stub.Subnet,
		netip.MustParsePrefix("192.168.200.0/24"): stub.SecondSubnet,
	}
	w.mustEnsure()
	want := []string{"192.168.0.1:30080", "192.168.0.2:30080", "192.168.200.3:30080"}
	for _, p := range w.cloud.Pools() {
		if p.Protocol == "TCP" && !slices.Equal(w.cloud.Members(p.Id), want) {
			t.Errorf("the members are %v, want %v", w.cloud.Members(p.Id), want)
		}
	}
	w.mustSettle()
}

// A kubelet writes the addresses of its node.
func TestNodes_ReportReservedAddresses_AreNoMembersThere(t *testing.T) {
	w := newWorld(t)
	w.nodes[0] = newNode("a", "169.254.169.254")
	w.nodes[0].Status.Addresses = append(w.nodes[0].Status.Addresses,
		v1.NodeAddress{Type: v1.NodeInternalIP, Address: "192.168.0.1"})
	for _, address := range []string{
		"169.254.169.254", "127.0.0.1", "0.0.0.1", "224.0.0.1", "255.255.255.255",
		"100.100.100.200",
	} {
		w.nodes = append(w.nodes, newNode("at "+address, address))
	}
	w.mustEnsure()
	w.mustBe(complete...)
}

func TestExistingBalancer_PortInUse_ErrorNamesThePort(t *testing.T) {
	w := newWorld(t)
	theirs := w.cloud.AddBalancer("theirs")
	w.cloud.AddListener(theirs.Id, "HTTP", 80)
	before := w.state()
	w.annotate(annotationID, theirs.Id)
	const want = "create listener TCP 80: HTTP 409 ELB.8907: the port is in use by another listener"
	if _, err := w.ensure(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
	w.mustDelete()
	w.mustBe(strings.Split(before, "\n")...)
}

func TestExistingBalancer_WrongID_IsAnError(t *testing.T) {
	w := newWorld(t)
	w.annotate(annotationID, "unknown")
	_, err := w.ensure()
	if err == nil || !client.IsNotFound(err) || !strings.Contains(err.Error(), annotationID) {
		t.Errorf("got %v", err)
	}
	w.annotate(annotationID, w.cloud.AddBalancer("theirs").Id)
	w.config.VPC = "another"
	if _, err = w.ensure(); err == nil || !strings.Contains(err.Error(), "is in VPC") {
		t.Errorf("got %v", err)
	}
	if got := w.cloud.Writes(); len(got) > 0 {
		t.Errorf("writes %v", got)
	}
}

func TestOwnBalancerNamedByAnnotation_IsDeletedWithTheService(t *testing.T) {
	w := newWorld(t)
	w.mustEnsure()
	w.annotate(annotationID, w.cloud.Balancers()[0].Id)
	w.mustEnsure()
	w.mustBe(complete...)
	w.mustDelete()
	w.mustBe()
}

func TestOwnBalancerWithPartsOfOthers_IsKept(t *testing.T) {
	for want, add := range map[string]func(*world, string){
		"listener TCP 8080 ->  ": func(w *world, id string) {
			w.cloud.AddListener(id, "TCP", 8080)
		},
		"pool theirs TCP ROUND_ROBIN []": func(w *world, id string) { w.cloud.AddPool(id) },
	} {
		w := newWorld(t)
		w.mustEnsure()
		add(w, w.cloud.Balancers()[0].Id)
		if err := w.EnsureLoadBalancerDeleted(t.Context(), "prod", w.service); err != nil {
			t.Fatal(err)
		}
		w.mustBe(balancer, want)
	}
}

func TestOtherCluster_WithTheSameUID_IsNotTouched(t *testing.T) {
	w := newWorld(t)
	w.annotate(annotationNewEIP, `{"bandwidth_size": 5}`)
	if _, err := w.EnsureLoadBalancer(t.Context(), "copy", w.service, w.nodes); err != nil {
		t.Fatal(err)
	}
	before := w.state()
	w.mustEnsure()
	w.mustDelete()
	w.mustBe(strings.Split(before, "\n")...)
}

func TestPublicIP_ComesAndGoes(t *testing.T) {
	w := newWorld(t)
	for range 120 { // more than a page
		w.cloud.AddPublicIP("203.0.113.1")
	}
	before := w.state()
	w.annotate(annotationNewEIP, `{"ip_type": "5_bgp", "bandwidth_size": 5, "share_type": "PER"}`)
	ingress := w.mustEnsure()
	bound := w.cloud.Balancers()[0].Publicips
	if len(bound) != 1 || ingress.IP != bound[0].PublicipAddress {
		t.Fatalf("ingress %+v, bound %+v", ingress, bound)
	}
	w.mustSettle()

	// The address moves with the Service to another load balancer.
	theirs := w.cloud.AddBalancer("theirs")
	w.annotate(annotationID, theirs.Id)
	if again := w.mustEnsure(); again.IP != ingress.IP {
		t.Errorf("ingress %+v, want %s", again, ingress.IP)
	}
	w.mustSettle()
	delete(w.service.Annotations, annotationID)
	if again := w.mustEnsure(); again.IP != ingress.IP {
		t.Errorf("ingress %+v, want %s", again, ingress.IP)
	}

	delete(w.service.Annotations, annotationNewEIP)
	if again := w.mustEnsure(); again.IP != w.cloud.Balancers()[1].VipAddress {
		t.Errorf("without EIP: %+v", again)
	}
	w.mustSettle()
	w.annotate(annotationNewEIP, `{"share_type": "WHOLE", "share_id": "shared"}`)
	w.mustEnsure()
	w.mustDelete()
	w.mustBe(append(strings.Split(before, "\n"), `balancer theirs ""`)...)
}

func TestPublicIP_Kept_StaysUnbound(t *testing.T) {
	w := newWorld(t)
	w.annotate(annotationNewEIP, `{"bandwidth_size": 5}`)
	w.annotate(annotationKeepEIP, "true")
	w.mustEnsure()
	w.mustDelete()
	ips := w.cloud.PublicIPs()
	if len(ips) != 1 || ips[0].PortId != nil {
		t.Errorf("EIPs %+v", ips)
	}
}

func TestPublicIP_CreatedAndThenNamed_IsNotDeletedAnyMore(t *testing.T) {
	w := newWorld(t)
	w.annotate(annotationNewEIP, `{"bandwidth_size": 5}`)
	w.mustEnsure()
	delete(w.service.Annotations, annotationNewEIP)
	w.annotate(annotationEIP, *w.cloud.PublicIPs()[0].Id)
	w.mustSettle()
	w.mustDelete()
	if ips := w.cloud.PublicIPs(); len(ips) != 1 || ips[0].PortId != nil {
		t.Errorf("EIPs %+v", ips)
	}
}

func TestPublicIP_OfTheOperator_IsBoundAndSurvives(t *testing.T) {
	for _, adopt := range []bool{false, true} {
		w := newWorld(t)
		id := w.cloud.AddPublicIP("203.0.113.9")
		w.annotate(annotationEIP, id)
		if adopt {
			w.annotate(annotationID, w.cloud.AddBalancer("theirs").Id)
		}
		if ingress := w.mustEnsure(); ingress.IP != "203.0.113.9" {
			t.Errorf("ingress %+v", ingress)
		}
		w.mustSettle()
		w.mustDelete()
		ips := w.cloud.PublicIPs()
		if len(ips) != 1 || ips[0].PortId != nil {
			t.Errorf("adopted balancer %t: EIPs %+v", adopt, ips)
		}
		if left := w.cloud.Balancers(); (len(left) == 1) != adopt {
			t.Errorf("adopted balancer %t: %d EIPs remain", adopt, len(left))
		}
	}
}

func TestPublicIP_InUseElsewhere_IsAnError(t *testing.T) {
	w := newWorld(t)
	id := w.cloud.AddPublicIP("203.0.113.9")
	w.annotate(annotationEIP, id)
	w.mustEnsure()
	other := newService("other", "99999999-2222-4333-8444-555555555555")
	other.Annotations[annotationEIP] = id
	_, err := w.EnsureLoadBalancer(t.Context(), "prod", other, w.nodes)
	if err == nil || !strings.Contains(err.Error(), "is bound to port") {
		t.Errorf("got %v", err)
	}
	// A load balancer with an EIP of someone else does not get a second one.
	third := newService("third", "77777777-2222-4333-8444-555555555555")
	third.Spec.Ports[0].Port, third.Spec.Ports[1].Port = 81, 54
	third.Annotations[annotationID] = w.cloud.Balancers()[0].Id
	third.Annotations[annotationNewEIP] = `{"bandwidth_size": 5}`
	_, err = w.EnsureLoadBalancer(t.Context(), "prod", third, w.nodes)
	if err == nil || !strings.Contains(err.Error(), "already has EIP 203.0.113.9") {
		t.Errorf("got %v", err)
	}
}

func TestPublicIP_Named_WithoutAddressOrUnknown_IsAnError(t *testing.T) {
	w := newWorld(t)
	w.annotate(annotationEIP, w.cloud.AddPublicIP(""))
	var retry *api.RetryError
	if _, err := w.ensure(); !errors.As(err, &retry) {
		t.Errorf("without an address: %v", err)
	}
	w.annotate(annotationEIP, "unknown")
	if _, err := w.ensure(); !client.IsNotFound(err) {
		t.Errorf("unknown: %v", err)
	}
}

// body returns the body of the only request of an operation.
func (w *world) body(operation string) string {
	w.t.Helper()
	var bodies []string
	for _, r := range w.cloud.Requests() {
		if r.Operation == operation {
			bodies = append(bodies, r.Body)
		}
	}
	if len(bodies) != 1 {
		w.t.Fatalf("%d requests %s, want one", len(bodies), operation)
	}
	return bodies[0]
}

func TestPublicIP_Bandwidth_IsThatOfTheAnnotation(t *testing.T) {
	for _, c := range []struct{ option, want string }{
		{`{"bandwidth_size": 7}`, `"charge_mode":"traffic"`},
		{`{"bandwidth_size": 7}`, `"share_type":"PER","size":7}`},
		{`{"bandwidth_size": 7, "charge_mode": "bandwidth"}`, `"charge_mode":"bandwidth"`},
		{`{"share_type": "WHOLE", "share_id": "s"}`, `{"id":"s","share_type":"WHOLE"}`},
	} {
		w := newWorld(t)
		w.annotate(annotationNewEIP, c.option)
		w.mustEnsure()
		if got := w.body("POST publicips"); !strings.Contains(got, c.want) {
			t.Errorf("%s: the request is %s, want %s", c.option, got, c.want)
		}
	}
}

func TestConfiguration_OfNewBalancers_IsSent(t *testing.T) {
	w := newWorld(t)
	w.config.L4Flavor, w.config.L7Flavor, w.config.Zones = "four", "seven", []string{"zone"}
	w.mustEnsure()
	for _, want := range []string{
		`"l4_flavor_id":"four"`, `"l7_flavor_id":"seven"`, `"availability_zone_list":["zone"]`,
	} {
		if got := w.body("POST loadbalancers"); !strings.Contains(got, want) {
			t.Errorf("the request is %s, want %s", got, want)
		}
	}
}

func TestObjectsGone_DeletionContinues(t *testing.T) {
	for _, operation := range []string{
		"DELETE ipgroups", "DELETE publicips", "DELETE loadbalancers",
	} {
		w := newWorld(t)
		w.annotate(annotationNewEIP, `{"bandwidth_size": 5}`)
		w.limit("10.0.0.0/8")
		w.mustEnsure()
		w.cloud.Fail(operation, 404, "ELB.8904", "not found")
		if err := w.EnsureLoadBalancerDeleted(t.Context(), "prod", w.service); err != nil {
			t.Errorf("%s: %v", operation, err)
		}
	}
}

func TestGroupLeft_ServiceStillExists(t *testing.T) {
	w := newWorld(t)
	w.annotate(annotationID, w.cloud.AddBalancer("theirs").Id)
	w.limit("10.0.0.0/8")
	w.mustEnsure()
	w.cloud.Fail("DELETE ipgroups", 409, "ELB.8907", "in use")
	if err := w.EnsureLoadBalancerDeleted(t.Context(), "prod", w.service); err == nil {
		t.Error("no error")
	}
	if _, exists, err := w.GetLoadBalancer(t.Context(), "prod", w.service); !exists {
		t.Errorf("the Service does not exist, although an IP address group remains: %v", err)
	}
}

func TestRegionWithoutGroups_ServiceWithoutSourceRangesWorks(t *testing.T) {
	w := newWorld(t)
	w.cloud.Fail("GET ipgroups", 404, "APIGW.0101", "the API does not exist")
	w.mustEnsure()
	w.mustBe(complete...)
}

func TestBalancerBeingDeleted_IsWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.mustEnsure()
	id := w.cloud.Balancers()[0].Id
	w.cloud.SetDeleting(id, true)
	w.cloud.Forget()
	var retry *api.RetryError
	if _, err := w.ensure(); !errors.As(err, &retry) || retry.RetryAfter() != poll {
		t.Errorf("got %v", err)
	}
	if got := w.cloud.Writes(); len(got) > 0 {
		t.Errorf("writes %v", got)
	}
	w.mustDelete()
	w.cloud.SetDeleting(id, false)
	w.mustEnsure()
	w.mustBe(complete...)
}

func TestCreationRepeatedAfterLostResponse_LeavesOneBalancer(t *testing.T) {
	w := newWorld(t)
	w.mustEnsure()
	first := w.cloud.Balancers()[0].Id
	w.cloud.CopyBalancer(first)
	w.mustEnsure()
	w.mustBe(complete...)
	if got := w.cloud.Balancers()[0].Id; got != first {
		t.Errorf("balancer %s stays, want the older %s", got, first)
	}
}

// Each write of a creation, of a change and of a deletion fails once, and the next pass completes.
func TestWriteFails_NextPassCompletes(t *testing.T) {
	const eip = `{"bandwidth_size": 5}`
	prepare := func(w *world) {
		w.annotate(annotationNewEIP, eip)
		w.limit("10.0.0.0/8")
	}
	change := func(w *world) {
		w.limit("192.0.2.0/24")
		delete(w.service.Annotations, annotationNewEIP)
		w.service.Spec.Ports[0].NodePort = 31000
		w.service.Spec.Ports[1].Port = 54
		w.service.Spec.SessionAffinity = v1.ServiceAffinityClientIP
		w.annotate(annotationCheckOption, `{"delay": 7}`)
	}
	clean := newWorld(t)
	prepare(clean)
	clean.mustEnsure()
	created, creation := clean.state(), clean.cloud.Writes()
	clean.cloud.Forget()
	change(clean)
	clean.mustEnsure()
	changed, changes := clean.state(), clean.cloud.Writes()
	clean.cloud.Forget()
	clean.mustDelete()
	deletion := clean.cloud.Writes()

	for at := range creation {
		w := newWorld(t)
		prepare(w)
		w.failAt(creation, at)
		if _, err := w.ensure(); err == nil || !strings.Contains(err.Error(), "internal error") {
			t.Errorf("%s: %v", creation[at], err)
		}
		w.mustEnsure()
		if got := withoutAddresses(w.state()); got != withoutAddresses(created) {
			t.Errorf("%s (%d) of the creation failed once; the cloud has\n%s", creation[at], at,
				got)
		}
		w.mustSettle()
	}
	for at := range changes {
		w := newWorld(t)
		prepare(w)
		w.mustEnsure()
		change(w)
		w.failAt(changes, at)
		if _, err := w.ensure(); err == nil {
			t.Errorf("%s: no error", changes[at])
		}
		w.mustEnsure()
		if got := w.state(); got != changed {
			t.Errorf("%s (%d) of the change failed once; the cloud has\n%s", changes[at], at, got)
		}
	}
	for at := range deletion {
		w := newWorld(t)
		prepare(w)
		w.mustEnsure()
		change(w)
		w.mustEnsure()
		w.failAt(deletion, at)
		err := w.EnsureLoadBalancerDeleted(t.Context(), "prod", w.service)
		if err == nil {
			t.Errorf("%s: no error", deletion[at])
		}
		if _, exists, err := w.GetLoadBalancer(t.Context(), "prod", w.service); !exists {
			t.Errorf("%s failed, but nothing exists: %v", deletion[at], err)
		}
		w.mustDelete()
		w.mustBe()
	}
}

// failAt makes one of the writes fail.
func (w *world) failAt(writes []string, at int) {
	earlier := 0
	for _, operation := range writes[:at] {
		if operation == writes[at] {
			earlier++
		}
	}
	w.cloud.FailLater(writes[at], earlier, 500, "ELB.9999", "internal error")
}

// withoutAddresses drops the address of an EIP, which differs after a repeated creation.
func withoutAddresses(state string) string {
	var lines []string
	for line := range strings.SplitSeq(state, "\n") {
		before, _, _ := strings.Cut(line, " with EIP ")
		lines = append(lines, before)
	}
	return strings.Join(lines, "\n")
}

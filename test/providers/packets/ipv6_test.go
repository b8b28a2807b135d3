//go:build linux

package packets_test

import (
	"net"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/test/internal/project"
)

// The nodes and the client have both families.
func TestService_OfIPv6_BothNodesAnswer(t *testing.T) {
	onEach(t, testIPv6, project.WithIPv6())
}

func testIPv6(t *testing.T, c *cluster) {
	client := c.addClients("client")[0]
	c.begin(internal)
	service, target := c.expose("six", func(s *corev1.Service) {
		policy := corev1.IPFamilyPolicySingleStack
		s.Spec.IPFamilyPolicy = &policy
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
	})
	if len(service.Status.LoadBalancer.Ingress) != 1 {
		t.Errorf("the Service has the addresses %v, want one", service.Status.LoadBalancer.Ingress)
	}
	c.waitAnswers("the nodes answer", client, target, "node-1", "node-2")
	by, seen := answers(client, target, tries)
	if len(by) != 2 || by["node-1"]+by["node-2"] != tries {
		t.Errorf("of %d connections to %s %v were answered, want all, by both nodes", tries, target,
			by)
	}
	c.wantSeen(client.address6, seen)
	c.note("of %d connections to an IPv6 load balancer node-1 answered %d and node-2 %d; "+
		"both saw %s", tries, by["node-1"], by["node-2"], c.balancer.sees())
}

// The load balancer has an address of each family. With an amphora, which translates between them,
// the nodes are members by one address, with ovn by both.
func TestService_OfBothFamilies_IsAnsweredAtBothAddresses(t *testing.T) {
	onEach(t, testBothFamilies, project.WithIPv6())
}

func testBothFamilies(t *testing.T, c *cluster) {
	client := c.addClients("client")[0]
	c.begin(internal)
	service, _ := c.expose("both", func(s *corev1.Service) {
		policy := corev1.IPFamilyPolicyRequireDualStack
		s.Spec.IPFamilyPolicy = &policy
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	})
	ingress := service.Status.LoadBalancer.Ingress
	if len(ingress) != 2 {
		t.Fatalf("the Service has the addresses %v, want two", ingress)
	}
	for _, each := range ingress {
		target := net.JoinHostPort(each.IP, "80")
		c.waitAnswers("the nodes answer at "+target, client, target, "node-1", "node-2")
		by, seen := answers(client, target, tries)
		if len(by) != 2 || by[""] > 0 {
			t.Errorf("of %d connections to %s %v were answered, want all, by both nodes", tries,
				target, by)
		}
		own := client.address
		if strings.Contains(each.IP, ":") {
			own = client.address6
		}
		c.wantSeen(own, seen)
	}
	c.note("both nodes answered all of %d connections to the IPv4 address of a load balancer, and "+
		"to its IPv6 address", tries)
}

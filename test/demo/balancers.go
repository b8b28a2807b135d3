package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
	"github.com/fxccm/fxccm/test/internal/attempt"
)

// Steps with a Service and its load balancer in Octavia.

// balancedApp is the Service.
const balancedApp = "web"

// served is a Service's load balancer and address, which never change.
type served struct{ balancer, address string }

func (c *cluster) createBalanced(t *attempt.T) string {
	before := c.openStack.calls()
	c.unserved = c.openStack.holdings()
	c.createService(t, balancedApp)
	begun := time.Now()
	c.web = c.awaitBalanced(t)
	return fmt.Sprintf(
		"%s has the floating IP %s after %.1f s, of which Octavia needed %s; %d nodes are members; OpenStack received %s",
		balancedApp, c.web.address, time.Since(begun).Seconds(), provisioning, nodeCount,
		c.openStack.calls().since(before))
}

// awaitBalanced waits until the Service has the floating IP of a ready load balancer whose members
// are the nodes.
func (c *cluster) awaitBalanced(t *attempt.T) (has served) {
	c.until(t, func() error {
		service, err := c.service(t, balancedApp)
		if err != nil {
			return err
		}
		lb, ok := c.openStack.balancerOf(service)
		if !ok {
			return fmt.Errorf("OpenStack has no load balancer of Service %s", balancedApp)
		}
		has = served{lb.ID, ingressIP(service)}
		return errors.Join(
			expect("the state of the load balancer", lb.ProvisioningStatus,
				openstacktest.StatusActive),
			expect("the address of Service "+balancedApp, has.address,
				c.openStack.floatingIPOf(lb)),
			expectNot("the address of Service "+balancedApp, has.address, ""),
			c.expectMembers(t, lb),
		)
	})
	return has
}

// expectMembers returns an error unless exactly the nodes are members of each pool.
func (c *cluster) expectMembers(t *attempt.T, lb openstacktest.LoadBalancer) error {
	nodes, err := c.nodes(t.Context())
	if err != nil {
		return err
	}
	var want []string
	for _, node := range nodes {
		want = append(want, internalIP(&node))
	}
	slices.Sort(want)
	for _, pool := range lb.Pools {
		if got := memberAddresses(pool); !slices.Equal(got, want) {
			return fmt.Errorf("the members of the load balancer are %v, and the nodes %v", got,
				want)
		}
	}
	return expectNot("the number of pools", len(lb.Pools), 0)
}

// awaitSameBalanced waits like awaitBalanced, and fails the step unless the Service still has its
// first load balancer and address.
func (c *cluster) awaitSameBalanced(t *attempt.T) {
	has := c.awaitBalanced(t)
	made := c.openStack.calls().only("loadbalancer_create", "floating_ip_create",
		"loadbalancer_delete", "floating_ip_delete")
	t.Check(errors.Join(
		expect("the load balancer of Service "+balancedApp, has, c.web),
		expect("the creations and deletions for it", made.String(),
			tally{"loadbalancer_create": 1, "floating_ip_create": 1}.String()),
	))
}

func (c *cluster) deleteBalanced(t *attempt.T) string {
	before := c.openStack.calls()
	t.Check(c.client.CoreV1().Services(metav1.NamespaceDefault).Delete(t.Context(), balancedApp,
		metav1.DeleteOptions{}))
	c.until(t, func() error {
		_, err := c.service(t, balancedApp)
		return expect("that Service "+balancedApp+" is not found", apierrors.IsNotFound(err), true)
	})
	// The finalizer is removed last, so no controller deletes objects later.
	t.Check(expect("the objects in Octavia and Neutron", c.openStack.holdings(), c.unserved))
	return fmt.Sprintf(
		"no load balancer, floating IP, security group or port is left in Octavia and Neutron; OpenStack received %s",
		c.openStack.calls().since(before))
}

// holdings counts the objects of a Service in OpenStack.
type holdings struct{ balancers, floatingIPs, securityGroups, ports int }

func (o *openStack) holdings() holdings {
	h := holdings{
		balancers:   len(o.server.LoadBalancers()),
		floatingIPs: len(o.server.FloatingIPs()),
	}
	for _, group := range o.server.SecurityGroups() {
		// Neutron creates it in each project at the first request
		if group.Name != "default" {
			h.securityGroups++
		}
	}
	for _, port := range o.server.Ports() {
		if !strings.HasPrefix(port.DeviceOwner, machineOwner) {
			h.ports++
		}
	}
	return h
}

// balancerOf finds the load balancer of a Service by its tag.
func (o *openStack) balancerOf(service *corev1.Service) (openstacktest.LoadBalancer, bool) {
	for _, lb := range o.server.LoadBalancers() {
		if slices.Contains(lb.Tags, "fxccm-service="+string(service.UID)) {
			return lb, true
		}
	}
	return openstacktest.LoadBalancer{}, false
}

// floatingIPOf is the floating IP of a load balancer, or "".
func (o *openStack) floatingIPOf(lb openstacktest.LoadBalancer) string {
	for _, ip := range o.server.FloatingIPs() {
		if ip.PortID == lb.VIPPortID {
			return ip.Address
		}
	}
	return ""
}

// machineNames are the names of the machines with the addresses.
func (o *openStack) machineNames(addresses []string) []string {
	names := map[string]string{}
	for _, server := range o.server.Servers() {
		names[server.ID] = server.Name
	}
	var found []string
	for _, port := range o.server.Ports() {
		for _, ip := range port.FixedIPs {
			if name := names[port.DeviceID]; name != "" && slices.Contains(addresses, ip.Address) {
				found = append(found, name)
			}
		}
	}
	slices.Sort(found)
	return found
}

// memberAddresses are sorted.
func memberAddresses(pool openstacktest.Pool) []string {
	var addresses []string
	for _, member := range pool.Members {
		addresses = append(addresses, member.Address)
	}
	slices.Sort(addresses)
	return addresses
}

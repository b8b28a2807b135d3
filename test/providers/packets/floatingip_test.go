//go:build linux

package packets_test

import (
	"strconv"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest"
)

// The outside of the cloud is one client with the gateway's address in the public network, which
// Neutron gives to no port.
const (
	outsideAddress = "198.18.0.1"
	outsideMAC     = "02:00:00:00:00:01"
)

// outside connects a client to the public network, where the project's router has its gateway.
func (c *cluster) outside() *machine {
	c.t.Helper()
	m := startMachine(c.t, "outside")
	m.address = outsideAddress
	inSwitch := "x" + strconv.Itoa(m.pid)
	c.attach("outside", strconv.Itoa(m.pid), inSwitch, outsideMAC, outsideAddress+"/16")
	c.t.Cleanup(func() { c.attach("detach", inSwitch) })
	return m
}

func TestService_WithFloatingIP_IsAnsweredOutsideTheCloud(t *testing.T) {
	t.Parallel()
	// One after the other: there is one client outside.
	for _, b := range []balancer{ovn, amphora} {
		t.Run(b.provider, func(t *testing.T) {
			c := newCluster(t, "node-1", "node-2")
			c.balancer = b
			client := c.outside()
			c.begin(nil)
			_, target := c.expose("web")
			c.waitAnswers("the nodes answer outside", client, target, "node-1", "node-2")
			by, seen := answers(client, target, tries)
			if len(by) != 2 || by[""] > 0 {
				t.Errorf("of %d connections %v were answered, want all, by both nodes", tries, by)
			}
			c.wantSeen(client.address, seen)
			c.changeService("web", ccmtest.ServiceAnnotation(
				"service.beta.kubernetes.io/openstack-internal-load-balancer", "true"))
			c.waitAnswers("no node answers at the floating IP of an internal Service", client,
				target, "")
			c.note("of %d connections from outside of the cloud to the floating IP node-1 answered "+
				"%d and node-2 %d; both saw %s; an internal Service is not answered there", tries,
				by["node-1"], by["node-2"], b.sees())
		})
	}
}

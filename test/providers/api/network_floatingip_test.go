package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/fxccm/fxccm/test/internal/project"
)

const floatingIPs = "POST /floatingips"

func floatingIP(rest string) string {
	return `{"floatingip":{"floating_network_id":"$public"` + rest + `}}`
}

func pointTo(rest string) string { return `{"floatingip":{"port_id":` + rest + `}}` }

// TestFloatingIPs_LeadToAPort: to one address of it, which no other floating IP of the network
// leads to, and which a router reaches.
func TestFloatingIPs_LeadToAPort(t *testing.T) {
	t.Parallel()
	n := newNeutron(t, project.WithIPv6())
	n.make("port", "ports", "port",
		`{"network_id":"$net","fixed_ips":[{"subnet_id":"$subnet4"},{"subnet_id":"$subnet6"}]}`)
	n.make("two", "ports", "port", `{"network_id":"$net","fixed_ips":[
		{"subnet_id":"$subnet4","ip_address":"10.0.9.1"},{"subnet_id":"$subnet4","ip_address":"10.0.9.2"}]}`)
	n.make("six", "ports", "port",
		`{"network_id":"$net","fixed_ips":[{"subnet_id":"$subnet6","ip_address":"fd00::96"}]}`)
	n.make("apart", "networks", "network", `{"name":"apart"}`)
	n.make("apart4", "subnets", "subnet",
		`{"network_id":"$apart","cidr":"10.7.0.0/24","ip_version":4,"enable_dhcp":false}`)
	n.make("lost", "ports", "port", `{"network_id":"$apart"}`)

	made := n.make("a", "floatingips", "floatingip",
		`{"floating_network_id":"$public","port_id":"$port","description":"of a"}`)
	n.want("the router of one that leads somewhere", made["router_id"], n.Router)
	n.make("b", "floatingips", "floatingip", `{"floating_network_id":"$public"}`)
	n.expect(
		// A second one to the same address, by creation and by a change.
		exchange{
			floatingIPs, floatingIP(`,"port_id":"$port"`), 409,
			"FloatingIPPortAlreadyAssociated", "already has a floating IP on external network",
		},
		exchange{
			"PUT /floatingips/$b", pointTo(`"$port"`), 409, "FloatingIPPortAlreadyAssociated",
			"already has a floating IP on external network",
		},
		exchange{
			"PUT /floatingips/$b", pointTo(`"$unknown"`), 404, "PortNotFound",
			"Port $unknown could not be found.",
		},
		exchange{
			"PUT /floatingips/$b", pointTo(`"nonsense"`), 400, "HTTPBadRequest",
			"'nonsense' is not a valid UUID.",
		},
		exchange{
			"PUT /floatingips/$b", pointTo(`"$lost"`), 404, "ExternalGatewayForFloatingIPNotFound",
			"External network $public is not reachable from subnet $apart4.  Therefore, cannot associate Port $lost with a Floating IP.",
		},
		exchange{
			floatingIPs, floatingIP(`,"port_id":"$lost"`), 404,
			"ExternalGatewayForFloatingIPNotFound", "",
		},
		exchange{
			"PUT /floatingips/$b", pointTo(`"$six"`), 400, "BadRequest",
			"that has no fixed IPv4 addresses",
		},
		exchange{
			"PUT /floatingips/$b", pointTo(`"$two"`), 400, "BadRequest",
			"has multiple fixed IPv4 addresses.",
		},
		exchange{
			"PUT /floatingips/$b", pointTo(`"$two","fixed_ip_address":"10.0.9.9"`), 400,
			"BadRequest", "does not have fixed ip 10.0.9.9",
		},
		exchange{
			"PUT /floatingips/$b", pointTo(`"$six","fixed_ip_address":"fd00::96"`), 400,
			"BadRequest", "since that is not an IPv4 address",
		},
		exchange{
			"PUT /floatingips/$b", pointTo(`"$two","fixed_ip_address":"nonsense"`), 400,
			"HTTPBadRequest", "'nonsense' is not a valid IP address",
		},
		exchange{
			"PUT /floatingips/$b", pointTo(`"$two","fixed_ip_address":"10.0.9.2"`), 200, "",
			"",
		},
		exchange{"PUT /floatingips/$a", `{"floatingip":{"description":"still"}}`, 200, "", ""},
	)
	n.want("the port, after a change of the description",
		n.get("/floatingips/$a", "floatingip", "port_id"), n.noted["port"])
	n.want("the address that it leads to",
		n.get("/floatingips/$b", "floatingip", "fixed_ip_address"), "10.0.9.2")
	n.expect(
		exchange{"PUT /floatingips/$b", pointTo(`null`), 200, "", ""},
		exchange{"PUT /floatingips/$b", pointTo(`null`), 200, "", ""},
	)
	n.want("of one that leads nowhere", n.get("/floatingips/$b", "floatingip", "fixed_ip_address"),
		nil)
	n.noted["revision"] = n.revision("/floatingips/$b", "floatingip")
	for target, status := range map[string]int{
		`"$two","fixed_ip_address":"10.0.9.2"`: 412,
		`"$six"`:                               400,
	} {
		if answer := n.ask("PUT /floatingips/$b", pointTo(target), "If-Match",
			"revision_number=0"); answer.Status != status {
			t.Errorf("want %d: %s", status, answer)
		}
	}
	n.want("by port", n.list("/floatingips?port_id=$port&fields=id", "floatingips", "id"),
		[]string{n.noted["a"]})
	n.want("by description",
		n.list("/floatingips?description=still&fields=id&project_id=$project", "floatingips", "id"),
		[]string{n.noted["a"]})
	// The floating IP stays after its port is deleted.
	n.expect(exchange{"DELETE /ports/$port", "", 204, "", ""})
	n.want("the port, deleted", n.get("/floatingips/$a", "floatingip", "port_id"), nil)
	n.want("the router then", n.get("/floatingips/$a", "floatingip", "router_id"), nil)
	n.expect(
		exchange{"DELETE /floatingips/$a", "", 204, "", ""},
		exchange{
			"DELETE /floatingips/$a", "", 404, "FloatingIPNotFound",
			"Floating IP $a could not be found",
		},
		exchange{
			"PUT /floatingips/$a", pointTo(`null`), 404, "FloatingIPNotFound",
			"Floating IP $a could not be found",
		},
		exchange{
			"GET /floatingips/$a", "", 404, "FloatingIPNotFound",
			"Floating IP $a could not be found",
		},
	)
}

// A deletion may name the revision of a list: each change of another client refuses it, whatever it
// changes, and without one it succeeds, wherever the floating IP leads to.
func TestFloatingIPs_DeletionOfARevision_IsRefusedAfterEachChange(t *testing.T) {
	t.Parallel()
	n := newNeutron(t)
	n.make("port", "ports", "port", `{"network_id":"$net"}`)
	n.make("a", "floatingips", "floatingip", `{"floating_network_id":"$public"}`)
	listed := func() string {
		t.Helper()
		revisions := n.list("/floatingips?project_id=$project&fields=id&fields=revision_number",
			"floatingips", "revision_number")
		if len(revisions) != 1 {
			t.Fatalf("the list shows the revisions %v, want one", revisions)
		}
		return revisions[0]
	}
	remove := func(revision string) project.Answer {
		t.Helper()
		return n.ask("DELETE /floatingips/$a", "", "If-Match", "revision_number="+revision)
	}
	for _, change := range []exchange{
		{"PUT /floatingips/$a", pointTo(`"$port"`), 200, "", ""},
		{"PUT /floatingips/$a/tags", `{"tags":["a"]}`, 200, "", ""},
		{"PUT /floatingips/$a/tags/b", "", 201, "", ""},
		{"DELETE /floatingips/$a/tags", "", 204, "", ""},
		{"PUT /floatingips/$a", `{"floatingip":{"description":"reserved"}}`, 200, "", ""},
		{"PUT /floatingips/$a", pointTo("null"), 200, "", ""},
		{"PUT /floatingips/$a", pointTo(`"$port"`), 200, "", ""},
	} {
		before := listed()
		n.expect(change)
		answer := remove(before)
		if err := (exchange{status: 412, kind: "RevisionNumberConstraintFailed"}).compare(answer,
			"Constrained to "+before); err != nil {
			t.Errorf("after %s %s: %s\n%v", change.request, change.body, answer, err)
		}
	}
	// An agent may report the status of the floating IP meanwhile.
	answer := remove(listed())
	for range 5 {
		if answer.Status != http.StatusPreconditionFailed {
			break
		}
		answer = remove(listed())
	}
	if answer.Status != http.StatusNoContent {
		t.Errorf("the newest revision of an attached floating IP is not deleted: %s", answer)
	}
}

// TestFloatingIPs_WhereTheyAreMade: of a subnet that the user need not see; with an address only by
// an administrator, unless the policy is changed; not of a network that is not external.
func TestFloatingIPs_WhereTheyAreMade(t *testing.T) {
	t.Parallel()
	n := newNeutron(t)
	subnets, _ := n.get("/networks/$public", "network", "subnets").([]any)
	if len(subnets) == 0 {
		t.Fatal("the external network shows no subnet")
	}
	n.noted["pool"] = fmt.Sprint(subnets[0])
	address := project.Text(
		n.make("ofpool", "floatingips", "floatingip",
			`{"floating_network_id":"$public","subnet_id":"$pool","description":"d"}`),
		"floating_ip_address")
	n.noted["address"] = address
	n.want("by address",
		n.list("/floatingips?floating_ip_address="+address+"&fields=id", "floatingips", "id"),
		[]string{n.noted["ofpool"]})
	n.expect(
		exchange{
			floatingIPs, floatingIP(`,"floating_ip_address":"198.18.77.7"`), 403,
			"PolicyNotAuthorized", "create_floatingip:floating_ip_address",
		},
		exchange{
			floatingIPs, `{"floatingip":{"floating_network_id":"$net"}}`, 400, "BadRequest",
			"Network $net is not a valid external network",
		},
		exchange{
			floatingIPs, `{"floatingip":{"floating_network_id":"$unknown"}}`, 404,
			"NetworkNotFound", "$unknown",
		},
		exchange{
			"admin " + floatingIPs, floatingIP(`,"floating_ip_address":"$address"`), 409,
			"IpAddressAlreadyAllocated", address,
		},
		exchange{
			"admin " + floatingIPs, floatingIP(`,"floating_ip_address":"10.1.1.1"`), 400,
			"InvalidIpForNetwork", "10.1.1.1",
		},
	)
	// The port with the address is no user's to see.
	n.want("its port", n.list("/ports?device_id=$ofpool", "ports", "id"), []string{})
	n.expect(exchange{"DELETE /floatingips/$ofpool", "", 204, "", ""})

	// A network of one address.
	n.makeAs("admin ", "small", "networks", "network", `{"name":"small","router:external":true}`)
	n.makeAs("admin ", "small4", "subnets", "subnet",
		`{"network_id":"$small","cidr":"203.0.113.0/30","ip_version":4,"enable_dhcp":false}`)
	n.make("only", "floatingips", "floatingip", `{"floating_network_id":"$small"}`)
	n.expect(
		exchange{
			floatingIPs, `{"floatingip":{"floating_network_id":"$small"}}`, 409,
			"IpAddressGenerationFailure", "No more IP addresses available on network $small.",
		},
		exchange{
			floatingIPs,
			`{"floatingip":{"floating_network_id":"$small","subnet_id":"$small4"}}`, 409,
			"IpAddressGenerationFailure", "No more IP addresses available",
		},
		exchange{"DELETE /floatingips/$only", "", 204, "", ""},
	)
	n.make("again", "floatingips", "floatingip", `{"floating_network_id":"$small"}`)
	n.expect(exchange{"DELETE /floatingips/$again", "", 204, "", ""})
	if n.Simulator == nil {
		n.expect(exchange{"admin DELETE /networks/$small", "", 204, "", ""})
	}
}

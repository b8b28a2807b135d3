package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/test/internal/project"
)

func pairsBody(pairs string) string { return `{"port":{"allowed_address_pairs":[` + pairs + `]}}` }

// pairs are the allowed addresses of the port, in order of the alphabet.
func (n *neutron) pairs(port string) []string {
	n.t.Helper()
	got := []string{}
	list, _ := n.get("/ports/"+port+"?fields=allowed_address_pairs", "port",
		"allowed_address_pairs").([]any)
	for _, p := range list {
		pair, _ := p.(project.Object)
		got = append(got, project.Text(pair, "ip_address"))
	}
	slices.Sort(got)
	return got
}

// A pair is for the port's own MAC address unless it names one, and what is given is
// kept as it is.
func TestPortPairs_EachPair_IsKeptAsGiven(t *testing.T) {
	t.Parallel()
	n := newNeutron(t)
	mac := project.Text(n.make("port", "ports", "port", `{"network_id":"$net"}`), "mac_address")
	n.noted["mac"] = mac
	const put = "PUT /ports/$port"
	for _, test := range []struct {
		pairs string
		want  []string
	}{
		{`{"ip_address":"10.244.0.0/24"}`, []string{"10.244.0.0/24"}},
		{`{"ip_address":"10.244.0.5"}`, []string{"10.244.0.5"}},
		{`{"ip_address":"10.244.0.5/32"}`, []string{"10.244.0.5/32"}},
		// Neutron does not mask.
		{`{"ip_address":"10.244.0.5/24"}`, []string{"10.244.0.5/24"}},
		{`{"ip_address":"fd00:244::/64"},{"ip_address":"10.244.0.0/24"}`, []string{"10.244.0.0/24", "fd00:244::/64"}},
		{`{"ip_address":"10.244.0.0/24"},{"ip_address":"10.244.0.0/24","mac_address":"fa:16:3e:00:00:01"}`, []string{"10.244.0.0/24", "10.244.0.0/24"}},
		{`{"ip_address":"0.0.0.0/0"}`, []string{"0.0.0.0/0"}},
		{"", []string{}},
	} {
		answer := n.ask(put, pairsBody(test.pairs))
		if got := n.pairs("$port"); answer.Status != http.StatusOK ||
			!slices.Equal(got, test.want) {
			t.Errorf("%s\nthe port has %q, want %q", answer, got, test.want)
		}
	}
	var ten []string
	for i := range 10 {
		ten = append(ten, fmt.Sprintf(`{"ip_address":"10.244.%d.0/24"}`, i))
	}
	n.expect(
		exchange{put, pairsBody(strings.Join(ten, ",")), 200, "", ""},
		exchange{
			put, pairsBody(strings.Join(ten, ",") + `,{"ip_address":"10.245.0.0/24"}`), 400,
			"AllowedAddressPairExhausted", "exceeds the maximum 10",
		},
		exchange{
			put, pairsBody(ten[0] + "," + ten[0]), 400, "DuplicateAddressPairInRequest",
			"ip_address 10.244.0.0/24",
		},
		exchange{
			put, pairsBody(`{"ip_address":"nonsense"}`), 400, "HTTPBadRequest",
			"'nonsense' is not a valid IP address",
		},
		exchange{
			put, pairsBody(`{"mac_address":"fa:16:3e:00:00:01"}`), 400,
			"AllowedAddressPairsMissingIP", "",
		},
		exchange{
			put, pairsBody(`{"ip_address":"10.9.0.1","mac_address":"nonsense"}`), 400,
			"HTTPBadRequest", "'nonsense' is not a valid MAC address",
		},
		exchange{
			put, pairsBody(`{"ip_address":"10.9.0.1","port":"1"}`), 400, "HTTPBadRequest",
			"Unrecognized attribute(s) 'port'",
		},
		exchange{
			put, `{"port":{"allowed_address_pairs":"x"}}`, 400, "HTTPBadRequest",
			"must be a list",
		},
		exchange{
			"PUT /ports/$unknown", pairsBody(ten[0]), 404, "PortNotFound",
			"Port $unknown could not be found.",
		},
	)
	n.want("pairs after refusals", len(n.pairs("$port")), 10)
	list, _ := n.get("/ports/$port", "port", "allowed_address_pairs").([]any)
	n.want("the MAC address of a pair", list[0].(project.Object)["mac_address"], mac)
}

// Without port security, a port has neither groups nor pairs.
func TestPortSecurity_TurnedOff_HasNoGroupsAndPairs(t *testing.T) {
	t.Parallel()
	n := newNeutron(t)
	n.make("port", "ports", "port", `{"network_id":"$net"}`)
	groups, _ := n.get("/ports/$port", "port", "security_groups").([]any)
	n.noted["default"] = fmt.Sprint(groups[0])
	n.make("group", "security-groups", "security_group", `{"name":"group"}`)
	const put = "PUT /ports/$port"
	pair := pairsBody(`{"ip_address":"10.244.0.0/24"}`)
	n.expect(
		exchange{
			put, `{"port":{"port_security_enabled":false}}`, 409,
			"PortSecurityPortHasSecurityGroup", "until security group is removed",
		},
		exchange{put, pair, 200, "", ""},
		exchange{
			put, `{"port":{"port_security_enabled":false,"security_groups":[]}}`, 409,
			"AddressPairAndPortSecurityRequired",
			"Port Security must be enabled in order to have allowed address pairs on a port.",
		},
		exchange{
			put,
			`{"port":{"port_security_enabled":false,"security_groups":[],"allowed_address_pairs":[]}}`, 200, "", "",
		},
		exchange{
			put, pair, 409, "AddressPairAndPortSecurityRequired",
			"Port Security must be enabled",
		},
		exchange{
			put, `{"port":{"security_groups":["$group"]}}`, 400,
			"PortSecurityAndIPRequiredForSecurityGroups", "Port security must be enabled",
		},
		exchange{put, `{"port":{"port_security_enabled":true}}`, 200, "", ""},
		exchange{put, `{"port":{"security_groups":["$group","$default"]}}`, 200, "", ""},
		exchange{
			put, `{"port":{"security_groups":["$group","$group"]}}`, 400, "HTTPBadRequest",
			"Duplicate items in the list: '$group'.",
		},
		exchange{
			put, `{"port":{"security_groups":["$group","$unknown"]}}`, 404,
			"SecurityGroupNotFound", "Security group $unknown does not exist",
		},
		exchange{
			put, `{"port":{"security_groups":["nonsense"]}}`, 400, "HTTPBadRequest",
			"'nonsense' is not a valid UUID",
		},
	)
	n.want("ports of the group", n.list("/ports?security_groups=$group&fields=id", "ports", "id"),
		[]string{n.noted["port"]})
	n.expect(
		exchange{
			"DELETE /security-groups/$group", "", 409, "SecurityGroupInUse",
			"Security Group $group in use.",
		},
		exchange{put, `{"port":{"security_groups":[]}}`, 200, "", ""},
		exchange{"DELETE /security-groups/$group", "", 204, "", ""},
		exchange{
			put, `{"port":{"security_groups":["$group"]}}`, 404, "SecurityGroupNotFound",
			"Security group $group does not exist",
		},
	)
}

// Each change is a new revision, and If-Match binds a write to one. A write without a change
// increases the revision by at most one.
func TestPortRevision_EachChange_IsANewOne(t *testing.T) {
	t.Parallel()
	n := newNeutron(t)
	n.make("port", "ports", "port", `{"network_id":"$net"}`)
	n.make("fip", "floatingips", "floatingip", `{"floating_network_id":"$public"}`)
	n.make("group", "security-groups", "security_group", `{"name":"group"}`)
	for _, test := range []struct {
		path, member, change, other string
		// deletion is the answer to a deletion on the condition of an old revision: what is in use
		// is refused for that, first.
		deletion int
	}{
		{"/ports/$port", "port", pairsBody(`{"ip_address":"10.244.0.0/24"}`), `{"port":{"security_groups":["$group"]}}`, 412},
		{"/floatingips/$fip", "floatingip", `{"floatingip":{"description":"one"}}`, `{"floatingip":{"port_id":"$port"}}`, 412},
		{"/security-groups/$group", "security_group", `{"security_group":{"description":"one"}}`, `{"security_group":{"name":"other"}}`, 409},
	} {
		before := n.revision(test.path, test.member)
		n.expect(exchange{"PUT " + test.path, test.change, 200, "", ""})
		after := n.revision(test.path, test.member)
		if after == before {
			t.Errorf("%s: revision %s before and after a change", test.path, before)
		}
		answer := n.ask("PUT "+test.path, test.other, "If-Match", "revision_number="+before)
		if err := (exchange{status: 412, kind: "RevisionNumberConstraintFailed"}).compare(answer,
			"Constrained to "+before+", but current revision is "+after); err != nil {
			t.Errorf("%s\n%v", answer, err)
		}
		// Neutron writes what it is given, changed or not.
		if answer := n.ask("PUT "+test.path, test.change, "If-Match",
			"revision_number="+before); answer.Status != http.StatusPreconditionFailed {
			t.Errorf("%s", answer)
		}
		if answer := n.ask("PUT "+test.path, test.other, "If-Match",
			"revision_number="+after); answer.Status != http.StatusOK {
			t.Errorf("%s", answer)
		}
		if answer := n.ask("DELETE "+test.path, "", "If-Match",
			"revision_number="+before); answer.Status != test.deletion {
			t.Errorf("%s", answer)
		}
	}
}

package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/test/internal/project"
)

// TestLoadBalancer_VIP asks for the ways to say where a load balancer is to be.
func TestLoadBalancer_VIP(t *testing.T) {
	t.Parallel()
	o := openOctavia(t, project.WithIPv6())
	other := o.AddSubnet(o.AddNetwork("other"), "192.168.0.0/24")
	one := o.vipPort("one", project.Object{"subnet_id": o.Subnets[4], "ip_address": "10.0.9.1"})
	two := o.vipPort("two", project.Object{"subnet_id": o.Subnets[4], "ip_address": "10.0.9.2"},
		project.Object{"subnet_id": o.Subnets[6], "ip_address": "fd00::92"})
	t.Run("refused", func(t *testing.T) { o.in(t).refusesPlaces(other, one, two) })

	var made []string
	for _, c := range []struct {
		name  string
		place project.Object
		// subnets of the VIP and of the additional ones, and the VIP's address if that is known.
		subnets []string
		address string
		// ours: the port is the user's.
		ours string
	}{
		{"a subnet, without hyphens", project.Object{"vip_subnet_id": strings.ReplaceAll(o.Subnets[4], "-", "")}, []string{o.Subnets[4]}, "", ""},
		// Of a network's subnets one of IPv4 is chosen, unless an address says which.
		{"a network", project.Object{"vip_network_id": o.Network}, []string{o.Subnets[4]}, "", ""},
		{"a network and an address", project.Object{"vip_network_id": o.Network, "vip_address": "fd00::1234"}, []string{o.Subnets[6]}, "fd00::1234", ""},
		{
			"two families",
			project.Object{
				"vip_subnet_id": o.Subnets[4], "vip_address": "10.0.9.9",
				"additional_vips": []project.Object{{"subnet_id": o.Subnets[6]}},
			},
			o.both(),
			"10.0.9.9", "",
		},
		{"a port", project.Object{"vip_port_id": one}, []string{o.Subnets[4]}, "10.0.9.1", one},
		{"a port of two subnets", project.Object{"vip_port_id": two, "vip_subnet_id": o.Subnets[6]}, []string{o.Subnets[6]}, "fd00::92", two},
	} {
		lb := o.must(http.StatusCreated, http.MethodPost, "loadbalancers",
			project.Object{"loadbalancer": with(project.Object{"name": "lb"}, c.place)}).Inner(
			"loadbalancer")
		made = append(made, project.ID(lb))
		t.Run(c.name, func(t *testing.T) {
			subnets := []string{project.Text(lb, "vip_subnet_id")}
			for _, vip := range objects(lb["additional_vips"]) {
				same(t, "attributes of an additional VIP", keys(vip),
					[]string{"ip_address", "subnet_id"})
				subnets = append(subnets, project.Text(vip, "subnet_id"))
			}
			same(t, "subnets", subnets, c.subnets)
			same(t, "network", lb["vip_network_id"], o.Network)
			if address := project.Text(lb, "vip_address"); address == "" || c.address != "" &&
				address != c.address {
				t.Errorf("address %q, want %q", address, c.address)
			}
			port := o.In(t).User().Get(project.Network, "/ports/"+project.Text(lb, "vip_port_id"),
				"port")
			if c.ours != "" {
				same(t, "port", port["id"], c.ours)
				return
			}
			same(t, "port",
				[]any{
					port["name"], port["device_id"], port["device_owner"], port["project_id"],
					port["admin_state_up"], port["status"],
				},
				[]any{
					"octavia-lb-" + project.ID(lb), "lb-" + project.ID(lb), "Octavia", o.ID,
					false, "DOWN",
				})
			same(t, "addresses of the port", len(objects(port["fixed_ips"])), len(c.subnets))
		})
	}
	for _, id := range made {
		o.WaitBalancer(id)
		o.must(http.StatusNoContent, http.MethodDelete, "loadbalancers/"+id+"?cascade=true", nil)
	}
	for _, id := range made {
		o.WaitBalancer(id, true)
	}
	// The port that was made goes with the load balancer; the user's stays.
	var left []string
	for _, port := range o.User().List(project.Network, "/ports?network_id="+o.Network, "ports") {
		if owner := project.Text(port, "device_owner"); owner != "network:router_interface" {
			left = append(left, project.Text(port, "name")+owner+project.Text(port, "device_id"))
		}
	}
	slices.Sort(left)
	same(t, "ports after all", left, []string{"one", "two"})
}

func (o octavia) both() []string { return []string{o.Subnets[4], o.Subnets[6]} }

func (o octavia) vipPort(name string, ips ...project.Object) (id string) {
	o.t.Helper()
	return project.ID(o.User().Create(project.Network, "/ports", "port",
		project.Object{"name": name, "network_id": o.Network, "fixed_ips": ips}))
}

func (o octavia) refusesPlaces(other, one, two string) {
	empty := o.AddNetwork("empty")
	used := project.ID(o.User().Create(project.Network, "/ports", "port",
		project.Object{"name": "used", "network_id": o.Network, "device_id": "a-device"}))
	place := of("loadbalancers", "loadbalancer", project.Object{"name": "x"})
	type object = project.Object
	v4, v6 := o.Subnets[4], o.Subnets[6]
	and := func(vips ...object) object {
		return object{"vip_subnet_id": v4, "additional_vips": vips}
	}
	o.refuses([]refusal{
		place("nothing", 400,
			"Validation failure: VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id.", object{}),
		place("no subnet", 400, "Subnet "+unknownID+" not found.",
			object{"vip_subnet_id": unknownID}),
		place("no network", 400, "Network "+unknownID+" not found.",
			object{"vip_network_id": unknownID}),
		place("no port", 400, "Port "+unknownID+" not found.", object{"vip_port_id": unknownID}),
		place("no id", 400, invalid("vip_subnet_id", "abc", "Value should be UUID format"),
			object{"vip_subnet_id": "abc"}),
		place("no address", 400,
			invalid("vip_address", "abc", "Value should be IPv4 or IPv6 format"),
			object{"vip_subnet_id": v4, "vip_address": "abc"}),
		place("network without subnets", 400,
			"Validation failure: Supplied network does not contain a subnet.",
			object{"vip_network_id": empty}),
		place("subnet of another network", 400, "Subnet "+other+" not found.",
			object{"vip_network_id": o.Network, "vip_subnet_id": other}),
		place("address of no subnet", 400,
			"Validation failure: Supplied network does not contain a subnet for VIP address specified.", object{"vip_network_id": o.Network, "vip_address": "172.16.0.1"}),
		// What Neutron says against the port is the provider's error.
		place("address outside", 500,
			"Provider 'amphora' reports error: IP address 172.16.0.1 is not a valid IP for the specified subnet.", object{"vip_subnet_id": v4, "vip_address": "172.16.0.1"}),
		place("address in use", 500,
			"Provider 'amphora' reports error: IP address 10.0.9.1 already allocated in subnet "+v4,
			object{"vip_subnet_id": v4, "vip_address": "10.0.9.1"}),
		place("port of two subnets", 400,
			"Validation failure: VIP port's subnet could not be determined. Please specify either a VIP subnet or address.", object{"vip_port_id": two}),
		place("another address than the port's", 400,
			"Validation failure: Specified VIP address not found on the specified VIP port.",
			object{"vip_port_id": two, "vip_address": "10.0.9.3"}),
		place("another subnet than the port's", 400,
			"Validation failure: No VIP address found on the specified VIP port within the specified subnet.", object{"vip_port_id": one, "vip_subnet_id": other}),
		place("port in use", 400,
			"Validation failure: Port "+used+" is already used by device a-device",
			object{"vip_port_id": used}),
		place("second VIP in the subnet", 400,
			"Validation failure: Duplicate VIP subnet(s) specified. Only one IP can be bound per subnet.", and(object{"subnet_id": v4})),
		place("second VIP in another network", 400,
			"Validation failure: All VIP subnets must belong to the same network.",
			and(object{"subnet_id": other})),
		place("second VIP nowhere", 500, "subnet not found (subnet id: "+unknownID+").",
			and(object{"subnet_id": unknownID})),
		place("second VIP without a subnet", 400, missing("subnet_id"),
			and(object{"ip_address": "fd00::5"})),
		place("second VIP with no address", 400,
			invalid("ip_address", "abc", "Value should be IPv4 or IPv6 format"),
			and(object{"subnet_id": v6, "ip_address": "abc"})),
		place("second VIP with a port", 400,
			unknown("load_balancer.loadbalancer.additional_vips", "port_id"),
			and(object{"subnet_id": v6, "port_id": one})),
		place("second VIP outside", 500,
			"Provider 'amphora' reports error: IP address fd01::5 is not a valid IP for the specified subnet.", and(object{"subnet_id": v6, "ip_address": "fd01::5"})),
	})
	same(o.t, "load balancers after all", o.names("loadbalancers"), []string{})
	o.User().Delete(project.Network, "/ports/"+used)
}

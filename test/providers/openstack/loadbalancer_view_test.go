package openstack_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/test/internal/project"
)

// A view is a load balancer with all that is in it and before it, as Octavia and Neutron show it to
// the user.
type view struct {
	balancer project.Object
	// ports are the listeners with what is behind them, by number and transport, such as "80/TCP".
	ports map[string]port
	// floatingIPs lead to the load balancer.
	floatingIPs []project.Object
	// loose are pools that are no listener's default.
	loose []project.Object
}

type port struct {
	listener, pool, monitor project.Object
	// members are by name.
	members map[string]project.Object
}

// id is the load balancer of a Service.
func (s *story) id(name string) string {
	s.t.Helper()
	return s.service(name).Annotations[annotationID]
}

// view looks at the load balancer of a Service.
func (s *story) view(name string) view {
	s.t.Helper()
	return s.look(s.id(name))
}

func (s *story) look(id string) view {
	s.t.Helper()
	user := s.User()
	v := view{
		balancer: user.Get(project.LoadBalancer, "/lbaas/loadbalancers/"+id, "loadbalancer"),
		ports:    map[string]port{},
	}
	pools := map[string]project.Object{}
	for _, pool := range user.List(project.LoadBalancer, "/lbaas/pools?loadbalancer_id="+id,
		"pools") {
		pools[project.ID(pool)] = pool
	}
	for _, listener := range user.List(project.LoadBalancer, "/lbaas/listeners?loadbalancer_id="+id,
		"listeners") {
		transport := project.Text(listener, "protocol")
		if strings.Contains(transport, "HTTP") {
			transport = "TCP"
		}
		p := port{listener: listener, members: map[string]project.Object{}}
		pool := project.Text(listener, "default_pool_id")
		if p.pool = pools[pool]; p.pool != nil {
			for _, member := range user.List(project.LoadBalancer, "/lbaas/pools/"+pool+"/members",
				"members") {
				p.members[project.Text(member, "name")] = member
			}
			if monitor := project.Text(p.pool, "healthmonitor_id"); monitor != "" {
				p.monitor = user.Get(project.LoadBalancer, "/lbaas/healthmonitors/"+monitor,
					"healthmonitor")
			}
			delete(pools, pool)
		}
		v.ports[fmt.Sprintf("%.0f/%s", listener["protocol_port"], transport)] = p
	}
	v.loose = slices.Collect(maps.Values(pools))
	if vip := project.Text(v.balancer, "vip_port_id"); vip != "" {
		v.floatingIPs = user.List(project.Network, "/floatingips?port_id="+vip, "floatingips")
	}
	return v
}

// group is the security group of a Service; nil for none.
func (s *story) group(name string) project.Object {
	s.t.Helper()
	want := fmt.Sprintf("lb-sg-%s-default-%s", s.service(name).UID, name)
	for _, group := range s.User().List(project.Network, "/security-groups", "security_groups") {
		if project.Text(group, "name") == want {
			return group
		}
	}
	return nil
}

// groupsOf are the security groups of a server's port.
func (s *story) groupsOf(server project.Server) []string {
	s.t.Helper()
	return texts(s.User().Get(project.Network, "/ports/"+server.Port, "port")["security_groups"])
}

// gone tells whether there is no such thing any more.
func (s *story) gone(service, path string) bool {
	s.t.Helper()
	return s.User().Try(http.MethodGet, service, path, nil).Status == http.StatusNotFound
}

// texts are a list of texts, in order.
func texts(list any) []string {
	all := []string{}
	items, _ := list.([]any)
	for _, item := range items {
		all = append(all, fmt.Sprint(item))
	}
	slices.Sort(all)
	return all
}

// portNames are the ports that there are, in order.
func (v view) portNames() []string { return slices.Sorted(maps.Keys(v.ports)) }

// text is the names, addresses and weights of a port's members, in order.
func (p port) text() []string {
	all := []string{}
	for name, member := range p.members {
		all = append(all,
			fmt.Sprintf("%s %v:%v*%v", name, member["address"], member["protocol_port"],
				member["weight"]))
	}
	slices.Sort(all)
	return all
}

// wantMembers: the members of all ports of a Service are these servers, at the node port of each.
func (s *story) wantMembers(name string, v view, servers ...project.Server) {
	s.t.Helper()
	for _, of := range s.service(name).Spec.Ports {
		number := fmt.Sprintf("%d/%s", of.Port, of.Protocol)
		want := []string{}
		for _, server := range servers {
			node, address := server.Name, server.Addresses[4]
			if s.config.LoadBalancer.ProviderRequiresSerialAPICalls {
				// As OCCM names a member that is made by itself.
				node = fmt.Sprintf("member_%s_%s_%d", node, address, of.NodePort)
			}
			want = append(want, fmt.Sprintf("%s %s:%d*1", node, address, of.NodePort))
		}
		slices.Sort(want)
		if got := v.ports[number].text(); !slices.Equal(got, want) {
			s.t.Errorf("the members of port %s are %q, want %q", number, got, want)
		}
	}
}

// wantAttributes compares those attributes of an object that are named.
func (s *story) wantAttributes(what string, is, want project.Object) {
	s.t.Helper()
	for name, value := range want {
		// As JSON has it, whose numbers are all alike.
		text, err := json.Marshal(value)
		if err != nil {
			s.t.Fatal(err)
		}
		var wanted any
		if err := json.Unmarshal(text, &wanted); err != nil {
			s.t.Fatal(err)
		}
		if !reflect.DeepEqual(is[name], wanted) {
			s.t.Errorf("%s: %s is %v, want %v; it is %v", what, name, is[name], wanted, is)
		}
	}
}

// wantTags: others may be there, too.
func (s *story) wantTags(what string, is project.Object, want ...string) {
	s.t.Helper()
	has := texts(is["tags"])
	for _, tag := range want {
		if !slices.Contains(has, tag) {
			s.t.Errorf("%s has the tags %q, want %q among them", what, has, tag)
		}
	}
}

// wantStatus compares the addresses in the Service's status, or host names.
func (s *story) wantStatus(name string, want ...string) {
	s.t.Helper()
	var has []string
	for _, ingress := range s.service(name).Status.LoadBalancer.Ingress {
		has = append(has, ingress.IP+ingress.Hostname)
	}
	if !slices.Equal(has, want) {
		s.t.Errorf("the status of %s has %q, want %q", name, has, want)
	}
}

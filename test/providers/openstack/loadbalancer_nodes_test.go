package openstack_test

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/test/internal/project"
)

// Nodes come and go, with their members and the security group of their ports.
func TestLoadBalancer_FollowsNodes(t *testing.T) {
	t.Parallel()
	s := begin(t, 3, func(_ *project.Project, c *cloudconf.LoadBalancer) {
		c.ManageSecurityGroups = true
	})
	one, two, three := s.servers[0], s.servers[1], s.servers[2]
	s.create("web", internal(), ports("80/TCP", "53/UDP"),
		annotated("enable-health-monitor", "true"), local(32000))
	s.serve("web")
	s.quiet("web")
	s.wantMembers("web", s.view("web"), one, two, three)
	group := s.group("web")
	s.wantAttributes("the security group", group,
		project.Object{"description": "Security Group for default/web Service LoadBalancer in cluster kubernetes"})
	s.wantTags("the security group", group, s.tags("web")...)
	s.wantRules("web", "tcp 30080 10.0.0.0/16", "tcp 32000 10.0.0.0/16", "udp 30053 10.0.0.0/16")
	s.wantGroupAt("web", one, two, three)

	// The autoscaler is about to delete one.
	s.editNode("node-3", func(node *v1.Node) {
		node.Spec.Taints = []v1.Taint{{
			Key:    "ToBeDeletedByClusterAutoscaler",
			Effect: v1.TaintEffectNoSchedule,
		}}
	})
	s.update("web")
	if got := s.view("web").ports["80/TCP"].members["node-3"]; got["weight"] != 0.0 {
		t.Errorf("a node that is about to go is a member with the weight %v: %v", got["weight"],
			got)
	}
	s.editNode("node-3", nil)
	s.update("web")
	s.quiet("web")
	s.wantMembers("web", s.view("web"), one, two)
	s.wantGroupAt("web", one, two)

	// A Service chooses its nodes.
	s.change("web", annotated("node-selector", "name=node-2"))
	s.serve("web")
	s.quiet("web")
	s.wantMembers("web", s.view("web"), two)
	s.wantGroupAt("web", two)

	// A label puts a node into the choice.
	s.editNode("node-1", func(node *v1.Node) { node.Labels["name"] = "node-2" })
	s.update("web")
	s.quiet("web")
	s.wantMembers("web", s.view("web"), one, two)

	// The ports that are open are those that there are.
	s.change("web", ports("80/TCP", "443/TCP"), func(service *v1.Service) {
		service.Spec.ExternalTrafficPolicy, service.Spec.HealthCheckNodePort = "", 0
	})
	s.serve("web")
	s.wantRules("web", "tcp 30080 10.0.0.0/16", "tcp 30443 10.0.0.0/16")
	s.wantGroupAt("web", one, two)

	for _, name := range []string{"node-1", "node-2"} {
		s.editNode(name, nil)
	}
	s.update("web")
	s.quiet("web")
	s.wantMembers("web", s.view("web"))
	s.wantGroupAt("web")
	s.addNode(one)
	s.update("web")
	s.wantMembers("web", s.view("web"))
	s.change("web", annotated("node-selector", "-"))
	s.serve("web")
	s.wantMembers("web", s.view("web"), one)
	s.wantGroupAt("web", one)
	s.quietAfterRestart()
	s.end()
}

// wantRules compares the rules of the Service's security group: protocol, port and who.
func (s *story) wantRules(name string, want ...string) {
	s.t.Helper()
	has := []string{}
	for _, rule := range s.User().List(project.Network,
		"/security-group-rules?security_group_id="+project.ID(s.group(name)),
		"security_group_rules") {
		if rule["direction"] != "ingress" || rule["port_range_min"] != rule["port_range_max"] ||
			rule["ethertype"] != "IPv4" {
			s.t.Errorf("there is the rule %v", rule)
		}
		has = append(has,
			fmt.Sprintf("%v %v %v", rule["protocol"], rule["port_range_min"],
				rule["remote_ip_prefix"]))
	}
	slices.Sort(has)
	if !slices.Equal(has, want) {
		s.t.Errorf("the rules are %q, want %q", has, want)
	}
}

// wantGroupAt: the ports of these servers alone have the Service's security group, beside what they
// had before.
func (s *story) wantGroupAt(name string, servers ...project.Server) {
	s.t.Helper()
	id := project.ID(s.group(name))
	for _, server := range s.servers {
		want := texts(s.before["port "+server.Port]["security_groups"])
		if slices.ContainsFunc(servers,
			func(other project.Server) bool { return other.ID == server.ID }) {
			want = append(want, id)
		}
		slices.Sort(want)
		if got := s.groupsOf(server); !slices.Equal(got, want) {
			s.t.Errorf("the port of %s has the security groups %q, want %q", server.Name, got, want)
		}
	}
}

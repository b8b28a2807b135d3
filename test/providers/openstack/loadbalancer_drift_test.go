package openstack_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/test/internal/project"
)

// Changes by other clients in the cloud are repaired without an event in the cluster. Their
// additions stay.
func TestLoadBalancer_WhatOthersChangeIsMended(t *testing.T) {
	t.Parallel()
	s := begin(t, 2, func(_ *project.Project, c *cloudconf.LoadBalancer) {
		c.DriftPeriod, c.CreateMonitor, c.ManageSecurityGroups = 2*time.Second, true, true
	})
	s.create("web", ports("80/TCP", "443/TCP"))
	s.serve("web")
	s.quiet("web")
	user, id, picture := s.User(), s.id("web"), s.picture("web")
	for _, change := range []struct {
		what string
		do   func(view)
	}{
		{"a listener is deleted", func(v view) { s.meddle(http.MethodDelete, "/listeners/"+project.ID(v.ports["80/TCP"].listener), nil) }},
		{"a pool is deleted", func(v view) { s.meddle(http.MethodDelete, "/pools/"+project.ID(v.ports["443/TCP"].pool), nil) }},
		{"a listener has another limit, and lets in others", func(v view) {
			s.meddle(http.MethodPut, "/listeners/"+project.ID(v.ports["80/TCP"].listener),
				project.Object{
					"listener": project.Object{
						"connection_limit": 3,
						"allowed_cidrs":    []string{"192.0.2.0/24"},
					},
				})
		}},
		{"a member has another weight", func(v view) {
			s.meddle(http.MethodPut, v.ports["80/TCP"].memberPath("node-1"),
				project.Object{"member": project.Object{"weight": 7}})
		}},
		{"a member is deleted", func(v view) { s.meddle(http.MethodDelete, v.ports["80/TCP"].memberPath("node-2"), nil) }},
		{"a monitor is slower", func(v view) {
			s.meddle(http.MethodPut, "/healthmonitors/"+project.ID(v.ports["443/TCP"].monitor),
				project.Object{"healthmonitor": project.Object{"delay": 60}})
		}},
		{"the floating IP is taken off", func(v view) {
			user.Update(project.Network, "/floatingips/"+project.ID(v.floatingIPs[0]), "floatingip",
				project.Object{"port_id": nil})
		}},
		{"a rule of the security group is deleted, and a node's port is without it", func(view) {
			rules := user.List(project.Network,
				"/security-group-rules?security_group_id="+project.ID(s.group("web")),
				"security_group_rules")
			user.Delete(project.Network, "/security-group-rules/"+project.ID(rules[0]))
			user.Update(project.Network, "/ports/"+s.servers[0].Port, "port",
				project.Object{"security_groups": s.before["port "+
					s.servers[0].Port]["security_groups"]})
		}},
		{"the tags are gone", func(view) {
			s.meddle(http.MethodPut, "/loadbalancers/"+id,
				project.Object{"loadbalancer": project.Object{"tags": []string{"users"}}})
		}},
	} {
		v, mark := s.view("web"), s.Wire.Mark()
		change.do(v)
		s.Wait("it is mended that "+change.what, func() error {
			if len(s.Wire.Since(mark, project.Call.Changes)) == 0 {
				return errors.New("no request was made")
			}
			if now := s.picture("web"); now != picture {
				return fmt.Errorf("there is\n%s\n\nand not\n%s", now, picture)
			}
			return nil
		})
		s.WaitBalancer(id)
	}
	if got := s.id("web"); got != id {
		t.Errorf("the load balancer is %s, and was %s", got, id)
	}
	s.wantTags("the load balancer", s.view("web").balancer, "users")

	// Additions are the user's.
	listener := user.Create(project.LoadBalancer, "/lbaas/listeners", "listener",
		project.Object{
			"name": "mine", "loadbalancer_id": id, "protocol": "TCP",
			"protocol_port": 9000,
		})
	s.WaitBalancer(id)
	s.serve("web")
	s.quietAfterRestart()
	if s.gone(project.LoadBalancer, "/lbaas/listeners/"+project.ID(listener)) {
		t.Error("a listener of the user's was deleted")
	}
	s.end()
}

// meddle changes an object of Octavia like another client, as soon as the load balancer is not
// busy.
func (s *story) meddle(method, path string, body any) {
	s.t.Helper()
	s.Wait(method+" "+path, func() error {
		switch answer := s.User().Try(method, project.LoadBalancer, "/lbaas"+path, body); {
		case answer.Status/100 == 2:
			return nil
		case answer.Status == http.StatusConflict:
			return errors.New(answer.String())
		default:
			s.t.Fatalf("%s", answer)
			return nil
		}
	})
}

func (p port) memberPath(name string) string {
	return "/pools/" + project.ID(p.pool) + "/members/" + project.ID(p.members[name])
}

// picture describes a Service's load balancer in lines, without IDs that change when an object is
// recreated, and without additions of others.
func (s *story) picture(name string) string {
	s.t.Helper()
	v := s.view(name)
	lines := []string{}
	for _, tag := range texts(v.balancer["tags"]) {
		if tag != "users" {
			lines = append(lines, "tag "+tag)
		}
	}
	for _, port := range v.portNames() {
		p := v.ports[port]
		lines = append(lines,
			fmt.Sprint("port ", port, p.listener["connection_limit"], p.listener["allowed_cidrs"],
				p.pool["protocol"], p.text(), p.monitor["type"], p.monitor["delay"]))
	}
	for _, pool := range v.loose {
		lines = append(lines, fmt.Sprint("loose pool ", pool["name"]))
	}
	for _, ip := range v.floatingIPs {
		lines = append(lines, fmt.Sprint("floating IP ", ip["floating_ip_address"]))
	}
	if group := s.group(name); group != nil {
		rules := s.User().List(project.Network,
			"/security-group-rules?security_group_id="+project.ID(group), "security_group_rules")
		lines = append(lines, fmt.Sprint("rules ", len(rules)))
		for _, server := range s.servers {
			lines = append(lines,
				fmt.Sprint(server.Name, " has the group: ",
					slices.Contains(s.groupsOf(server), project.ID(group))))
		}
	}
	slices.Sort(lines)
	text := ""
	for _, line := range lines {
		text += line + "\n"
	}
	return text
}

// A load balancer that fails at its creation is deleted, and made again, until it succeeds.
func TestLoadBalancer_FailedAtItsCreation_IsMadeAgain(t *testing.T) {
	t.Parallel()
	s := begin(t, 1, nil)
	// Octavia looks at a member's subnet only when it is at work.
	s.create("web", internal(),
		annotated("member-subnet-id", "00000000-0000-4000-8000-000000000000"))
	seen := map[string]bool{}
	err := s.insist(t.Context(), "let two load balancers fail", func() error {
		_ = s.pass(t.Context(), "web")
		if id := s.id("web"); id != "" {
			seen[id] = true
		}
		if len(seen) < 2 {
			return fmt.Errorf("there were %v", seen)
		}
		return nil
	}, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	s.change("web", annotated("member-subnet-id", s.Subnets[4]))
	s.serveDespite(func(error) {}, "web")
	s.quiet("web")
	if lbs := s.Inventory().Of("load balancer"); len(lbs) != 1 {
		t.Errorf("the load balancers are %v", lbs)
	}
	s.wantMembers("web", s.view("web"), s.servers...)
	s.end()
}

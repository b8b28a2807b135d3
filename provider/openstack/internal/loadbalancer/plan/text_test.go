package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// The line of a step is short, however many members it has; the plan shows all of them.
func TestString_ManyMembers_LineIsShort(t *testing.T) {
	t.Parallel()
	c := made(t, desire(onePort, nodes()))
	want := desire(onePort, func(d *desired.State) {
		for i := range 500 {
			d.Ports[0].Pool.Members = append(d.Ports[0].Pool.Members, octavia.Member{
				Name: fmt.Sprint("node-", i), Address: fmt.Sprintf("10.0.%d.%d", i/250, i%250),
				Port: 30080, Weight: 1,
			})
		}
		d.Ports[0].Pool.Members = d.Ports[0].Pool.Members[2:]
		slices.Reverse(d.Ports[0].Pool.Members)
	})
	p := change(c, want)
	if len(p.Steps) != 1 {
		t.Fatalf("%s", p)
	}
	line := p.Steps[0].String()
	if len(line) > 600 || strings.Contains(line, "\n") || !strings.Contains(line, "and 492 more") {
		t.Errorf("the line of the step is %q", line)
	}
	lines := strings.Split(p.String(), "\n")
	members := slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return !strings.Contains(line, "member node-")
	})
	if len(lines) != 502 || len(members) != 500 {
		t.Errorf("the plan shows %d lines, of them %d members", len(lines), len(members))
	}
	if !slices.IsSorted(members) {
		t.Errorf("the plan shows the members in no order: %q", members[:5])
	}
}

// The line of a step is complete without unknown values.
func TestString_WithoutReasons(t *testing.T) {
	t.Parallel()
	for want, step := range map[string]plan.Step{
		"delete listener l (name)": plan.DeleteListener{
			ID:   "l",
			Name: "name",
		},
		"detach floating IP 203.0.113.1 (f)": plan.DetachFloatingIP{
			ID:      "f",
			Address: "203.0.113.1",
		},
		"attach floating IP 203.0.113.1": plan.AttachFloatingIP{Address: "203.0.113.1"},
		"tag floating IP 203.0.113.1 (f): no tags": plan.TagFloatingIP{
			ID:      "f",
			Address: "203.0.113.1",
			Tags:    []string{},
		},
		"tag floating IP 203.0.113.1: no description": plan.TagFloatingIP{
			Address: "203.0.113.1",
			Release: true,
		},
		"create load balancer lb at anywhere with ports ": plan.CreateLoadBalancer{
			LoadBalancer: octavia.LoadBalancer{Name: "lb"},
		},
		"create rule egress IPv6 any protocol all ports from anywhere": plan.CreateRule{
			Rule: neutron.Rule{
				Direction: "egress", EtherType: "IPv6",
			},
		},
		"create rule ingress IPv4 tcp ports 1-2 from 192.0.2.0/24": plan.CreateRule{
			Rule: neutron.Rule{
				Direction: "ingress", EtherType: "IPv4", Protocol: "tcp", PortMin: 1, PortMax: 2,
				RemotePrefix: "192.0.2.0/24",
			},
		},
		"create member n 10.0.0.1 port 80, backup of pool p": plan.CreateMember{
			PoolName: "p",
			Member: octavia.Member{
				Name: "n", Address: "10.0.0.1", Port: 80, Weight: 1, Backup: true,
			},
		},
		"take security group g off port p of node n": plan.RemoveGroup{
			GroupName: "g",
			Port:      neutron.NodePort{ID: "p"}, Node: "n",
		},
	} {
		if got := step.String(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

func TestTagsOnly_StepsThatChangeMore_AreSeen(t *testing.T) {
	t.Parallel()
	tag := []string{"tag a added"}
	for name, test := range map[string]struct {
		steps []plan.Step
		want  bool
	}{
		"no step": {nil, true},
		"tags": {[]plan.Step{
			plan.UpdateLoadBalancer{Changes: tag},
			plan.UpdateListener{Changes: tag},
			plan.UpdatePool{Changes: tag},
			plan.TagFloatingIP{},
			plan.TagSecurityGroup{},
		}, true},
		"a listener's timeout": {[]plan.Step{
			plan.UpdateListener{Changes: []string{"tag a added", "timeout_client_data 1 -> 2"}},
		}, false},
		"members":    {[]plan.Step{plan.SetMembers{Changes: []string{"tag"}}}, false},
		"a deletion": {[]plan.Step{plan.UpdateLoadBalancer{Changes: tag}, plan.DeleteRule{}}, false},
	} {
		if got := (plan.Plan{Steps: test.steps}).TagsOnly(); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

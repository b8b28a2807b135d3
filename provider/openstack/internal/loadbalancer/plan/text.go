package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// longest is how many changes the line of a step shows. There may be thousands of members.
const longest = 8

// String describes the plan for people: one line for each step, its details indented below, and the
// notices last.
func (p Plan) String() string {
	var b strings.Builder
	if len(p.Steps) == 0 {
		b.WriteString("nothing to do\n")
	}
	for i, step := range p.Steps {
		fmt.Fprintf(&b, "%2d. %s\n", i+1, strings.ReplaceAll(Text(step), "\n", "\n      "))
	}
	for _, n := range p.Notices {
		kind := "note"
		if n.Blocks {
			kind = "blocked"
		}
		fmt.Fprintf(&b, "%s: %s: %s\n", kind, n.Reason, n.Message)
	}
	return b.String()
}

// Text describes a step for people: one line, and below it a line for each object that the step
// creates.
func Text(step Step) string {
	lines := []string{step.String()}
	if s, ok := step.(detailed); ok {
		lines = append(lines, s.details()...)
	}
	return strings.Join(lines, "\n")
}

func tagDetails(tags []string) []string {
	if len(tags) == 0 {
		return nil
	}
	return []string{"tags " + strings.Join(tags, ", ")}
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

func update(kind, id, name string, changes []string) string {
	return fmt.Sprintf("update %s %s (%s): %s", kind, id, name, listed(changes))
}

func deletion(kind, id, name, why string) string {
	return fmt.Sprintf("delete %s %s (%s)%s", kind, id, name, because(why))
}

// areTags reports whether changes are only of tags.
func areTags(changes []string) bool {
	return len(changes) > 0 && !slices.ContainsFunc(changes, func(change string) bool {
		return !strings.HasPrefix(change, tagChange)
	})
}

func listed(changes []string) string {
	if len(changes) > longest {
		return fmt.Sprintf("%s; and %d more", strings.Join(changes[:longest], "; "),
			len(changes)-longest)
	}
	return strings.Join(changes, "; ")
}

// OutlineDesired describes the desired state for people: a line for each object, below its parent.
func OutlineDesired(want desired.State) []string {
	lb := want.LoadBalancer
	lines := []string{fmt.Sprintf("load balancer %s at %s", lb.Name, textOf(lb.VIP))}
	lines = append(lines,
		indented(CreateLoadBalancer{LoadBalancer: lb, Ports: want.Ports}.details())...)
	if ip := want.FloatingIP; ip != nil {
		what := cmp.Or(ip.ID, ip.Address, "with any address")
		if ip.PoolTag != "" {
			what = "of the pool " + ip.PoolTag
		}
		lines = append(lines, fmt.Sprintf("floating IP %s in network %s", what,
			cmp.Or(ip.NetworkID, "of the existing one")))
		lines = append(lines, indented(tagDetails(ip.Tags))...)
	}
	return append(lines, outlineGroup(want.SecurityGroup)...)
}

// Outline describes the observed state in the same form. It has the listeners and pools of all
// owners.
func (o *Observed) Outline() []string {
	var lines []string
	if lb := o.LoadBalancer; lb != nil {
		lines = append(lines, fmt.Sprintf("load balancer %s (%s), %s %s, at %s", lb.Name, lb.ID,
			lb.Status, lb.Operating, textOf(lb.VIP)))
		lines = append(lines,
			indented(CreateLoadBalancer{LoadBalancer: *lb, Bare: true}.details())...)
	}
	shown := map[string]bool{}
	for _, l := range o.Listeners {
		lines = append(lines, fmt.Sprintf("  listener %s, %s", listenerText(l), l.Status))
		lines = append(lines, indented(indented(listenerDetails(l)))...)
		if pool := o.Pool(l.PoolID); pool != nil {
			shown[pool.ID] = true
			lines = append(lines, indented(indented(outlinePool(*pool)))...)
		}
	}
	for _, p := range o.Pools {
		if !shown[p.ID] {
			lines = append(lines, indented(outlinePool(p))...)
		}
	}
	unused := 0 // those of a pool may be many
	for _, ip := range o.FloatingIPs {
		if ip.PortID == "" && !slices.ContainsFunc(ip.Tags, desired.IsMark) {
			if unused++; unused > longest {
				continue
			}
		}
		lines = append(lines, fmt.Sprintf("floating IP %s (%s) in network %s, to port %s",
			ip.Address, ip.ID, ip.NetworkID, cmp.Or(ip.PortID, "none")))
		lines = append(lines, indented(tagDetails(ip.Tags))...)
	}
	if more := unused - longest; more > 0 {
		lines = append(lines, fmt.Sprintf("%d more unused floating IPs", more))
	}
	return append(lines, outlineGroup(o.SecurityGroup)...)
}

func outlinePool(p octavia.Pool) []string {
	monitor := p.Monitor
	p.Members = slices.Clone(p.Members)
	for i := range p.Members {
		if p.MembersInPart {
			p.Members[i].Weight = 1 // not shown
		}
	}
	if p.MonitorInPart {
		p.Monitor = nil
	}
	lines := poolDetails(p)
	lines[0] += ", " + string(p.Status)
	if p.MonitorInPart && monitor != nil {
		lines = append(lines, fmt.Sprintf("  monitor %s (%s)", monitor.Name, monitor.Type))
	}
	return lines
}

func outlineGroup(group *neutron.SecurityGroup) []string {
	if group == nil {
		return nil
	}
	lines := []string{"security group " + group.Name}
	lines = append(lines, indented(tagDetails(group.Tags))...)
	for _, rule := range group.Rules {
		lines = append(lines, "  rule "+ruleText(rule))
	}
	return lines
}

func indented(lines []string) []string {
	lines = slices.Clone(lines)
	for i := range lines {
		lines[i] = "  " + lines[i]
	}
	return lines
}

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
	return strings.Join(append([]string{step.String()}, detailsOf(step)...), "\n")
}

func detailsOf(step Step) []string {
	switch s := step.(type) {
	case CreateLoadBalancer:
		return loadBalancerDetails(s)
	case CreateListener:
		return listenerDetails(s.Listener)
	case CreatePool:
		return tagDetails(s.Pool.Tags)
	case SetMembers:
		var lines []string
		for _, m := range s.Members {
			lines = append(lines, "member "+memberText(m))
		}
		return lines
	case CreateFloatingIP:
		return append([]string{"description " + s.Wanted.Description}, tagDetails(s.Wanted.Tags)...)
	case CreateSecurityGroup:
		return append([]string{"description " + s.Group.Description}, tagDetails(s.Group.Tags)...)
	}
	return nil
}

func loadBalancerDetails(s CreateLoadBalancer) []string {
	lb := s.LoadBalancer
	lines := []string{"description " + lb.Description}
	for _, at := range []struct{ what, value string }{
		{"provider", lb.Provider},
		{"flavor", lb.FlavorID},
		{"availability zone", lb.AvailabilityZone},
	} {
		if at.value != "" {
			lines = append(lines, at.what+" "+at.value)
		}
	}
	for _, vip := range lb.AdditionalVIPs {
		lines = append(lines, "additional address at "+textOf(vip))
	}
	lines = append(lines, tagDetails(lb.Tags)...)
	if s.Bare {
		return lines
	}
	for _, port := range s.Ports {
		lines = append(lines, "listener "+listenerText(port.Listener))
		for _, detail := range append(listenerDetails(port.Listener), poolDetails(port.Pool)...) {
			lines = append(lines, "  "+detail)
		}
	}
	return lines
}

func tagDetails(tags []string) []string {
	if len(tags) == 0 {
		return nil
	}
	return []string{"tags " + strings.Join(tags, ", ")}
}

func listenerDetails(l octavia.Listener) []string {
	lines := []string{"connection_limit " + fmt.Sprint(l.ConnectionLimit)}
	if t := l.Timeouts; t != nil {
		lines = append(lines,
			fmt.Sprintf(
				"timeouts: client data %d ms, member connect %d ms, member data %d ms, TCP inspect %d ms",
				t.ClientData, t.MemberConnect, t.MemberData, t.TCPInspect))
	}
	for _, at := range []struct{ what, value string }{
		{"insert_headers", headersText(l.InsertHeaders)},
		{"allowed_cidrs", listText(l.AllowedCIDRs)},
		{"default_tls_container_ref", l.TLSContainer},
	} {
		if at.value != "" {
			lines = append(lines, at.what+" "+at.value)
		}
	}
	return append(lines, tagDetails(l.Tags)...)
}

func poolDetails(p octavia.Pool) []string {
	lines := []string{"pool " + poolText(p)}
	for _, m := range p.Members {
		lines = append(lines, "  member "+memberText(m))
	}
	if p.Monitor != nil {
		lines = append(lines, "  monitor "+monitorText(*p.Monitor))
	}
	return lines
}

func listenerText(l octavia.Listener) string {
	return fmt.Sprintf("%s (%s, port %d)", l.Name, l.Protocol, l.Port)
}

func poolText(p octavia.Pool) string {
	text := fmt.Sprintf("%s (%s, %s", p.Name, p.Protocol, p.Algorithm)
	if p.Persistence != "" {
		text += ", persistence " + string(p.Persistence)
	}
	return text + ")"
}

func monitorText(m octavia.Monitor) string {
	text := fmt.Sprintf("%s (%s, delay %d s, timeout %d s, max_retries %d, max_retries_down %d",
		m.Name, m.Type, m.Delay, m.Timeout, m.MaxRetries, m.MaxRetriesDown)
	if m.Type == octavia.MonitorHTTP {
		text += fmt.Sprintf(", %s %s expects %s", m.HTTPMethod, m.URLPath, m.ExpectedCodes)
	}
	return text + ")"
}

func memberName(m octavia.Member) string {
	return fmt.Sprintf("%s %s port %d", m.Name, m.Address, m.Port)
}

func memberText(m octavia.Member) string {
	text := memberName(m)
	if m.SubnetID != "" {
		text += ", subnet " + m.SubnetID
	}
	if m.Weight != 1 {
		text += fmt.Sprintf(", weight %d", m.Weight)
	}
	if m.MonitorPort != 0 {
		text += fmt.Sprintf(", monitor port %d", m.MonitorPort)
	}
	if m.Backup {
		text += ", backup"
	}
	return text
}

// String returns the ID, or the name of what an earlier step creates.
func (r Ref) String() string {
	if r.ID != "" {
		return r.ID
	}
	return "the new " + r.Made
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

func listed(changes []string) string {
	if len(changes) > longest {
		return fmt.Sprintf("%s; and %d more", strings.Join(changes[:longest], "; "),
			len(changes)-longest)
	}
	return strings.Join(changes, "; ")
}

func (s CreateLoadBalancer) String() string {
	text := fmt.Sprintf("create load balancer %s at %s", s.LoadBalancer.Name,
		textOf(s.LoadBalancer.VIP))
	if s.Bare {
		return text + " without ports"
	}
	var ports []string
	for _, p := range s.Ports {
		ports = append(ports, p.Name)
	}
	return text + " with ports " + strings.Join(ports, ", ")
}

func (s UpdateLoadBalancer) String() string {
	return update("load balancer", s.ID, s.Name, s.Changes)
}

func (s DeleteLoadBalancer) String() string {
	all := ""
	if s.Cascade {
		all = " with all that is in it"
	}
	return fmt.Sprintf("delete load balancer %s (%s)%s%s", s.ID, s.Name, all, because(s.Why))
}

func (s FailoverLoadBalancer) String() string {
	return fmt.Sprintf("fail over load balancer %s (%s)", s.ID, s.Name)
}

func (s CreateListener) String() string {
	text := "create listener " + listenerText(s.Listener)
	if s.Pool != (Ref{}) {
		text += " with default pool " + s.Pool.String()
	}
	return text
}

func (s UpdateListener) String() string {
	return update("listener", s.ID, s.Listener.Name, s.Changes)
}

func (s DeleteListener) String() string { return deletion("listener", s.ID, s.Name, s.Why) }

func (s CreatePool) String() string {
	text := "create pool " + poolText(s.Pool)
	if s.Listener != (Ref{}) {
		return text + " of listener " + s.Listener.String()
	}
	return text + " without a listener"
}

func (s UpdatePool) String() string { return update("pool", s.ID, s.Pool.Name, s.Changes) }

func (s DeletePool) String() string { return deletion("pool", s.ID, s.Name, s.Why) }

func (s CreateMonitor) String() string {
	return fmt.Sprintf("create health monitor %s of pool %s", monitorText(s.Monitor), s.PoolName)
}

func (s UpdateMonitor) String() string {
	return update("health monitor", s.ID, s.Monitor.Name, s.Changes)
}

func (s DeleteMonitor) String() string { return deletion("health monitor", s.ID, s.Name, s.Why) }

func (s SetMembers) String() string {
	return fmt.Sprintf("set the %d members of pool %s: %s", len(s.Members), s.PoolName,
		listed(s.Changes))
}

func (s CreateMember) String() string {
	return fmt.Sprintf("create member %s of pool %s", memberText(s.Member), s.PoolName)
}

func (s UpdateMember) String() string {
	return fmt.Sprintf("update member %s (%s) of pool %s: %s", s.ID, memberName(s.Member),
		s.PoolName, listed(s.Changes))
}

func (s DeleteMember) String() string {
	return fmt.Sprintf("delete member %s (%s) of pool %s%s", s.ID, s.Name, s.PoolName,
		because(s.Why))
}

func (s SeeDeleted) String() string {
	return fmt.Sprintf("verify deletions in load balancer %s: %s", s.LoadBalancerID,
		strings.Join(s.IDs, ", "))
}

func (s CreateFloatingIP) String() string {
	text := "create a floating IP in network " + s.Wanted.NetworkID
	if s.Wanted.Address != "" {
		text = "create floating IP " + s.Wanted.Address + " in network " + s.Wanted.NetworkID
	}
	if len(s.Wanted.SubnetIDs) > 0 {
		text += ", subnet " + strings.Join(s.Wanted.SubnetIDs, " or ")
	}
	if s.LoadBalancer == (Ref{}) {
		text += ", that leads nowhere yet"
	}
	return text
}

func (s AttachFloatingIP) String() string { return "attach floating IP " + withID(s.Address, s.ID) }

func (s DetachFloatingIP) String() string {
	return "detach floating IP " + withID(s.Address, s.ID) + because(s.Why)
}

func (s DeleteFloatingIP) String() string {
	return "delete floating IP " + withID(s.Address, s.ID) + because(s.Why)
}

func (s TagFloatingIP) String() string {
	return "tag floating IP " + withID(s.Address, s.ID) + ": " +
		cmp.Or(strings.Join(s.Tags, ", "), "no tags")
}

func (s CreateSecurityGroup) String() string { return "create security group " + s.Group.Name }

func (s TagSecurityGroup) String() string {
	return fmt.Sprintf("tag security group %s (%s): %s", s.ID, s.Name,
		cmp.Or(strings.Join(s.Tags, ", "), "no tags"))
}

func (s CreateRule) String() string { return "create rule " + ruleText(s.Rule) }

func (s DeleteRule) String() string {
	return fmt.Sprintf("delete rule %s (%s)", s.ID, ruleText(s.Rule))
}

func (s AddGroup) String() string {
	return fmt.Sprintf("put security group %s on port %s of node %s", s.Group, s.Port.ID, s.Node)
}

func (s RemoveGroup) String() string {
	of := "server " + s.Port.ServerID
	if s.Node != "" {
		of = "node " + s.Node
	}
	return fmt.Sprintf("take security group %s off port %s of %s%s", s.GroupName, s.Port.ID, of,
		because(s.Why))
}

func (s DeleteSecurityGroup) String() string {
	return deletion("security group", s.ID, s.Name, s.Why)
}

func withID(address, id string) string {
	if id == "" {
		return address
	}
	return fmt.Sprintf("%s (%s)", address, id)
}

// OutlineDesired describes the desired state for people: a line for each object, below its parent.
func OutlineDesired(want desired.State) []string {
	lb := want.LoadBalancer
	lines := []string{fmt.Sprintf("load balancer %s at %s", lb.Name, textOf(lb.VIP))}
	lines = append(lines, indented(loadBalancerDetails(CreateLoadBalancer{
		LoadBalancer: lb, Ports: want.Ports,
	}))...)
	if ip := want.FloatingIP; ip != nil {
		lines = append(lines, fmt.Sprintf("floating IP %s in network %s", cmp.Or(ip.Address,
			"with any address"), cmp.Or(ip.NetworkID, "of the existing one")))
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
		lines = append(lines, indented(loadBalancerDetails(CreateLoadBalancer{
			LoadBalancer: *lb, Bare: true,
		}))...)
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
	for _, ip := range o.FloatingIPs {
		lines = append(lines, fmt.Sprintf("floating IP %s (%s) in network %s, to port %s",
			ip.Address, ip.ID, ip.NetworkID, cmp.Or(ip.PortID, "none")))
		lines = append(lines, indented(tagDetails(ip.Tags))...)
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

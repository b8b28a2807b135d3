package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// listenerChanges returns the differences that an update of the listener resolves.
func (c *changer) listenerChanges(want, is octavia.Listener) []string {
	var changes differences
	changes.mend(is.Status)
	if c.want.Features.Tags {
		changes = append(changes, added(is.Tags, want.Tags)...)
	}
	changes.compare("connection_limit", is.ConnectionLimit, want.ConnectionLimit)
	if is, want := is.Timeouts, want.Timeouts; is != nil && want != nil {
		changes.compare("timeout_client_data", is.ClientData, want.ClientData)
		changes.compare("timeout_member_connect", is.MemberConnect, want.MemberConnect)
		changes.compare("timeout_member_data", is.MemberData, want.MemberData)
		changes.compare("timeout_tcp_inspect", is.TCPInspect, want.TCPInspect)
	}
	changes.compare("insert_headers", headersText(is.InsertHeaders),
		headersText(want.InsertHeaders))
	if want.AllowedCIDRs != nil && !c.admitsSame(want.AllowedCIDRs, is.AllowedCIDRs) {
		changes = append(changes,
			changed("allowed_cidrs", listText(is.AllowedCIDRs), listText(want.AllowedCIDRs)))
	}
	if want.TLSContainer != "" {
		changes.compare("default_tls_container_ref", is.TLSContainer, want.TLSContainer)
	}
	return changes
}

// admitsSame treats CIDRs that admit all clients as equal to an empty list.
func (c *changer) admitsSame(a, b []string) bool {
	if c.admitsAll(a) {
		return c.admitsAll(b)
	}
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// admitsAll reports whether every client that can reach an address of the load balancer is
// admitted. An empty list admits all.
func (c *changer) admitsAll(cidrs []string) bool {
	if len(cidrs) == 0 {
		return true
	}
	lb := c.is.LoadBalancer
	if lb == nil {
		return false
	}
	for _, vip := range append([]octavia.VIP{lb.VIP}, lb.AdditionalVIPs...) {
		address, err := netip.ParseAddr(vip.Address)
		whole := "0.0.0.0/0"
		if address.Is6() {
			whole = "::/0"
		}
		if err != nil || !slices.Contains(cidrs, whole) {
			return false
		}
	}
	return true
}

// updatePool compares a pool and its parts. mark: the pool is about to lose its listener, so it
// also gets the Service's tags.
//
// Members come first, because traffic depends on them. If the pool is in ERROR, the pool itself
// must come first.
func (p *ports) updatePool(is *octavia.Pool, want octavia.Pool, mark bool) {
	want.ID, want.Name, want.Tags = is.ID, is.Name, nil
	changes := poolChanges(want, *is)
	if mark && p.want.Features.Tags && !p.ownsPool(*is) {
		want.Tags = merged(is.Tags, p.id.Tags())
		changes = append(changes, added(is.Tags, p.id.Tags())...)
	}
	update := func() {
		if len(changes) > 0 {
			p.add(UpdatePool{ID: is.ID, Pool: want, Changes: changes})
		}
	}
	if is.Status == octavia.InError {
		update()
	}
	p.setMembers(Ref{ID: is.ID}, is.Name, differenceOf(want, *is, p.vipSubnet()))
	if is.Status != octavia.InError {
		update()
	}
	p.updateMonitor(is, want.Monitor)
}

func poolChanges(want, is octavia.Pool) []string {
	var changes differences
	changes.mend(is.Status)
	changes.compare("lb_algorithm", is.Algorithm, want.Algorithm)
	changes.compare("session_persistence", is.Persistence, want.Persistence)
	return changes
}

// updateMonitor: the type is immutable, and a pool has at most one monitor.
func (p *ports) updateMonitor(pool *octavia.Pool, want *octavia.Monitor) {
	is := pool.Monitor
	ref := Ref{ID: pool.ID}
	switch {
	case is == nil && want == nil:
	case is == nil:
		p.add(CreateMonitor{Pool: ref, PoolName: pool.Name, Monitor: *want})
	case want == nil:
		p.add(DeleteMonitor{is.ID, is.Name, "not wanted any more"})
	case want.Type != is.Type:
		p.add(DeleteMonitor{is.ID, is.Name, changed("type", is.Type, want.Type)},
			CreateMonitor{Pool: ref, PoolName: pool.Name, Monitor: *want})
	default:
		if changes := monitorChanges(*want, *is, pool.MonitorInPart); len(changes) > 0 {
			monitor := *want
			monitor.ID, monitor.Name = is.ID, is.Name
			p.add(UpdateMonitor{ID: is.ID, Monitor: monitor, Changes: changes})
		}
	}
}

func monitorChanges(want, is octavia.Monitor, inPart bool) []string {
	var changes differences
	changes.mend(is.Status)
	if inPart {
		return changes
	}
	changes.compare("delay", is.Delay, want.Delay)
	changes.compare("timeout", is.Timeout, want.Timeout)
	changes.compare("max_retries", is.MaxRetries, want.MaxRetries)
	changes.compare("max_retries_down", is.MaxRetriesDown, want.MaxRetriesDown)
	if want.Type == octavia.MonitorHTTP {
		changes.compare("http_method", is.HTTPMethod, want.HTTPMethod)
		changes.compare("url_path", is.URLPath, want.URLPath)
		changes.compare("expected_codes", is.ExpectedCodes, want.ExpectedCodes)
	}
	return changes
}

func headersText(headers map[string]string) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		texts = append(texts, name+"="+headers[name])
	}
	return listText(texts)
}

func listText(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	return fmt.Sprint(texts)
}

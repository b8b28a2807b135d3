package loadbalancer

import (
	"net/netip"
	"slices"
	"strings"

	eipmodel "github.com/huaweicloud/huaweicloud-sdk-go-v3/services/eip/v2/model"
	"github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3/model"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/provider/huaweicloud/internal/client"
)

// pageLimit is the size of the pages of lists.
const pageLimit = 100

// observed are the objects of a Service in the cloud: those that carry its mark.
type observed struct {
	// balancers are the load balancers, the oldest first.
	balancers []model.LoadBalancer
	listeners []model.Listener
	pools     []pool
	groups    []model.IpGroup
	// publicIPs lack the EIP that the Service names: even if fxccm created it, it is now the
	// operator's.
	publicIPs []publicIP
}

// pool is a pool with its members and its health check. Without a health check, monitor is zero.
type pool struct {
	model.Pool
	monitor monitor
	// members are IDs by address and port.
	members map[netip.AddrPort]string
}

// publicIP is an EIP. port is that of the load balancer to which it is bound, or "".
type publicIP struct{ id, address, port string }

func newPublicIP(ip eipmodel.PublicipShowResp) publicIP {
	return publicIP{
		ptr.Deref(ip.Id, ""), ptr.Deref(ip.PublicIpAddress, ""), ptr.Deref(ip.PortId, ""),
	}
}

// observe reads the objects that carry the mark, on any load balancer.
func (p *pass) observe() {
	marks, limit := &[]string{p.owner.mark}, ptr.To[int32](pageLimit)
	groups := &model.ListIpGroupsRequest{Description: marks, Limit: limit}
	p.groups = list(p, "list IP address groups", p.elb.ListIpGroups, groups, &groups.Marker,
		func(r *model.ListIpGroupsResponse) (*[]model.IpGroup, *string) {
			return r.Ipgroups, next(r.PageInfo)
		})
	// Some regions have no such groups.
	p.err = unlessGone(p.err)
	balancers := &model.ListLoadBalancersRequest{Description: marks, Limit: limit}
	p.balancers = list(p, "list load balancers", p.elb.ListLoadBalancers, balancers,
		&balancers.Marker,
		func(r *model.ListLoadBalancersResponse) (*[]model.LoadBalancer, *string) {
			return r.Loadbalancers, next(r.PageInfo)
		})
	slices.SortFunc(p.balancers, func(a, b model.LoadBalancer) int {
		return strings.Compare(a.CreatedAt+a.Id, b.CreatedAt+b.Id)
	})
	listeners := &model.ListListenersRequest{Description: marks, Limit: limit}
	p.listeners = list(p, "list listeners", p.elb.ListListeners, listeners, &listeners.Marker,
		func(r *model.ListListenersResponse) (*[]model.Listener, *string) {
			return r.Listeners, next(r.PageInfo)
		})
	p.observePools(marks, limit)
	// The API of EIPs has no filter for the alias.
	ips := &eipmodel.ListPublicipsRequest{Limit: limit}
	for _, ip := range list(p, "list EIPs", p.eip.ListPublicips, ips, &ips.Marker,
		func(r *eipmodel.ListPublicipsResponse) (*[]eipmodel.PublicipShowResp, *string) {
			if page := ptr.Deref(r.Publicips, nil); len(page) == pageLimit {
				return r.Publicips, page[pageLimit-1].Id
			}
			return r.Publicips, nil
		}) {
		if found := newPublicIP(ip); found.id != p.namedEIP &&
			ptr.Deref(ip.Alias, "") == p.owner.alias {
			p.publicIPs = append(p.publicIPs, found)
		}
	}
}

// observePools reads the pools with their members and health checks.
func (p *pass) observePools(marks *[]string, limit *int32) {
	pools := &model.ListPoolsRequest{Description: marks, Limit: limit}
	var monitorIDs []string
	for _, q := range list(p, "list pools", p.elb.ListPools, pools, &pools.Marker,
		func(r *model.ListPoolsResponse) (*[]model.Pool, *string) {
			return r.Pools, next(r.PageInfo)
		}) {
		p.pools = append(p.pools, pool{q, monitor{}, map[netip.AddrPort]string{}})
		if q.HealthmonitorId != "" {
			monitorIDs = append(monitorIDs, q.HealthmonitorId)
		}
	}
	monitors := map[string]monitor{}
	if len(monitorIDs) > 0 {
		request := &model.ListHealthMonitorsRequest{Id: &monitorIDs, Limit: limit}
		for _, m := range list(p, "list health checks", p.elb.ListHealthMonitors, request,
			&request.Marker,
			func(r *model.ListHealthMonitorsResponse) (*[]model.HealthMonitor, *string) {
				return r.Healthmonitors, next(r.PageInfo)
			}) {
			monitors[m.Id] = newMonitor(m)
		}
	}
	for at, q := range p.pools {
		p.pools[at].monitor = monitors[q.HealthmonitorId]
		request := &model.ListMembersRequest{PoolId: q.Id, Limit: limit}
		for _, m := range list(p, "list members of pool "+q.Id, p.elb.ListMembers, request,
			&request.Marker, func(r *model.ListMembersResponse) (*[]model.Member, *string) {
				return r.Members, next(r.PageInfo)
			}) {
			// A member with an invalid address gets the zero address, and is removed.
			address, _ := netip.ParseAddr(m.Address)
			q.members[netip.AddrPortFrom(address, uint16(m.ProtocolPort))] = m.Id
		}
	}
}

// list reads all pages of a list unless the pass has failed. marker is the field of the request for
// the last ID of the previous page, which page returns with its items.
func list[Q, R, T any](p *pass, what string, method func(*Q) (*R, error), request *Q,
	marker **string, page func(*R) (*[]T, *string),
) (all []T) {
	for p.err == nil {
		var response *R
		if response, p.err = client.Call(what, method, request); p.err != nil {
			break
		}
		items, last := page(response)
		all = append(all, ptr.Deref(items, nil)...)
		if len(ptr.Deref(items, nil)) == 0 || ptr.Deref(last, "") == "" {
			break
		}
		*marker = last
	}
	return all
}

// next is the marker of the next page of ELB.
func next(info *model.PageInfo) *string {
	return ptr.Deref(info, model.PageInfo{}).NextMarker
}

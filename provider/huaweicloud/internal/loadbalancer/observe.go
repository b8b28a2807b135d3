package loadbalancer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// observed are the objects of a Service in the cloud.
type observed struct {
	// balancers are those that carry the mark, the oldest first.
	balancers []model.LoadBalancer
	listeners []model.Listener
	pools     []pool
	publicIPs []publicIP
	groups    []model.IpGroup
}

type pool struct {
	model.Pool
	monitor *model.HealthMonitor
	// members are IDs by "address:port".
	members map[string]string
}

type publicIP struct{ id, address, port string }

// isEmpty reports that the Service has nothing in the cloud.
func (o observed) isEmpty() bool {
	return len(o.balancers)+len(o.listeners)+len(o.pools)+len(o.publicIPs)+len(o.groups) == 0
}

// observe reads the objects that carry the mark, on any load balancer.
func (b *Balancers) observe(ctx context.Context, who owner) (o observed, err error) {
	if o.balancers, err = b.listBalancers(ctx, who.mark); err != nil {
		return observed{}, err
	}
	marks, limit := &[]string{who.mark}, ptr.To[int32](pageLimit)
	elb := b.client.ELB(ctx)
	if o.listeners, err = pages("list listeners", elb.ListListeners,
		func(marker *string) *model.ListListenersRequest {
			return &model.ListListenersRequest{Description: marks, Marker: marker, Limit: limit}
		}, func(r *model.ListListenersResponse) (*[]model.Listener, *model.PageInfo) {
			return r.Listeners, r.PageInfo
		}); err != nil {
		return observed{}, err
	}
	pools, err := pages("list pools", elb.ListPools, func(marker *string) *model.ListPoolsRequest {
		return &model.ListPoolsRequest{Description: marks, Marker: marker, Limit: limit}
	}, func(r *model.ListPoolsResponse) (*[]model.Pool, *model.PageInfo) {
		return r.Pools, r.PageInfo
	})
	if err != nil {
		return observed{}, err
	}
	if o.pools, err = b.observePools(ctx, pools); err != nil {
		return observed{}, err
	}
	if o.groups, err = b.listGroups(ctx, who.mark); err != nil {
		return observed{}, err
	}
	o.publicIPs, err = b.listPublicIPs(ctx, who.alias)
	return o, err
}

func (b *Balancers) listBalancers(ctx context.Context,
	mark string,
) ([]model.LoadBalancer, error) {
	balancers, err := pages("list load balancers", b.client.ELB(ctx).ListLoadBalancers,
		func(marker *string) *model.ListLoadBalancersRequest {
			return &model.ListLoadBalancersRequest{
				Description: &[]string{mark}, Marker: marker, Limit: ptr.To[int32](pageLimit),
			}
		}, func(r *model.ListLoadBalancersResponse) (*[]model.LoadBalancer, *model.PageInfo) {
			return r.Loadbalancers, r.PageInfo
		})
	slices.SortFunc(balancers, func(a, b model.LoadBalancer) int {
		return strings.Compare(a.CreatedAt+a.Id, b.CreatedAt+b.Id)
	})
	return balancers, err
}

func (b *Balancers) observePools(ctx context.Context, pools []model.Pool) ([]pool, error) {
	var monitorIDs []string
	for _, p := range pools {
		if p.HealthmonitorId != "" {
			monitorIDs = append(monitorIDs, p.HealthmonitorId)
		}
	}
	monitors := map[string]*model.HealthMonitor{}
	if len(monitorIDs) > 0 {
		all, err := pages("list health monitors", b.client.ELB(ctx).ListHealthMonitors,
			func(marker *string) *model.ListHealthMonitorsRequest {
				return &model.ListHealthMonitorsRequest{
					Id: &monitorIDs, Marker: marker, Limit: ptr.To[int32](pageLimit),
				}
			}, func(r *model.ListHealthMonitorsResponse) (*[]model.HealthMonitor, *model.PageInfo) {
				return r.Healthmonitors, r.PageInfo
			})
		if err != nil {
			return nil, err
		}
		for _, m := range all {
			monitors[m.Id] = &m
		}
	}
	result := make([]pool, len(pools))
	for at, p := range pools {
		result[at] = pool{
			Pool: p, monitor: monitors[p.HealthmonitorId], members: map[string]string{},
		}
		members, err := pages("list members of pool "+p.Id, b.client.ELB(ctx).ListMembers,
			func(marker *string) *model.ListMembersRequest {
				return &model.ListMembersRequest{
					PoolId: p.Id, Marker: marker, Limit: ptr.To[int32](pageLimit),
				}
			}, func(r *model.ListMembersResponse) (*[]model.Member, *model.PageInfo) {
				return r.Members, r.PageInfo
			})
		if err != nil {
			return nil, err
		}
		for _, m := range members {
			result[at].members[fmt.Sprintf("%s:%d", m.Address, m.ProtocolPort)] = m.Id
		}
	}
	return result, nil
}

// listPublicIPs returns the EIPs with an alias. The API has no filter for it.
func (b *Balancers) listPublicIPs(ctx context.Context, alias string) ([]publicIP, error) {
	var found []publicIP
	var marker *string
	for {
		r, err := b.client.EIP(ctx).ListPublicips(&eipmodel.ListPublicipsRequest{
			Marker: marker, Limit: ptr.To[int32](pageLimit),
		})
		if err != nil {
			return nil, client.Describe(err, "list EIPs")
		}
		page := deref(r.Publicips)
		for _, ip := range page {
			if ptr.Deref(ip.Alias, "") == alias {
				found = append(found, newPublicIPOf(ip))
			}
		}
		if len(page) < pageLimit {
			return found, nil
		}
		marker = page[len(page)-1].Id
	}
}

func newPublicIPOf(ip eipmodel.PublicipShowResp) publicIP {
	return publicIP{
		ptr.Deref(ip.Id, ""), ptr.Deref(ip.PublicIpAddress, ""), ptr.Deref(ip.PortId, ""),
	}
}

// pages reads all pages of a list.
func pages[Q, R, T any](what string, list func(*Q) (*R, error), request func(marker *string) *Q,
	page func(*R) (*[]T, *model.PageInfo),
) ([]T, error) {
	var all []T
	var marker *string
	for {
		response, err := list(request(marker))
		if err != nil {
			return nil, client.Describe(err, "%s", what)
		}
		items, info := page(response)
		all = append(all, deref(items)...)
		if len(deref(items)) == 0 || info == nil || ptr.Deref(info.NextMarker, "") == "" {
			return all, nil
		}
		marker = info.NextMarker
	}
}

func deref[T any](list *[]T) []T {
	if list == nil {
		return nil
	}
	return *list
}

// splitMember returns the parts of "address:port".
func splitMember(key string) (address string, port int32) {
	parsed, err := netip.ParseAddrPort(key)
	if err != nil {
		return key, 0
	}
	return parsed.Addr().String(), int32(parsed.Port())
}

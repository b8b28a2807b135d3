package stub

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3/model"
)

const pageSize = 2

// AddBalancer adds a load balancer of someone else, without a mark.
func (c *Cloud) AddBalancer(name string) model.LoadBalancer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.newBalancer(name, "")
}

// CopyBalancer adds a load balancer with the name and description of another, like a creation that
// is repeated because its response was lost.
func (c *Cloud) CopyBalancer(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newBalancer(c.balancers[id].Name, c.balancers[id].Description)
}

// AddListener adds a listener of someone else.
func (c *Cloud) AddListener(balancer, protocol string, port int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.id()
	c.listeners[id] = &model.Listener{
		Id: id, Name: "theirs", Protocol: protocol, ProtocolPort: port,
		Loadbalancers: []model.LoadBalancerRef{{Id: &balancer}},
	}
}

// AddPool adds a pool of someone else.
func (c *Cloud) AddPool(balancer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.id()
	c.pools[id] = &model.Pool{
		Id: id, Name: "theirs", Protocol: "TCP", LbAlgorithm: "ROUND_ROBIN",
		Loadbalancers: []model.LoadBalancerRef{{Id: &balancer}},
	}
}

// SetDeleting sets a load balancer to PENDING_DELETE; with false it removes the load balancer.
func (c *Cloud) SetDeleting(id string, deleting bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.balancers[id].ProvisioningStatus = "PENDING_DELETE"
	if !deleting {
		delete(c.balancers, id)
	}
}

// Balancers returns the load balancers, sorted by ID.
func (c *Cloud) Balancers() []model.LoadBalancer { return sorted(c, c.balancers) }

// Listeners returns the listeners, sorted by ID.
func (c *Cloud) Listeners() []model.Listener { return sorted(c, c.listeners) }

// Pools returns the pools, sorted by ID.
func (c *Cloud) Pools() []model.Pool { return sorted(c, c.pools) }

// Monitors returns the health monitors, sorted by ID.
func (c *Cloud) Monitors() []model.HealthMonitor { return sorted(c, c.monitors) }

// Members returns the members of a pool as address:port, sorted.
func (c *Cloud) Members(pool string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	members := []string{}
	for _, m := range c.members[pool] {
		members = append(members, fmt.Sprintf("%s:%d", m.Address, m.ProtocolPort))
	}
	slices.Sort(members)
	return members
}

func sorted[T any](c *Cloud, all map[string]*T) []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := make([]string, 0, len(all))
	for id := range all {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	items := make([]T, len(ids))
	for at, id := range ids {
		items[at] = *all[id]
	}
	return items
}

func (c *Cloud) newBalancer(name, description string) *model.LoadBalancer {
	id := c.id()
	b := &model.LoadBalancer{
		Id: id, Name: name, Description: description, ProjectId: ProjectID,
		ProvisioningStatus: "ACTIVE", OperatingStatus: "ONLINE", AdminStateUp: true,
		Guaranteed: true, VpcId: VPC, VipSubnetCidrId: Subnet,
		VipAddress: c.address("192.168"), VipPortId: c.id(),
		CreatedAt:            fmt.Sprintf("2030-01-01T00:00:%02dZ", c.count%60),
		AvailabilityZoneList: []string{Zone},
		Publicips:            []model.PublicIpInfo{},
	}
	c.balancers[id] = b
	return b
}

func (c *Cloud) routeBalancers(mux *http.ServeMux) {
	const base = "/v3/{project}/elb/loadbalancers"
	mux.HandleFunc("GET /v3/{project}/elb/availability-zones",
		func(w http.ResponseWriter, _ *http.Request) {
			replySDK(w, map[string]any{"availability_zones": [][]model.AvailabilityZone{{
				{Code: Zone, State: "ACTIVE"}, {Code: "stub-1b", State: "SELLOUT"},
			}}})
		})
	mux.HandleFunc("GET "+base, func(w http.ResponseWriter, r *http.Request) {
		items, next := page(r, c.balancers, pageSize, func(id string, b *model.LoadBalancer) bool {
			return matches(r, "id", id) && matches(r, "name", b.Name) &&
				matches(r, "description", b.Description)
		})
		for at := range items {
			c.fillRefs(&items[at])
		}
		replySDK(w, map[string]any{"loadbalancers": items, "page_info": info(len(items), next)})
	})
	mux.HandleFunc("POST "+base, func(w http.ResponseWriter, r *http.Request) {
		var body model.CreateLoadBalancerRequestBody
		if !decode(w, r, &body) {
			return
		}
		o := body.Loadbalancer
		switch {
		case len(o.AvailabilityZoneList) == 0 || slices.Contains(o.AvailabilityZoneList, "stub-1b"):
			refuse(w, 400, "ELB.8902", "invalid availability_zone_list")
		case o.VipSubnetCidrId == nil || *o.VipSubnetCidrId != Subnet:
			refuse(w, 400, "ELB.8902", "invalid vip_subnet_cidr_id")
		case o.Guaranteed != nil && !*o.Guaranteed:
			refuse(w, 400, "ELB.8902", "guaranteed must be true")
		default:
			replySDK(w, map[string]any{"loadbalancer": c.newBalancer(*o.Name, *o.Description)})
		}
	})
	mux.HandleFunc("GET "+base+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		if b, ok := find(w, c.balancers, r.PathValue("id")); ok {
			replySDK(w, map[string]any{"loadbalancer": b})
		}
	})
	mux.HandleFunc("DELETE "+base+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		b, ok := find(w, c.balancers, r.PathValue("id"))
		if !ok {
			return
		}
		for _, l := range c.listeners {
			if *l.Loadbalancers[0].Id == b.Id {
				refuse(w, 409, "ELB.8907", "the load balancer has listeners")
				return
			}
		}
		for _, p := range c.pools {
			if *p.Loadbalancers[0].Id == b.Id {
				refuse(w, 409, "ELB.8907", "the load balancer has pools")
				return
			}
		}
		if len(b.Publicips) > 0 {
			refuse(w, 409, "ELB.8907", "the load balancer has an EIP")
			return
		}
		delete(c.balancers, b.Id)
		w.WriteHeader(http.StatusNoContent)
	})
}

// fillRefs names the listeners and pools of a load balancer.
func (c *Cloud) fillRefs(b *model.LoadBalancer) {
	b.Listeners, b.Pools = []model.ListenerRef{}, []model.PoolRef{}
	for _, l := range c.listeners {
		if *l.Loadbalancers[0].Id == b.Id {
			b.Listeners = append(b.Listeners, model.ListenerRef{Id: l.Id})
		}
	}
	for _, p := range c.pools {
		if *p.Loadbalancers[0].Id == b.Id {
			b.Pools = append(b.Pools, model.PoolRef{Id: p.Id})
		}
	}
}

func info(count int, next *string) model.PageInfo {
	return model.PageInfo{CurrentCount: int32(count), NextMarker: next}
}

// find replies with 404 if the object does not exist.
func find[T any](w http.ResponseWriter, all map[string]*T, id string) (*T, bool) {
	item, ok := all[id]
	if !ok {
		refuse(w, http.StatusNotFound, "ELB.8904", "resource "+id+" could not be found")
	}
	return item, ok
}

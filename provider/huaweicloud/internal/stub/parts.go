package stub

import (
	"net/http"
	"slices"

	"github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3/model"
)

// poolProtocols are the protocols of pools that the listeners of a protocol may have.
var poolProtocols = map[string][]string{
	"TCP": {"TCP"}, "UDP": {"UDP", "QUIC"}, "HTTP": {"HTTP"}, "HTTPS": {"HTTP", "HTTPS", "GRPC"},
	"TLS": {"TLS", "TCP"},
}

// monitorTypes are the health checks that the pools of a protocol may have.
var monitorTypes = map[string][]string{
	"TCP": {"TCP", "HTTP", "HTTPS"}, "UDP": {"UDP_CONNECT"},
	"HTTP": {"TCP", "HTTP", "HTTPS", "TLS", "GRPC"},
}

func (c *Cloud) routeParts(mux *http.ServeMux) {
	c.routeListeners(mux)
	c.routePools(mux)
	c.routeMembers(mux)
	c.routeMonitors(mux)
}

func (c *Cloud) routeListeners(mux *http.ServeMux) {
	const base = "/v3/{project}/elb/listeners"
	mux.HandleFunc("GET "+base, func(w http.ResponseWriter, r *http.Request) {
		items, next := page(r, c.listeners, pageSize, func(id string, l *model.Listener) bool {
			return matches(r, "id", id) && matches(r, "description", l.Description) &&
				matches(r, "loadbalancer_id", *l.Loadbalancers[0].Id)
		})
		replySDK(w, map[string]any{"listeners": items, "page_info": info(len(items), next)})
	})
	mux.HandleFunc("POST "+base, func(w http.ResponseWriter, r *http.Request) {
		var body model.CreateListenerRequestBody
		if !decode(w, r, &body) {
			return
		}
		o := body.Listener
		if _, ok := find(w, c.balancers, o.LoadbalancerId); !ok {
			return
		}
		for _, l := range c.listeners {
			if *l.Loadbalancers[0].Id == o.LoadbalancerId && l.ProtocolPort == *o.ProtocolPort &&
				(l.Protocol == "UDP") == (o.Protocol == "UDP") {
				refuse(w, 409, "ELB.8907", "the port is in use by another listener")
				return
			}
		}
		isTLS := o.Protocol == "HTTPS" || o.Protocol == "TLS"
		if isTLS && o.DefaultTlsContainerRef == nil {
			refuse(w, 400, "ELB.8902", "default_tls_container_ref is required")
			return
		}
		l := &model.Listener{
			Id: c.id(), Name: *o.Name, Description: *o.Description, Protocol: o.Protocol,
			ProtocolPort: *o.ProtocolPort, ProjectId: ProjectID, AdminStateUp: true,
			Loadbalancers: []model.LoadBalancerRef{{Id: &o.LoadbalancerId}},
		}
		if isTLS {
			l.DefaultTlsContainerRef = *o.DefaultTlsContainerRef
		}
		if g := o.Ipgroup; g != nil {
			if _, ok := find(w, c.groups, g.IpgroupId); !ok {
				return
			}
			l.Ipgroup = &model.ListenerIpGroup{
				IpgroupId: g.IpgroupId, EnableIpgroup: *g.EnableIpgroup, Type: g.Type.Value(),
			}
		}
		if o.DefaultPoolId != nil {
			pool, ok := find(w, c.pools, *o.DefaultPoolId)
			if !ok {
				return
			}
			if !slices.Contains(poolProtocols[o.Protocol], pool.Protocol) {
				refuse(w, 400, "ELB.8902", "the pool's protocol does not fit the listener's")
				return
			}
			l.DefaultPoolId = pool.Id
		}
		c.listeners[l.Id] = l
		replySDK(w, map[string]any{"listener": l})
	})
	mux.HandleFunc("PUT "+base+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		l, ok := find(w, c.listeners, r.PathValue("id"))
		var body model.UpdateListenerRequestBody
		if !ok || !decode(w, r, &body) {
			return
		}
		if ref := body.Listener.DefaultTlsContainerRef; ref != nil {
			l.DefaultTlsContainerRef = *ref
		}
		if pool := body.Listener.DefaultPoolId; pool != nil {
			l.DefaultPoolId = *pool
		}
		if g := body.Listener.Ipgroup; g != nil && !c.setGroup(w, l, g) {
			return
		}
		replySDK(w, map[string]any{"listener": l})
	})
	mux.HandleFunc("DELETE "+base+"/{id}/force", func(w http.ResponseWriter, r *http.Request) {
		if l, ok := find(w, c.listeners, r.PathValue("id")); ok {
			delete(c.listeners, l.Id)
			w.WriteHeader(http.StatusNoContent)
		}
	})
}

func (c *Cloud) routePools(mux *http.ServeMux) {
	const base = "/v3/{project}/elb/pools"
	mux.HandleFunc("GET "+base, func(w http.ResponseWriter, r *http.Request) {
		items, next := page(r, c.pools, pageSize, func(id string, p *model.Pool) bool {
			return matches(r, "id", id) && matches(r, "description", p.Description)
		})
		replySDK(w, map[string]any{"pools": items, "page_info": info(len(items), next)})
	})
	mux.HandleFunc("POST "+base, func(w http.ResponseWriter, r *http.Request) {
		var body model.CreatePoolRequestBody
		if !decode(w, r, &body) {
			return
		}
		o := body.Pool
		if o.LoadbalancerId == nil {
			refuse(w, 400, "ELB.8902", "loadbalancer_id is required")
			return
		}
		if _, ok := find(w, c.balancers, *o.LoadbalancerId); !ok {
			return
		}
		p := &model.Pool{
			Id: c.id(), Name: *o.Name, Description: *o.Description, Protocol: o.Protocol,
			LbAlgorithm: o.LbAlgorithm, ProjectId: ProjectID, AdminStateUp: true,
			Loadbalancers: []model.LoadBalancerRef{{Id: o.LoadbalancerId}},
		}
		if s := o.SessionPersistence; s != nil {
			p.SessionPersistence = &model.SessionPersistence{
				Type: s.Type.Value(), PersistenceTimeout: s.PersistenceTimeout,
			}
		}
		c.pools[p.Id], c.members[p.Id] = p, map[string]*model.Member{}
		replySDK(w, map[string]any{"pool": p})
	})
	mux.HandleFunc("PUT "+base+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		p, ok := find(w, c.pools, r.PathValue("id"))
		var body model.UpdatePoolRequestBody
		if !ok || !decode(w, r, &body) {
			return
		}
		if a := body.Pool.LbAlgorithm; a != nil {
			p.LbAlgorithm = *a
		}
		replySDK(w, map[string]any{"pool": p})
	})
	mux.HandleFunc("DELETE "+base+"/{id}/delete-cascade",
		func(w http.ResponseWriter, r *http.Request) {
			p, ok := find(w, c.pools, r.PathValue("id"))
			if !ok {
				return
			}
			for _, l := range c.listeners {
				if l.DefaultPoolId == p.Id {
					refuse(w, 409, "ELB.8907", "the pool is in use by a listener")
					return
				}
			}
			delete(c.monitors, p.HealthmonitorId)
			delete(c.pools, p.Id)
			delete(c.members, p.Id)
			w.WriteHeader(http.StatusNoContent)
		})
}

func (c *Cloud) routeMembers(mux *http.ServeMux) {
	const base = "/v3/{project}/elb/pools/{id}/members"
	mux.HandleFunc("GET "+base, func(w http.ResponseWriter, r *http.Request) {
		p, ok := find(w, c.pools, r.PathValue("id"))
		if !ok {
			return
		}
		items, next := page(r, c.members[p.Id], pageSize,
			func(string, *model.Member) bool { return true })
		replySDK(w, map[string]any{"members": items, "page_info": info(len(items), next)})
	})
	mux.HandleFunc("POST "+base+"/batch-add", func(w http.ResponseWriter, r *http.Request) {
		p, ok := find(w, c.pools, r.PathValue("id"))
		var body model.BatchCreateMembersRequestBody
		if !ok || !decode(w, r, &body) {
			return
		}
		added := []model.BatchMember{}
		for _, o := range body.Members {
			if o.SubnetCidrId == nil || *o.SubnetCidrId != subnetOf(o.Address) ||
				len(body.Members) > 200 {
				refuse(w, 400, "ELB.8902", "invalid member")
				return
			}
			id := c.id()
			c.members[p.Id][id] = &model.Member{
				Id: id, Name: *o.Name, Address: o.Address, ProtocolPort: o.ProtocolPort,
				SubnetCidrId: o.SubnetCidrId, Weight: 1, AdminStateUp: true,
			}
			added = append(added, model.BatchMember{Id: id, Address: o.Address})
		}
		replySDK(w, map[string]any{"members": added})
	})
	mux.HandleFunc("POST "+base+"/batch-delete", func(w http.ResponseWriter, r *http.Request) {
		p, ok := find(w, c.pools, r.PathValue("id"))
		var body model.BatchDeleteMembersRequestBody
		if !ok || !decode(w, r, &body) {
			return
		}
		for _, o := range body.Members {
			delete(c.members[p.Id], *o.Id)
		}
		replySDK(w, map[string]any{"members": []any{}})
	})
}

func (c *Cloud) routeMonitors(mux *http.ServeMux) {
	const base = "/v3/{project}/elb/healthmonitors"
	mux.HandleFunc("GET "+base, func(w http.ResponseWriter, r *http.Request) {
		items, next := page(r, c.monitors, pageSize, func(id string, _ *model.HealthMonitor) bool {
			return matches(r, "id", id)
		})
		replySDK(w, map[string]any{"healthmonitors": items, "page_info": info(len(items), next)})
	})
	mux.HandleFunc("POST "+base, func(w http.ResponseWriter, r *http.Request) {
		var body model.CreateHealthMonitorRequestBody
		if !decode(w, r, &body) {
			return
		}
		o := body.Healthmonitor
		p, ok := find(w, c.pools, o.PoolId)
		switch {
		case !ok:
			return
		case p.HealthmonitorId != "":
			refuse(w, 409, "ELB.8907", "the pool has a health monitor")
			return
		case !slices.Contains(monitorTypes[p.Protocol], o.Type):
			refuse(w, 400, "ELB.8902", "the type does not fit the pool's protocol")
			return
		}
		m := &model.HealthMonitor{
			Id: c.id(), Name: *o.Name, Type: o.Type, Delay: o.Delay, Timeout: o.Timeout,
			MaxRetries: o.MaxRetries, AdminStateUp: true, Pools: []model.PoolRef{{Id: p.Id}},
		}
		if o.MonitorPort != nil {
			m.MonitorPort = *o.MonitorPort
		}
		if o.UrlPath != nil {
			m.UrlPath = *o.UrlPath
		}
		c.monitors[m.Id], p.HealthmonitorId = m, m.Id
		replySDK(w, map[string]any{"healthmonitor": m})
	})
	mux.HandleFunc("DELETE "+base+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		m, ok := find(w, c.monitors, r.PathValue("id"))
		if !ok {
			return
		}
		c.pools[m.Pools[0].Id].HealthmonitorId = ""
		delete(c.monitors, m.Id)
		w.WriteHeader(http.StatusNoContent)
	})
}

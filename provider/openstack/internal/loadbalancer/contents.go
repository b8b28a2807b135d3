package loadbalancer

import (
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/balancer"
)

// contents are the listeners and pools of a load balancer, whoever made them.
type contents struct {
	listeners []balancer.Listener
	pools     []balancer.Pool
}

// below is that part of a wish which is about what lies below the load balancer, and about the security group. All else is compared in
// each pass, for it costs no request.
func below(d balancer.Desired) balancer.Desired {
	d.LoadBalancer, d.FloatingIP = balancer.LoadBalancer{}, nil
	return d
}

// asWished are the contents of a load balancer of which nothing has changed since all was carried out.
func asWished(d balancer.Desired) contents {
	var c contents
	for _, port := range d.Ports {
		listener, pool := port.Listener, port.Pool
		listener.ID, pool.ID = listener.Name, pool.Name
		listener.PoolID = pool.ID
		listener.Status, pool.Status = balancer.Active, balancer.Active
		c.listeners, c.pools = append(c.listeners, listener), append(c.pools, pool)
	}
	return c
}

// fulfilled are the contents when a wish has been carried out in what was there. Nil: something was made whose id is not known.
func fulfilled(d balancer.Desired, was balancer.Observed) *contents {
	// Members are told apart by their ids where they are changed one by one.
	if d.Features.Serial {
		return nil
	}
	c := contents{slices.Clone(was.Listeners), slices.Clone(was.Pools)}
	for _, port := range d.Ports {
		i := slices.IndexFunc(c.listeners, func(l balancer.Listener) bool { return l.Key() == port.Listener.Key() })
		if i < 0 {
			return nil
		}
		j := slices.IndexFunc(c.pools, func(p balancer.Pool) bool { return p.ID == c.listeners[i].PoolID })
		if j < 0 || c.listeners[i].Protocol != port.Listener.Protocol || !alike(c.pools[j], port.Pool) {
			return nil
		}
		c.listeners[i], c.pools[j] = updatedListener(c.listeners[i], port.Listener), updatedPool(c.pools[j], port.Pool)
	}
	return &c
}

// alike tells whether one pool can become the other without anything being made.
func alike(is, want balancer.Pool) bool {
	if is.Protocol != want.Protocol || (is.Monitor == nil) != (want.Monitor == nil) {
		return false
	}
	return is.Monitor == nil || is.Monitor.Type == want.Monitor.Type
}

func updatedListener(is, want balancer.Listener) balancer.Listener {
	want.ID, want.Name, want.PoolID, want.Status = is.ID, is.Name, is.PoolID, balancer.Active
	tags := slices.Clone(is.Tags)
	for _, tag := range want.Tags {
		if !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	want.Tags = tags
	return want
}

func updatedPool(is, want balancer.Pool) balancer.Pool {
	want.ID, want.Name, want.Tags, want.Status = is.ID, is.Name, is.Tags, balancer.Active
	if want.Monitor != nil {
		monitor := *want.Monitor
		monitor.ID, monitor.Status = is.Monitor.ID, balancer.Active
		want.Monitor = &monitor
	}
	want.Members = slices.Clone(want.Members)
	for i := range want.Members {
		want.Members[i].Status = balancer.Active
	}
	return want
}

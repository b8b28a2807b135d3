// Package quota measures how much of the project's quotas is used.
package quota

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/gophercloud/gophercloud/v2"
	octavia "github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/quotas"
	neutron "github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/quotas"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/openstack/internal/pages"
	"github.com/fxccm/fxccm/provider/openstack/internal/sharing"
)

// These resources are measured, because a load balancer needs them.
const (
	LoadBalancers  = "loadbalancer"
	FloatingIPs    = "floatingip"
	Ports          = "port"
	SecurityGroups = "security_group"
)

// Period is the pause between two measurements. A quota changes slowly, and its gauges give an
// early warning. A measurement costs three requests.
const Period = 30 * time.Minute

// shareAge limits the age of another cluster's measurement.
const shareAge = Period - firstAfter

// firstAfter delays the first measurement, so that the term's first work comes before.
const firstAfter = time.Minute

type service func(context.Context) (*gophercloud.ServiceClient, error)

// Config is the input of Watch.
type Config struct {
	Project func(context.Context) (string, error)
	Network service
	// LoadBalancer is nil if load balancers are turned off.
	LoadBalancer service
	// Share shares the measurements with other clusters of the project. It may be nil.
	Share  sharing.Read
	Clock  clock.Clock
	Logger logr.Logger
	// Observe receives the limit and the number that is used. -1 means no limit.
	Observe func(resource string, limit, used int)
}

// Watch measures until stop is called. Hidden quotas do not affect the cluster, so a failure is
// only logged.
func Watch(config Config) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { config.run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

func (c Config) run(ctx context.Context) {
	for pause := firstAfter; ; pause = Period {
		timer := c.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
		parts := map[string]func(context.Context) ([]usage, error){"network": c.network}
		if c.LoadBalancer != nil {
			parts["load-balancer"] = c.loadBalancers
		}
		for part, measure := range parts {
			all, _, err := sharing.Of(ctx, c.Share, c.Clock, "quotas of "+part,
				c.Clock.Now().Add(-shareAge), measure)
			for _, u := range all {
				c.Observe(u.resource, u.limit, u.used)
			}
			if err != nil && ctx.Err() == nil {
				c.Logger.V(2).Info("Reading the project's quotas failed; retrying",
					"service", part, "after", Period.String(), "reason", err.Error())
			}
		}
	}
}

// usage is how many of a resource exist, and their limit.
type usage struct {
	resource    string
	limit, used int
}

func (c Config) network(ctx context.Context) (all []usage, err error) {
	client, err := c.Network(ctx)
	if err != nil {
		return nil, err
	}
	project, err := c.Project(ctx)
	if err != nil {
		return nil, err
	}
	is, err := neutron.GetDetail(ctx, client, project).Extract()
	if err != nil {
		return nil, err
	}
	for resource, detail := range map[string]neutron.QuotaDetail{
		FloatingIPs: is.FloatingIP, Ports: is.Port, SecurityGroups: is.SecurityGroup,
	} {
		all = append(all, usage{resource, detail.Limit, detail.Used + detail.Reserved})
	}
	return all, nil
}

// loadBalancers counts the load balancers, because Octavia returns only their limit.
func (c Config) loadBalancers(ctx context.Context) ([]usage, error) {
	client, err := c.LoadBalancer(ctx)
	if err != nil {
		return nil, err
	}
	project, err := c.Project(ctx)
	if err != nil {
		return nil, err
	}
	limits, err := octavia.Get(ctx, client, project).Extract()
	if err != nil {
		return nil, err
	}
	all, err := pages.All(ctx, "loadbalancers",
		url.Values{
			"project_id": {project}, "fields": {"id"}, "limit": {pages.OctaviaLimit},
		},
		func(lb *loadBalancer) string { return lb.ID },
		pages.From(c.LoadBalancer, "lbaas", "loadbalancers"))
	if err != nil {
		return nil, err
	}
	return []usage{{LoadBalancers, limits.Loadbalancer, len(all)}}, nil
}

type loadBalancer struct {
	ID string `json:"id"`
}

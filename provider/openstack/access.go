package openstack

import (
	"context"
	"net/http"

	"github.com/go-logr/logr"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/client"
	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/metrics"
)

// ServiceAccess says whether a service of OpenStack answers a user.
type ServiceAccess struct {
	// Region is "" if the configuration names none.
	Region string
	// Service is the name of the service, such as Nova.
	Service string
	// Err is why it does not answer, as one sentence, or nil.
	Err error
}

// CheckAccess logs in to each region of a configuration, and sends one read request to each service
// that the provider needs. It changes nothing. The error is that of a login, or of the
// configuration.
func CheckAccess(ctx context.Context, config cloudconf.Config) ([]ServiceAccess, error) {
	var all []ServiceAccess
	for _, name := range config.RegionNames() {
		region, _ := config.In(name)
		in, err := checkRegion(ctx, region)
		if err != nil {
			return all, err
		}
		all = append(all, in...)
	}
	return all, nil
}

func checkRegion(ctx context.Context, config cloudconf.Config) ([]ServiceAccess, error) {
	if _, err := cloudconf.Validate(config, false); err != nil {
		return nil, err
	}
	set, err := metrics.New(nil, "")
	if err != nil {
		return nil, err
	}
	series := set.Begin()
	defer series.End()
	clients, err := client.New(config, client.Options{
		Transport: func(next http.RoundTripper) http.RoundTripper { return readOnly{next} },
		Logger:    logr.Discard(),
		Observer:  series,
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = clients.Close() }()
	if _, err := clients.Project(ctx); err != nil {
		return nil, events.ExplainOnce(err)
	}
	services := []struct {
		name     string
		isNeeded bool
		client   func(context.Context) (*gophercloud.ServiceClient, error)
		list     func(*gophercloud.ServiceClient) pagination.Pager
	}{
		{"Nova", true, clients.Compute, func(c *gophercloud.ServiceClient) pagination.Pager {
			return servers.List(c, servers.ListOpts{Limit: 1})
		}},
		{"Neutron", true, clients.Network, func(c *gophercloud.ServiceClient) pagination.Pager {
			return networks.List(c, networks.ListOpts{Limit: 1})
		}},
		{
			"Octavia", config.LoadBalancer.Enabled, clients.LoadBalancer,
			func(c *gophercloud.ServiceClient) pagination.Pager {
				return loadbalancers.List(c, loadbalancers.ListOpts{Limit: 1})
			},
		},
	}
	var all []ServiceAccess
	for _, service := range services {
		if !service.isNeeded {
			continue
		}
		access := ServiceAccess{Region: config.Global.Region, Service: service.name}
		client, err := service.client(ctx)
		if err == nil {
			err = service.list(client).EachPage(ctx,
				func(context.Context, pagination.Page) (bool, error) { return false, nil })
		}
		if err != nil {
			access.Err = events.ExplainOnce(err)
		}
		all = append(all, access)
	}
	return all, nil
}

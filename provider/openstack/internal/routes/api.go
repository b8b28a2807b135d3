package routes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/extraroutes"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
	"github.com/fxccm/fxccm/provider/openstack/internal/pages"
)

// api sends requests to Neutron.
type api struct {
	network  func(context.Context) (*gophercloud.ServiceClient, error)
	routerID string
}

// router is a router in Neutron's API.
type router struct {
	ID     string          `json:"id"`
	Routes []routers.Route `json:"routes"`
	// Revision is nil if the cloud has no revision numbers.
	Revision *int `json:"revision_number"`
	Gateway  struct {
		NetworkID string    `json:"network_id"`
		FixedIPs  []fixedIP `json:"external_fixed_ips"`
	} `json:"external_gateway_info"`
}

// port is a port in Neutron's API.
type port struct {
	ID          string    `json:"id"`
	NetworkID   string    `json:"network_id"`
	DeviceID    string    `json:"device_id"`
	DeviceOwner string    `json:"device_owner"`
	MAC         string    `json:"mac_address"`
	FixedIPs    []fixedIP `json:"fixed_ips"`
	// PortSecurity is nil if the cloud has no port security.
	PortSecurity *bool               `json:"port_security_enabled"`
	Pairs        []ports.AddressPair `json:"allowed_address_pairs"`
	Revision     *int                `json:"revision_number"`
}

type fixedIP struct {
	SubnetID string `json:"subnet_id"`
	Address  string `json:"ip_address"`
}

// portFields are the requested fields of a port.
func portFields() []string {
	return []string{
		"id", "network_id", "device_id", "device_owner", "mac_address", "fixed_ips",
		"port_security_enabled", "allowed_address_pairs", "revision_number",
	}
}

func (a *api) router(ctx context.Context) (*router, error) {
	return a.request(ctx, "get", func(client *gophercloud.ServiceClient) gophercloud.Result {
		return routers.Get(ctx, client, a.routerID).Result
	})
}

// addRoutes adds the routes that the router lacks and returns the updated router.
func (a *api) addRoutes(ctx context.Context, add []routers.Route) (*router, error) {
	return a.request(ctx, "add routes to", func(c *gophercloud.ServiceClient) gophercloud.Result {
		return extraroutes.Add(ctx, c, a.routerID, extraroutes.Opts{Routes: &add}).Result
	})
}

// removeRoutes removes the routes that the router has and returns the updated router.
func (a *api) removeRoutes(ctx context.Context, gone []routers.Route) (*router, error) {
	return a.request(ctx, "remove routes from",
		func(client *gophercloud.ServiceClient) gophercloud.Result {
			return extraroutes.Remove(ctx, client, a.routerID,
				extraroutes.Opts{Routes: &gone}).Result
		})
}

// putRoutes replaces the router's routes if its revision is the given one. A nil revision makes the
// write unconditional.
func (a *api) putRoutes(ctx context.Context, all []routers.Route, revision *int) (*router, error) {
	return a.request(ctx, "replace the routes of",
		func(client *gophercloud.ServiceClient) gophercloud.Result {
			return routers.Update(ctx, client, a.routerID,
				routers.UpdateOpts{Routes: &all, RevisionNumber: revision}).Result
		})
}

// request sends a request whose response is the router.
func (a *api) request(
	ctx context.Context, doing string, send func(*gophercloud.ServiceClient) gophercloud.Result,
) (*router, error) {
	client, err := a.network(ctx)
	if err != nil {
		return nil, err
	}
	var body struct {
		Router router `json:"router"`
	}
	if err := send(client).ExtractInto(&body); err != nil {
		return nil, a.wrap(doing, err)
	}
	if body.Router.ID == "" {
		return nil, a.wrap(doing, failure.BodyError("Neutron"))
	}
	return &body.Router, nil
}

func (a *api) wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s router %s: %w", doing, a.routerID, err)
}

// interfaces are the ports of the router.
func (a *api) interfaces(ctx context.Context) ([]port, error) {
	found, err := a.ports(ctx, url.Values{"device_id": {a.routerID}})
	return found, a.wrap("list ports of", err)
}

// portsAt are the ports on the networks that have one of the addresses.
func (a *api) portsAt(ctx context.Context, networks []string,
	addresses []netip.Addr,
) ([]port, error) {
	query := url.Values{"network_id": networks}
	for _, address := range addresses {
		query.Add("fixed_ips", "ip_address="+address.String())
	}
	found, err := a.ports(ctx, query)
	return found, a.wrap(fmt.Sprintf("list ports of %d next hops of", len(addresses)), err)
}

func (a *api) ports(ctx context.Context, query url.Values) ([]port, error) {
	query["fields"] = portFields()
	return pages.All(ctx, "ports", query, func(p *port) string { return p.ID },
		pages.From(a.network, "ports"))
}

func (a *api) port(ctx context.Context, id string) (port, error) {
	client, err := a.network(ctx)
	if err != nil {
		return port{}, err
	}
	found, err := extractPort(ports.Get(ctx, client, id).Result)
	if err != nil {
		return port{}, fmt.Errorf("get port %s: %w", id, err)
	}
	return found, nil
}

// putPairs replaces the port's allowed address pairs if its revision is the given one. A nil
// revision makes the write unconditional.
func (a *api) putPairs(ctx context.Context, id string, pairs []ports.AddressPair,
	revision *int,
) error {
	client, err := a.network(ctx)
	if err != nil {
		return err
	}
	_, err = extractPort(ports.Update(ctx, client, id,
		ports.UpdateOpts{AllowedAddressPairs: &pairs, RevisionNumber: revision}).Result)
	if err != nil {
		return fmt.Errorf("change the allowed address pairs of port %s: %w", id, err)
	}
	return nil
}

func extractPort(result gophercloud.Result) (port, error) {
	var body struct {
		Port port `json:"port"`
	}
	if err := result.ExtractInto(&body); err != nil {
		return port{}, err
	}
	if body.Port.ID == "" {
		return port{}, failure.BodyError("Neutron")
	}
	return body.Port, nil
}

// isStale: the revision of a conditional write is out of date.
func isStale(err error) bool {
	return gophercloud.ResponseCodeIs(err, http.StatusPreconditionFailed)
}

// isBadRequest reports whether Neutron refused the content of a request, so that parts of it may
// succeed. 401, 403 and 404 are about the credentials and the router; 409, 412 and 429 are
// transient.
func isBadRequest(err error) bool {
	var code gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &code) {
		return false
	}
	switch code.Actual {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusRequestTimeout,
		http.StatusConflict, http.StatusPreconditionFailed, http.StatusTooManyRequests:
		return isFull(err)
	}
	return code.Actual >= 400 && code.Actual < 500
}

// isFull: the router has the maximum number of routes. Neutron returns 400 for the setting
// max_routes (default 30), and newer releases 409 for the quota; both codes have other meanings,
// too.
func isFull(err error) bool {
	f := failure.Of(err)
	return f != nil && (f.Type == "RoutesExhausted" || f.Type == "OverQuota")
}

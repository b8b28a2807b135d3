package capability

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
	"github.com/fxccm/fxccm/provider/openstack/internal/pages"
)

// NetworkExtensions are the aliases of Neutron's extensions.
type NetworkExtensions map[string]bool

// Network returns the extensions of a cloud's Neutron. Each read is one request with a client from
// the function client, which clusters may share.
func Network(client func(context.Context) (*gophercloud.ServiceClient, error),
	options Options,
) *Fact[NetworkExtensions] {
	options.Key = "network extensions"
	return New(func(ctx context.Context) (NetworkExtensions, error) {
		found, err := networkExtensions(ctx, pages.From(client, "extensions"))
		if err != nil {
			return nil, fmt.Errorf("list network extensions: %w", err)
		}
		return found, nil
	}, options)
}

func networkExtensions(ctx context.Context, read pages.Reader) (NetworkExtensions, error) {
	type extension struct {
		Alias string `json:"alias"`
	}
	all, err := pages.All(ctx, "extensions", nil,
		func(e *extension) string { return e.Alias }, read)
	if err != nil {
		return nil, err
	}
	// Every Neutron has extensions, so this is not its response.
	if len(all) == 0 {
		return nil, failure.BodyError("Neutron")
	}
	found := NetworkExtensions{}
	for _, e := range all {
		found[e.Alias] = true
	}
	return found, nil
}

package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"

	cloudprovider "k8s.io/cloud-provider"
)

func (c *Cloud) listClusters(arguments) (results, error) {
	return results{Names: slices.Sorted(maps.Keys(c.clusters))}, nil
}

func (c *Cloud) master(a arguments) (results, error) {
	address, ok := c.clusters[a.Cluster]
	if !ok {
		return results{}, fmt.Errorf("the cloud has no cluster %q", a.Cluster)
	}
	return results{Text: address}, nil
}

// Clusters implements cloudprovider.Interface.
func (p *provider) Clusters() (cloudprovider.Clusters, bool) {
	return offer[cloudprovider.Clusters](p, "Clusters", p)
}

// ListClusters implements cloudprovider.Clusters.
func (p *provider) ListClusters(ctx context.Context) ([]string, error) {
	r, err := p.call(ctx, "ListClusters", arguments{})
	return r.Names, err
}

// Master implements cloudprovider.Clusters.
func (p *provider) Master(ctx context.Context, clusterName string) (string, error) {
	r, err := p.call(ctx, "Master", arguments{Cluster: clusterName})
	return r.Text, err
}

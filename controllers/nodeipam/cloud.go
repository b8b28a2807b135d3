package nodeipam

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/cloudcontrollers"
)

// A PodCIDRReporter is a cloudprovider.InstancesV2 that also reports the pod ranges that the cloud
// has assigned to an instance. A provider implements it for --cidr-allocator-type=CloudAllocator.
type PodCIDRReporter interface {
	// PodCIDRs returns the ranges of the node's instance: one, or one IPv4 and one IPv6 range, the
	// cluster's primary family first. A range may be repeated. The controller retries a node
	// without ranges. It must be safe for concurrent use, and must not change the node.
	PodCIDRs(ctx context.Context, node *corev1.Node) ([]string, error)
}

func reporterOf(cloud cloudprovider.Interface) (PodCIDRReporter, error) {
	instances, _ := cloud.InstancesV2()
	if reporter, ok := instances.(PodCIDRReporter); ok {
		return reporter, nil
	}
	return nil, fmt.Errorf("%w: cloud provider %q does not report pod ranges, "+
		"which cidrAllocatorType (--cidr-allocator-type) %s needs",
		ccm.ErrSkip, cloud.ProviderName(), CloudAllocator)
}

// assigned returns the ranges that the cloud has assigned to the node.
func (c *controller) assigned(ctx context.Context, node *corev1.Node) ([]netip.Prefix, error) {
	cidrs, err := c.cloud.PodCIDRs(ctx, node)
	if err != nil {
		return nil, c.fail(ctx, node, "get the pod ranges of the instance from the cloud", err)
	}
	if len(cidrs) == 0 {
		return nil, c.refuse(node, reasonNotAvailable,
			"the cloud has not assigned a pod range to the instance; retrying")
	}
	prefixes, err := cloudcontrollers.ParsePrefixes(strings.Join(distinct(cidrs), ","))
	if err != nil {
		return nil, c.refuse(node, reasonNotAvailable,
			"the cloud reports invalid pod ranges for the instance: "+err.Error()+"; retrying")
	}
	return prefixes, nil
}

// distinct leaves out ranges that the cloud reports again.
func distinct(cidrs []string) (all []string) {
	for _, cidr := range cidrs {
		if !slices.ContainsFunc(all, func(earlier string) bool {
			return cloudcontrollers.IsSameCIDR(earlier, cidr)
		}) {
			all = append(all, cidr)
		}
	}
	return all
}

package nodeipam

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/cloudcontrollers"
)

// The values of --cidr-allocator-type.
const (
	// RangeAllocator divides [ccm.Config].ClusterCIDR among the nodes.
	RangeAllocator = "RangeAllocator"
	// CloudAllocator takes the ranges that the cloud has assigned to the nodes' instances.
	CloudAllocator = "CloudAllocator"
)

// validate is [ccm.Controller].Validate. A controller that is skipped needs no valid settings.
func validate(cfg ccm.Config) error {
	if !cfg.AllocateNodeCIDRs || cfg.NodeIPAM.AllocatorType == CloudAllocator {
		return nil
	}
	var errs field.ErrorList
	path, settings := field.NewPath("nodeIPAM"), cfg.NodeIPAM
	if settings.AllocatorType != RangeAllocator {
		errs = append(errs, field.NotSupported(path.Child("allocatorType"), settings.AllocatorType,
			[]string{RangeAllocator, CloudAllocator}))
	}
	sizes := maskSizes(settings)
	if cfg.ClusterCIDR == "" {
		errs = append(errs, field.Required(field.NewPath("clusterCIDR"),
			"the range allocator of node-ipam-controller divides it; see --cluster-cidr"))
	} else if _, err := cloudcontrollers.NodeRanges(cfg.ClusterCIDR, sizes); err != nil {
		errs = append(errs, field.Invalid(path, sizes, err.Error()))
	}
	if settings.ServiceCIDR != "" {
		if _, err := cloudcontrollers.ParsePrefixes(settings.ServiceCIDR); err != nil {
			errs = append(errs, field.Invalid(path.Child("serviceCIDR"), settings.ServiceCIDR,
				err.Error()))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return &ccm.ConfigError{Fields: errs}
}

func maskSizes(settings ccm.NodeIPAMConfig) cloudcontrollers.MaskSizes {
	return cloudcontrollers.MaskSizes{
		Any:  settings.NodeCIDRMaskSize,
		IPv4: settings.NodeCIDRMaskSizeIPv4, IPv6: settings.NodeCIDRMaskSizeIPv6,
	}
}

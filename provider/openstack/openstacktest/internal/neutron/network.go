package neutron

import (
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"
)

// OperatorProjectID is the project that owns external networks. No user can log in to it.
const OperatorProjectID = "00000000000000000000000000000000"

// Network is a network of Neutron. The zero value of each field is the usual one of a new network.
type Network struct {
	// ID is generated if it is empty.
	ID   string `api:"id,ro"`
	Name string `api:"name"`
	// ProjectID is the owner. Default: the default project, and for external
	// networks a project without users.
	ProjectID string `api:"project_id|tenant_id,ro"`
	// External networks provide floating IPs and gateways of routers, and all projects see them.
	External bool `api:"router:external,feature=external-net"`
	// Shared networks are visible and usable for all projects.
	Shared bool `api:"shared"`
	// NoPortSecurity is the default for its new ports.
	NoPortSecurity bool     `api:"port_security_enabled,not,feature=port-security"`
	Tags           []string `api:"tags,ro,feature=standard-attr-tag"`
	Stamps
}

func (n *Service) networkKind() *kind[Network] {
	mayShare := func(c caller, row *Network) bool { return c.admin || !row.Shared && !row.External }
	return newKind(n, kind[Network]{
		member:  "network",
		missing: notFound("NetworkNotFound", "Network %s could not be found."),
		visible: func(_ caller, row *Network) bool { return row.Shared || row.External },
		prepare: func(row *Network) {
			if row.External && row.ProjectID == "" {
				row.ProjectID = OperatorProjectID
			}
		},
		kept: true,
		policies: map[string]func(caller, *Network) bool{
			"shared": mayShare, "router:external": mayShare,
		},
	},
		resource.Shown("status", func(*Network) any { return "ACTIVE" }),
		resource.Field[Network]{
			Name: "subnets", Unfiltered: true,
			Get: func(row *Network) any { return n.subnetIDs(row.ID) },
		})
}

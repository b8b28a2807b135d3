package neutron

import (
	"fmt"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// networkExtensions are the extensions of Neutron that the cloud supports and has by default.
func networkExtensions() []string {
	return []string{
		"agent", "allowed-address-pairs", "availability_zone", "binding", "default-subnetpools",
		"empty-string-filtering",
		"ext-gw-mode", "external-net", "extraroute", "extraroute-atomic", "filter-validation",
		"fip-port-details",
		"ip-substring-filtering", "net-mtu", "network_availability_zone", "pagination",
		"port-security",
		"port-security-groups-filtering", "project-id", "provider", "quotas", "revision-if-match",
		"router",
		"router_availability_zone", "security-group", "sorting", "standard-attr-description",
		"standard-attr-revisions",
		"standard-attr-tag", "standard-attr-timestamp", "stateful-security-group",
		"trunk", "trunk-details",
	}
}

// extensionNeeds are the extensions that an extension requires.
func extensionNeeds(alias string) []string {
	switch alias {
	case "ext-gw-mode", "extraroute", "fip-port-details":
		return []string{"router"}
	case "extraroute-atomic":
		return []string{"router", "extraroute"}
	case "router_availability_zone":
		return []string{"router", "availability_zone"}
	case "network_availability_zone":
		return []string{"availability_zone"}
	case "port-security-groups-filtering":
		return []string{"security-group"}
	case "revision-if-match":
		return []string{"standard-attr-revisions"}
	case "trunk-details":
		return []string{"trunk"}
	}
	return nil
}

// SetExtension implements Cloud.SetExtension.
func (n *Service) SetExtension(alias string, on bool) error {
	defer n.Enter()()
	if !slices.Contains(networkExtensions(), alias) {
		return fmt.Errorf("set extension: the cloud does not know %q", alias)
	}
	n.off[alias] = !on
	return nil
}

// has reports whether an extension and the extensions that it requires are on. The empty alias is
// the core.
func (n *Service) has(alias string) bool {
	return !n.off[alias] &&
		!slices.ContainsFunc(extensionNeeds(alias),
			func(needed string) bool { return n.off[needed] })
}

// extension is an entry in the list of extensions.
func extension(alias string) object {
	return object{
		"alias": alias, "name": alias, "description": "",
		"updated": "2016-09-10T10:00:00-00:00", "links": []any{},
	}
}

func (n *Service) listExtensions(*request) (answer, error) {
	shown := []object{}
	for _, alias := range networkExtensions() {
		if n.has(alias) {
			shown = append(shown, extension(alias))
		}
	}
	return api.OK(object{"extensions": shown}), nil
}

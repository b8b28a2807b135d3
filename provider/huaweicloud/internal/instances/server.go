package instances

import (
	"maps"
	"slices"

	"github.com/huaweicloud/huaweicloud-sdk-go-v3/services/ecs/v2/model"
	v1 "k8s.io/api/core/v1"
)

// server is the part of an ECS instance that nodes need.
type server struct {
	id, status, flavor, zone string
	addresses                []v1.NodeAddress
}

func newServer(detail model.ServerDetail) *server {
	s := &server{id: detail.Id, status: detail.Status, zone: detail.OSEXTAZavailabilityZone}
	if detail.Flavor != nil {
		s.flavor = detail.Flavor.Id
	}
	floating := model.GetServerAddressOSEXTIPStypeEnum().FLOATING
	var primary, others []v1.NodeAddress
	for _, network := range slices.Sorted(maps.Keys(detail.Addresses)) {
		for _, a := range detail.Addresses[network] {
			address := v1.NodeAddress{Type: v1.NodeInternalIP, Address: a.Addr}
			if a.OSEXTIPStype != nil && *a.OSEXTIPStype == floating {
				address.Type = v1.NodeExternalIP
			}
			if a.Primary != nil && *a.Primary {
				primary = append(primary, address)
			} else {
				others = append(others, address)
			}
		}
	}
	s.addresses = append(primary, others...)
	return s
}

// exists is false for the placeholder of an unknown ID, and for a deleted instance.
func (s *server) exists() bool { return s.status != "" && s.status != "DELETED" }

// isShutDown reports whether the instance is not running, but may run again.
func (s *server) isShutDown() bool {
	switch s.status {
	case "SHUTOFF", "SUSPENDED", "PAUSED", "SHELVED", "SHELVED_OFFLOADED", "SOFT_DELETED":
		return true
	}
	return false
}

// nodeAddresses are the addresses of the instance, those of the primary interface first.
func (s *server) nodeAddresses(nodeName string) []v1.NodeAddress {
	return append([]v1.NodeAddress{{Type: v1.NodeHostName, Address: nodeName}}, s.addresses...)
}

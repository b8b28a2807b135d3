package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// ShareKey identifies the load balancers that a Service shares by share-as. Services of equal keys
// may share one.
type ShareKey struct {
	// Name is a hash of the value of share-as and of the namespace or class in which it is valid.
	Name string
	// Request is a hash of what the Service requests of the load balancer itself: a load balancer
	// cannot fulfill two different requests.
	Request string
}

// shareKeys returns the keys of the Service: that of its namespace and, if its class lets
// namespaces share, that of the class.
//
// Apart from the name, they depend on the Service alone. If the operator changes another default of
// cloud.conf, that changes all Services that share a load balancer alike, and must not take them
// apart.
func (r *reader) shareKeys() []ShareKey {
	name := r.settings.ShareAs
	if name == "" {
		return nil
	}
	class, request := r.says(annotationClass), requestOf(r.service)
	keys := []ShareKey{{hashOf([]string{"namespace", r.service.Namespace, name}), request}}
	if r.class.ShareAcrossNamespaces {
		keys = append(keys, ShareKey{hashOf([]string{"class", class, name}), request})
	}
	return keys
}

// requestOf returns a hash of what the Service requests of the load balancer itself.
func requestOf(service *v1.Service) string {
	own := read(service, Defaults{})
	request := map[string]any{
		"class": own.says(annotationClass), "families": familiesOf(service),
	}
	names := own.settings.ofLoadBalancer()
	for name, value := range names {
		if value != "" {
			request[name] = value
		}
	}
	for _, name := range own.emptied {
		if _, is := names[name]; is {
			request[name] = nil
		}
	}
	return hashOf(request)
}

// ofLoadBalancer returns the settings of the load balancer itself and of its floating IP, by their
// names. All others are about the Service's own listeners, pools and members, or are equal in the
// whole cluster. The names and values are in the tags of load balancers, so they must not change.
func (s Settings) ofLoadBalancer() map[string]string {
	return map[string]string{
		"internal":             onlyIf(s.Internal, "true"),
		"network-id":           s.NetworkID,
		"subnet-id":            s.SubnetID,
		"port-id":              s.PortID,
		"additional-subnet-id": s.AdditionalSubnetID,
		"address":              s.Address,
		"additional-address":   s.AdditionalAddress,
		"floating-network-id":  s.FloatingNetworkID,
		"floating-subnet-id":   s.FloatingSubnetID,
		"floating-subnet":      s.FloatingSubnet,
		"floating-subnet-tags": s.FloatingSubnetTags,
		"floating-ip-id":       s.FloatingIPID,
		"floating-ip-tag":      s.FloatingIPTag,
		"keep-floatingip":      onlyIf(s.KeepFloatingIP, "true"),
		"lb-provider":          s.Provider,
		"flavor-id":            s.FlavorID,
		"availability-zone":    s.AvailabilityZone,
	}
}

// hashOf returns a hash of plain values. The encoding sorts the keys of maps.
func hashOf(value any) string {
	// The encoding of texts fails for no value.
	text, _ := json.Marshal(value)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// shareName is fatal, because without the name the Service would get another address.
func shareName() kind[string] {
	return kind[string]{
		typ: "name", limits: "of lower-case letters, digits and hyphens", fatal: true, show: asIs,
		parse: func(written string, _ *v1.Service) (string, string) {
			if written != "" && len(validation.IsDNS1123Label(written)) > 0 {
				return "", "not a name of at most 63 lower-case letters, digits and hyphens"
			}
			return written, ""
		},
	}
}

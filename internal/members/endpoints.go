package members

import (
	"cmp"
	"context"
	"iter"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/ptr"
)

// EndpointBalancer is ccm.EndpointBalancer.
type EndpointBalancer interface {
	cloudprovider.LoadBalancer
	WantsEndpoints(service *v1.Service) bool
	EnsureEndpointLoadBalancer(ctx context.Context, clusterName string, service *v1.Service,
		nodes []*v1.Node, endpoints []*discoveryv1.EndpointSlice) (*v1.LoadBalancerStatus, error)
	UpdateEndpointLoadBalancer(ctx context.Context, clusterName string, service *v1.Service,
		nodes []*v1.Node, endpoints []*discoveryv1.EndpointSlice) error
}

// An Endpoint receives the traffic of one port of a Service.
type Endpoint struct {
	Address netip.Addr
	Port    int32
	// Node is the node's name; "" if the EndpointSlice names none.
	Node string
	// Draining: the endpoint is terminating and still serves. It gets no new connections.
	Draining bool
}

// Endpoints returns the endpoints of one family for a port of a Service, by address and port, as
// far as they may be members.
//
// As in kube-proxy, these are the ready ones; without any, those that are terminating and still
// serve get the new connections (KEP-1669). A ready endpoint precedes its duplicate: an endpoint
// may be in two EndpointSlices for a moment.
func Endpoints(
	all []*discoveryv1.EndpointSlice, port v1.ServicePort, family v1.IPFamily,
	mayBeMember func(Endpoint) bool,
) []Endpoint {
	var found []Endpoint
	for endpoint, isServing := range endpointsOf(all, port, family) {
		if isServing && mayBeMember(endpoint) {
			found = append(found, endpoint)
		}
	}
	slices.SortFunc(found, func(a, b Endpoint) int {
		return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Port, b.Port),
			compareBools(a.Draining, b.Draining), cmp.Compare(a.Node, b.Node))
	})
	found = slices.CompactFunc(found, func(a, b Endpoint) bool {
		return a.Address == b.Address && a.Port == b.Port
	})
	if !slices.ContainsFunc(found, func(e Endpoint) bool { return !e.Draining }) {
		for i := range found {
			found[i].Draining = false
		}
	}
	return found
}

// Ports returns the port numbers of the endpoints that may be members, in ascending order. Unlike
// [Endpoints] it does not leave out endpoints that are not ready: they may have open connections.
func Ports(
	all []*discoveryv1.EndpointSlice, port v1.ServicePort, family v1.IPFamily,
	mayBeMember func(Endpoint) bool,
) []int32 {
	var numbers []int32
	for endpoint := range endpointsOf(all, port, family) {
		if !slices.Contains(numbers, endpoint.Port) && mayBeMember(endpoint) {
			numbers = append(numbers, endpoint.Port)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// endpointsOf yields the endpoints of one family for a port of the Service, and whether they serve.
func endpointsOf(
	all []*discoveryv1.EndpointSlice, port v1.ServicePort, family v1.IPFamily,
) iter.Seq2[Endpoint, bool] {
	return func(yield func(Endpoint, bool) bool) {
		for _, slice := range all {
			number, ok := portOf(slice, port)
			if !ok || string(slice.AddressType) != string(family) {
				continue
			}
			for _, each := range slice.Endpoints {
				endpoint, isServing, ok := endpointOf(each, number)
				if ok && !yield(endpoint, isServing) {
					return
				}
			}
		}
	}
}

// portOf returns the port number of a slice's endpoints for a port of the Service. The name
// connects the two; the number may differ between slices if the target port has a name, too.
func portOf(slice *discoveryv1.EndpointSlice, port v1.ServicePort) (int32, bool) {
	protocol := cmp.Or(port.Protocol, v1.ProtocolTCP)
	for _, p := range slice.Ports {
		if ptr.Deref(p.Name, "") == port.Name && p.Port != nil &&
			ptr.Deref(p.Protocol, v1.ProtocolTCP) == protocol {
			return *p.Port, true
		}
	}
	return 0, false
}

// endpointOf returns false for an endpoint without an address. An unknown condition counts as the
// API says: ready, serving and not terminating. All addresses of an endpoint are the same endpoint,
// so the first one is used, as in kube-proxy.
func endpointOf(of discoveryv1.Endpoint, port int32) (endpoint Endpoint, isServing, ok bool) {
	if len(of.Addresses) == 0 {
		return Endpoint{}, false, false
	}
	address, err := netip.ParseAddr(of.Addresses[0])
	if err != nil {
		return Endpoint{}, false, false
	}
	isReady := ptr.Deref(of.Conditions.Ready, true)
	isDraining := !isReady && ptr.Deref(of.Conditions.Serving, true) &&
		ptr.Deref(of.Conditions.Terminating, false)
	return Endpoint{
		Address: address.Unmap(), Port: port, Node: ptr.Deref(of.NodeName, ""),
		Draining: isDraining,
	}, isReady || isDraining, true
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// TrimEndpointSlice is a transform of informers. It keeps what [EndpointBalancer] promises: most
// of an EndpointSlice is metadata of the pods.
func TrimEndpointSlice(obj any) (any, error) {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return obj, nil
	}
	service, belongs := slice.Labels[discoveryv1.LabelServiceName]
	slice.Labels = nil
	if belongs {
		slice.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	}
	slice.ManagedFields, slice.Annotations, slice.OwnerReferences = nil, nil, nil
	slice.GenerateName = ""
	for i := range slice.Endpoints {
		e := &slice.Endpoints[i]
		e.Hostname, e.TargetRef, e.DeprecatedTopology = nil, nil, nil
		e.Zone, e.Hints = nil, nil
	}
	for i := range slice.Ports {
		slice.Ports[i].AppProtocol = nil
	}
	return slice, nil
}

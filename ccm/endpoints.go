package ccm

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/internal/informerview"
	"github.com/fxccm/fxccm/internal/members"
)

// An EndpointBalancer is a cloudprovider.LoadBalancer that can forward to the endpoints of a
// Service instead of its nodes. The LoadBalancer of a provider may implement it. [Term.Cloud] has
// one if the provider's is one. All methods must be safe for concurrent use.
//
// For a Service for which WantsEndpoints returns true, the service-lb-controller calls
// EnsureEndpointLoadBalancer and UpdateEndpointLoadBalancer instead of EnsureLoadBalancer and
// UpdateLoadBalancer. Service, nodes and endpoints are as they are at one moment. The provider must
// not change them.
//
// endpoints are the EndpointSlices of the Service, in no order. They have their name, the label
// kubernetes.io/service-name, the address type, the name, number and protocol of each port, and for
// each endpoint its addresses, conditions and node name. Other fields may be missing. A user who
// may create EndpointSlices chooses the addresses: the provider must check that they are those of
// pods.
//
// A change of the endpoints leads to one call of UpdateEndpointLoadBalancer for the Service, and
// then to at most one in 2 seconds. EndpointSlices are read from the API server from the first
// Service on for which WantsEndpoints returns true.
type EndpointBalancer interface {
	cloudprovider.LoadBalancer

	// WantsEndpoints reports whether the provider needs the endpoints of the Service. It is called
	// before each call that has nodes, sends no request, and returns at once. The result may
	// change without a change of the Service; it then counts from the next call on.
	WantsEndpoints(service *corev1.Service) bool

	// EnsureEndpointLoadBalancer is EnsureLoadBalancer with endpoints.
	EnsureEndpointLoadBalancer(
		ctx context.Context, clusterName string, service *corev1.Service, nodes []*corev1.Node,
		endpoints []*discoveryv1.EndpointSlice,
	) (*corev1.LoadBalancerStatus, error)

	// UpdateEndpointLoadBalancer is UpdateLoadBalancer with endpoints.
	UpdateEndpointLoadBalancer(
		ctx context.Context, clusterName string, service *corev1.Service, nodes []*corev1.Node,
		endpoints []*discoveryv1.EndpointSlice,
	) error
}

// The packages that do not import this one have their own name for the interface.
var _ members.EndpointBalancer = EndpointBalancer(nil)

// EndpointInformers implements cloudcontrollers.Term. A factory of the host is used as it is. The
// term's own informers are shared with others, who may read the whole objects, so those for
// EndpointSlices are the controller's alone and keep little.
func (t ownTerm) EndpointInformers() (informers.SharedInformerFactory, error) {
	if t.run.shared != nil {
		return t.Informers(), nil
	}
	client, err := t.run.clients.Client(informersClient)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(
		informerview.ListingClient(client), 0,
		informers.WithTransform(
			informerview.RefuseNames(t.run.fail, members.TrimEndpointSlice)))
	return informerview.New(factory, informerview.WithPanicHandler(func(err error) {
		t.run.fail(fmt.Errorf("event handler: %w", err))
	}), informerview.WithFailureHandler(t.run.reportInformer)), nil
}

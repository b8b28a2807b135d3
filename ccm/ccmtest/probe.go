package ccmtest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/provider/fake"
)

// Ready is a probe for [Eventually]: the Manager leads, and all of its controllers run.
func Ready(m *ccm.Manager) func(context.Context) (status.Manager, error) {
	return Status(m, func(s status.Manager) bool { return s.State == status.Leading && s.Ready })
}

// State is a probe for [Eventually]: the Manager is in the state.
func State(m *ccm.Manager, state status.State) func(context.Context) (status.Manager, error) {
	return Status(m, func(s status.Manager) bool { return s.State == state })
}

// Status is a probe for [Eventually]: the condition holds for the status of the Manager.
func Status(
	m *ccm.Manager, cond func(status.Manager) bool,
) func(context.Context) (status.Manager, error) {
	return func(context.Context) (status.Manager, error) {
		current := m.Status()
		if cond(current) {
			return current, nil
		}
		return current, unmet{errors.New("the status is"), current}
	}
}

// Called is a probe for [Eventually]: the cloud has received a call for which every predicate
// holds. It returns the first of them. Earlier calls count, too; see [fake.Cloud.ResetCalls].
func Called(
	cloud *fake.Cloud, where ...func(fake.Call) bool,
) func(context.Context) (fake.Call, error) {
	return func(ctx context.Context) (fake.Call, error) {
		call, err := cloud.WaitForCall(ctx, where...)
		if err != nil {
			err = fmt.Errorf("%w; the cloud's counts are %+v", err, cloud.Stats())
		}
		return call, err
	}
}

// Routed is a probe for [Eventually]: the cloud has a route to the Node for the CIDR.
func Routed(cloud *fake.Cloud, node, cidr string) func(context.Context) (fake.Route, error) {
	return func(context.Context) (fake.Route, error) {
		routes := cloud.Routes()
		i := slices.IndexFunc(routes, func(r fake.Route) bool {
			return r.TargetNode == node && r.DestinationCIDR == cidr && !r.Blackhole
		})
		if i < 0 {
			return fake.Route{}, fmt.Errorf("node %s has no route for %s; the routes are %+v", node,
				cidr, routes)
		}
		return routes[i], nil
	}
}

// Object is a probe for [Eventually]: an object of the API server exists, and the condition returns
// nil for it. get is the method of a client, such as client.CoreV1().Nodes().Get.
func Object[T any](
	get func(context.Context, string, metav1.GetOptions) (T, error), name string,
	cond func(T) error,
) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		object, err := get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return object, err
		}
		if err := cond(object); err != nil {
			return object, unmet{err, object}
		}
		return object, nil
	}
}

// Gone is a probe for [Eventually]: the API server has no object of the name. See [Object] for get.
func Gone[T any](
	get func(context.Context, string, metav1.GetOptions) (T, error), name string,
) func(context.Context) (struct{}, error) {
	return func(ctx context.Context) (struct{}, error) {
		object, err := get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			err = unmet{errors.New("it exists"), object}
		case apierrors.IsNotFound(err):
			err = nil
		}
		return struct{}{}, err
	}
}

// Initialized is a probe for [Eventually]: the Node exists without the taint
// node.cloudprovider.kubernetes.io/uninitialized. It then has its provider ID and labels; its
// addresses follow a moment later, see [NodeAddress].
func Initialized(
	client kubernetes.Interface, name string,
) func(context.Context) (*corev1.Node, error) {
	return Object(client.CoreV1().Nodes().Get, name, func(n *corev1.Node) error {
		for _, taint := range n.Spec.Taints {
			if taint.Key == cloudproviderapi.TaintExternalCloudProvider {
				return fmt.Errorf("it bears the taint %s", taint.Key)
			}
		}
		return nil
	})
}

// NodeAddress is a probe for [Eventually]: the Node has an address of the type. It returns the
// first.
func NodeAddress(
	client kubernetes.Interface, name string, kind corev1.NodeAddressType,
) func(context.Context) (string, error) {
	var found string
	probe := Object(client.CoreV1().Nodes().Get, name, func(n *corev1.Node) error {
		for _, address := range n.Status.Addresses {
			if address.Type == kind {
				found = address.Address
				return nil
			}
		}
		return fmt.Errorf("its addresses are %v", n.Status.Addresses)
	})
	return func(ctx context.Context) (string, error) {
		_, err := probe(ctx)
		return found, err
	}
}

// ServiceAddress is a probe for [Eventually]: the Service has an address of a load balancer. It
// returns the first: an IP address, or a host name.
func ServiceAddress(
	client kubernetes.Interface, namespace, name string,
) func(context.Context) (string, error) {
	var found string
	probe := Object(client.CoreV1().Services(namespace).Get, name, func(s *corev1.Service) error {
		for _, ingress := range s.Status.LoadBalancer.Ingress {
			if found = cmp.Or(ingress.IP, ingress.Hostname); found != "" {
				return nil
			}
		}
		return errors.New("its status has no load balancer")
	})
	return func(ctx context.Context) (string, error) {
		_, err := probe(ctx)
		return found, err
	}
}

// unmet shows the object or the status that does not meet a condition. It is formatted only when a
// wait fails.
type unmet struct {
	lacks error
	seen  any
}

func (u unmet) Error() string {
	if object, ok := u.seen.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	text, err := json.Marshal(u.seen)
	if err == nil {
		text, err = yaml.JSONToYAML(text)
	}
	return fmt.Sprintf("%v\n%s", errors.Join(u.lacks, err), text)
}

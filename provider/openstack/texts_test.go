package openstack_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/provider/internal/kit/absence"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// texts is a provider with a node, a Service and a router, of which each operation can be tried.
type texts struct {
	*watchtower
	node    *corev1.Node
	service *corev1.Service
}

func newTexts(t *testing.T) *texts {
	t.Helper()
	const router = "5f8f1c3e-0000-4000-8000-000000000000"
	w := newWatchtower(t, "[LoadBalancer]\ndrift-period = 0s\n[Route]\nrouter-id = "+router+"\n")
	network := w.AddNetwork(openstacktest.Network{Name: "nodes"})
	subnet := w.AddSubnet(openstacktest.Subnet{NetworkID: network, CIDR: "10.0.0.0/16"})
	w.AddRouter(openstacktest.Router{ID: router, Name: "router", Subnets: []string{subnet}})
	server := w.AddServer(openstacktest.Server{Name: "new"})
	w.AddPort(openstacktest.Port{
		NetworkID: network, DeviceID: server, DeviceOwner: openstacktest.OwnerCompute,
		FixedIPs: []openstacktest.FixedIP{{SubnetID: subnet, Address: "10.0.0.11"}},
	})
	x := &texts{watchtower: w}
	x.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new", UID: "node-1"}}
	x.node.Status.Addresses = []corev1.NodeAddress{{
		Type: corev1.NodeInternalIP, Address: "10.0.0.11",
	}}
	x.service = &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", UID: "c0ffee00-0000-4000-8000-000000000001",
			Annotations: map[string]string{"loadbalancer.openstack.org/subnet-id": subnet},
		},
		Spec: corev1.ServiceSpec{
			Type:       corev1.ServiceTypeLoadBalancer,
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{
				Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080,
			}},
		},
	}
	kube := fake.NewClientset(x.node, x.service,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: metav1.NamespaceSystem, UID: "cluster-1",
		}})
	w.cloud.Initialize(builder{kube}, nil)
	factory := informers.NewSharedInformerFactory(kube, 0)
	w.cloud.(cloudprovider.InformerUser).SetInformers(factory)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	return x
}

// try tries an operation and returns its error.
func (x *texts) try(operation string) error {
	x.t.Helper()
	ctx := x.t.Context()
	instances, _ := x.cloud.InstancesV2()
	routes, _ := x.cloud.Routes()
	balancers, _ := x.cloud.LoadBalancer()
	route := &cloudprovider.Route{
		TargetNode: types.NodeName(x.node.Name), DestinationCIDR: "10.244.1.0/24",
	}
	var err error
	switch operation {
	case "initialize a node":
		_, err = instances.InstanceMetadata(ctx, x.node)
	case "look up a server":
		node := x.node.DeepCopy()
		node.Spec.ProviderID = "openstack:///" + x.Servers()[0].ID
		_, err = instances.InstanceShutdown(ctx, node)
	case "list routes":
		_, err = routes.ListRoutes(ctx, "")
	case "create a route":
		err = routes.CreateRoute(ctx, "", "", route)
	case "delete a route":
		err = routes.DeleteRoute(ctx, "", route)
	case "serve a Service":
		_, err = balancers.EnsureLoadBalancer(ctx, "kubernetes", x.service, nil)
	case "look for a load balancer":
		_, _, err = balancers.GetLoadBalancer(ctx, "kubernetes", x.service)
	case "delete a load balancer":
		err = balancers.EnsureLoadBalancerDeleted(ctx, "kubernetes", x.service)
	}
	return err
}

// A text that reaches a person begins with the service, has at most two causes and what follows,
// and neither a URL nor JSON. It is the same each time, so that events aggregate.
func TestErrors_EachFailureOfEachOperation_TextIsShortAndStays(t *testing.T) {
	faults := map[string]openstacktest.Fault{"connection closed": {Drop: true}}
	for _, status := range []int{
		http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusConflict,
		http.StatusRequestEntityTooLarge, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusServiceUnavailable,
	} {
		faults[fmt.Sprint(status)] = openstacktest.Fault{Status: status}
	}
	faults["connection refused"] = openstacktest.Fault{}
	operations := map[string][]string{
		"initialize a node": {openstacktest.ServiceCompute, openstacktest.ServiceNetwork},
		"look up a server":  {openstacktest.ServiceCompute},
		"list routes":       {openstacktest.ServiceNetwork},
		"create a route":    {openstacktest.ServiceNetwork},
		"delete a route":    {openstacktest.ServiceNetwork},
		"serve a Service": {
			openstacktest.ServiceLoadBalancer, openstacktest.ServiceNetwork,
		},
		"look for a load balancer": {openstacktest.ServiceLoadBalancer},
		"delete a load balancer":   {openstacktest.ServiceLoadBalancer},
	}
	names := map[string]string{
		openstacktest.ServiceIdentity: "Keystone: ", openstacktest.ServiceCompute: "Nova: ",
		openstacktest.ServiceNetwork: "Neutron: ", openstacktest.ServiceLoadBalancer: "Octavia: ",
	}
	for kind, fault := range faults {
		for operation, services := range operations {
			for _, service := range append(services, openstacktest.ServiceIdentity) {
				if kind == "connection refused" && service != openstacktest.ServiceIdentity {
					continue // all services have one port, and the login comes first
				}
				t.Run(operation+", "+service+" "+kind, func(t *testing.T) {
					x := newTexts(t)
					if kind == "connection refused" {
						x.Close()
					} else {
						fault.Service = service
						x.Inject(fault)
					}
					texts := map[string]bool{}
					for range 3 {
						err := x.try(operation)
						if err == nil || errors.Is(err, cloudprovider.InstanceNotFound) ||
							errors.Is(err, absence.ErrUnconfirmed) {
							return // the 404 is the answer
						}
						wantShort(t, names[service], err)
						texts[err.Error()] = true
						x.clock.Step(3 * time.Second)
						_ = x.try(operation)
						x.clock.Step(57 * time.Second)
					}
					if len(texts) != 1 {
						t.Errorf("the texts are %v, want one", texts)
					}
				})
			}
		}
	}
}

// A proxy, or a new release, may answer with another body.
func TestErrors_BodyIsNotOfTheAPI_TextIsShort(t *testing.T) {
	for operation, service := range map[string]string{
		"initialize a node":        openstacktest.ServiceCompute,
		"look up a server":         openstacktest.ServiceCompute,
		"list routes":              openstacktest.ServiceNetwork,
		"look for a load balancer": openstacktest.ServiceLoadBalancer,
	} {
		for _, body := range []string{"{}", "[]"} {
			t.Run(operation+" "+body, func(t *testing.T) {
				x := newTexts(t)
				x.Inject(openstacktest.Fault{
					Service: service,
					Rewrite: func(openstacktest.Call, int, []byte) (int, []byte) {
						return http.StatusOK, []byte(body)
					},
				})
				err := x.try(operation)
				if err == nil || !strings.Contains(err.Error(), ": the response does not follow") {
					t.Fatalf("the error is %v, want one about the response", err)
				}
				wantShort(t, "", err)
			})
		}
	}
}

// A body may follow the API, and lack what was requested.
func TestErrors_BodyLacksTheObject_TextBeginsWithTheService(t *testing.T) {
	for request, body := range map[string]string{
		"router_get": "{}", "network_extension_list": `{"extensions": []}`,
	} {
		t.Run(request, func(t *testing.T) {
			x := newTexts(t)
			x.Inject(openstacktest.Fault{
				Operation: request,
				Rewrite: func(openstacktest.Call, int, []byte) (int, []byte) {
					return http.StatusOK, []byte(body)
				},
			})
			err := x.try("create a route")
			if err == nil {
				t.Fatal("the route is created")
			}
			wantShort(t, "Neutron: ", err)
		})
	}
}

// The shape does not depend on the request of an operation that fails.
func TestErrors_LaterRequestOfEachOperationFails_TextIsShort(t *testing.T) {
	names := map[string]string{
		openstacktest.ServiceCompute: "Nova: ", openstacktest.ServiceNetwork: "Neutron: ",
		openstacktest.ServiceLoadBalancer: "Octavia: ",
	}
	for _, operation := range []string{
		"initialize a node", "list routes", "create a route", "delete a route", "serve a Service",
		"delete a load balancer",
	} {
		for service, name := range names {
			for _, fault := range []openstacktest.Fault{
				{Status: http.StatusForbidden}, {Status: http.StatusServiceUnavailable}, {Drop: true},
			} {
				failed := 1
				for skip := 1; failed > 0; skip++ {
					x := newTexts(t)
					failed = 0
					fault.Service, fault.Skip = service, skip
					fault.Match = func(openstacktest.Call) bool { failed++; return true }
					x.Inject(fault)
					err := x.try(operation)
					for range 5 {
						if failed > skip || err == nil {
							break
						}
						x.clock.Step(time.Minute)
						err = x.try(operation)
					}
					failed = max(0, failed-skip)
					if failed > 0 && err != nil {
						wantShort(t, name, err)
					}
				}
			}
		}
	}
}

func wantShort(t *testing.T, service string, err error) {
	t.Helper()
	text := err.Error()
	cause, follows, _ := strings.Cut(text, "; ")
	if !strings.HasPrefix(text, service) || follows == "" || strings.Count(cause, ": ") > 2 ||
		strings.Contains(text, "://") || strings.ContainsAny(text, "{}") ||
		strings.Contains(text, "req-") {
		t.Errorf("the text is %q, want %q, at most two causes, and what follows", text, service)
	}
}

func TestLoadBalancerPreview_NoticesWithoutSteps_AreNotUpToDate(t *testing.T) {
	preview := openstack.LoadBalancerPreview{LoadBalancer: "lb", Notices: []string{"X: y"}}
	const want = "Load balancer: lb\nNotice: X: y\n" +
		"No changes: what can be changed is up to date. The notices name the rest.\n"
	if got := preview.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

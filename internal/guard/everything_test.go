package guard_test

import (
	"context"
	"reflect"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
)

// everything is a cloud that serves all interfaces, or none. Each method calls answer, and returns
// its error.
type everything struct {
	none   bool
	answer func(ctx context.Context, method string) error
}

func (e everything) ask(method string) { _ = e.answer(context.Background(), method) }

func (e everything) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {
	e.ask("Initialize")
}
func (e everything) SetInformers(informers.SharedInformerFactory) { e.ask("SetInformers") }
func (e everything) Close() error {
	return e.answer(context.Background(), "Close")
}

func (e everything) HasClusterID() bool { e.ask("HasClusterID"); return true }

func (e everything) ProviderName() string { e.ask("ProviderName"); return "everything" }

func (e everything) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	e.ask("LoadBalancer")
	return allBalancers{e}, !e.none
}

func (e everything) Instances() (cloudprovider.Instances, bool) {
	e.ask("Instances")
	return allInstances{e}, !e.none
}

func (e everything) InstancesV2() (cloudprovider.InstancesV2, bool) {
	e.ask("InstancesV2")
	return allInstancesV2{e}, !e.none
}

func (e everything) Zones() (cloudprovider.Zones, bool) {
	e.ask("Zones")
	return allZones{e}, !e.none
}

func (e everything) Clusters() (cloudprovider.Clusters, bool) {
	e.ask("Clusters")
	return allClusters{e}, !e.none
}

func (e everything) Routes() (cloudprovider.Routes, bool) {
	e.ask("Routes")
	return allRoutes{e}, !e.none
}

func (e everything) GetLabelsForVolume(
	ctx context.Context, _ *v1.PersistentVolume,
) (map[string]string, error) {
	return map[string]string{"zone": "a"}, e.answer(ctx, "GetLabelsForVolume")
}

type allBalancers struct{ everything }

func (a allBalancers) GetLoadBalancer(
	ctx context.Context, _ string, _ *v1.Service,
) (*v1.LoadBalancerStatus, bool, error) {
	return &v1.LoadBalancerStatus{}, true, a.answer(ctx, "GetLoadBalancer")
}

func (a allBalancers) GetLoadBalancerName(ctx context.Context, _ string, _ *v1.Service) string {
	_ = a.answer(ctx, "GetLoadBalancerName")
	return "name"
}

func (a allBalancers) EnsureLoadBalancer(
	ctx context.Context, _ string, _ *v1.Service, _ []*v1.Node,
) (*v1.LoadBalancerStatus, error) {
	return &v1.LoadBalancerStatus{}, a.answer(ctx, "EnsureLoadBalancer")
}

func (a allBalancers) UpdateLoadBalancer(
	ctx context.Context, _ string, _ *v1.Service, _ []*v1.Node,
) error {
	return a.answer(ctx, "UpdateLoadBalancer")
}

func (a allBalancers) EnsureLoadBalancerDeleted(
	ctx context.Context, _ string, _ *v1.Service,
) error {
	return a.answer(ctx, "EnsureLoadBalancerDeleted")
}

type allInstancesV2 struct{ everything }

func (a allInstancesV2) InstanceExists(ctx context.Context, _ *v1.Node) (bool, error) {
	return true, a.answer(ctx, "InstanceExists")
}

func (a allInstancesV2) InstanceShutdown(ctx context.Context, _ *v1.Node) (bool, error) {
	return true, a.answer(ctx, "InstanceShutdown")
}

func (a allInstancesV2) InstanceMetadata(
	ctx context.Context, _ *v1.Node,
) (*cloudprovider.InstanceMetadata, error) {
	return &cloudprovider.InstanceMetadata{ProviderID: "id"}, a.answer(ctx, "InstanceMetadata")
}

type allInstances struct{ everything }

func (a allInstances) NodeAddresses(
	ctx context.Context, _ types.NodeName,
) ([]v1.NodeAddress, error) {
	return []v1.NodeAddress{{}}, a.answer(ctx, "NodeAddresses")
}

func (a allInstances) NodeAddressesByProviderID(
	ctx context.Context, _ string,
) ([]v1.NodeAddress, error) {
	return []v1.NodeAddress{{}}, a.answer(ctx, "NodeAddressesByProviderID")
}

func (a allInstances) InstanceID(ctx context.Context, _ types.NodeName) (string, error) {
	return "id", a.answer(ctx, "InstanceID")
}

func (a allInstances) InstanceType(ctx context.Context, _ types.NodeName) (string, error) {
	return "type", a.answer(ctx, "InstanceType")
}

func (a allInstances) InstanceTypeByProviderID(ctx context.Context, _ string) (string, error) {
	return "type", a.answer(ctx, "InstanceTypeByProviderID")
}

func (a allInstances) AddSSHKeyToAllInstances(ctx context.Context, _ string, _ []byte) error {
	return a.answer(ctx, "AddSSHKeyToAllInstances")
}

func (a allInstances) CurrentNodeName(ctx context.Context, _ string) (types.NodeName, error) {
	return "node", a.answer(ctx, "CurrentNodeName")
}

func (a allInstances) InstanceExistsByProviderID(ctx context.Context, _ string) (bool, error) {
	return true, a.answer(ctx, "InstanceExistsByProviderID")
}

func (a allInstances) InstanceShutdownByProviderID(ctx context.Context, _ string) (bool, error) {
	return true, a.answer(ctx, "InstanceShutdownByProviderID")
}

type allZones struct{ everything }

func (a allZones) GetZone(ctx context.Context) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{Region: "r"}, a.answer(ctx, "GetZone")
}

func (a allZones) GetZoneByProviderID(ctx context.Context, _ string) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{Region: "r"}, a.answer(ctx, "GetZoneByProviderID")
}

func (a allZones) GetZoneByNodeName(
	ctx context.Context, _ types.NodeName,
) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{Region: "r"}, a.answer(ctx, "GetZoneByNodeName")
}

type allClusters struct{ everything }

func (a allClusters) ListClusters(ctx context.Context) ([]string, error) {
	return []string{"c"}, a.answer(ctx, "ListClusters")
}

func (a allClusters) Master(ctx context.Context, _ string) (string, error) {
	return "master", a.answer(ctx, "Master")
}

type allRoutes struct{ everything }

func (a allRoutes) ListRoutes(ctx context.Context, _ string) ([]*cloudprovider.Route, error) {
	return []*cloudprovider.Route{{}}, a.answer(ctx, "ListRoutes")
}

func (a allRoutes) CreateRoute(ctx context.Context, _, _ string, _ *cloudprovider.Route) error {
	return a.answer(ctx, "CreateRoute")
}

func (a allRoutes) DeleteRoute(ctx context.Context, _ string, _ *cloudprovider.Route) error {
	return a.answer(ctx, "DeleteRoute")
}

// method is a method with a context of an interface that a guard serves.
type method struct {
	iface, name string
	f           reflect.Value
}

func (m method) String() string { return m.iface + "." + m.name }

// methods returns all methods with a context of all interfaces that the guarded cloud g serves.
func methods(g cloudprovider.Interface) []method {
	lb, _ := g.LoadBalancer()
	i, _ := g.Instances()
	v2, _ := g.InstancesV2()
	z, _ := g.Zones()
	cl, _ := g.Clusters()
	r, _ := g.Routes()
	var list []method
	for _, served := range []struct {
		as   reflect.Type
		what any
	}{
		{reflect.TypeFor[cloudprovider.LoadBalancer](), lb},
		{reflect.TypeFor[cloudprovider.Instances](), i},
		{reflect.TypeFor[cloudprovider.InstancesV2](), v2},
		{reflect.TypeFor[cloudprovider.Zones](), z},
		{reflect.TypeFor[cloudprovider.Clusters](), cl},
		{reflect.TypeFor[cloudprovider.Routes](), r},
		{reflect.TypeFor[cloudprovider.PVLabeler](), g},
	} {
		for n := range served.as.NumMethod() {
			name := served.as.Method(n).Name
			list = append(list,
				method{served.as.Name(), name, reflect.ValueOf(served.what).MethodByName(name)})
		}
	}
	return list
}

// hasError reports whether the method returns an error.
func (m method) hasError() bool {
	return m.f.Type().Out(m.f.Type().NumOut()-1) == reflect.TypeFor[error]()
}

// call calls the method with ctx, a node where a parameter is a node, and zero values. results do
// not include the error.
func (m method) call(ctx context.Context) (results []reflect.Value, err error) {
	args := []reflect.Value{reflect.ValueOf(ctx)}
	for n := 1; n < m.f.Type().NumIn(); n++ {
		arg := reflect.Zero(m.f.Type().In(n))
		if arg.Type() == reflect.TypeFor[*v1.Node]() {
			arg = reflect.ValueOf(node())
		}
		args = append(args, arg)
	}
	results = m.f.Call(args)
	if m.hasError() {
		last := len(results) - 1
		err, _ = results[last].Interface().(error)
		results = results[:last]
	}
	return results, err
}

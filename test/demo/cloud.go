package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/fake"
)

// cloud is the interface of the steps to either cloud: to OpenStack, on which the replicas run, and
// to the fake one of the host.
type cloud interface {
	// machine describes a node's machine. An unknown name is an error.
	machine(name string) (machine, error)
	// routeTo is the destination of the route to a node; "" for none.
	routeTo(node *corev1.Node) string
}

// machine has the attributes that the node should get.
type machine struct{ providerID, kind, region, zone, address string }

// machineType, region and zones are the same in both clouds.
const (
	machineType = "m1.large"
	region      = "eu"
)

// zoneOf distributes the machines over the zones.
func zoneOf(number int) string {
	zones := []string{"eu-a", "eu-b", "eu-c"}
	return zones[number%len(zones)]
}

// fakeCloud is the cloud of the host.
type fakeCloud struct{ *fake.Cloud }

func newFakeCloud() fakeCloud {
	return fakeCloud{fake.New(fake.WithRegion(region, zoneOf(0)), fake.WithLatency(cloudLatency))}
}

func (f fakeCloud) addMachine(name string) error {
	return f.AddInstances(
		fake.Instance{Name: name, Zone: zoneOf(len(f.Instances())), Type: machineType})
}

func (f fakeCloud) machine(name string) (machine, error) {
	instance, ok := f.Instance(name)
	if !ok {
		return machine{}, fmt.Errorf("the fake cloud has no machine %s", name)
	}
	m := machine{
		providerID: instance.ProviderID, kind: instance.Type, region: instance.Region,
		zone: instance.Zone,
	}
	for _, address := range instance.Addresses {
		if address.Type == corev1.NodeInternalIP {
			m.address = address.Address
		}
	}
	return m, nil
}

func (f fakeCloud) routeTo(node *corev1.Node) string {
	for _, route := range f.Routes() {
		if route.TargetNode == node.Name {
			return route.DestinationCIDR
		}
	}
	return ""
}

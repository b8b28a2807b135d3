package controllers_test

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/fake"
)

// The controller calls the older Instances and Zones by provider ID first, then by name.

// runCloudNodeV1 runs the cloud-node controller alone on a cloud without InstancesV2, with one
// instance.
func runCloudNodeV1(t *testing.T, instance string, without ...fake.Interface) *fake.Cloud {
	t.Helper()
	cloud := newCloud(t, nil, fake.Without(append(without, fake.InstancesV2)...))
	addInstance(t, cloud, fake.Instance{Name: instance, Type: "large", Zone: "zone-a"})
	runCloudNode(t, cloud)
	return cloud
}

func TestNode_V1_AsksByProviderIDThenByName(t *testing.T) {
	t.Parallel()
	broken := errors.New("400 Bad Request")
	for name, test := range map[string]struct {
		providerID string
		without    []fake.Interface
		broken     []fake.Method
		noIDs      bool

		want       []fake.Method
		wantID     string
		wantLabels map[string]string
	}{
		"v1-by-id": {
			want: []fake.Method{
				fake.InstanceID, fake.NodeAddressesByProviderID,
				fake.InstanceTypeByProviderID, fake.GetZoneByProviderID,
			},
			wantID: ownID("v1-by-id"),
			wantLabels: map[string]string{
				corev1.LabelTopologyZone:   "zone-a",
				corev1.LabelTopologyRegion: "region-1",
			},
		},
		"v1-has-id": {
			providerID: ownID("v1-has-id"),
			want: []fake.Method{
				fake.NodeAddressesByProviderID, fake.InstanceTypeByProviderID,
				fake.GetZoneByProviderID,
			},
			wantID: ownID("v1-has-id"),
			wantLabels: map[string]string{
				corev1.LabelTopologyZone:   "zone-a",
				corev1.LabelTopologyRegion: "region-1",
			},
		},
		"v1-by-name": {
			providerID: ownID("v1-by-name"),
			broken: []fake.Method{
				fake.NodeAddressesByProviderID, fake.InstanceTypeByProviderID,
				fake.GetZoneByProviderID,
			},
			want: []fake.Method{
				fake.NodeAddressesByProviderID, fake.NodeAddresses, fake.InstanceTypeByProviderID,
				fake.InstanceType,
				fake.GetZoneByProviderID, fake.GetZoneByNodeName,
			},
			wantID: ownID("v1-by-name"),
			wantLabels: map[string]string{
				corev1.LabelTopologyZone:   "zone-a",
				corev1.LabelTopologyRegion: "region-1",
			},
		},
		// Only this provider initializes a node without a provider ID. Upstream first calls with
		// the empty ID, which the fake refuses without a record.
		"v1-no-ids": {
			noIDs: true,
			want: []fake.Method{
				fake.InstanceID, fake.NodeAddresses, fake.InstanceType,
				fake.GetZoneByNodeName,
			},
			wantLabels: map[string]string{
				corev1.LabelTopologyZone:   "zone-a",
				corev1.LabelTopologyRegion: "region-1",
			},
		},
		"v1-no-zones": {
			without: []fake.Interface{fake.Zones},
			want: []fake.Method{
				fake.InstanceID, fake.NodeAddressesByProviderID,
				fake.InstanceTypeByProviderID,
			},
			wantID: ownID("v1-no-zones"),
			wantLabels: map[string]string{
				corev1.LabelTopologyZone:   "",
				corev1.LabelTopologyRegion: "",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := runCloudNodeV1(t, name, test.without...)
			if test.noIDs {
				cloud.On(fake.InstanceID).Fail(cloudprovider.NotImplemented)
			}
			if len(test.broken) > 0 {
				cloud.On(test.broken...).Fail(broken)
			}
			mark := shared.Audit().Mark()
			ccmtest.CreateNode(t, shared.Client(t),
				ccmtest.TaintedNode(name, ccmtest.NodeProviderID(test.providerID)))
			ccmtest.Eventually(t, "the node has an address",
				ccmtest.NodeAddress(shared.Client(t), name, corev1.NodeInternalIP))
			node := getNode(t, name)
			if uninitialized(node) || node.Spec.ProviderID != test.wantID {
				t.Errorf("the node has provider ID %q and taints %v, want provider ID %q",
					node.Spec.ProviderID, node.Spec.Taints, test.wantID)
			}
			if node.Labels[corev1.LabelInstanceTypeStable] != "large" ||
				!containsAll(node.Labels, test.wantLabels) {
				t.Errorf("labels: %v, want type large and %v", node.Labels, test.wantLabels)
			}
			if got := methodsAbout(cloud, name); !slices.Equal(got, test.want) {
				t.Errorf("the cloud got the calls %v, want %v", got, test.want)
			}
			if got, want := nodeRequests(t, mark, name, 2),
				[]string{"update nodes 200", "patch nodes/status 200"}; !slices.Equal(got, want) {
				t.Errorf("requests that changed the node: %q, want %q", got, want)
			}
		})
	}
}

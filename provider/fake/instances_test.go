package fake

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

var machine = Instance{
	Name: "node-1", Type: "large", Zone: "zone-x", Region: "region-x",
	Addresses: []v1.NodeAddress{
		{Type: v1.NodeInternalIP, Address: "10.0.0.1"},
		{Type: v1.NodeInternalIP, Address: "fd00::1"},
	},
	AdditionalLabels: map[string]string{"example.org/rack": "r7"},
}

const machineID = "fake://region-x/node-1"

func TestInstancesV2_Instance_HasItsMetadata(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, cloud *Cloud, open opener) {
		add(t, cloud, machine)
		instances := instancesOf(t, open())
		want := &cloudprovider.InstanceMetadata{
			ProviderID: machineID, InstanceType: "large", NodeAddresses: machine.Addresses,
			Zone: "zone-x", Region: "region-x", AdditionalLabels: machine.AdditionalLabels,
		}
		for how, node := range map[string]*v1.Node{
			"by name":        nodeNamed("node-1"),
			"by provider ID": nodeWithID("renamed", machineID),
		} {
			got, err := instances.InstanceMetadata(t.Context(), node)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: metadata is %+v, %v; want %+v", how, got, err, want)
			}
			if exists, err := instances.InstanceExists(t.Context(), node); !exists || err != nil {
				t.Errorf("%s: exists is %v, %v", how, exists, err)
			}
			if down, err := instances.InstanceShutdown(t.Context(), node); down || err != nil {
				t.Errorf("%s: shutdown is %v, %v", how, down, err)
			}
		}
	})
}

func TestInstancesV2_WhenStopped_ExistAndAreShutDown(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, cloud *Cloud, open opener) {
		add(t, cloud, machine)
		instances := instancesOf(t, open())
		if err := cloud.StopInstance("node-1"); err != nil {
			t.Fatal(err)
		}
		if down, err := instances.InstanceShutdown(t.Context(), nodeNamed("node-1")); !down ||
			err != nil {
			t.Errorf("after StopInstance, shutdown is %v, %v", down, err)
		}
		if exists, err := instances.InstanceExists(t.Context(), nodeNamed("node-1")); !exists ||
			err != nil {
			t.Errorf("after StopInstance, exists is %v, %v", exists, err)
		}
		if err := cloud.StartInstance("node-1"); err != nil {
			t.Fatal(err)
		}
		if down, err := instances.InstanceShutdown(t.Context(), nodeNamed("node-1")); down ||
			err != nil {
			t.Errorf("after StartInstance, shutdown is %v, %v", down, err)
		}
	})
}

func TestInstancesV2_WhenAbsent_AreNotFound(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, cloud *Cloud, open opener) {
		add(t, cloud, machine)
		if err := cloud.RemoveInstance("node-1"); err != nil {
			t.Fatal(err)
		}
		// Another instance of the same name replaces it. A node with the old provider ID does not
		// belong to the new instance.
		add(t, cloud, Instance{Name: "node-1", Region: "region-y"})
		instances, node := instancesOf(t, open()), nodeWithID("node-1", machineID)
		if exists, err := instances.InstanceExists(t.Context(), node); exists || err != nil {
			t.Errorf("exists is %v, %v", exists, err)
		}
		if _, err := instances.InstanceShutdown(t.Context(),
			node); err != cloudprovider.InstanceNotFound {
			t.Errorf("shutdown fails with %v, want InstanceNotFound", err)
		}
		if got, err := instances.InstanceMetadata(t.Context(), node); got != nil ||
			err != cloudprovider.InstanceNotFound {
			t.Errorf("metadata is %v, %v, want nil and InstanceNotFound", got, err)
		}
	})
}

func TestInstancesV2_WhenTheNodeIsNotOfThisCloud_FailInsteadOfReportingAbsence(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, _ *Cloud, open opener) {
		instances := instancesOf(t, open())
		for _, id := range []string{
			"aws://eu-1/i-123", "fake://no-slash", "fake:///node",
			"nonsense",
		} {
			exists, err := instances.InstanceExists(t.Context(), nodeWithID("node-1", id))
			if err == nil || exists || !strings.Contains(err.Error(), id) {
				t.Errorf("%s: exists is %v, %v; want an error that quotes the ID", id, exists, err)
			}
		}
		for _, node := range []*v1.Node{nil, {}} {
			if _, err := instances.InstanceExists(t.Context(), node); err == nil {
				t.Error("a node without name and provider ID is accepted")
			}
		}
	})
}

// A question is a method of Instances and Zones about one property of an instance.
type question struct {
	what string
	ask  func(context.Context) (any, error)
	// want is the result for machine.
	want any
}

func questions(i cloudprovider.Instances, z cloudprovider.Zones) []question {
	zone := cloudprovider.Zone{FailureDomain: "zone-x", Region: "region-x"}
	return []question{
		{"NodeAddresses", asking(i.NodeAddresses, "node-1"), machine.Addresses},
		{
			"NodeAddressesByProviderID", asking(i.NodeAddressesByProviderID, machineID),
			machine.Addresses,
		},
		{"InstanceID", asking(i.InstanceID, "node-1"), "region-x/node-1"},
		{"InstanceType", asking(i.InstanceType, "node-1"), "large"},
		{"InstanceTypeByProviderID", asking(i.InstanceTypeByProviderID, machineID), "large"},
		{
			"InstanceShutdownByProviderID", asking(i.InstanceShutdownByProviderID, machineID),
			false,
		},
		{"GetZoneByNodeName", asking(z.GetZoneByNodeName, "node-1"), zone},
		{"GetZoneByProviderID", asking(z.GetZoneByProviderID, machineID), zone},
	}
}

func asking[A, T any](
	method func(context.Context, A) (T, error), about A,
) func(context.Context) (any, error) {
	return func(ctx context.Context) (any, error) { return method(ctx, about) }
}

func errOf(_ any, err error) error { return err }

func TestInstancesAndZones_EachProperty_IsReturnedOrNotFound(t *testing.T) {
	onBoth(t, []Option{WithRegion("here", "here-b")},
		func(t *testing.T, cloud *Cloud, open opener) {
			instances, _ := open().Instances()
			zones, _ := open().Zones()
			ctx := t.Context()
			exists := func() bool {
				t.Helper()
				exists, err := instances.InstanceExistsByProviderID(ctx, machineID)
				if err != nil {
					t.Error(err)
				}
				return exists
			}
			for _, q := range questions(instances, zones) {
				if _, err := q.ask(ctx); err != cloudprovider.InstanceNotFound {
					t.Errorf("%s fails with %v, want InstanceNotFound", q.what, err)
				}
			}
			if exists() {
				t.Error("the instance exists before it is added")
			}
			add(t, cloud, machine)
			for _, q := range questions(instances, zones) {
				if got, err := q.ask(ctx); err != nil || !reflect.DeepEqual(got, q.want) {
					t.Errorf("%s is %v, %v; want %v", q.what, got, err, q.want)
				}
			}
			if !exists() {
				t.Error("the instance does not exist")
			}
			if err := cloud.StopInstance("node-1"); err != nil {
				t.Fatal(err)
			}
			if down, err := instances.InstanceShutdownByProviderID(ctx, machineID); !down ||
				err != nil {
				t.Errorf("a stopped instance is shut down: %v, %v", down, err)
			}
			if name, err := instances.CurrentNodeName(ctx, "host"); name != "host" || err != nil {
				t.Errorf("the current node is %q, %v", name, err)
			}
			if zone, err := zones.GetZone(ctx); err != nil ||
				zone != (cloudprovider.Zone{FailureDomain: "here-b", Region: "here"}) {
				t.Errorf("the own zone is %v, %v", zone, err)
			}
		})
}

func TestAddInstances_FillsInDefaults(t *testing.T) {
	cloud := New(WithProviderName("acme"), WithRegion("r", "z"))
	add(t, cloud, Instance{Name: "a"}, Instance{Name: "b", Addresses: []v1.NodeAddress{}})
	a, _ := cloud.Instance("a")
	want := Instance{
		Name: "a", ProviderID: "acme://r/a", Type: "standard", Zone: "z", Region: "r",
		Addresses: []v1.NodeAddress{
			{Type: v1.NodeHostName, Address: "a"},
			{Type: v1.NodeInternalIP, Address: "10.240.0.1"},
		},
	}
	if !reflect.DeepEqual(a, want) {
		t.Errorf("the instance is %+v, want %+v", a, want)
	}
	if b, _ := cloud.Instance("b"); len(b.Addresses) != 0 {
		t.Errorf("an instance without addresses was given %v", b.Addresses)
	}
}

func TestAddInstances_WhenTheNameIsTaken_Replaces(t *testing.T) {
	cloud := New()
	add(t, cloud, Instance{Name: "a", ProviderID: "fake://r/old"})
	before, _ := cloud.Instance("a")
	add(t, cloud, Instance{Name: "a", ProviderID: "fake://r/new", Type: "small"})
	after, _ := cloud.Instance("a")
	if after.Type != "small" || after.ProviderID != "fake://r/new" ||
		!reflect.DeepEqual(after.Addresses, before.Addresses) {
		t.Errorf(
			"after %+v the replacement is %+v; want its own type and ID, and the addresses kept",
			before, after)
	}
	instances := instancesOf(t, cloud.Provider())
	if exists, err := instances.InstanceExists(t.Context(),
		nodeWithID("a", "fake://r/old")); exists || err != nil {
		t.Errorf("the replaced provider ID exists: %v, %v", exists, err)
	}
	if len(cloud.Instances()) != 1 {
		t.Errorf("the cloud has %d instances, want 1", len(cloud.Instances()))
	}
}

func TestAddInstances_WhenOneIsWrong_AddsNoneAndSaysWhy(t *testing.T) {
	for why, wrong := range map[string]Instance{
		"cannot be a node's":       {Name: "Not A Name"},
		"is not of the form":       {Name: "b", ProviderID: "b"},
		"is not of this cloud":     {Name: "b", ProviderID: "aws://r/b"},
		`belongs to instance "x"`:  {Name: "b", ProviderID: "fake://region-1/x"},
		"same name or provider ID": {Name: "a"},
	} {
		cloud := New()
		add(t, cloud, Instance{Name: "x"})
		err := cloud.AddInstances(Instance{Name: "a"}, wrong)
		if err == nil || !strings.Contains(err.Error(), why) ||
			!strings.Contains(err.Error(), wrong.Name) {
			t.Errorf("the error is %v; want one that names %q and says %q", err, wrong.Name, why)
		}
		if n := len(cloud.Instances()); n != 1 {
			t.Errorf("%s: the cloud has %d instances, want only the one from before", why, n)
		}
	}
}

func TestInstanceMethods_InstanceIsMissing_ErrorHasItsName(t *testing.T) {
	cloud := New()
	for what, do := range map[string]func(string) error{
		"remove": cloud.RemoveInstance, "stop": cloud.StopInstance, "start": cloud.StartInstance,
	} {
		if err := do("ghost"); err == nil || !strings.Contains(err.Error(), `"ghost"`) {
			t.Errorf("%s: the error is %v", what, err)
		}
	}
}

func TestReadState_IsACopy(t *testing.T) {
	cloud := New()
	add(t, cloud, machine)
	cloud.Instances()[0].Addresses[0].Address = "changed"
	if got, _ := cloud.Instance("node-1"); got.Addresses[0].Address != "10.0.0.1" {
		t.Error("a change of what Instances returned changed the cloud")
	}
}

func TestParseProviderID_RefusesAnythingElse(t *testing.T) {
	for _, text := range []string{
		"", "fake://", "fake://r", "fake:///n", "fake://r/", "://r/n",
		"fake://r/n/m", "fake:/r/n", "fake://r /n", "fäke://r/n",
	} {
		if id, err := parseProviderID(text); err == nil {
			t.Errorf("%q is accepted as %+v", text, id)
		}
	}
	const text = "a.b://r_1/N-2"
	if id, err := parseProviderID(text); err != nil || id.String() != text {
		t.Errorf("%q is parsed as %+v, %v", text, id, err)
	}
}

func TestVolumes_AreInTheOwnZone(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, _ *Cloud, open opener) {
		labeler, ok := open().(cloudprovider.PVLabeler)
		if !ok {
			t.Fatal("the provider is no PVLabeler")
		}
		volume := &v1.PersistentVolume{}
		volume.Name = "pv-1"
		got, err := labeler.GetLabelsForVolume(t.Context(), volume)
		want := map[string]string{
			v1.LabelTopologyRegion: "region-1",
			v1.LabelTopologyZone:   "region-1a",
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the labels are %v, %v; want %v", got, err, want)
		}
		if _, err := labeler.GetLabelsForVolume(t.Context(), nil); err == nil {
			t.Error("no volume is accepted as one")
		}
	})
}

func TestClusters_AreThoseConfigured(t *testing.T) {
	onBoth(t, []Option{WithCluster("b", "192.0.2.2"), WithCluster("a", "192.0.2.1")},
		func(t *testing.T, _ *Cloud, open opener) {
			clusters, ok := open().Clusters()
			if !ok {
				t.Fatal("the provider has no clusters")
			}
			if got, err := clusters.ListClusters(t.Context()); err != nil ||
				!reflect.DeepEqual(got, []string{"a", "b"}) {
				t.Errorf("the clusters are %v, %v", got, err)
			}
			if got, err := clusters.Master(t.Context(), "b"); err != nil || got != "192.0.2.2" {
				t.Errorf("the master is %q, %v", got, err)
			}
			if _, err := clusters.Master(t.Context(), "c"); err == nil ||
				errors.Is(err, cloudprovider.NotImplemented) ||
				!strings.Contains(err.Error(), `"c"`) {
				t.Errorf("the master of an unknown cluster fails with %v", err)
			}
		})
}

package migrate

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
	"github.com/fxccm/fxccm/provider/openstack"
)

// recordOf is the record of members, whose IDs cannot be compressed.
func recordOf(members int) record {
	random := rand.New(rand.NewPCG(1, 2))
	r := record{Replicas: 2, Before: openstack.Snapshot{}}
	for i := range members {
		id := fmt.Sprintf("%016x%016x", random.Uint64(), random.Uint64())
		r.Before["member "+id] = map[string]any{
			"id": id, "address": fmt.Sprintf("10.0.0.%d", i%250),
		}
	}
	return r
}

func TestRecord_LargeCluster_EachObjectIsWhatTheAPIServerAccepts(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	m := &migration{
		Cluster: &Cluster{&cli.Cluster{Interface: client}},
		occm:    ofDaemonSet(daemonSet("ccm", occmPod(nil))),
	}
	for _, members := range []int{1, 75_000, 10} {
		want := recordOf(members)
		if err := m.writeRecord(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		got, err := m.readRecord(t.Context())
		if err != nil || got == nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%d members: the record that is read differs: %v", members, err)
		}
		for _, part := range recordMaps(t, client) {
			if size := len(part.BinaryData[recordKey]); size >= 1<<20 {
				t.Errorf("%d members: ConfigMap %s has %d bytes", members, part.Name, size)
			}
		}
	}
	if err := m.writeRecord(t.Context(), recordOf(75_000)); err != nil {
		t.Fatal(err)
	}
	if err := m.deleteRecord(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := recordMaps(t, client); len(left) > 0 {
		t.Errorf("%d ConfigMaps of the record remain", len(left))
	}
}

func recordMaps(t *testing.T, client *fake.Clientset) []v1.ConfigMap {
	t.Helper()
	list, err := client.CoreV1().ConfigMaps("kube-system").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

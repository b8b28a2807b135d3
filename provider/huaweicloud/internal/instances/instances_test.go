package instances

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudproviderapi "k8s.io/cloud-provider/api"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/provider/huaweicloud/internal/client"
	"github.com/fxccm/fxccm/provider/huaweicloud/internal/stub"
	"github.com/fxccm/fxccm/provider/internal/kit/absence"
)

// world is a cluster of nodes with instances.
type world struct {
	*Instances
	t       *testing.T
	cloud   *stub.Cloud
	clock   *clocktesting.FakePassiveClock
	nodes   []*v1.Node
	trouble error
	indexer cache.Indexer
	// isSyncing: the informer of nodes has not synced yet.
	isSyncing bool
}

func newWorld(t *testing.T, nodes int) *world {
	t.Helper()
	w := &world{
		t: t, cloud: stub.New(t),
		clock: clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)),
	}
	c := client.New(client.Config{
		ECS: w.cloud.URL, ProjectID: stub.ProjectID,
		AccessKeyID: stub.AccessKeyID, AccessKeySecret: stub.AccessKeySecret,
		Rate: rate.Inf,
	})
	t.Cleanup(c.Close)
	w.indexer = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	w.Instances = New(Config{
		Client: c, Region: "stub-1", Clock: w.clock, Logger: logr.Discard(),
		Nodes: corev1.NewNodeLister(w.indexer), NodesSynced: func() bool { return !w.isSyncing },
		Trouble: func(_ string, cause error) { w.trouble = cause },
	})
	t.Cleanup(w.Close)
	for n := range nodes {
		id := fmt.Sprintf("%08d-aaaa-4000-8000-000000000000", n)
		w.cloud.AddServer(id, fmt.Sprintf("192.168.0.%d", n), "")
		node := &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: id},
			Spec:       v1.NodeSpec{ProviderID: id},
		}
		w.nodes = append(w.nodes, node)
		if err := w.indexer.Add(node); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *world) pass(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

// exists calls InstanceExists for a node after another ten seconds.
func (w *world) exists(node int) (bool, error) {
	w.pass(confirmation)
	return w.InstanceExists(w.t.Context(), w.nodes[node])
}

func TestMetadata_HasBareProviderIDAndAddresses(t *testing.T) {
	w := newWorld(t, 0)
	id := "0a1b2c3d-0000-4000-8000-000000000001"
	w.cloud.AddServer(id, "192.168.0.7", "198.51.100.7")
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: id}}
	node.Spec.Taints = []v1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}
	got, err := w.InstanceMetadata(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	if got.ProviderID != id || got.InstanceType != "s6.large.2" || got.Zone != stub.Zone ||
		got.Region != "stub-1" {
		t.Errorf("got %+v", got)
	}
	want := []v1.NodeAddress{
		{Type: v1.NodeHostName, Address: id},
		{Type: v1.NodeInternalIP, Address: "192.168.0.7"},
		{Type: v1.NodeExternalIP, Address: "198.51.100.7"},
	}
	if !slices.Equal(got.NodeAddresses, want) {
		t.Errorf("addresses %v, want %v", got.NodeAddresses, want)
	}
}

func TestID_NameAndProviderID_GiveTheServerOrAProblem(t *testing.T) {
	const id = "0a1b2c3d-0000-4000-8000-000000000001"
	for _, c := range []struct{ name, provider, want, problem string }{
		{"worker-1", id, id, ""},
		{id, "", id, ""},
		{"worker-1", "", "", "--provider-id"},
		{id, "openstack:///" + id, "", "not the ID of an ECS instance"},
	} {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.name}}
		node.Spec.ProviderID = c.provider
		got, err := idOf(node)
		if got != c.want || (err == nil) != (c.problem == "") ||
			err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s %s: %q, %v", c.name, c.provider, got, err)
		}
	}
}

func TestManyNodes_ShareRequests(t *testing.T) {
	w := newWorld(t, 150)
	for _, node := range w.nodes {
		if _, err := w.InstanceMetadata(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(w.cloud.Requests()); got != 2 {
		t.Errorf("one after the other: %d requests for 150 nodes, want 2", got)
	}
	w.pass(time.Hour)
	w.cloud.Forget()
	var group sync.WaitGroup
	for _, node := range w.nodes {
		group.Go(func() {
			if _, err := w.InstanceMetadata(t.Context(), node); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := len(w.cloud.Requests()); got > 6 {
		t.Errorf("at the same time: %d requests for 150 nodes, want at most 6", got)
	}
}

func TestInstanceStatus_IsReported(t *testing.T) {
	for status, want := range map[string]bool{
		"ACTIVE": false, "SHUTOFF": true, "REBOOT": false, "SOFT_DELETED": true,
	} {
		w := newWorld(t, 1)
		w.cloud.SetServerStatus(w.nodes[0].Name, status)
		if got, err := w.InstanceShutdown(t.Context(), w.nodes[0]); got != want || err != nil {
			t.Errorf("%s: shut down %t, %v", status, got, err)
		}
	}
}

func TestInstanceGone_IsAbsentAfterTheSecondDenial(t *testing.T) {
	w := newWorld(t, 9)
	w.cloud.RemoveServer(w.nodes[0].Name)
	if _, err := w.exists(0); !errors.Is(err, absence.ErrUnconfirmed) {
		t.Fatalf("first denial: %v", err)
	}
	if exists, err := w.exists(0); exists || err != nil {
		t.Fatalf("second denial: %t, %v", exists, err)
	}
	if exists, err := w.exists(1); !exists || err != nil {
		t.Errorf("another node: %t, %v", exists, err)
	}
}

func TestInstanceDeleted_IsAbsent(t *testing.T) {
	w := newWorld(t, 1)
	w.cloud.SetServerStatus(w.nodes[0].Name, "DELETED")
	_, _ = w.exists(0)
	if exists, err := w.exists(0); exists || err != nil {
		t.Errorf("%t, %v", exists, err)
	}
}

func TestKubeletReports_DenialsDeleteNothing(t *testing.T) {
	w := newWorld(t, 1)
	w.nodes[0].Status.Conditions = []v1.NodeCondition{{
		Type: v1.NodeReady, Status: v1.ConditionTrue,
	}}
	w.cloud.RemoveServer(w.nodes[0].Name)
	for range 3 {
		if _, err := w.exists(0); !errors.Is(err, absence.ErrUnconfirmed) {
			t.Errorf("got %v", err)
		}
	}
}

func TestCloudFails_IsNoDenial(t *testing.T) {
	for _, operation := range []string{"list", "get"} {
		w := newWorld(t, 1)
		w.cloud.RemoveServer(w.nodes[0].Name)
		for range 4 {
			if operation == "list" {
				w.cloud.Fail("GET cloudservers", 500, "Ecs.0000", "internal error")
			} else {
				w.cloud.FailLater("GET cloudservers", 1, 403, "Ecs.0003", "forbidden")
			}
			exists, err := w.exists(0)
			if exists || err == nil || errors.Is(err, absence.ErrUnconfirmed) {
				t.Errorf("%s fails: %t, %v", operation, exists, err)
			}
		}
	}
}

func TestManyInstancesGone_NoNodeIsAbsentUntilTheyAreBack(t *testing.T) {
	w := newWorld(t, 9)
	for _, node := range w.nodes[:4] {
		w.cloud.RemoveServer(node.Name)
	}
	for range 3 {
		for n := range 4 {
			if exists, err := w.exists(n); exists || !errors.Is(err, absence.ErrMassDeletion) {
				t.Fatalf("4 of 9 are gone: %t, %v", exists, err)
			}
		}
	}
	if w.trouble == nil || !strings.Contains(w.trouble.Error(), "4 of 9") {
		t.Errorf("trouble: %v", w.trouble)
	}
	for _, node := range w.nodes[1:4] {
		w.cloud.AddServer(node.Name, "192.168.0.9", "")
	}
	for n := 1; n < 4; n++ {
		if exists, err := w.exists(n); !exists || err != nil {
			t.Fatalf("it is back: %t, %v", exists, err)
		}
	}
	if w.trouble != nil {
		t.Errorf("trouble after the guard was lifted: %v", w.trouble)
	}
	_, _ = w.exists(0)
	if exists, err := w.exists(0); exists || err != nil {
		t.Errorf("one is gone for certain: %t, %v", exists, err)
	}
}

func TestManyInstancesGone_CallForOne_IsRefused(t *testing.T) {
	w := newWorld(t, 150) // more than one request lists
	for _, node := range w.nodes[:51] {
		w.cloud.RemoveServer(node.Name)
	}
	for range 2 {
		if exists, err := w.exists(0); exists || !errors.Is(err, absence.ErrMassDeletion) {
			t.Errorf("51 of 150 are gone: %t, %v", exists, err)
		}
	}
}

func TestManyInstancesGone_NodesMarkedForRemoval_AreAbsent(t *testing.T) {
	w := newWorld(t, 9)
	w.config.RemovalTaints = []string{"example.com/leaving"}
	for n, node := range w.nodes[:6] {
		marks := []string{"ToBeDeletedByClusterAutoscaler", "example.com/leaving"}
		node.Spec.Taints = []v1.Taint{{Key: marks[n%2]}}
		w.cloud.RemoveServer(node.Name)
	}
	gone := map[int]bool{}
	for range 2 {
		for n := range w.nodes {
			if exists, err := w.exists(n); !exists && err == nil {
				gone[n] = true
			}
		}
	}
	if len(gone) != 6 || w.trouble != nil {
		t.Errorf("%d of 9 are absent, want 6; trouble: %v", len(gone), w.trouble)
	}
}

func TestNodesNotSynced_InstancesOfCallsCount(t *testing.T) {
	w := newWorld(t, 9)
	w.isSyncing = true
	if err := w.indexer.Replace(nil, ""); err != nil {
		t.Fatal(err)
	}
	for _, node := range w.nodes[:4] {
		w.cloud.RemoveServer(node.Name)
	}
	for range 3 {
		for n := range w.nodes {
			if exists, err := w.exists(n); n < 4 && (exists || err == nil) || n >= 4 && !exists {
				t.Errorf("node %d: exists %t, %v", n, exists, err)
			}
		}
	}
	if w.trouble == nil {
		t.Error("4 of 9 are missing, and the guard is not active")
	}
}

func TestNewNode_GetsItsPresentAddresses(t *testing.T) {
	w := newWorld(t, 1)
	node := w.nodes[0]
	if _, err := w.InstanceMetadata(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	w.cloud.AddServer(node.Name, "192.168.0.99", "")
	node.Spec.Taints = []v1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}
	got, err := w.InstanceMetadata(t.Context(), node)
	if err != nil || got.NodeAddresses[1].Address != "192.168.0.99" {
		t.Errorf("got %+v, %v", got, err)
	}
}

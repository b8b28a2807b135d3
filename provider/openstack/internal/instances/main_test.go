package instances

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	clocktesting "k8s.io/utils/clock/testing"

	"go.uber.org/goleak"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/internal/kit/absence"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/simclient"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var within = waittest.Context

// world is a simulated cloud, and Instances that use it, with a clock that stands still.
type world struct {
	*Instances
	t        *testing.T
	cloud    *openstacktest.Cloud
	clock    *clocktesting.FakePassiveClock
	network  string
	observed *observed
	events   *record.FakeRecorder
}

// A variation changes the configuration of newWorld.
type variation func(*Config)

func newWorld(t *testing.T, variations ...variation) *world {
	t.Helper()
	return newWorldOn(t, nil, variations...)
}

func newWorldOn(t *testing.T, options []openstacktest.Option, variations ...variation) *world {
	t.Helper()
	w := &world{
		t: t, clock: clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)),
		observed: &observed{sources: map[string]int{}}, events: record.NewFakeRecorder(1000),
	}
	w.cloud = openstacktest.NewCloud(append([]openstacktest.Option{
		openstacktest.WithClock(w.clock),
		openstacktest.WithTokenLife(1000 * time.Hour),
	}, options...)...)
	t.Cleanup(w.cloud.Close)
	w.network = w.addNetwork("private", "10.0.0.0/16")
	w.Instances = w.open(w.cloud.Credentials(), variations...)
	return w
}

// open logs in and creates Instances, which end with the test. The record of calls begins after
// that.
func (w *world) open(c openstacktest.Credentials, variations ...variation) *Instances {
	w.t.Helper()
	clients := simclient.Login(w.t, c, nil)
	settings := Config{
		Compute: clients.Compute, Network: clients.Network, Project: clients.Project,
		Options: cloudconf.Default().Instances, Region: c.Region,
		Clock: w.clock, Logger: logr.Discard(), Recorder: w.events, Observer: w.observed,
	}
	for _, vary := range variations {
		vary(&settings)
	}
	made := New(settings)
	w.t.Cleanup(made.Close)
	w.cloud.ForgetCalls()
	return made
}

func (w *world) addNetwork(name, cidr string) (id string) {
	id = w.cloud.AddNetwork(openstacktest.Network{Name: name})
	w.cloud.AddSubnet(openstacktest.Subnet{NetworkID: id, CIDR: cidr})
	return id
}

// addServer creates a server with a port.
func (w *world) addServer(name string) (id string) {
	id = w.cloud.AddServer(openstacktest.Server{Name: name})
	w.cloud.AddPort(openstacktest.Port{
		NetworkID: w.network, DeviceID: id,
		DeviceOwner: openstacktest.OwnerCompute,
	})
	return id
}

// addNodes creates servers, and for each of them a node with its provider ID.
func (w *world) addNodes(count int) []*v1.Node {
	nodes := make([]*v1.Node, count)
	for n := range nodes {
		name := fmt.Sprintf("node-%d", n)
		nodes[n] = nodeOf(name, w.addServer(name))
	}
	w.cloud.ForgetCalls()
	return nodes
}

// calls returns the number of requests since the record began, without Keystone's.
func (w *world) calls() int {
	total := 0
	for _, call := range w.cloud.Calls() {
		if call.Service != openstacktest.ServiceIdentity {
			total++
		}
	}
	return total
}

func (w *world) atMost(calls int) {
	w.t.Helper()
	if got := w.calls(); got > calls {
		w.t.Errorf("%d calls, want at most %d: %v", got, calls, w.cloud.Counts())
	} else {
		w.t.Logf("%d calls: %v", got, w.cloud.Counts())
	}
}

// exactly compares the calls by operation.
func (w *world) exactly(want map[string]int) {
	w.t.Helper()
	if got := w.cloud.Counts(); !maps.Equal(got, want) {
		w.t.Errorf("calls %v, want %v", got, want)
	}
}

func (w *world) pass(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

func (w *world) metadata(node *v1.Node) *cloudprovider.InstanceMetadata {
	w.t.Helper()
	metadata, err := w.InstanceMetadata(within(w.t), node)
	if err != nil {
		w.t.Fatalf("metadata of %s: %v", node.Name, err)
	}
	return metadata
}

// exists fails the test on an error.
func (w *world) exists(node *v1.Node) bool {
	w.t.Helper()
	exists, err := w.InstanceExists(within(w.t), node)
	if err != nil {
		w.t.Fatalf("does the instance of %s exist: %v", node.Name, err)
	}
	return exists
}

// doubts checks that the result is an error: neither existence nor absence.
func (w *world) doubts(node *v1.Node, why error) {
	w.t.Helper()
	exists, err := w.InstanceExists(within(w.t), node)
	if exists || !errors.Is(err, why) {
		w.t.Errorf("exists = %t, %v; want the error %q", exists, err, why)
	}
}

// isGone calls as upstream does, for the time that a confirmation takes.
func (w *world) isGone(node *v1.Node) {
	w.t.Helper()
	w.doubts(node, absence.ErrUnconfirmed)
	w.pass(w.config.Options.AbsenceConfirmation)
	if w.exists(node) {
		w.t.Errorf("%s still exists", node.Name)
	}
}

// nodeOf returns a node that is initialized and not ready.
func nodeOf(name, serverID string) *v1.Node {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
	if serverID != "" {
		node.Spec.ProviderID = "openstack:///" + serverID
	}
	return withReady(node, v1.ConditionFalse)
}

func withReady(node *v1.Node, status v1.ConditionStatus) *v1.Node {
	node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: status}}
	return node
}

// newNode has no provider ID and is not initialized.
func newNode(name string) *v1.Node {
	node := nodeOf(name, "")
	node.Spec.Taints = []v1.Taint{{
		Key:    cloudproviderapi.TaintExternalCloudProvider,
		Effect: v1.TaintEffectNoSchedule,
	}}
	return node
}

// cluster is a lister of nodes that can be changed.
func (w *world) cluster(nodes ...*v1.Node) cache.Indexer {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, node := range nodes {
		if err := indexer.Add(node); err != nil {
			w.t.Fatal(err)
		}
	}
	w.SetNodes(corev1.NewNodeLister(indexer), func() bool { return true })
	return indexer
}

// forEach calls f for all nodes, with a number of workers.
func forEach(nodes []*v1.Node, workers int, f func(*v1.Node)) {
	var wg sync.WaitGroup
	queue := make(chan *v1.Node)
	for range workers {
		wg.Go(func() {
			for node := range queue {
				f(node)
			}
		})
	}
	for _, node := range nodes {
		queue <- node
	}
	close(queue)
	wg.Wait()
}

// observed is an Observer.
type observed struct {
	mu      sync.Mutex
	absent  int
	refused int
	sources map[string]int
}

func (o *observed) AbsentInstances(count int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.absent = count
}

func (o *observed) AbsenceRefused() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refused++
}

func (o *observed) Lookup(source string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sources[source]++
}

func (o *observed) values() (absent, refused int, sources map[string]int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.absent, o.refused, maps.Clone(o.sources)
}

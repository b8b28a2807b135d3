package openstack_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// place is a simulated region with a network of nodes.
type place struct {
	*openstacktest.Cloud
	network, subnet, router string
}

// twoRegions is a cluster in two regions, with a provider for both.
type twoRegions struct {
	t        *testing.T
	one, two *place
	conf     string
	selector string
	clock    *clocktesting.FakeClock
	kube     *fake.Clientset
	cloud    cloudprovider.Interface
	factory  informers.SharedInformerFactory

	mu       sync.Mutex
	troubles map[string]error
	lines    []string
}

// newTwoRegions makes the clouds. The caller adds servers and nodes before it opens the provider.
func newTwoRegions(t *testing.T) *twoRegions {
	t.Helper()
	return newOneAnd(t, "two")
}

// newOneAnd names the region of the second cloud in its catalog. It is "two" in cloud.conf.
func newOneAnd(t *testing.T, second string) *twoRegions {
	t.Helper()
	r := &twoRegions{
		t: t, clock: clocktesting.NewFakeClock(time.Now()), troubles: map[string]error{},
	}
	r.one, r.two = r.newPlace("one", "10.1.0.0/16"), r.newPlace(second, "10.2.0.0/16")
	config := func(p *place, suffix string) string {
		conf := strings.Replace(p.CloudConf("password"), "[Global]",
			"[Global"+suffix+"]", 1)
		return conf + fmt.Sprintf("[LoadBalancer%[1]s]\nsubnet-id = %[2]s\ninternal-lb = true\n"+
			"drift-period = 0s\n[Route%[1]s]\nrouter-id = %[3]s\n", suffix, p.subnet, p.router)
	}
	r.conf = config(r.one, "") + config(r.two, ` "two"`) +
		"[Client]\nmax-retries = 0\nrequest-rate = 10000\nrequest-burst = 10000\n"
	r.kube = fake.NewClientset(&corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "cluster-1"},
	})
	return r
}

func (r *twoRegions) newPlace(name, cidr string) *place {
	p := &place{Cloud: openstacktest.NewCloud(openstacktest.WithClock(r.clock),
		openstacktest.WithRegion(name))}
	r.t.Cleanup(p.Close)
	p.network = p.AddNetwork(openstacktest.Network{Name: "nodes"})
	p.subnet = p.AddSubnet(openstacktest.Subnet{NetworkID: p.network, CIDR: cidr})
	p.router = p.AddRouter(openstacktest.Router{Name: "router", Subnets: []string{p.subnet}})
	return p
}

// add makes a server and its node, whose provider ID does not name the region.
func (r *twoRegions) add(p *place, name string, change ...func(*corev1.Node)) *corev1.Node {
	r.t.Helper()
	id := p.AddServer(openstacktest.Server{ID: string(uuid.NewUUID()), Name: name})
	port := p.AddPort(openstacktest.Port{
		NetworkID: p.network, DeviceID: id, DeviceOwner: openstacktest.OwnerCompute,
	})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(id)}}
	node.Spec.ProviderID = "openstack:///" + id
	for _, found := range p.Ports() {
		if found.ID == port {
			node.Status.Addresses = []corev1.NodeAddress{{
				Type: corev1.NodeInternalIP, Address: found.FixedIPs[0].Address,
			}}
		}
	}
	for _, f := range change {
		f(node)
	}
	if _, err := r.kube.CoreV1().Nodes().Create(r.t.Context(), node,
		metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	return node
}

// labeled and regional return nodes as the provider initializes them.
func labeled(region string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelTopologyRegion: region} }
}

func regional(region string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.ProviderID = strings.Replace(n.Spec.ProviderID, "///", "//"+region+"/", 1)
	}
}

// open starts the provider with the nodes that exist.
func (r *twoRegions) open() {
	r.t.Helper()
	r.cloud = open(r.t, write(r.t, r.conf), ccm.ProviderEnv{
		Owner: "tenant/cluster", Clock: r.clock,
		Config: ccm.Config{NodeSelector: r.selector},
		Logger: funcr.New(func(_, line string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.lines = append(r.lines, line)
		}, funcr.Options{}),
		ReportTrouble: func(subject string, cause error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.troubles[subject] = cause; cause == nil {
				delete(r.troubles, subject)
			}
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactory(r.kube, 0)
	r.factory = factory
	r.cloud.Initialize(builder{r.kube}, nil)
	r.cloud.(cloudprovider.InformerUser).SetInformers(factory)
	if _, ok := r.cloud.LoadBalancer(); !ok {
		r.t.Fatal("no load balancers are served")
	}
	factory.Start(ctx.Done())
	r.t.Cleanup(func() { cancel(); factory.Shutdown() })
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			r.t.Fatalf("%v are not synced", kind)
		}
	}
}

// logged returns how many lines of the log contain a text.
func (r *twoRegions) logged(text string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func (r *twoRegions) instances() cloudprovider.InstancesV2 {
	instances, _ := r.cloud.InstancesV2()
	return instances
}

// calls returns the operations of a region since the last call.
func (p *place) calls() map[string]int {
	seen := map[string]int{}
	for _, call := range p.Calls() {
		seen[call.Operation]++
	}
	p.ForgetCalls()
	return seen
}

func (p *place) goDown() {
	p.Inject(openstacktest.Fault{Status: http.StatusServiceUnavailable})
}

func TestRegions_NodeOfEachKind_IsServedByItsRegionAlone(t *testing.T) {
	r := newTwoRegions(t)
	for name, test := range map[string]struct {
		node *corev1.Node
		// searches: the first lookup sends requests to both regions.
		searches bool
	}{
		"provider ID":  {r.add(r.two, "node-a", regional("two")), false},
		"region label": {r.add(r.two, "node-b", labeled("two")), false},
		"search by ID": {r.add(r.two, "node-c"), true},
		"search by name": {
			r.add(r.two, "node-d", func(n *corev1.Node) { n.Spec.ProviderID = "" }), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r.t = t
			r.open()
			r.one.calls()
			found, err := r.instances().InstanceMetadata(t.Context(), test.node)
			if err != nil {
				t.Fatal(err)
			}
			if want := "openstack://two/" + string(test.node.UID); found.ProviderID != want ||
				found.Region != "two" || len(found.NodeAddresses) == 0 {
				t.Errorf("the metadata are %+v, want the provider ID %s", found, want)
			}
			if calls := r.one.calls(); (len(calls) > 0) != test.searches {
				t.Errorf("the other region had the requests %v", calls)
			}
			if test.node.Spec.ProviderID == "" {
				return
			}
			r.clock.Step(time.Minute)
			if exists, err := r.instances().InstanceExists(t.Context(), test.node); !exists ||
				err != nil {
				t.Errorf("exists: %t, %v", exists, err)
			}
			if calls := r.one.calls(); len(calls) > 0 {
				t.Errorf("later the other region had the requests %v", calls)
			}
		})
	}
}

func TestRegions_OneIsDown_ItsNodesStayAndOthersAreServed(t *testing.T) {
	r := newTwoRegions(t)
	mine := r.add(r.one, "node-1", labeled("one"))
	down, regionalDown := r.add(r.two, "node-2"), r.add(r.two, "node-3", regional("two"))
	gone := r.add(r.one, "node-4")
	stranger := r.add(r.one, "node-5", regional("three"))
	if err := r.one.DeleteServer(string(gone.UID)); err != nil {
		t.Fatal(err)
	}
	r.open()
	r.two.goDown()
	for range 4 {
		if exists, err := r.instances().InstanceExists(t.Context(), mine); !exists || err != nil {
			t.Fatalf("the node of the other region exists: %t, %v", exists, err)
		}
		for _, node := range []*corev1.Node{down, regionalDown, gone, stranger} {
			exists, err := r.instances().InstanceExists(t.Context(), node)
			if err == nil {
				t.Fatalf("%s exists: %t, although its region does not answer", node.Name, exists)
			}
			if node == stranger && !strings.HasPrefix(err.Error(), "Kubernetes: provider ID") {
				t.Errorf("for a region that does not exist, the error is %v", err)
			}
			if node == down {
				wantShort(t, "Keystone: ", err)
			}
		}
		r.clock.Step(time.Minute)
	}
	if all := r.reported(); all["Keystone in region two"] == nil || len(all) != 1 {
		t.Errorf("the troubles are %v", all)
	}
	r.two.RemoveFaults()
	r.clock.Step(time.Minute)
	if exists, err := r.instances().InstanceExists(t.Context(), down); !exists || err != nil {
		t.Errorf("when the region is back, the node exists: %t, %v", exists, err)
	}
	if confirmAbsence(r, gone) {
		t.Error("the node whose server is in no region exists")
	}
}

// confirmAbsence returns whether the node exists, once that is certain.
func confirmAbsence(r *twoRegions, node *corev1.Node) (exists bool) {
	r.t.Helper()
	var err error
	for range 5 {
		r.clock.Step(time.Minute)
		if exists, err = r.instances().InstanceExists(r.t.Context(), node); err == nil {
			return exists
		}
	}
	r.t.Fatalf("%s: %v", node.Name, err)
	return false
}

// Provider IDs and labels of two projects name the same region.
func TestRegions_TwoProjectsOfOneRegion_NodeIsFoundInItsProject(t *testing.T) {
	r := newOneAnd(t, "one")
	here := r.add(r.one, "node-1", regional("one"), labeled("one"))
	there := r.add(r.two, "node-2", regional("one"), labeled("one"))
	gone := r.add(r.two, "node-3", regional("one"), labeled("one"))
	r.open()
	for _, node := range []*corev1.Node{here, there, gone} {
		found, err := r.instances().InstanceMetadata(t.Context(), node)
		if err != nil || found.ProviderID != node.Spec.ProviderID {
			t.Errorf("%s: %+v, %v", node.Name, found, err)
		}
	}
	if err := r.two.DeleteServer(string(gone.UID)); err != nil {
		t.Fatal(err)
	}
	if confirmAbsence(r, gone) {
		t.Error("the node whose server is deleted exists")
	}
	service := r.service("web", map[string]string{wantsRegion: "two"})
	if err := r.ensure(service); err != nil {
		t.Fatal(err)
	}
	if got, want := r.two.members(), there.Status.Addresses[0].Address; !slices.Contains(got,
		want) || slices.Contains(got, here.Status.Addresses[0].Address) {
		t.Errorf("the members are %q, want %s of the project", got, want)
	}
}

// In a new term, provider IDs and labels do not show the project of a node.
func TestRegions_ProjectOfANodeIsUnknown_MembersStay(t *testing.T) {
	for name, change := range map[string]func(r *twoRegions, there *corev1.Node){
		"it is looked up": func(*twoRegions, *corev1.Node) {},
		"Nova does not answer": func(r *twoRegions, _ *corev1.Node) {
			r.two.Inject(openstacktest.Fault{
				Service: openstacktest.ServiceCompute, Status: http.StatusServiceUnavailable,
			})
		},
		"no project has the server": func(r *twoRegions, there *corev1.Node) {
			if err := r.two.DeleteServer(string(there.UID)); err != nil {
				r.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newOneAnd(t, "one")
			r.add(r.one, "node-1", regional("one"), labeled("one"))
			there := r.add(r.two, "node-2", regional("one"), labeled("one"))
			r.open()
			service := r.service("web", map[string]string{wantsRegion: "two"})
			want := []string{there.Status.Addresses[0].Address}
			for _, prepare := range []func(){
				func() {}, func() { change(r, there); r.open() },
			} {
				prepare()
				if err := r.ensure(r.current(service)); err != nil {
					t.Fatal(err)
				}
				if got := r.two.members(); !slices.Equal(got, want) {
					t.Fatalf("the members are %q, want %q", got, want)
				}
			}
			other := r.service("other", nil)
			if err := r.ensure(other); err != nil {
				t.Fatal(err)
			}
			if got := r.one.members(); slices.Contains(got, want[0]) {
				t.Errorf("the other project has the members %q", got)
			}
		})
	}
}

func TestRegions_ProjectOfANodeIsUnknown_NewMembersFollowWhenItIsFound(t *testing.T) {
	r := newOneAnd(t, "one")
	node := r.add(r.two, "node-1", regional("one"), labeled("one"))
	r.open()
	remove := r.two.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceCompute, Status: http.StatusServiceUnavailable,
	})
	service := r.service("web", map[string]string{wantsRegion: "two"})
	for _, want := range [][]string{nil, {node.Status.Addresses[0].Address}} {
		if err := r.ensure(r.current(service)); err != nil {
			t.Fatal(err)
		}
		if got := r.two.members(); !slices.Equal(got, want) {
			t.Errorf("the members are %q, want %q", got, want)
		}
		remove()
		r.clock.Step(time.Minute)
	}
}

func TestRegions_ProjectOfANodeIsUnknown_ItsRoutesStayWhileTheProjectIsDown(t *testing.T) {
	r := newOneAnd(t, "one")
	r.add(r.two, "node-1", regional("one"), labeled("one"), func(n *corev1.Node) {
		n.Spec.PodCIDRs = []string{"10.244.1.0/24"}
		n.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse,
		}}
	})
	r.open()
	r.two.goDown()
	routes, _ := r.cloud.Routes()
	all, err := routes.ListRoutes(t.Context(), "kubernetes")
	if err != nil || len(all) != 1 || all[0].TargetNode != "node-1" {
		t.Errorf("the routes are %+v, %v, want that of node-1", all, err)
	}
}

// An operator has given the credentials of another project, or restored Nova's database.
func TestRegions_ServersOfNodesOfUnknownProjectVanish_NoNodeIsAbsent(t *testing.T) {
	r := newOneAnd(t, "one")
	var nodes []*corev1.Node
	for i := range 6 {
		nodes = append(nodes, r.add(r.two, fmt.Sprint("node-", i), regional("one"), labeled("one")))
	}
	for _, node := range nodes {
		if err := r.two.DeleteServer(string(node.UID)); err != nil {
			t.Fatal(err)
		}
	}
	r.open()
	// Most kubelets report, so only one node is looked up.
	for _, asked := range [][]*corev1.Node{nodes[:1], nodes} {
		for range 5 {
			r.clock.Step(time.Minute)
			for _, node := range asked {
				if exists, err := r.instances().InstanceExists(t.Context(), node); err == nil &&
					!exists {
					t.Fatalf("%s is absent", node.Name)
				}
			}
		}
	}
}

// Nodes that another project has are not missing.
func TestRegions_ServerOfANodeOfUnknownProjectVanishes_ItIsAbsent(t *testing.T) {
	r := newOneAnd(t, "one")
	gone := r.add(r.one, "node-1", regional("one"), labeled("one"))
	for i := range 6 {
		r.add(r.two, fmt.Sprint("other-", i), regional("one"), labeled("one"))
	}
	if err := r.one.DeleteServer(string(gone.UID)); err != nil {
		t.Fatal(err)
	}
	r.open()
	if confirmAbsence(r, gone) {
		t.Error("the node whose server is deleted exists")
	}
	if all := r.reported(); len(all) > 0 {
		t.Errorf("the troubles are %v", all)
	}
}

func TestRegions_NewNodeOfUnknownProject_IsReportedOnce(t *testing.T) {
	r := newOneAnd(t, "one")
	r.add(r.two, "node-1", regional("one"), func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{
			Key: api.TaintExternalCloudProvider, Effect: corev1.TaintEffectNoSchedule,
		}}
	})
	r.open()
	if all := r.cloud.(ccm.ObjectReporter).NodeStatus(); len(all) != 1 ||
		all[0].Name != "node-1" {
		t.Errorf("the nodes that wait are %+v, want node-1", all)
	}
}

// A label proves nothing, because the kubelet can set it.
func TestRegions_LabelNamesTheWrongRegion_NodeIsNotAbsent(t *testing.T) {
	r := newTwoRegions(t)
	node := r.add(r.two, "node-1", labeled("one"))
	r.open()
	if !confirmAbsence(r, node) {
		t.Error("the node is absent, although its server is in the other region")
	}
}

func TestRegions_ManyServersVanishInOne_GuardHoldsThereAlone(t *testing.T) {
	r := newTwoRegions(t)
	var here, there []*corev1.Node
	for i := range 6 {
		here = append(here, r.add(r.one, fmt.Sprint("one-", i), labeled("one")))
		there = append(there, r.add(r.two, fmt.Sprint("two-", i), labeled("two")))
	}
	r.open()
	for _, node := range slices.Concat(here, there) {
		if exists, err := r.instances().InstanceExists(t.Context(), node); !exists || err != nil {
			t.Fatalf("%s exists: %t, %v", node.Name, exists, err)
		}
	}
	for _, node := range there {
		if err := r.two.DeleteServer(string(node.UID)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.one.DeleteServer(string(here[0].UID)); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		r.clock.Step(time.Minute)
		for _, node := range there {
			if exists, err := r.instances().InstanceExists(t.Context(), node); err == nil &&
				!exists {
				t.Fatalf("%s is absent", node.Name)
			}
		}
	}
	if confirmAbsence(r, here[0]) {
		t.Error("the guard of one region keeps the node of the other")
	}
	if all := r.reported(); all["instances in region two"] == nil || len(all) != 1 {
		t.Errorf("the troubles are %v", all)
	}
}

// Three of six servers are enough for the guard, if their nodes are not marked for removal.
func TestRemovalTaints_OfCloudConf_AreThoseOfTheGuardAndOfTheWeights(t *testing.T) {
	r := newTwoRegions(t)
	r.conf += "[Instances]\nremoval-taints = example.com/gone, example.com/leaving\n"
	weights := map[string]int{}
	var leaving []*corev1.Node
	for i := range 6 {
		node := r.add(r.one, fmt.Sprint("node-", i), labeled("one"), func(n *corev1.Node) {
			if i < 3 {
				n.Spec.Taints = []corev1.Taint{{
					Key: "example.com/leaving", Effect: corev1.TaintEffectNoSchedule,
				}}
			}
		})
		weights[node.Status.Addresses[0].Address] = 1
		if i < 3 {
			weights[node.Status.Addresses[0].Address] = 0
			leaving = append(leaving, node)
		}
	}
	r.open()
	if err := r.ensure(r.service("web", nil)); err != nil {
		t.Fatal(err)
	}
	if got := r.one.weights(); !maps.Equal(got, weights) {
		t.Errorf("the weights of the members are %v, want %v", got, weights)
	}
	for _, node := range leaving {
		if err := r.one.DeleteServer(string(node.UID)); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range leaving {
		if confirmAbsence(r, node) {
			t.Errorf("the instance of %s exists", node.Name)
		}
	}
	if all := r.reported(); len(all) > 0 {
		t.Errorf("the troubles are %v", all)
	}
}

// reported returns a copy of the troubles.
func (r *twoRegions) reported() map[string]error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.troubles)
}

func (r *twoRegions) service(name string, annotations map[string]string) *corev1.Service {
	r.t.Helper()
	service, err := r.kube.CoreV1().Services("default").Create(r.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Annotations: annotations,
			UID: types.UID(fmt.Sprintf("c0ffee00-0000-4000-8000-%012d", len(name))),
		},
		Spec: corev1.ServiceSpec{
			Type:       corev1.ServiceTypeLoadBalancer,
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{
				Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080,
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	if r.factory == nil {
		return service
	}
	lister := r.factory.Core().V1().Services().Lister().Services("default")
	waittest.Until(r.t, "the informer sees the Service", func() error {
		_, err := lister.Get(name)
		return err
	})
	return service
}

// ensure passes all nodes of the cluster, as upstream does.
func (r *twoRegions) ensure(service *corev1.Service) error {
	balancers, _ := r.cloud.LoadBalancer()
	nodes, err := r.kube.CoreV1().Nodes().List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	var all []*corev1.Node
	for i := range nodes.Items {
		all = append(all, &nodes.Items[i])
	}
	return untilDone(r.clock, func() error {
		_, err := balancers.EnsureLoadBalancer(r.t.Context(), "kubernetes", service, all)
		return err
	})
}

// untilDone repeats a call while its error means that Octavia has not finished. The clock advances
// while the call waits for it.
func untilDone(clock *clocktesting.FakeClock, call func() error) error {
	done := make(chan error, 1)
	start := func() { go func() { done <- call() }() }
	start()
	for {
		select {
		case err := <-done:
			var retry *api.RetryError
			if !errors.As(err, &retry) {
				return err
			}
			clock.Step(retry.RetryAfter())
			start()
		case <-time.After(time.Millisecond):
			if clock.HasWaiters() {
				clock.Step(time.Second)
			}
		}
	}
}

// current returns the Service from the API server.
func (r *twoRegions) current(service *corev1.Service) *corev1.Service {
	r.t.Helper()
	now, err := r.kube.CoreV1().Services("default").Get(r.t.Context(), service.Name,
		metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return now
}

func (p *place) members() []string {
	var addresses []string
	for _, lb := range p.LoadBalancers() {
		for _, pool := range lb.Pools {
			for _, member := range pool.Members {
				addresses = append(addresses, member.Address)
			}
		}
	}
	return addresses
}

// weights returns the weights of the members by their addresses.
func (p *place) weights() map[string]int {
	weights := map[string]int{}
	for _, lb := range p.LoadBalancers() {
		for _, pool := range lb.Pools {
			for _, member := range pool.Members {
				weights[member.Address] = member.Weight
			}
		}
	}
	return weights
}

const (
	wantsRegion = "loadbalancer.openstack.org/region"
	hasRegion   = "loadbalancer.openstack.org/load-balancer-region"
)

func TestRegions_Services_AreBalancedInTheirRegionWithItsNodes(t *testing.T) {
	r := newTwoRegions(t)
	r.add(r.one, "node-1", labeled("one"))
	two := r.add(r.two, "node-2", labeled("two"))
	r.open()
	service := r.service("web", map[string]string{wantsRegion: "two"})
	r.one.calls()
	if err := r.ensure(service); err != nil {
		t.Fatal(err)
	}
	if got := r.current(service).Annotations[hasRegion]; got != "two" {
		t.Errorf("the recorded region is %q", got)
	}
	if got, want := r.two.members(), two.Status.Addresses[0].Address; !slices.Equal(got,
		[]string{want}) {
		t.Errorf("the members are %q, want %q", got, want)
	}
	if calls := r.one.calls(); len(calls) > 0 {
		t.Errorf("the other region had the requests %v", calls)
	}

	// The default region serves the Service without an annotation, even while the other region is
	// down.
	r.two.goDown()
	plain := r.service("plain", nil)
	if err := r.ensure(plain); err != nil {
		t.Fatal(err)
	}
	if n := len(r.one.LoadBalancers()); n != 1 ||
		r.current(plain).Annotations[hasRegion] != "one" {
		t.Errorf("the default region has %d load balancers, and the Service the annotations %q", n,
			r.current(plain).Annotations)
	}
	r.two.RemoveFaults()
	r.clock.Step(time.Minute)

	// The deletion is sent to the region of the load balancer, whatever the annotation requests
	// now.
	service = r.current(service).DeepCopy()
	delete(service.Annotations, wantsRegion)
	balancers, _ := r.cloud.LoadBalancer()
	if err := untilDone(r.clock, func() error {
		return balancers.EnsureLoadBalancerDeleted(t.Context(), "kubernetes", service)
	}); err != nil {
		t.Fatal(err)
	}
	if n, m := len(r.one.LoadBalancers()), len(r.two.LoadBalancers()); n != 1 || m != 0 {
		t.Errorf("after the deletion there are %d and %d load balancers, want 1 and 0", n, m)
	}
}

// Otherwise the Services of a region that hangs would occupy all workers of the service controller.
func TestRegions_RequestsOfOneHang_OnlySomeCallsWaitForIt(t *testing.T) {
	r := newTwoRegions(t)
	r.open()
	r.two.Inject(openstacktest.Fault{Hang: true})
	balancers, _ := r.cloud.LoadBalancer()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const calls = 9
	answers := make(chan error, calls)
	for i := range calls {
		service := r.service(strings.Repeat("x", i+1), map[string]string{wantsRegion: "two"})
		go func() {
			_, err := balancers.EnsureLoadBalancer(ctx, "kubernetes", service, nil)
			answers <- err
		}()
	}
	var retry *api.RetryError
	if err := <-answers; !errors.As(err, &retry) {
		t.Errorf("the first error is %v, want a later retry of one call", err)
	}
	if n := len(answers); n != 0 {
		t.Errorf("%d other calls are answered, although the region hangs", n)
	}
	// The clock advances meanwhile, so requests to the region that hangs may time out.
	if err := r.ensure(r.service("elsewhere-x", nil)); err != nil {
		t.Errorf("the other region: %v", err)
	}
	cancel()
	for range calls - 1 {
		<-answers
	}
}

func TestRegions_ClusterIsCleanedUp_LoadBalancersOfAllRegionsAreDeleted(t *testing.T) {
	r := newTwoRegions(t)
	r.open()
	for name, region := range map[string]string{"web": "one", "shop": "two"} {
		annotations := map[string]string{}
		if region == "two" {
			annotations[wantsRegion] = region
		}
		if err := r.ensure(r.service(name, annotations)); err != nil {
			t.Fatal(err)
		}
	}
	if n, m := len(r.one.LoadBalancers()), len(r.two.LoadBalancers()); n != 1 || m != 1 {
		t.Fatalf("%d and %d load balancers", n, m)
	}
	cleaner := r.cloud.(ccm.ClusterCleaner)
	if left, err := cleaner.CleanUpCluster(t.Context(), "cluster-2"); err != nil || left != nil {
		t.Errorf("for another cluster: %q, %v", left, err)
	}
	if err := untilDone(r.clock, func() error {
		left, err := cleaner.CleanUpCluster(t.Context(), "cluster-1")
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left: %q", left)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if n, m := len(r.one.LoadBalancers()), len(r.two.LoadBalancers()); n+m != 0 {
		t.Errorf("%d and %d load balancers remain", n, m)
	}
}

func TestRegions_ServiceRequestsAnotherRegion_StaysAndIsWarned(t *testing.T) {
	for name, term := range map[string]func(*twoRegions){
		"same term": func(*twoRegions) {}, "next term": (*twoRegions).open,
	} {
		t.Run(name, func(t *testing.T) {
			r := newTwoRegions(t)
			r.open()
			service := r.service("web", nil)
			if err := r.ensure(service); err != nil {
				t.Fatal(err)
			}
			term(r)
			service = r.requests(service, "two")
			if err := r.ensure(service); err != nil {
				t.Errorf("the error is %v", err)
			}
			r.wantCondition(service, corev1.ConditionTrue, "which cannot move")
			if n, m := len(r.one.LoadBalancers()), len(r.two.LoadBalancers()); n != 1 || m != 0 {
				t.Errorf("%d and %d load balancers", n, m)
			}
			service = r.requests(service, "three")
			if err := r.ensure(service); err != nil {
				t.Errorf("for a region that does not exist, the error is %v", err)
			}
			r.wantCondition(service, corev1.ConditionTrue, "not a region of cloud.conf")
			// After the load balancer is deleted, the Service may have one elsewhere.
			if err := r.one.DeleteLoadBalancer(r.one.LoadBalancers()[0].ID); err != nil {
				t.Fatal(err)
			}
			r.clock.Step(time.Minute)
			service = r.requests(service, "two")
			if err := r.ensure(service); err != nil || len(r.two.LoadBalancers()) != 1 {
				t.Errorf("%v; there are %d load balancers", err, len(r.two.LoadBalancers()))
			}
		})
	}
}

func TestRegions_NewServiceRequestsUnknownRegion_IsRefusedUntilCorrected(t *testing.T) {
	r := newTwoRegions(t)
	r.open()
	service := r.service("web", map[string]string{wantsRegion: "twoo"})
	balancers, _ := r.cloud.LoadBalancer()
	if _, err := balancers.EnsureLoadBalancer(t.Context(), "kubernetes", service,
		nil); err == nil || !strings.Contains(err.Error(), `did you mean "two"?`) {
		t.Errorf("the error is %v", err)
	}
	r.wantCondition(service, corev1.ConditionFalse, `did you mean "two"?`)
	reported := r.cloud.(ccm.ObjectReporter).LoadBalancerStatus()
	if len(reported) != 1 || reported[0].State != status.LoadBalancerRefused {
		t.Errorf("the status is %+v, want a refused Service", reported)
	}
	service = r.requests(service, "two")
	if err := r.ensure(service); err != nil {
		t.Fatal(err)
	}
	if n, m := len(r.one.LoadBalancers()), len(r.two.LoadBalancers()); n != 0 || m != 1 {
		t.Errorf("%d and %d load balancers", n, m)
	}
	reported = r.cloud.(ccm.ObjectReporter).LoadBalancerStatus()
	if len(reported) != 1 || reported[0].State != status.LoadBalancerReady {
		t.Errorf("the status is %+v, want a Service that is ready", reported)
	}
}

// The load balancer stays where it is. Another one would have another address.
func TestRegions_RegionIsRemovedFromCloudConf_ItsServiceIsRefused(t *testing.T) {
	for name, remove := range map[string]func(conf string) string{
		"one remains": func(conf string) string {
			before, _, _ := strings.Cut(conf, `[Global "two"]`)
			return before + conf[strings.Index(conf, "[Client]"):]
		},
		"several remain": func(conf string) string {
			return strings.ReplaceAll(conf, ` "two"]`, ` "other"]`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTwoRegions(t)
			r.open()
			service := r.service("web", map[string]string{wantsRegion: "two"})
			if err := r.ensure(service); err != nil {
				t.Fatal(err)
			}
			r.conf = remove(r.conf)
			r.open()
			service = r.current(service)
			balancers, _ := r.cloud.LoadBalancer()
			_, err := balancers.EnsureLoadBalancer(t.Context(), "kubernetes", service, nil)
			if err == nil || !strings.Contains(err.Error(), hasRegion+`: "two" is not a region`) {
				t.Errorf("the error is %v", err)
			}
			r.wantCondition(service, corev1.ConditionFalse, "add it again")
			reported := r.cloud.(ccm.ObjectReporter).LoadBalancerStatus()
			if len(reported) != 1 || reported[0].State != status.LoadBalancerRefused {
				t.Errorf("the status is %+v, want a refused Service", reported)
			}
			if err := balancers.EnsureLoadBalancerDeleted(t.Context(), "kubernetes",
				service); err == nil || !strings.Contains(err.Error(), "add it again") {
				t.Errorf("the error of the deletion is %v", err)
			}
			if n, m := len(r.one.LoadBalancers()), len(r.two.LoadBalancers()); n != 0 || m != 1 {
				t.Errorf("%d and %d load balancers", n, m)
			}
			if got := r.current(service).Annotations[hasRegion]; got != "two" {
				t.Errorf("the recorded region is %q", got)
			}
		})
	}
}

// requests changes the region that a Service requests.
func (r *twoRegions) requests(service *corev1.Service, region string) *corev1.Service {
	r.t.Helper()
	service = r.current(service).DeepCopy()
	if service.Annotations == nil {
		service.Annotations = map[string]string{}
	}
	service.Annotations[wantsRegion] = region
	services := r.kube.CoreV1().Services(service.Namespace)
	service, err := services.Update(r.t.Context(), service, metav1.UpdateOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	lister := r.factory.Core().V1().Services().Lister().Services(service.Namespace)
	waittest.Until(r.t, "the informer sees the region", func() error {
		seen, err := lister.Get(service.Name)
		if err == nil && seen.Annotations[wantsRegion] != region {
			err = fmt.Errorf("it is %q", seen.Annotations[wantsRegion])
		}
		return err
	})
	return service
}

// wantCondition checks the condition of a Service.
func (r *twoRegions) wantCondition(
	service *corev1.Service, current corev1.ConditionStatus, text string,
) {
	r.t.Helper()
	for _, c := range r.current(service).Status.Conditions {
		if c.Type == "fxccm.dev/LoadBalancerReady" && string(c.Status) == string(current) &&
			c.Reason == "InvalidAnnotation" && strings.Contains(c.Message, text) {
			return
		}
	}
	r.t.Errorf("the conditions are %+v, want one that is %s with %q",
		r.current(service).Status.Conditions, current, text)
}

func TestRegions_Routes_AreInTheRouterOfTheNode(t *testing.T) {
	r := newTwoRegions(t)
	pods := func(cidr string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.PodCIDRs = []string{cidr}
			n.Status.Conditions = []corev1.NodeCondition{{
				Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse,
			}}
		}
	}
	r.add(r.one, "node-1", labeled("one"), pods("10.244.1.0/24"))
	r.add(r.two, "node-2", labeled("two"), pods("10.244.2.0/24"))
	r.open()
	routes, ok := r.cloud.Routes()
	if !ok {
		t.Fatal("no routes are served")
	}
	for i := 1; i <= 2; i++ {
		if err := routes.CreateRoute(t.Context(), "kubernetes", "", &cloudprovider.Route{
			TargetNode:      types.NodeName(fmt.Sprint("node-", i)),
			DestinationCIDR: fmt.Sprintf("10.244.%d.0/24", i),
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range []*place{r.one, r.two} {
		got := p.Routes(p.router)
		if want := fmt.Sprintf("10.244.%d.0/24", i+1); len(got) != 1 || got[0].Destination != want {
			t.Errorf("router %d has the routes %+v, want %s", i+1, got, want)
		}
	}
	list := func() map[string]*cloudprovider.Route {
		t.Helper()
		all, err := routes.ListRoutes(t.Context(), "kubernetes")
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]*cloudprovider.Route{}
		for _, route := range all {
			found[string(route.TargetNode)+" "+route.DestinationCIDR] = route
		}
		return found
	}
	want := []string{"node-1 10.244.1.0/24", "node-2 10.244.2.0/24"}
	before := list()
	if got := slices.Sorted(maps.Keys(before)); !slices.Equal(got, want) {
		t.Errorf("the routes are %q, want %q", got, want)
	}
	r.two.goDown()
	r.clock.Step(time.Hour)
	for range 10 {
		if got := slices.Sorted(maps.Keys(list())); !slices.Equal(got, want) {
			t.Errorf("while a region is down, the routes are %q, want %q", got, want)
		}
		r.clock.Step(time.Minute)
	}
	if n := r.logged("Routes not listed"); n != 1 {
		t.Errorf("the log has the outage %d times in ten minutes, want once", n)
	}
	if err := routes.DeleteRoute(t.Context(), "kubernetes", before[want[1]]); err == nil {
		t.Error("a route of the region that is down was deleted")
	}
	r.one.goDown()
	r.clock.Step(time.Hour)
	if all, err := routes.ListRoutes(t.Context(), "kubernetes"); err == nil {
		t.Errorf("while all regions are down, the routes are %v", all)
	}
	r.one.RemoveFaults()
	r.two.RemoveFaults()
	r.clock.Step(time.Hour)
	if err := routes.DeleteRoute(t.Context(), "kubernetes", before[want[1]]); err != nil {
		t.Fatal(err)
	}
	if n, m := len(r.one.Routes(r.one.router)), len(r.two.Routes(r.two.router)); n != 1 || m != 0 {
		t.Errorf("after the deletion the routers have %d and %d routes, want 1 and 0", n, m)
	}
}

// Neither a former address of a node that is not selected, nor one that is no next hop, makes its
// route the cluster's.
func TestRoutes_NodeIsNotSelected_ItsRoutesAreForeign(t *testing.T) {
	r := newTwoRegions(t)
	r.selector = "!example.com/edge"
	edge := r.add(r.one, "edge", func(n *corev1.Node) {
		n.Labels = map[string]string{
			corev1.LabelTopologyRegion: "one", "example.com/edge": "",
		}
		n.Spec.PodCIDRs = []string{"10.244.1.0/24"}
		n.Status.Addresses = append(n.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "10.1.200.1"})
	})
	if err := r.one.SetRoutes(r.one.router,
		openstacktest.Route{
			Destination: "10.244.1.0/24", NextHop: edge.Status.Addresses[0].Address,
		},
		openstacktest.Route{Destination: "10.244.2.0/24", NextHop: "10.1.200.1"},
	); err != nil {
		t.Fatal(err)
	}
	r.open()
	routes, _ := r.cloud.Routes()
	for _, address := range []string{"as it was", "10.1.200.2"} {
		all, err := routes.ListRoutes(t.Context(), "kubernetes")
		if err != nil {
			t.Fatal(err)
		}
		for _, route := range all {
			t.Errorf("address %s: the route %+v is listed", address, *route)
		}
		edge.Status.Addresses[0].Address = "10.1.200.2"
		if _, err := r.kube.CoreV1().Nodes().UpdateStatus(t.Context(), edge,
			metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		r.untilNode("edge", "10.1.200.2")
		r.clock.Step(time.Hour)
	}
}

func TestRegions_RouteCannotBeCreated_TextBeginsWithTheService(t *testing.T) {
	r := newTwoRegions(t)
	r.add(r.two, "node-1")
	r.open()
	r.two.goDown()
	routes, _ := r.cloud.Routes()
	for node, service := range map[string]string{"node-1": "Keystone: ", "gone": "Kubernetes: "} {
		err := routes.CreateRoute(t.Context(), "kubernetes", "", &cloudprovider.Route{
			TargetNode: types.NodeName(node), DestinationCIDR: "10.244.1.0/24",
		})
		if err == nil {
			t.Fatalf("the route of %s is created", node)
		}
		wantShort(t, service, err)
	}
}

// untilNode waits until the provider's informer has the first address of a node.
func (r *twoRegions) untilNode(name, address string) {
	r.t.Helper()
	nodes := r.factory.Core().V1().Nodes().Lister()
	waittest.Until(r.t, "the node has its first address", func() bool {
		node, err := nodes.Get(name)
		return err == nil && node.Status.Addresses[0].Address == address
	})
}

func TestRegions_Preview_IsOfTheServicesRegion(t *testing.T) {
	r := newTwoRegions(t)
	nodes := []*corev1.Node{
		r.add(r.one, "node-1", labeled("one")), r.add(r.two, "node-2", labeled("two")),
	}
	loaded, err := cloudconf.Read([]byte(r.conf), cloudconf.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	preview := func(region string) (openstack.LoadBalancerPreview, error) {
		service := r.service("web-"+region, map[string]string{wantsRegion: region})
		return openstack.Preview(t.Context(), openstack.PreviewInput{
			Config: loaded.Config, ClusterName: "kubernetes", ClusterUID: "cluster-1",
			Service: service, Nodes: nodes,
		})
	}
	p, err := preview("two")
	shown := strings.Join(p.Desired, "\n")
	if err != nil || !strings.Contains(shown, nodes[1].Status.Addresses[0].Address) ||
		strings.Contains(shown, nodes[0].Status.Addresses[0].Address) {
		t.Errorf("%v; the load balancer in region two would be\n%s", err, shown)
	}
	if len(r.two.calls()) == 0 || len(r.one.calls()) > 0 {
		t.Error("the preview read the other region")
	}
	p, err = preview("three")
	if err != nil || !p.Refused || !strings.Contains(strings.Join(p.Notices, "\n"),
		`"three" is not a region of cloud.conf`) {
		t.Errorf("for a region that does not exist, the preview is %+v, %v", p, err)
	}
}

// A preview does not look up the project of a node.
func TestRegions_PreviewOfOneProject_MembersStay(t *testing.T) {
	r := newOneAnd(t, "one")
	nodes := []*corev1.Node{
		r.add(r.one, "node-1", regional("one"), labeled("one")),
		r.add(r.two, "node-2", regional("one"), labeled("one")),
	}
	r.open()
	service := r.service("web", map[string]string{wantsRegion: "two"})
	if err := r.ensure(service); err != nil {
		t.Fatal(err)
	}
	loaded, err := cloudconf.Read([]byte(r.conf), cloudconf.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	p, err := openstack.Preview(t.Context(), openstack.PreviewInput{
		Config: loaded.Config, ClusterName: "kubernetes", ClusterUID: "cluster-1",
		Service: r.current(service), Nodes: nodes,
	})
	shown := strings.Join(p.Desired, "\n")
	if err != nil || !strings.Contains(shown, nodes[1].Status.Addresses[0].Address) ||
		strings.Contains(shown, nodes[0].Status.Addresses[0].Address) {
		t.Errorf("%v; the load balancer would be\n%s", err, shown)
	}
}

func TestRegions_PreviewForPods_HasTheEndpointsOnTheRegionsNodes(t *testing.T) {
	r := newTwoRegions(t)
	nodes := []*corev1.Node{
		r.add(r.one, "node-1", labeled("one")), r.add(r.two, "node-2", labeled("two")),
	}
	loaded, err := cloudconf.Read([]byte(r.conf), cloudconf.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	region := loaded.Config.Regions["two"]
	region.LoadBalancer.PodRanges = []string{"10.244.0.0/16"}
	loaded.Config.Regions["two"] = region
	in := openstack.PreviewInput{
		Config: loaded.Config, ClusterName: "kubernetes", ClusterUID: "cluster-1", Nodes: nodes,
		Service: r.service("pods", map[string]string{
			wantsRegion: "two", "loadbalancer.openstack.org/member-target": "pod",
		}),
	}
	if _, err := openstack.Preview(t.Context(), in); err == nil {
		t.Error("without EndpointSlices the preview succeeds")
	}
	in.EndpointSlices = func(
		context.Context, *corev1.Service,
	) ([]*discoveryv1.EndpointSlice, error) {
		return []*discoveryv1.EndpointSlice{{
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
			Endpoints: []discoveryv1.Endpoint{
				{Addresses: []string{"10.244.1.1"}, NodeName: &nodes[0].Name},
				{Addresses: []string{"10.244.2.1"}, NodeName: &nodes[1].Name},
			},
		}}, nil
	}
	preview, err := openstack.Preview(t.Context(), in)
	shown := strings.Join(preview.Desired, "\n")
	if err != nil || !strings.Contains(shown, "10.244.2.1") ||
		strings.Contains(shown, "10.244.1.1") {
		t.Errorf("%v; the load balancer would be\n%s", err, shown)
	}
}

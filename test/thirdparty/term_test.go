package thirdparty_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/hosting/process"
	"github.com/fxccm/fxccm/hosting/registered"
	"github.com/fxccm/fxccm/test/thirdparty/awsstub"
)

// hosting is a way to host the provider.
type hosting struct {
	provider ccm.Provider
	// keepsKey reports whether all terms sign with the key of the first one.
	keepsKey bool
	// leaves are the goroutines that the provider never ends.
	leaves []goleak.Option
	// hostEnds is what the host calls at its own end.
	hostEnds func()
}

// hostings returns fxccm's ways to host a third-party provider.
func hostings(t *testing.T, cloud *awsstub.Cloud) map[string]hosting {
	t.Helper()
	stop := make(chan struct{})
	hostEnds := sync.OnceFunc(func() { close(stop) })
	t.Cleanup(hostEnds)
	never := []goleak.Option{
		goleak.IgnoreAnyFunction(
			"k8s.io/cloud-provider-aws/pkg/providers/v1/batcher.(*Batcher[...]).run"),
		// The provider does not shut down its event broadcaster.
		goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/watch.(*Broadcaster).loop"),
		goleak.IgnoreAnyFunction(
			"k8s.io/client-go/tools/record.(*eventBroadcasterImpl).StartEventWatcher.func1"),
	}
	all := map[string]hosting{
		"registered": {provider: registered.Provider("aws"), leaves: never},
		"factory": {
			// The host composes the configuration, without a file.
			provider: registered.Factory("aws",
				func(env ccm.ProviderEnv) (cloudprovider.Interface, error) {
					return cloudprovider.GetCloudProvider("aws",
						strings.NewReader(cloud.Config(env.ClusterName)))
				}),
			leaves: never,
		},
		"shared": {
			provider: registered.Shared(registered.Provider("aws"), stop),
			keepsKey: true, leaves: never, hostEnds: hostEnds,
		},
	}
	if runtime.GOOS == "linux" {
		all["process"] = hosting{provider: process.Provider(process.Options{Name: "aws"})}
	}
	return all
}

// forHostings runs a test for each of the named ways to host the provider.
func forHostings(
	t *testing.T, test func(*testing.T, *awsstub.Cloud, hosting), names ...string,
) {
	t.Helper()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t)
			h, ok := hostings(t, cloud)[name]
			if !ok {
				t.Skip("a process of its own needs Linux")
			}
			test(t, cloud, h)
		})
	}
}

// In the host's process, the provider's HTTP requests bypass the fence. The term ends at the worst
// moment: each worker has a request in flight, and more Services wait in upstream's queue. Each
// term signs with its own key, so that a late request of the first term can be told from one of the
// second.
func TestTerm_LostWhileTheProviderWorks_SendsNothingMore_AndTheNextOneFinishes(t *testing.T) {
	forHostings(t, loseWhileWorking, "registered", "factory", "shared", "process")
}

func loseWhileWorking(t *testing.T, cloud *awsstub.Cloud, h hosting) {
	const workers, services = 5, 10
	signWith(t, "FIRST")
	instance := launch(cloud, 1)
	knownNode(t, instance)
	c := startHosted(t, cloud, h.provider, monitorRarely,
		func(cfg *ccm.Config) { cfg.Service.ConcurrentSyncs = workers })
	// Once the node has addresses, only the service controller has work.
	ccmtest.Eventually(t, "the node has an address",
		ccmtest.NodeAddress(shared.Admin, instance.PrivateDNSName, corev1.NodeInternalIP))
	release := cloud.Hold("CreateLoadBalancer")
	defer release()
	for n := range services {
		loadBalancerService(t, fmt.Sprintf("web-%d", n))
	}
	waitRequests(t, cloud,
		func(all []awsstub.Request) bool { return count(all, creating) == workers })

	c.Elector.Lose(nil)
	ended := c.Elector.WaitReleased(t)
	if !ended.Drained || !errors.Is(ended.Err, election.ErrLost) {
		t.Fatalf("the term has ended with %+v, want it drained after the loss of leadership", ended)
	}
	before := len(cloud.Requests())
	waitRequests(t, cloud,
		func(all []awsstub.Request) bool { return count(all, abandoned) == workers })
	release()
	if made := cloud.Balancers(); len(made) > 0 {
		t.Errorf("canceled requests still created load balancers: %v", made)
	}

	// A controller that still runs would now have work.
	second := launch(cloud, 2)
	newNode(t, second, ccmtest.NodeLabel(corev1.LabelNodeExcludeBalancers, ""))
	if late := cloud.Requests()[before:]; len(late) > 0 {
		t.Errorf("between the terms the cloud received %v", late)
	}
	key := "SECOND"
	signWith(t, key)
	if h.keepsKey {
		key = "FIRST"
	}
	c.Elector.Lead()
	if status := c.WaitReady(); status.Term != 2 {
		t.Errorf("the Manager is in term %d, want 2", status.Term)
	}
	waitInitialized(t, second)
	for n := range services {
		name := fmt.Sprintf("web-%d", n)
		waitBalancer(t, cloud, name, instance.ID)
		ccmtest.Eventually(t, "the Service has an address",
			ccmtest.ServiceAddress(shared.Admin, "default", name))
	}

	for _, late := range cloud.Requests()[before:] {
		if late.AccessKey != key {
			t.Errorf("after the first term the cloud received %v", late)
		}
	}
	if made := count(cloud.Requests(),
		func(r awsstub.Request) bool { return creating(r) && r.Done }); made != services {
		t.Errorf("%d load balancers were created for %d Services", made, services)
	}
}

func creating(r awsstub.Request) bool  { return r.Action == "CreateLoadBalancer" }
func abandoned(r awsstub.Request) bool { return r.Abandoned }

// A stop lets requests in flight finish, and a stopped Manager can be started again.
func TestTerm_StoppedAndStartedAgain_SendsNothingBetween(t *testing.T) {
	cloud := newCloud(t)
	signWith(t, "FIRST")
	instance := launch(cloud, 1)
	c := start(t, cloud)
	// The lifecycle controller keeps sending requests for a node that is not ready.
	newNode(t, instance, ccmtest.NodeNotReady())
	waitInitialized(t, instance)

	c.Stop()
	before := len(cloud.Requests())
	second := launch(cloud, 2)
	newNode(t, second)
	signWith(t, "SECOND")
	c.Start()
	waitInitialized(t, second)

	for _, late := range cloud.Requests()[before:] {
		if late.AccessKey != "SECOND" {
			t.Errorf("after the stop the cloud received %v", late)
		}
	}
}

// Upstream builds a provider once in a process. The AWS provider starts goroutines in its factory
// and in Initialize that never end. They are idle, and a process of its own ends them.
func TestTerms_Ended_LeaveOnlyGoroutinesThatTheProviderNeverEnds(t *testing.T) {
	forHostings(t, leadThreeTimes, "registered", "shared", "process")
}

func leadThreeTimes(t *testing.T, cloud *awsstub.Cloud, h hosting) {
	const terms = 3
	signWith(t, "KEY")
	instance := launch(cloud, 1)
	c := startHosted(t, cloud, h.provider)
	for n := range terms {
		c.Elector.Lead()
		c.WaitReady()
		name := fmt.Sprintf("%s-%d", instance.PrivateDNSName, n)
		node := ccmtest.CreateNode(t, shared.Admin,
			ccmtest.TaintedNode(name, ccmtest.NodeProviderID(providerID(instance))))
		ccmtest.Eventually(t, "the node is initialized",
			ccmtest.Initialized(shared.Admin, node.Name))
		c.Elector.Lose(nil)
		c.Elector.WaitReleased(t)
	}
	if status := c.Manager.Status(); status.Term != terms {
		t.Fatalf("the Manager led %d terms, want %d", status.Term, terms)
	}

	c.Stop()
	if h.hostEnds != nil {
		h.hostEnds()
	}
	cloud.Close() // closes the SDK's idle connections, too
	c.VerifyNoLeaks(h.leaves...)
}

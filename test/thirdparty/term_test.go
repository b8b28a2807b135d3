package thirdparty_test

import (
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/test/thirdparty/awsstub"
)

// The provider's HTTP does not pass the fence, and its term ends in the worst moment: with as many
// requests in flight as there are workers, and as many Services behind them, which upstream's
// workers would still take from their queue. Each term signs with a key of its own, so that what
// the first one does late cannot be taken for work of the second.
func TestTerm_LostWhileTheProviderWorks_SendsNothingMore_AndTheNextOneFinishes(t *testing.T) {
	const workers, services = 5, 15
	cloud := newCloud(t)
	signWith(t, "FIRST")
	instance := launch(cloud, 1)
	knownNode(t, instance)
	c := start(t, cloud, monitorRarely,
		func(cfg *ccm.Config) { cfg.Service.ConcurrentSyncs = workers })
	// With its addresses the node controller is done, and only Services are left to work on.
	ccmtest.WaitNodeAddress(t, shared.Admin, instance.PrivateDNSName, corev1.NodeInternalIP)
	release := cloud.Hold("CreateLoadBalancer")
	defer release()
	for n := range services {
		loadBalancerService(t, fmt.Sprintf("web-%d", n))
	}
	waitRequests(t, cloud,
		func(all []awsstub.Request) bool { return count(all, creating) == workers })

	c.Elector.Lose(nil)
	ended := c.Elector.WaitReleased(t)
	if !ended.Drained || !errors.Is(ended.Err, ccm.ErrLeadershipLost) {
		t.Fatalf("the term has ended with %+v, want it drained, for leadership was lost", ended)
	}
	before := len(cloud.Requests())
	waitRequests(t, cloud,
		func(all []awsstub.Request) bool { return count(all, abandoned) == workers })
	release()
	if made := cloud.Balancers(); len(made) > 0 {
		t.Errorf("requests that were in flight went on to make load balancers: %v", made)
	}

	// There is work for a controller that has not noticed.
	second := launch(cloud, 2)
	newNode(t, second, ccmtest.NodeLabel(corev1.LabelNodeExcludeBalancers, ""))
	signWith(t, "SECOND")
	c.Elector.Lead()
	if status := c.WaitReady(); status.Term != 2 {
		t.Errorf("the Manager is in term %d, want 2", status.Term)
	}
	waitInitialized(t, second)
	for n := range services {
		name := fmt.Sprintf("web-%d", n)
		waitBalancer(t, cloud, name, instance.ID)
		ccmtest.WaitServiceAddress(t, shared.Admin, "default", name)
	}

	for _, late := range cloud.Requests()[before:] {
		if late.AccessKey != "SECOND" {
			t.Errorf("after the first term had ended the cloud still received %v", late)
		}
	}
	if made := count(cloud.Requests(),
		func(r awsstub.Request) bool { return creating(r) && r.Done }); made != services {
		t.Errorf("load balancers were made %d times for %d Services", made, services)
	}
}

func creating(r awsstub.Request) bool  { return r.Action == "CreateLoadBalancer" }
func abandoned(r awsstub.Request) bool { return r.Abandoned }

// A stop lets what is in flight finish, and a Manager that has stopped can be started again.
func TestTerm_StoppedAndStartedAgain_SendsNothingBetween(t *testing.T) {
	cloud := newCloud(t)
	signWith(t, "FIRST")
	instance := launch(cloud, 1)
	c := start(t, cloud)
	// The lifecycle controller asks about it all the time.
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
			t.Errorf("after the Manager had stopped the cloud still received %v", late)
		}
	}
}

// A provider of upstream's kind is made for one term in a process. The AWS provider starts
// goroutines in its factory and in Initialize that never end; they are the provider's alone, and
// idle.
func TestTerms_LeaveNothingBehind_ButWhatTheProviderNeverEnds(t *testing.T) {
	const terms = 5
	cloud := newCloud(t)
	signWith(t, "KEY")
	instance := launch(cloud, 1)
	c := start(t, cloud)
	for n := range terms {
		c.Elector.Lead()
		c.WaitReady()
		name := fmt.Sprintf("%s-%d", instance.PrivateDNSName, n)
		node := ccmtest.CreateNode(t, shared.Admin,
			ccmtest.TaintedNode(name, ccmtest.NodeProviderID(providerID(instance))))
		ccmtest.WaitNodeInitialized(t, shared.Admin, node.Name)
		c.Elector.Lose(nil)
		c.Elector.WaitReleased(t)
	}
	if status := c.Manager.Status(); status.Term != terms {
		t.Fatalf("there have been %d terms, want %d", status.Term, terms)
	}

	c.Stop()
	cloud.Close() // and with it the connections that the SDK keeps
	c.VerifyNoLeaks(ccmtest.Ignoring(
		goleak.IgnoreAnyFunction(
			"k8s.io/cloud-provider-aws/pkg/providers/v1/batcher.(*Batcher[...]).run"),
		// Of its event broadcaster, which it does not shut down.
		goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/watch.(*Broadcaster).loop"),
		goleak.IgnoreAnyFunction(
			"k8s.io/client-go/tools/record.(*eventBroadcasterImpl).StartEventWatcher.func1"),
	))
}

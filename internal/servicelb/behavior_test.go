package servicelb_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/internal/servicelb"
)

// A behavior is one of the service-lb-controller that a user, an operator or a provider relies on.
type behavior struct {
	// does says what the controller does.
	does string
	// report says what upstream's controller does instead, or names the public issues where it was
	// reported. Empty: upstream's controller does the same.
	report string
	// fails is a part of the error with which the test of upstream's controller shows the report.
	fails string
	// test returns an error if the controller does not do so.
	test func(*world) error
}

// want returns an error if two values differ.
func want[T any](what string, got, want T) error {
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		return fmt.Errorf("%s: got %s, want %s", what, g, w)
	}
	return nil
}

var errBroken = errors.New("quota exceeded")

var behaviors = []behavior{
	{
		"A new Service gets the finalizer, then its load balancer, then its address; events say so",
		"", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			if calls := w.calls(); len(calls) != 1 || !calls[0].wasFinalized {
				return fmt.Errorf("calls: %+v", calls)
			}
			return errors.Join(want("address", w.address("web"), "192.0.2.1"),
				want("finalizer", w.hasFinalizer("web"), true),
				want("events", w.events("Normal"),
					[]string{"EnsuredLoadBalancer", "EnsuringLoadBalancer"}))
		},
	},
	{
		"A deleted Service loses its load balancer, then the finalizer", "", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			w.delete("web")
			w.wait(time.Second)
			return errors.Join(want("calls", w.methods(), []string{"ensure", "get", "delete"}),
				want("Service", w.get("web") == nil, true),
				want("events", w.events("Normal"), []string{
					"DeletedLoadBalancer", "DeletingLoadBalancer",
					"EnsuredLoadBalancer", "EnsuringLoadBalancer",
				}))
		},
	},
	{
		"A Service of another type loses its load balancer, finalizer and address", "", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			w.change("web", asClusterIP)
			w.wait(time.Second)
			return errors.Join(want("calls", w.methods(), []string{"ensure", "get", "delete"}),
				want("finalizer", w.hasFinalizer("web"), false),
				want("address", w.address("web"), ""))
		},
	},
	{
		"A Service of another type is left alone", "", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web", asClusterIP)
			w.wait(time.Second)
			w.change("web", func(s *v1.Service) { s.Annotations = map[string]string{"a": "b"} })
			w.wait(time.Minute)
			return errors.Join(want("calls", w.methods(), []string(nil)),
				want("writes", w.writes(), 0))
		},
	},
	{
		"A change of the source ranges, ports, annotations, address, session affinity, traffic policy or IP families is ensured",
		"", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			for name, change := range map[string]func(*v1.Service){
				"source ranges": func(s *v1.Service) {
					s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"}
				},
				"ports": func(s *v1.Service) { s.Spec.Ports[0].NodePort++ },
				"another port": func(s *v1.Service) {
					s.Spec.Ports = append(s.Spec.Ports, v1.ServicePort{Name: "b", Port: 81})
				},
				"application protocol": func(s *v1.Service) {
					s.Spec.Ports[0].AppProtocol = new("https")
				},
				"affinity's timeout": func(s *v1.Service) {
					s.Spec.SessionAffinityConfig = &v1.SessionAffinityConfig{
						ClientIP: &v1.ClientIPConfig{TimeoutSeconds: new(int32(60))},
					}
				},
				"annotations": func(s *v1.Service) { s.Annotations = map[string]string{"a": "b"} },
				"address":     func(s *v1.Service) { s.Spec.LoadBalancerIP = "192.0.2.9" },
				"affinity": func(s *v1.Service) {
					s.Spec.SessionAffinity = v1.ServiceAffinityClientIP
				},
				"policy": func(s *v1.Service) {
					s.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
				},
				"health check port": func(s *v1.Service) { s.Spec.HealthCheckNodePort = 31000 },
				"families": func(s *v1.Service) {
					s.Spec.IPFamilies = []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}
				},
				"external IPs": func(s *v1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.8"} },
			} {
				w.forgetCalls()
				w.change("web", change)
				w.wait(time.Second)
				if err := want(name, w.methods(), []string{"ensure"}); err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		"The ipMode that the provider returns is written, and so is another one later", "", "",
		func(w *world) error {
			modes := func() (all []v1.LoadBalancerIPMode) {
				for _, ingress := range w.get("web").Status.LoadBalancer.Ingress {
					all = append(all, ptr.Deref(ingress.IPMode, ""))
				}
				return all
			}
			w.cloud.ipMode = v1.LoadBalancerIPModeProxy
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			first := modes()
			w.cloud.mu.Lock()
			w.cloud.ipMode = v1.LoadBalancerIPModeVIP
			w.cloud.mu.Unlock()
			w.change("web", func(s *v1.Service) { s.Spec.LoadBalancerIP = "192.0.2.9" })
			w.wait(time.Second)
			return errors.Join(
				want("first", first, []v1.LoadBalancerIPMode{v1.LoadBalancerIPModeProxy}),
				want("later", modes(), []v1.LoadBalancerIPMode{v1.LoadBalancerIPModeVIP}))
		},
	},
	{
		"A condition that another component has written to the status stays", "", "",
		func(w *world) error {
			types := func() (all []string) {
				for _, c := range w.get("web").Status.Conditions {
					all = append(all, c.Type)
				}
				return all
			}
			defer w.start(onlyDefault).stop()
			w.add("web", func(s *v1.Service) {
				s.Status.Conditions = []metav1.Condition{
					{
						Type: "example.com/Other", Status: metav1.ConditionTrue, Reason: "Mine",
						LastTransitionTime: metav1.Now(),
					},
				}
			})
			w.wait(time.Second)
			served, address := types(), w.address("web")
			w.change("web", asClusterIP)
			w.wait(time.Second)
			return errors.Join(want("address", address, "192.0.2.1"),
				want("finalizer", w.hasFinalizer("web"), false),
				want("conditions of the served", served, []string{"example.com/Other"}),
				want("conditions at the end", types(), []string{"example.com/Other"}))
		},
	},
	{
		"A change of a label, the selector or the internal traffic policy leads to no call", "", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			w.change("web", func(s *v1.Service) {
				s.Labels, s.Spec.Selector = map[string]string{"a": "b"}, map[string]string{"c": "d"}
			})
			w.wait(time.Minute)
			return want("calls", w.methods(), []string{"ensure"})
		},
	},
	{
		"A new or deleted node, or one with another provider ID, leads to an update of each load balancer",
		"", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.add("api")
			w.wait(time.Second)
			for name, change := range map[string]func(){
				"new": func() { w.addNode("node-2") },
				"provider ID": func() {
					w.changeNode("node-1", func(n *v1.Node) { n.Spec.ProviderID += "-b" })
				},
			} {
				w.forgetCalls()
				change()
				w.wait(5 * time.Second)
				if err := want(name, w.methods(), []string{"update", "update"}); err != nil {
					return err
				}
			}
			w.forgetCalls()
			w.deleteNode("node-2")
			w.wait(5 * time.Second)
			return errors.Join(want("deleted", w.methods(), []string{"update", "update"}),
				want("nodes", w.calls()[0].nodes, "node-1"))
		},
	},
	{
		"A node that is not ready stays in the load balancers (KEP-3458)", "", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.addNode("node-2")
			w.wait(time.Second)
			w.add("web")
			w.wait(time.Second)
			w.changeNode("node-2", func(n *v1.Node) {
				n.Status.Conditions[0].Status = v1.ConditionFalse
				n.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeNotReady, Effect: "NoExecute"}}
			})
			w.wait(time.Minute)
			w.change("web", func(s *v1.Service) { s.Spec.LoadBalancerIP = "192.0.2.9" })
			w.wait(time.Second)
			return errors.Join(want("calls", w.methods(), []string{"ensure", "ensure"}),
				want("nodes", w.calls()[1].nodes, "node-1 node-2"))
		},
	},
	{
		"A node with the label node.kubernetes.io/exclude-from-external-load-balancers is in no load balancer",
		"", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.addNode("node-2")
			w.wait(time.Second)
			w.add("web")
			w.wait(time.Second)
			w.changeNode("node-2", func(n *v1.Node) {
				n.Labels = map[string]string{v1.LabelNodeExcludeBalancers: ""}
			})
			w.wait(5 * time.Second)
			return errors.Join(want("calls", w.methods(), []string{"ensure", "update"}),
				want("nodes", w.calls()[1].nodes, "node-1"))
		},
	},
	{
		"A node that the selector leaves out is in no load balancer",
		"kubernetes/cloud-provider#35", "nodes: got node-1 node-2, want node-1",
		func(w *world) error {
			w.selector = "edge!=yes"
			defer w.start(onlyDefault).stop()
			w.addNode("node-2", func(n *v1.Node) { n.Labels = map[string]string{"edge": "yes"} })
			w.wait(time.Second)
			w.add("web")
			w.wait(time.Second)
			w.changeNode("node-1", func(n *v1.Node) { n.Labels = map[string]string{"edge": "yes"} })
			w.wait(5 * time.Second)
			calls := w.calls()
			return errors.Join(want("calls", w.methods(), []string{"ensure", "update"}),
				want("nodes", calls[0].nodes, "node-1"),
				want("nodes later", calls[len(calls)-1].nodes, ""))
		},
	},
	{
		"A failure is a Warning, and is tried again after 5 s, which double up to 5 minutes",
		"", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.fail("ensure", slices.Repeat([]error{errBroken}, 20)...)
			w.add("web")
			w.wait(time.Minute)
			first := len(w.methods())
			w.wait(30 * time.Minute)
			return errors.Join(want("calls in a minute", first, 4),
				want("calls in 31 minutes", len(w.methods()) < 13, true),
				want("Warning", slices.Contains(w.events("Warning"), "SyncLoadBalancerFailed"),
					true))
		},
	},
	{
		"A failure that stays is one line of the log, and a Warning again after half an hour, before that expires",
		"a Warning for each attempt", "Warnings: got 10, want 1",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.fail("ensure", slices.Repeat([]error{errBroken}, 100)...)
			w.add("web")
			w.wait(25 * time.Minute)
			tries := len(w.methods())
			if err := errors.Join(want("tried again", tries > 5, true),
				want("Warnings", len(w.events("Warning")), 1),
				want("lines", w.failuresLogged(errBroken.Error()), 1)); err != nil {
				return err
			}
			w.wait(30 * time.Minute)
			return errors.Join(want("tried again", len(w.methods()) > tries, true),
				want("Warnings after 55 minutes", len(w.events("Warning")), 2),
				want("lines after 55 minutes", w.failuresLogged(errBroken.Error()), 1))
		},
	},
	{
		"A failure that stays is one failure although each answer of the cloud has another request ID",
		"a Warning for each attempt", "Warnings: got 10, want 1",
		func(w *world) error {
			var answers []error
			for i := range 100 {
				answers = append(answers, fmt.Errorf("403 Forbidden (request %032x)", 1<<40+i))
			}
			defer w.start(onlyDefault).stop()
			w.fail("ensure", answers...)
			w.add("web")
			w.wait(25 * time.Minute)
			return errors.Join(want("tried again", len(w.methods()) > 5, true),
				want("Warnings", len(w.events("Warning")), 1),
				want("lines", w.failuresLogged("403 Forbidden"), 1))
		},
	},
	{
		"A failure with another cause, or of a changed Service, is a Warning and a line of the log",
		"a Warning for each attempt", "Warnings: got 9, want 3",
		func(w *world) error {
			const another = "no valid host"
			defer w.start(onlyDefault).stop()
			w.fail("ensure", slices.Repeat([]error{errBroken}, 3)...)
			w.add("web")
			w.wait(10 * time.Minute)
			w.fail("ensure", slices.Repeat([]error{errors.New(another)}, 100)...)
			w.change("web", func(s *v1.Service) { s.Spec.LoadBalancerIP = "192.0.2.8" })
			w.wait(time.Minute)
			w.change("web", func(s *v1.Service) { s.Spec.LoadBalancerIP = "192.0.2.9" })
			w.wait(time.Minute)
			return errors.Join(
				want("lines, first cause", w.failuresLogged(errBroken.Error()), 1),
				want("lines, other cause", w.failuresLogged(another), 2),
				want("Warnings", len(w.events("Warning")), 3))
		},
	},
	{
		"While there is no node, a Warning reports it", "", "",
		func(w *world) error {
			w.deleteNode("node-1")
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			return want("Warnings", w.events("Warning"), []string{"UnAvailableLoadBalancer"})
		},
	},
	{
		"A Service that another component serves (ImplementedElsewhere) gets neither address nor Warning",
		"", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.fail("ensure", slices.Repeat([]error{cloudprovider.ImplementedElsewhere}, 9)...)
			w.add("web")
			w.wait(time.Minute)
			return errors.Join(want("calls", w.methods(), []string{"ensure"}),
				want("address", w.address("web"), ""),
				want("Warnings", w.events("Warning"), []string(nil)))
		},
	},
	{
		"If another client removes the finalizer and the Service, its load balancer is deleted",
		"", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			w.slow("ensure", 5*time.Second)
			w.change("web", func(s *v1.Service) { s.Spec.LoadBalancerIP = "192.0.2.9" })
			w.wait(time.Second)
			now := metav1.Now()
			w.change("web", func(s *v1.Service) { s.Finalizers, s.DeletionTimestamp = nil, &now })
			w.wait(0)
			w.add("web")
			w.wait(time.Minute)
			return errors.Join(
				want("calls", w.methods(), []string{"ensure", "ensure", "delete", "ensure"}),
				want("balancers", len(w.cloud.balancers), 1))
		},
	},
	{
		"A load balancer whose deletion failed is deleted later", "", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			w.fail("delete", errBroken)
			w.delete("web")
			w.wait(time.Second)
			if err := want("finalizer", w.hasFinalizer("web"), true); err != nil {
				return err
			}
			w.wait(time.Minute)
			return errors.Join(want("Service", w.get("web") == nil, true),
				want("Warnings", w.events("Warning"), []string{"SyncLoadBalancerFailed"}))
		},
	},
	{
		"A Service that stopped to be a load balancer while no controller ran is cleaned up",
		"", "",
		func(w *world) error {
			m := w.start(onlyDefault)
			w.add("web")
			w.wait(time.Second)
			m.stop()
			w.change("web", asClusterIP)
			defer w.start(onlyDefault).stop()
			w.wait(time.Second)
			return errors.Join(want("calls", w.methods(), []string{"ensure", "get", "delete"}),
				want("finalizer", w.hasFinalizer("web"), false),
				want("address", w.address("web"), ""))
		},
	},
	{
		"A Service of another class is left alone, even when it is deleted with its controller's finalizer",
		"seen: it removes the finalizer when the Service is deleted", "writes: got 2, want 0",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web", ofClass("example.com/other"), func(s *v1.Service) {
				s.Finalizers = []string{"service.kubernetes.io/load-balancer-cleanup"}
				s.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "198.51.100.1"}}
			})
			w.wait(time.Minute)
			w.delete("web")
			w.wait(time.Minute)
			return errors.Join(want("calls", w.methods(), []string(nil)),
				want("writes", w.writes(), 0))
		},
	},

	// What follows was reported.
	{
		"A cloud that has not finished is asked again after its time, without an event",
		"each wait is a Warning", "Warnings: got [SyncLoadBalancerFailed",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.fail("ensure", slices.Repeat([]error{retryIn(time.Second)}, 8)...)
			w.add("web")
			w.wait(15 * time.Second)
			return errors.Join(want("calls", len(w.methods()), 9),
				want("address", w.address("web"), "192.0.2.1"),
				want("Warnings", w.events("Warning"), []string(nil)))
		},
	},
	{
		"Each repeated call has the nodes of its moment",
		"", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.fail("ensure", slices.Repeat([]error{retryIn(time.Second)}, 8)...)
			w.add("web")
			w.wait(1500 * time.Millisecond)
			w.addNode("node-2")
			w.wait(500 * time.Millisecond)
			w.forgetCalls()
			w.wait(10 * time.Second)
			for _, c := range w.calls() {
				if c.nodes != "node-1 node-2" {
					return fmt.Errorf("calls: %+v", w.calls())
				}
			}
			return want("finished", w.address("web"), "192.0.2.1")
		},
	},
	{
		"While a cloud has not finished for some Services, others are served, and no time is cut short",
		"", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.fail("ensure", slices.Repeat([]error{retryIn(20 * time.Second)}, 5)...)
			for i := range 6 {
				w.add(fmt.Sprint("web-", i))
			}
			w.wait(5 * time.Second)
			served := 0
			for i := range 6 {
				if w.address(fmt.Sprint("web-", i)) != "" {
					served++
				}
			}
			return want("served", served, 1)
		},
	},
	{
		"A deletion that has not finished takes no worker, and causes no Warning",
		"each wait is a Warning", "Warnings: got [SyncLoadBalancerFailed",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			for i := range 3 {
				w.add(fmt.Sprint("web-", i))
			}
			w.wait(time.Second)
			w.fail("delete", slices.Repeat([]error{retryIn(20 * time.Second)}, 3)...)
			for i := range 3 {
				w.delete(fmt.Sprint("web-", i))
			}
			w.wait(time.Second)
			w.add("new")
			w.wait(time.Second)
			if err := want("served", w.address("new") != "", true); err != nil {
				return err
			}
			w.wait(time.Minute)
			return errors.Join(want("Service", w.get("web-0") == nil, true),
				want("Warnings", w.events("Warning"), []string(nil)))
		},
	},
	{
		"For one Service at most one call is in flight, and the last has all nodes",
		"kubernetes/kubernetes#100846", "overlap",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			w.slow("ensure", 4*time.Second)
			w.slow("update", 2*time.Second)
			w.change("web", func(s *v1.Service) { s.Spec.LoadBalancerIP = "192.0.2.9" })
			w.wait(time.Second)
			w.addNode("node-2")
			w.wait(time.Minute)
			calls := w.calls()
			return errors.Join(noOverlap(calls),
				want("last", calls[len(calls)-1].nodes, "node-1 node-2"))
		},
	},
	{
		"No update of nodes begins while a load balancer is being deleted",
		"kubernetes/kubernetes#100846", "overlap",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			w.slow("delete", 3500*time.Millisecond)
			w.delete("web")
			w.wait(time.Second)
			w.addNode("node-2")
			w.wait(time.Minute)
			return errors.Join(noOverlap(w.calls()),
				want("calls", w.methods(), []string{"ensure", "get", "delete"}))
		},
	},
	{
		"An update of nodes has the Service as it is at that moment",
		"linode/linode-cloud-controller-manager#410", "labels: got map[], want map[tier:front]",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			tier := map[string]string{"tier": "front"}
			w.change("web", func(s *v1.Service) { s.Labels = tier })
			w.wait(time.Second)
			w.addNode("node-2")
			w.wait(5 * time.Second)
			if err := want("calls", w.methods(), []string{"ensure", "update"}); err != nil {
				return err
			}
			update := w.calls()[1]
			return errors.Join(want("finalized", update.finalized, true),
				want("labels", update.labels, tier), want("address", update.address, "192.0.2.1"))
		},
	},
	{
		"Another address, label or taint of a node leads to one update of each load balancer",
		"kubernetes/kubernetes#92518, kubernetes/cloud-provider-aws#824",
		"first address: got [], want [update]",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.addNode("node-2", func(n *v1.Node) { n.Spec.ProviderID = "" })
			w.wait(time.Second)
			w.add("web")
			w.wait(time.Second)
			address := func(text string) func(*v1.Node) {
				return func(n *v1.Node) {
					n.Status.Addresses = []v1.NodeAddress{
						{Type: v1.NodeInternalIP, Address: text},
					}
				}
			}
			for _, each := range []struct {
				what    string
				change  func(*v1.Node)
				address string
			}{
				{"first address", address("10.0.0.2"), "10.0.0.2"},
				{"another address", address("10.0.0.3"), "10.0.0.3"},
				{
					"label", func(n *v1.Node) { n.Labels = map[string]string{"zone": "a"} },
					"10.0.0.3",
				},
				{
					"taint", func(n *v1.Node) {
						n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: "example.com/drained"})
					},
					"10.0.0.3",
				},
			} {
				w.forgetCalls()
				w.changeNode("node-2", each.change)
				w.wait(5 * time.Second)
				if err := want(each.what, w.methods(), []string{"update"}); err != nil {
					return err
				}
				if err := want("nodes after "+each.what, w.calls()[0].nodes,
					"node-1 node-2="+each.address); err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		"An annotation of a node that changes every few seconds leads to no update and no event",
		"", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			before := len(w.events("Normal"))
			w.forgetCalls()
			for i := range 60 {
				w.changeNode("node-1", func(n *v1.Node) {
					n.Annotations = map[string]string{"example.com/heartbeat": fmt.Sprint(i)}
				})
				w.wait(10 * time.Second)
			}
			return errors.Join(want("calls", w.methods(), []string(nil)),
				want("events", len(w.events("Normal")), before))
		},
	},
	{
		"A node that the cluster autoscaler is about to remove, or that is being deleted, leaves the load balancers at once",
		"gardener/machine-controller-manager#1054", "nodes: got node-1 node-2 node-3",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.addNode("node-2")
			w.addNode("node-3")
			w.wait(time.Second)
			w.add("web")
			w.wait(time.Second)
			w.changeNode("node-2", func(n *v1.Node) {
				n.Spec.Taints = []v1.Taint{{Key: "ToBeDeletedByClusterAutoscaler"}}
			})
			w.wait(2 * time.Second)
			calls := w.calls()
			if err := want("nodes", calls[len(calls)-1].nodes, "node-1 node-3"); err != nil {
				return err
			}
			now := metav1.Now()
			w.changeNode("node-3", func(n *v1.Node) {
				n.DeletionTimestamp, n.Finalizers = &now, []string{"example.com/mine"}
			})
			w.wait(2 * time.Second)
			calls = w.calls()
			return want("nodes", calls[len(calls)-1].nodes, "node-1")
		},
	},
	{
		"When such a node is gone, the load balancers are updated again: the provider may have kept it without new connections",
		"no update", "calls: got [], want [update]",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.addNode("node-2", func(n *v1.Node) {
				n.Spec.Taints = []v1.Taint{{Key: "ToBeDeletedByClusterAutoscaler"}}
			})
			w.wait(time.Second)
			w.add("web")
			w.wait(5 * time.Second)
			w.forgetCalls()
			w.deleteNode("node-2")
			w.wait(5 * time.Second)
			return want("calls", w.methods(), []string{"update"})
		},
	},
	{
		"A node whose instance is shut down leaves the load balancers at once, and returns when the instance runs",
		"kubernetes/kubernetes#13346, kubernetes/kubernetes#16257", "off: got node-1 node-2",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.addNode("node-2")
			w.wait(time.Second)
			w.add("web")
			w.wait(time.Second)
			w.changeNode("node-2", func(n *v1.Node) {
				n.Status.Conditions[0].Status = v1.ConditionUnknown
				n.Spec.Taints = []v1.Taint{
					{Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoExecute},
					{Key: api.TaintNodeShutdown, Effect: v1.TaintEffectNoSchedule},
				}
			})
			w.wait(2 * time.Second)
			off := w.calls()
			w.changeNode("node-2", func(n *v1.Node) { n.Spec.Taints = n.Spec.Taints[:1] })
			w.wait(2 * time.Second)
			on := w.calls()
			return errors.Join(want("off", off[len(off)-1].nodes, "node-1"),
				want("on", on[len(on)-1].nodes, "node-1 node-2"),
				want("calls", w.methods(), []string{"ensure", "update", "update"}))
		},
	},
	{
		"A new node without a network becomes a member when it is ready",
		"kubernetes/kubernetes#133052, kubernetes/cloud-provider#76",
		"calls: got [ensure update], want [ensure]",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			w.addNode("node-2", func(n *v1.Node) {
				n.Status.Conditions = []v1.NodeCondition{
					{Type: v1.NodeReady, Status: v1.ConditionFalse},
					{Type: v1.NodeNetworkUnavailable, Status: v1.ConditionTrue},
				}
			})
			w.wait(5 * time.Second)
			if err := want("calls", w.methods(), []string{"ensure"}); err != nil {
				return err
			}
			w.changeNode("node-2", func(n *v1.Node) {
				n.Status.Conditions[0].Status = v1.ConditionTrue
				n.Status.Conditions[1].Status = v1.ConditionFalse
			})
			w.wait(5 * time.Second)
			return errors.Join(want("calls", w.methods(), []string{"ensure", "update"}),
				want("nodes", w.calls()[1].nodes, "node-1 node-2"))
		},
	},
	{
		"A burst of nodes leads to at most two updates of a load balancer, and then one a second",
		"an update for each node and load balancer", "few updates: got false",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			for i := range 5 {
				w.add(fmt.Sprint("web-", i))
			}
			w.wait(2 * time.Second)
			w.forgetCalls()
			for i := range 40 {
				w.addNode(fmt.Sprint("new-", i))
				w.wait(100 * time.Millisecond)
			}
			w.wait(5 * time.Second)
			updates, nodes := map[string]int{}, map[string]int{}
			for _, c := range w.calls() {
				updates[c.service]++
				nodes[c.service] = len(strings.Fields(c.nodes))
			}
			var err error
			for i := range 5 {
				name := fmt.Sprint("web-", i)
				err = errors.Join(err, want("few updates", updates[name] <= 6, true),
					want("nodes", nodes[name], 41))
			}
			return err
		},
	},
	{
		"A Service that went to another class while no controller ran loses the old load balancer, finalizer and address",
		"kubernetes/kubernetes#78954, kubernetes/cloud-provider-aws#528",
		"finalizer: got true, want false",
		func(w *world) error {
			m := w.start(onlyDefault)
			w.add("web")
			w.wait(time.Second)
			m.stop()
			w.change("web", asClusterIP)
			w.change("web", ofClass("example.com/other"))
			defer w.start(onlyDefault).stop()
			w.wait(time.Second)
			return errors.Join(want("calls", w.methods(), []string{"ensure", "get", "delete"}),
				want("finalizer", w.hasFinalizer("web"), false),
				want("address", w.address("web"), ""))
		},
	},
	{
		"A Service that goes to another class loses the old load balancer, finalizer and address",
		"", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			w.slow("get", time.Second)
			w.change("web", asClusterIP)
			w.change("web", ofClass("example.com/other"))
			w.wait(time.Minute)
			w.change("web", func(s *v1.Service) { s.Annotations = map[string]string{"a": "b"} })
			w.wait(time.Minute)
			return errors.Join(want("balancers", len(w.cloud.balancers), 0),
				want("finalizer", w.hasFinalizer("web"), false),
				want("address", w.address("web"), ""))
		},
	},
	{
		"Of a Service that another controller serves already, only the old load balancer goes",
		"kubernetes-sigs/aws-load-balancer-controller#2489", "balancers: got 1, want 0",
		func(w *world) error {
			m := w.start(onlyDefault)
			w.add("web")
			w.wait(time.Second)
			m.stop()
			w.change("web", asClusterIP)
			w.change("web", ofClass("example.com/other"))
			w.change("web", func(s *v1.Service) {
				s.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "198.51.100.1"}}
			})
			defer w.start(onlyDefault).stop()
			w.wait(time.Second)
			return errors.Join(want("balancers", len(w.cloud.balancers), 0),
				want("finalizer", w.hasFinalizer("web"), true),
				want("address", w.address("web"), "198.51.100.1"))
		},
	},
	{
		"The load balancer of a class that another Manager serves is left to it, also while that Manager is down",
		"kube-vip/kube-vip-cloud-provider#100", "finalizer: got false",
		func(w *world) error {
			if w.upstream {
				// Upstream's serves one class only, so the other controller is played.
				w.add("web", asClusterIP, func(s *v1.Service) {
					s.Finalizers = []string{"service.kubernetes.io/load-balancer-cleanup"}
				})
				defer w.start(onlyDefault).stop()
				w.wait(time.Minute)
				return want("finalizer", w.hasFinalizer("web"), true)
			}
			classB := servicelb.Classes{Names: []string{"example.com/b"}}
			return errors.Join(
				cleanedByItsOwner(w, "a", onlyDefault, classB, func(*v1.Service) {}),
				cleanedByItsOwner(w, "b", classB, onlyDefault, ofClass("example.com/b")))
		},
	},
	{
		"A Service that another Manager has claimed during the clean-up is left to it, even in the same cloud",
		"not comparable: upstream's serves one class", "",
		func(w *world) error {
			classB := servicelb.Classes{Names: []string{"example.com/b"}}
			defer w.start(onlyDefault).stop()
			defer w.start(classB).stop()
			w.add("web")
			w.wait(time.Second)
			w.fail("delete", retryIn(5*time.Second), retryIn(5*time.Second))
			w.change("web", asClusterIP)
			w.wait(time.Second)
			w.change("web", ofClass("example.com/b"))
			w.wait(time.Minute)
			return errors.Join(
				want("calls", slices.Compact(w.methods()), []string{
					"ensure", "get", "delete", "get",
					"delete", "get", "delete", "ensure",
				}),
				want("balancers", len(w.cloud.balancers), 1),
				want("mark", w.get("web").Annotations[servicelb.ServedClass], "example.com/b"),
				want("finalizer", w.hasFinalizer("web"), true),
				want("address", w.address("web") != "", true))
		},
	},
	{
		"A load balancer that another Manager creates while the clean-up looks for the old one stays",
		"not comparable: upstream's serves one class", "",
		func(w *world) error {
			defer w.start(servicelb.Classes{Names: []string{"example.com/b"}}).stop()
			w.add("web", ofClass("example.com/b"))
			w.wait(time.Second)
			w.slow("get", 5*time.Second)
			w.change("web", asClusterIP)
			w.wait(time.Second)
			w.change("web", func(s *v1.Service) {
				s.Spec.Type, s.Finalizers, s.Annotations = v1.ServiceTypeLoadBalancer, nil, nil
			})
			defer w.start(onlyDefault).stop()
			w.wait(time.Minute)
			return errors.Join(want("balancers", len(w.cloud.balancers), 1),
				want("mark", w.get("web").Annotations,
					map[string]string{servicelb.ServedClass: ""}),
				want("address", w.address("web"), "192.0.2.1"))
		},
	},
	{
		"While the Manager that has to clean up is down, the next one waits, and a Warning reports it",
		"not comparable: upstream's serves one class", "",
		func(w *world) error {
			m := w.start(onlyDefault)
			w.add("web")
			w.wait(time.Second)
			m.stop()
			w.change("web", asClusterIP)
			w.change("web", ofClass("example.com/b"))
			defer w.start(servicelb.Classes{Names: []string{"example.com/b"}}).stop()
			w.wait(time.Minute)
			if err := errors.Join(want("calls", w.methods(), []string{"ensure"}),
				want("Warnings", slices.Compact(w.events("Warning")),
					[]string{"SyncLoadBalancerFailed"})); err != nil {
				return err
			}
			defer w.start(onlyDefault).stop()
			w.wait(10 * time.Minute)
			return errors.Join(
				want("calls", w.methods(), []string{"ensure", "get", "delete", "ensure"}),
				want("mark", w.get("web").Annotations[servicelb.ServedClass], "example.com/b"))
		},
	},
	{
		"While a change of a Service fails, its load balancer still gets its nodes", "", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			w.fail("ensure", slices.Repeat([]error{errBroken}, 100)...)
			w.change("web", func(s *v1.Service) { s.Annotations = map[string]string{"a": "b"} })
			w.wait(10 * time.Minute)
			w.forgetCalls()
			w.addNode("node-2")
			w.wait(5 * time.Second)
			if err := want("calls", w.methods(), []string{"update"}); err != nil {
				return err
			}
			return want("nodes", w.calls()[0].nodes, "node-1 node-2")
		},
	},
	{
		"Changes of nodes do not shorten the pause after a failure, and a Service without a load balancer has none to update",
		"an update for each change", "few calls: got false",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.fail("ensure", slices.Repeat([]error{errBroken}, 100)...)
			w.add("web")
			for i := range 60 {
				w.wait(10 * time.Second)
				w.addNode(fmt.Sprint("new-", i))
			}
			return want("few calls", len(w.methods()) <= 8, true)
		},
	},
	{
		"A Service that vanishes during a call, without its finalizer, loses its load balancer",
		"the load balancer stays", "balancers: got 1, want 0",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.slow("ensure", 5*time.Second)
			w.add("web")
			w.wait(time.Second)
			w.change("web", func(s *v1.Service) { s.Finalizers = nil })
			w.vanish("web")
			w.wait(time.Minute)
			return want("balancers", len(w.cloud.balancers), 0)
		},
	},
	{
		"A status or finalizer that another client removes during a call is restored",
		"kubernetes/kubernetes#136316", "address: got , want 192.0.2.1",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			w.slow("ensure", 5*time.Second)
			w.change("web", func(s *v1.Service) { s.Spec.LoadBalancerIP = "192.0.2.9" })
			w.wait(time.Second)
			w.change("web", func(s *v1.Service) {
				s.Finalizers, s.Status.LoadBalancer.Ingress = nil, nil
			})
			w.wait(time.Minute)
			return errors.Join(want("finalizer", w.hasFinalizer("web"), true),
				want("address", w.address("web"), "192.0.2.1"))
		},
	},
	{
		"A Service that becomes a load balancer again while the old one is being deleted is served",
		"the Service has no address", "address: got , want 192.0.2.1",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			w.slow("delete", 5*time.Second)
			w.change("web", asClusterIP)
			w.wait(time.Second)
			w.change("web", func(s *v1.Service) { s.Spec.Type = v1.ServiceTypeLoadBalancer })
			w.wait(time.Minute)
			return errors.Join(want("balancers", len(w.cloud.balancers), 1),
				want("finalizer", w.hasFinalizer("web"), true),
				want("address", w.address("web"), "192.0.2.1"))
		},
	},
	{
		"However often a deletion is tried, one event reports its begin",
		"an event for each attempt", "events: got 6, want 1",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			w.fail("delete", slices.Repeat([]error{retryIn(time.Second)}, 5)...)
			w.delete("web")
			w.wait(10 * time.Minute)
			if err := want("Service", w.get("web") == nil, true); err != nil {
				return err
			}
			begun := slices.DeleteFunc(w.events("Normal"), func(reason string) bool {
				return reason != "DeletingLoadBalancer"
			})
			return want("events", len(begun), 1)
		},
	},
	{
		"A provider that panics, or returns an error without a value, fails like any other",
		"not comparable: the process ends", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			var none *api.RetryError
			w.fail("ensure", none)
			w.add("web")
			w.wait(time.Minute)
			return want("address", w.address("web"), "192.0.2.1")
		},
	},
	{
		"The finalizer of another controller stays if the cloud has no load balancer of the Service",
		"kube-vip/kube-vip-cloud-provider#100", "finalizer: got false",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web", asClusterIP, func(s *v1.Service) {
				s.Finalizers = []string{"service.kubernetes.io/load-balancer-cleanup"}
			})
			w.wait(time.Minute)
			return errors.Join(want("finalizer", w.hasFinalizer("web"), true),
				want("Warnings", w.events("Warning"), []string{"LoadBalancerFinalizerKept"}))
		},
	},
	{
		"The next run finishes a clean-up after another cloud controller manager that a stop interrupts",
		"", "",
		func(w *world) error {
			m := w.start(onlyDefault)
			w.add("web")
			w.wait(time.Second)
			m.stop()
			w.change("web", func(s *v1.Service) {
				s.Spec.Type, s.Annotations = v1.ServiceTypeClusterIP, nil
			})
			w.slow("delete", 5*time.Second)
			m = w.start(onlyDefault)
			w.wait(time.Second)
			m.stop() // the request has reached the cloud
			w.slow("delete", 0)
			if err := want("balancers", len(w.cloud.balancers), 0); err != nil {
				return err
			}
			defer w.start(onlyDefault).stop()
			w.wait(time.Minute)
			return want("finalizer", w.hasFinalizer("web"), false)
		},
	},
	{
		"A Service that is being deleted and has another finalizer is left alone",
		"kubernetes/cloud-provider-gcp#981", "Warnings: got [SyncLoadBalancerFailed",
		func(w *world) error {
			m := w.start(onlyDefault)
			w.add("web", func(s *v1.Service) { s.Finalizers = []string{"example.com/mine"} })
			w.wait(time.Second)
			w.delete("web")
			w.wait(time.Second)
			w.forgetCalls()
			w.change("web", func(s *v1.Service) { s.Annotations = map[string]string{"a": "b"} })
			w.wait(time.Minute)
			m.stop()
			defer w.start(onlyDefault).stop()
			w.wait(time.Minute)
			return errors.Join(want("calls", w.methods(), []string(nil)),
				want("writes", w.writes(), 0),
				want("finalizers", w.get("web").Finalizers, []string{"example.com/mine"}),
				want("Warnings", w.events("Warning"), []string(nil)))
		},
	},
	{
		"A status that another client empties or changes is restored",
		"kubernetes/kubernetes#136316", "address: got , want 192.0.2.1",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			for _, ingress := range [][]v1.LoadBalancerIngress{nil, {{IP: "198.51.100.1"}}} {
				w.change("web", func(s *v1.Service) { s.Status.LoadBalancer.Ingress = ingress })
				w.wait(45 * time.Second)
				if err := want("address", w.address("web"), "192.0.2.1"); err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		"A finalizer that another client removes is restored",
		"kubernetes/kubernetes#136316", "finalizer: got false",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			w.change("web", func(s *v1.Service) { s.Finalizers, s.Annotations = nil, nil })
			w.wait(45 * time.Second)
			return want("finalizer", w.hasFinalizer("web"), true)
		},
	},
	{
		"A restart changes nothing if all Services are up to date, even for a cloud that leaves ipMode empty",
		"a patch for each Service", "writes: got 3, want 0",
		func(w *world) error {
			w.cloud.ipMode = ""
			m := w.start(onlyDefault)
			for i := range 3 {
				w.add(fmt.Sprint("web-", i))
			}
			w.wait(time.Second)
			m.stop()
			for i := range 3 { // as the API server defaults it
				w.change(fmt.Sprint("web-", i), func(s *v1.Service) {
					mode := v1.LoadBalancerIPModeVIP
					s.Status.LoadBalancer.Ingress[0].IPMode = &mode
				})
			}
			w.forgetCalls()
			defer w.start(onlyDefault).stop()
			w.wait(time.Minute)
			return errors.Join(want("calls", len(w.methods()), 3), want("writes", w.writes(), 0))
		},
	},
	{
		"The address that another component writes stays if the provider returns none, and leads to no call",
		"", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.fail("ensure", slices.Repeat([]error{cloudprovider.ImplementedElsewhere}, 9)...)
			w.add("elsewhere")
			w.wait(time.Second)
			w.fail("ensure")
			w.cloud.hidesAddresses = true
			w.add("empty")
			w.wait(10 * time.Second)
			w.forgetCalls()
			for _, name := range []string{"elsewhere", "empty"} {
				w.change(name, func(s *v1.Service) {
					s.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "198.51.100.1"}}
				})
			}
			w.wait(time.Minute)
			return errors.Join(want("calls", w.methods(), []string(nil)),
				want("elsewhere", w.address("elsewhere"), "198.51.100.1"),
				want("empty", w.address("empty"), "198.51.100.1"))
		},
	},
	{
		"The time that a cloud names for the next call is kept also right after another call",
		"", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.slow("ensure", 100*time.Millisecond)
			w.add("web")
			w.wait(time.Second)
			w.fail("ensure", retryIn(20*time.Second))
			w.change("web", func(s *v1.Service) { s.Spec.LoadBalancerIP = "192.0.2.9" })
			w.wait(15 * time.Second)
			early := w.methods()
			w.wait(10 * time.Second)
			return errors.Join(want("early", early, []string{"ensure", "ensure"}),
				want("later", w.methods(), []string{"ensure", "ensure", "ensure"}))
		},
	},
	{
		"The time that a cloud names for the next call is kept also right after another client's change",
		"", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			w.change("web", func(s *v1.Service) { s.Status.LoadBalancer.Ingress = nil })
			w.wait(100 * time.Millisecond)
			w.fail("ensure", retryIn(20*time.Second))
			w.change("web", func(s *v1.Service) { s.Spec.LoadBalancerIP = "192.0.2.9" })
			w.wait(15 * time.Second)
			early := w.methods()
			w.wait(10 * time.Second)
			return errors.Join(want("early", early, []string{"ensure", "ensure"}),
				want("later", w.methods(), []string{"ensure", "ensure", "ensure"}))
		},
	},
	{
		"The time that a cloud names for the end of a deletion is kept right after another client's change",
		"seen: it is asked again after 5 s", "early: got [ensure get delete get delete]",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			w.change("web", func(s *v1.Service) { s.Status.LoadBalancer.Ingress = nil })
			w.wait(100 * time.Millisecond)
			w.fail("delete", retryIn(20*time.Second))
			w.change("web", asClusterIP)
			w.wait(15 * time.Second)
			early := w.methods()
			w.wait(10 * time.Second)
			return errors.Join(want("early", early, []string{"ensure", "get", "delete"}),
				want("later", w.methods(), []string{"ensure", "get", "delete", "get", "delete"}),
				want("finalizer", w.hasFinalizer("web"), false))
		},
	},
	{
		"A Service that needs no load balancer any more when it is there is cleaned up without a Warning",
		"seen: a Warning, because the API server refuses the address",
		"Warnings: got [SyncLoadBalancerFailed",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.slow("ensure", 5*time.Second)
			w.add("web")
			w.wait(time.Second)
			w.change("web", asClusterIP)
			w.wait(time.Minute)
			return errors.Join(want("Warnings", w.events("Warning"), []string(nil)),
				want("balancers", len(w.cloud.balancers), 0),
				want("finalizer", w.hasFinalizer("web"), false))
		},
	},
	{
		"An update of nodes that has not finished or that fails is made up for", "", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			w.fail("update", retryIn(time.Second), errBroken)
			w.addNode("node-2")
			w.wait(20 * time.Second)
			calls := w.calls()
			return want("nodes", calls[len(calls)-1].nodes, "node-1 node-2")
		},
	},
	{
		"A restart records no event about a Service that is served",
		"each Service gets two events at each restart", "events: got 4, want 2",
		func(w *world) error {
			m := w.start(onlyDefault)
			w.add("web")
			w.wait(time.Second)
			m.stop()
			before := len(w.events("Normal"))
			defer w.start(onlyDefault).stop()
			w.wait(time.Minute)
			return want("events", len(w.events("Normal")), before)
		},
	},
	{
		"A missing right to patch Services is reported, until it is there or the Service is gone",
		"seen: it is only logged, and an event of each Service", "reported: got false",
		func(w *world) error {
			const right = "permission to patch services/status"
			var isMissing atomic.Bool
			isMissing.Store(true)
			w.client.PrependReactor("patch", "services",
				func(clienttesting.Action) (bool, runtime.Object, error) {
					return isMissing.Load(), nil, apierrors.NewForbidden(v1.Resource("services"),
						"web", errors.New(`User "ccm" cannot patch resource "services/status"`))
				})
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			missing := w.hasTrouble(right)
			w.vanish("web")
			w.wait(time.Second)
			gone := w.hasTrouble(right)
			w.add("api")
			w.wait(time.Second)
			again := w.hasTrouble(right)
			isMissing.Store(false)
			w.wait(time.Minute)
			return errors.Join(want("reported", missing, true), want("gone", gone, false),
				want("reported again", again, true), want("over", w.hasTrouble(right), false),
				want("address", w.address("api") != "", true))
		},
	},
	{
		"A Service that another component serves can be deleted, also if the provider leaves each call to that component",
		"seen: a Warning for each attempt, and the finalizer stays", "Service: got false",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			elsewhere := slices.Repeat([]error{cloudprovider.ImplementedElsewhere}, 100)
			w.fail("ensure", elsewhere...)
			w.fail("get", elsewhere...)
			w.fail("delete", elsewhere...)
			w.add("web")
			w.wait(time.Second)
			w.delete("web")
			w.wait(time.Minute)
			return errors.Join(want("Service", w.get("web") == nil, true),
				want("Warnings", w.events("Warning"), []string(nil)))
		},
	},
	{
		"A load balancer gets the nodes that came while no controller ran, although its Service cannot be ensured",
		"seen: it gets none until the Service can be ensured",
		"updates: got [], want [node-1 node-2]",
		func(w *world) error {
			m := w.start(onlyDefault)
			w.add("web")
			w.wait(time.Second)
			m.stop()
			w.addNode("node-2")
			w.fail("ensure", slices.Repeat([]error{errBroken}, 100)...)
			w.forgetCalls()
			defer w.start(onlyDefault).stop()
			w.wait(time.Minute)
			var updates []string
			for _, c := range w.calls() {
				if c.method == "update" {
					updates = append(updates, c.nodes)
				}
			}
			return want("updates", updates, []string{"node-1 node-2"})
		},
	},
	{
		"A node that comes together with a change of a Service that fails becomes a member",
		"", "",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(2 * time.Second)
			w.addNode("node-2")
			w.wait(500 * time.Millisecond)
			w.fail("ensure", slices.Repeat([]error{errBroken}, 100)...)
			w.slow("ensure", 2*time.Second)
			w.addNode("node-3") // its update waits until a second after that of node-2
			w.change("web", func(s *v1.Service) { s.Spec.LoadBalancerIP = "192.0.2.9" })
			w.wait(time.Minute)
			nodes := ""
			for _, c := range w.calls() {
				if c.method == "update" {
					nodes = c.nodes
				}
			}
			return want("nodes", nodes, "node-1 node-2 node-3")
		},
	},
	{
		"The next run finishes a clean-up that a stop interrupts, of a Service that went to another class",
		"kubernetes/kubernetes#78954", "balancers: got 1, want 0",
		func(w *world) error {
			m := w.start(onlyDefault)
			w.add("web")
			w.wait(time.Second)
			m.stop()
			w.change("web", asClusterIP)
			w.change("web", ofClass("example.com/other"))
			w.slow("delete", 5*time.Second)
			m = w.start(onlyDefault)
			w.wait(time.Second)
			m.stop() // the request has reached the cloud
			w.slow("delete", 0)
			if err := want("balancers", len(w.cloud.balancers), 0); err != nil {
				return err
			}
			defer w.start(onlyDefault).stop()
			w.wait(time.Minute)
			return errors.Join(want("finalizer", w.hasFinalizer("web"), false),
				want("address", w.address("web"), ""))
		},
	},
	{
		"A new node that has not been ready yet becomes a member when it is ready",
		"seen: it is a member at once", "calls: got [ensure update], want [ensure]",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			w.addNode("node-2", func(n *v1.Node) {
				n.CreationTimestamp = metav1.Now()
				n.Status.Conditions[0] = v1.NodeCondition{
					Type: v1.NodeReady, Status: v1.ConditionFalse, LastTransitionTime: metav1.Now(),
				}
			})
			w.wait(30 * time.Second)
			if err := want("calls", w.methods(), []string{"ensure"}); err != nil {
				return err
			}
			for _, status := range []v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse} {
				w.changeNode("node-2", func(n *v1.Node) {
					n.Status.Conditions[0].Status = status
					n.Status.Conditions[0].LastTransitionTime = metav1.Now()
				})
				w.wait(5 * time.Second)
			}
			return errors.Join(want("calls", w.methods(), []string{"ensure", "update"}),
				want("nodes", w.calls()[1].nodes, "node-1 node-2"))
		},
	},
	{
		"The time that a cloud names for the end of a deletion is kept, although the address is removed before",
		"seen: it is asked again after 5 s", "early: got [ensure get delete get delete]",
		func(w *world) error {
			defer w.start(onlyDefault).stop()
			w.add("web")
			w.wait(time.Second)
			w.fail("delete", retryIn(20*time.Second))
			w.change("web", asClusterIP)
			w.wait(15 * time.Second)
			early := w.methods()
			w.wait(10 * time.Second)
			return errors.Join(want("early", early, []string{"ensure", "get", "delete"}),
				want("later", w.methods(), []string{"ensure", "get", "delete", "get", "delete"}),
				want("finalizer", w.hasFinalizer("web"), false))
		},
	},
}

// cleanedByItsOwner makes a Service that owner serves and changes its type while owner is down and
// another Manager runs.
func cleanedByItsOwner(
	w *world, name string, owner, another servicelb.Classes, class func(*v1.Service),
) error {
	defer w.start(another).stop()
	m := w.start(owner)
	w.forgetCalls()
	w.add(name, class)
	w.wait(time.Second)
	m.stop()
	w.change(name, asClusterIP)
	w.wait(time.Minute)
	if err := errors.Join(want("calls", w.methods(), []string{"ensure"}),
		want("finalizer", w.hasFinalizer(name), true)); err != nil {
		return err
	}
	defer w.start(owner).stop()
	w.wait(time.Second)
	return errors.Join(want("balancers", len(w.cloud.balancers), 0),
		want("finalizer", w.hasFinalizer(name), false))
}

// noOverlap returns an error if two calls that change the load balancer of a Service overlap.
// Another Manager may look for the load balancer meanwhile.
func noOverlap(calls []call) error {
	for i, a := range calls {
		for _, b := range calls[i+1:] {
			if a.uid == b.uid && a.method != "get" && b.method != "get" &&
				a.begin < b.end && b.begin < a.end {
				return fmt.Errorf("%+v and %+v overlap", a, b)
			}
		}
	}
	return nil
}

func TestController_EachBehavior_Holds(t *testing.T) {
	for _, b := range behaviors {
		t.Run(b.does, func(t *testing.T) {
			inWorld(t, false, func(w *world) {
				if err := b.test(w); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The next leader begins the work, and reports it.
func TestController_StopsWhileServicesWait_ReportsOnlyWhatItHasBegun(t *testing.T) {
	inWorld(t, false, func(w *world) {
		m := w.start(onlyDefault)
		w.slow("ensure", time.Minute)
		for i := range 20 {
			w.add(fmt.Sprint("web-", i))
		}
		w.wait(time.Second)
		m.stop()
		if got := w.events("Normal"); len(got) != 2 {
			t.Errorf("with two workers, the events are %q", got)
		}
	})
}

func TestController_APIServerAnswersAPatchWithAnotherService_ProviderIsNotCalled(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for field, change := range map[string]func(*v1.Service){
		"name": func(s *v1.Service) { s.Name = long },
		"UID":  func(s *v1.Service) { s.UID = types.UID(long) },
	} {
		t.Run(field, func(t *testing.T) {
			inWorld(t, false, func(w *world) {
				w.client.PrependReactor("patch", "services",
					func(action clienttesting.Action) (bool, runtime.Object, error) {
						services := action.GetResource()
						object, err := w.client.Tracker().Get(services, "default", "web")
						if err != nil {
							return true, nil, err
						}
						another := object.(*v1.Service).DeepCopy()
						change(another)
						return true, another, nil
					})
				defer w.start(onlyDefault).stop()
				w.add("web")
				w.wait(time.Second)
				if calls := w.methods(); len(calls) > 0 {
					t.Errorf("the provider got %q", calls)
				}
				if w.failuresLogged("with another Service") == 0 {
					t.Error("no error is logged")
				}
			})
		})
	}
}

// Upstream's controller has data races, so the test runs without their detector. The races also
// decide whether a report shows: one of ten runs has to be as reported. Where there is no report,
// most of ten have to hold.
func TestUpstreams_EachBehavior_HoldsOrFailsAsReported(t *testing.T) {
	for _, b := range behaviors {
		if strings.HasPrefix(b.report, "not comparable: ") {
			continue
		}
		t.Run(b.does, func(t *testing.T) {
			if (b.report == "") != (b.fails == "") {
				t.Fatal("a report has to name the error that shows it")
			}
			var failures []error
			for range 10 {
				inWorld(t, true, func(w *world) {
					if err := b.test(w); err != nil {
						failures = append(failures, err)
					}
				})
				if n := len(failures); b.fails != "" && n > 0 &&
					strings.Contains(failures[n-1].Error(), b.fails) {
					return
				}
			}
			if b.fails != "" {
				t.Errorf("%q does not show; the report is %s; the failures are %v",
					b.fails, b.report, failures)
			} else if len(failures) > 4 {
				t.Errorf("upstream's controller, in %d of 10 runs: %v", len(failures), failures[0])
			}
		})
	}
}

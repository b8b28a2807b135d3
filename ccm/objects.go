package ccm

import (
	"cmp"
	"slices"

	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/guard"
	"github.com/fxccm/fxccm/internal/metrics"
	"github.com/fxccm/fxccm/internal/nodes"
	"github.com/fxccm/fxccm/internal/printable"
)

// An ObjectReporter is a cloudprovider.Interface that also reports the state of the objects that it
// works for. A provider may implement it. [Manager.Status] and each scrape of the metrics call the
// methods while a term is open: they must be safe for concurrent use, return at once, and send no
// request. A report must not contain secrets.
type ObjectReporter interface {
	// LoadBalancerStatus returns an entry for each Service that has or requests a load balancer.
	LoadBalancerStatus() []status.LoadBalancer
	// NodeStatus returns an entry for each node that waits for its initialization. The provider
	// writes the events about failed lookups of these nodes. The cloud-node-controller writes those
	// about the others, and about nodes that cannot be written, which also replace an entry.
	NodeStatus() []status.Node
}

// defects is 1 if the Service is served but for a part of what it requests.
func defects(lb status.LoadBalancer) int {
	if lb.State == status.LoadBalancerReady && lb.Message != "" {
		return 1
	}
	return 0
}

// The reasons of nodes in the status, beside those of events.
const (
	initializationPending = "InitializationPending"
	initializationFailed  = "InitializationFailed"
)

// troubledNodes returns the nodes that wait, and the initialized ones that fail, as the node
// controllers know them, the oldest first.
func troubledNodes(uninitialized []nodes.Waiting, initialized []nodes.Failing) []status.Node {
	var waiting, failing []status.Node
	for _, w := range uninitialized {
		reason := initializationPending
		if w.Failed {
			reason = initializationFailed
		}
		waiting = append(waiting, status.Node{
			Name: w.Name, Reason: reason, Message: w.Message, Since: w.Since,
		})
	}
	for _, f := range initialized {
		failing = append(failing, status.Node{
			Name: f.Name, Reason: f.Reason, Message: f.Message, Since: f.Since,
		})
	}
	slices.SortFunc(failing, oldestFirst)
	all := shortNodes(preferReported(waiting, failing, nil))
	slices.SortFunc(all, oldestFirst)
	return all
}

// maxName is how many characters of a name are in the status: those that the name of a Kubernetes
// object may have.
const maxName = 253

// shortNodes and shortBalancers return copies of reports with short and printable texts. Names may
// come from informers of the host, whose objects are not checked, and from the cloud, as may
// addresses and the IDs in requests.
func shortNodes(all []status.Node) []status.Node {
	all = slices.Clone(all)
	for i := range all {
		node := &all[i]
		node.Name = printable.Text(node.Name, maxName)
		node.Reason = printable.Text(node.Reason, maxName)
		node.Message = printable.Text(node.Message, maxReason)
	}
	return all
}

func shortBalancers(all []status.LoadBalancer) []status.LoadBalancer {
	all = slices.Clone(all)
	for i := range all {
		lb := &all[i]
		for _, name := range []*string{
			&lb.Namespace, &lb.Service, &lb.Reason, &lb.ID, &lb.Name, &lb.ProvisioningStatus,
			&lb.OperatingStatus,
		} {
			*name = printable.Text(*name, maxName)
		}
		lb.Message = printable.Text(lb.Message, maxReason)
		lb.Addresses = shortTexts(lb.Addresses, maxName)
		lb.Drift = shortTexts(lb.Drift, maxReason)
		lb.Requests = slices.Clone(lb.Requests)
		for at := range lb.Requests {
			request := &lb.Requests[at]
			request.Request = printable.Text(request.Request, maxReason)
			request.Result = printable.Text(request.Result, maxName)
		}
	}
	return all
}

func shortTexts(all []string, characters int) []string {
	all = slices.Clone(all)
	for i := range all {
		all[i] = printable.Text(all[i], characters)
	}
	return all
}

func oldestFirst(a, b status.Node) int {
	return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name))
}

// preferReported returns the provider's entries, and the others of nodes that it does not report or
// has found. It changes the provider's entries.
func preferReported(reported, others []status.Node, found map[string]bool) []status.Node {
	for _, other := range others {
		i := slices.IndexFunc(reported, func(n status.Node) bool { return n.Name == other.Name })
		switch {
		case i < 0:
			reported = append(reported, other)
		case found[other.Name]:
			reported[i] = other
		}
	}
	return reported
}

// reportsNode reports whether the provider lists a node that waits, and so writes the events about
// its lookups.
func (t *termRun) reportsNode(name string) (does bool) {
	if t.reporter != nil {
		t.cloud.Ask("NodeStatus", func() {
			does = slices.ContainsFunc(t.reporter.NodeStatus(),
				func(n status.Node) bool { return n.Name == name })
		})
	}
	return does
}

// foundNodes returns the nodes whose instances the cloud has: only the node controller knows why
// they wait.
func foundNodes(waiting []nodes.Waiting) map[string]bool {
	found := map[string]bool{}
	for _, w := range waiting {
		found[printable.Text(w.Name, maxName)] = w.Found
	}
	return found
}

// objects reads the state of a provider's objects. It is nil if the provider does not report them.
type objects struct {
	reporter ObjectReporter
	cloud    *guard.Cloud
	known    *nodes.Record
}

// fill adds the state of the objects to a snapshot. The locks of the term and the Manager must not
// be held, because fill calls the provider.
func (o *objects) fill(current *status.Manager) {
	if o == nil {
		return
	}
	o.cloud.Ask("LoadBalancerStatus",
		func() { current.LoadBalancers = shortBalancers(o.reporter.LoadBalancerStatus()) })
	o.cloud.Ask("NodeStatus", func() {
		current.Nodes = preferReported(shortNodes(o.reporter.NodeStatus()), current.Nodes,
			foundNodes(o.known.Waiting()))
	})
	slices.SortFunc(current.LoadBalancers, func(a, b status.LoadBalancer) int {
		return cmp.Or(cmp.Compare(rank(a.State), rank(b.State)),
			-cmp.Compare(defects(a), defects(b)), a.Since.Compare(b.Since),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Service, b.Service))
	})
	slices.SortFunc(current.Nodes, oldestFirst)
}

// metrics returns the objects that the metrics count.
func (o *objects) metrics() metrics.Objects {
	var current status.Manager
	o.fill(&current)
	var all metrics.Objects
	for _, lb := range current.LoadBalancers {
		counted := metrics.LoadBalancer{
			State: string(lb.State), ProvisioningStatus: lb.ProvisioningStatus, Since: lb.Since,
		}
		if defects(lb) > 0 {
			counted.Defect = lb.Reason
		}
		all.LoadBalancers = append(all.LoadBalancers, counted)
	}
	for _, node := range current.Nodes {
		all.Nodes = append(all.Nodes, node.Since)
	}
	return all
}

// rank sorts states, worst first.
func rank(state status.LoadBalancerState) int {
	return slices.Index(metrics.LoadBalancerStates(), string(state))
}

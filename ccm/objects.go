package ccm

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	LoadBalancerStatus() []LoadBalancerStatus
	// NodeStatus returns an entry for each node that waits for its initialization. The provider
	// writes the events about failed lookups of these nodes. The cloud-node-controller writes those
	// about the others, and about nodes that cannot be written, which also replace an entry.
	NodeStatus() []NodeStatus
}

// LoadBalancerState is the state of a Service's load balancer.
type LoadBalancerState string

// The states of a load balancer, worst first.
const (
	// LoadBalancerDegraded: the last reconcile failed and is retried, or the load balancer has
	// failed in the cloud. It may still serve.
	LoadBalancerDegraded LoadBalancerState = "degraded"
	// LoadBalancerRefused: the cloud cannot serve the Service as it is configured.
	LoadBalancerRefused LoadBalancerState = "refused"
	// LoadBalancerWaiting: the cloud is at work, or a requirement is not met yet.
	LoadBalancerWaiting LoadBalancerState = "waiting"
	// LoadBalancerReady: the load balancer is as the Service requests it, but for what the Message
	// names.
	LoadBalancerReady LoadBalancerState = "ready"
)

// LoadBalancerStatus is a snapshot of the load balancer of one Service.
type LoadBalancerStatus struct {
	// Namespace and Service name the Service.
	Namespace string `json:"namespace"`
	Service   string `json:"service"`

	State LoadBalancerState `json:"state"`
	// Reason is a CamelCase word, and Message a sentence. The Message of a ready load balancer is
	// about a part of what the Service requests and does not get; it is usually empty.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Since has the time at which the load balancer became ready, or stopped being ready.
	Since time.Time `json:"since"`

	// ID and Name are those in the cloud. They are empty without a load balancer.
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
	// ProvisioningStatus and OperatingStatus are the cloud's own values.
	ProvisioningStatus string   `json:"provisioningStatus,omitempty"`
	OperatingStatus    string   `json:"operatingStatus,omitempty"`
	Addresses          []string `json:"addresses,omitempty"`

	// ComparedAt is when the load balancer was last compared with the Service.
	ComparedAt time.Time `json:"comparedAt,omitzero"`
	// DriftedAt is when a comparison last found drift, and Drift lists the changes that repair it.
	// The list is limited.
	DriftedAt time.Time `json:"driftedAt,omitzero"`
	Drift     []string  `json:"drift,omitempty"`

	// Requests are the last requests to the cloud for the Service, the last one first. The list is
	// limited. A request that serves several objects counts for the one that caused it.
	Requests []CloudRequest `json:"requests,omitempty"`
}

// defects is 1 if the Service is served but for a part of what it requests.
func (s LoadBalancerStatus) defects() int {
	if s.State == LoadBalancerReady && s.Message != "" {
		return 1
	}
	return 0
}

// CloudRequest is a request to the API of the cloud, with its result.
type CloudRequest struct {
	// Request says what was sent, such as a method and a path. It contains no secret.
	Request string `json:"request"`
	// Result is the status of the response, or why no response came, such as timeout.
	Result string `json:"result"`
	// Count is how often the request had this result. Ended and Duration are those of the last such
	// request.
	Count    int             `json:"count"`
	Ended    time.Time       `json:"ended"`
	Duration metav1.Duration `json:"duration"`
}

// NodeStatus is a snapshot of a node that waits for its initialization: it has the taint
// node.cloudprovider.kubernetes.io/uninitialized. Or it is one of an initialized node that cannot
// be updated, looked up or deleted.
type NodeStatus struct {
	Name string `json:"name"`
	// Reason is a CamelCase word, and Message a sentence.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Since has the time at which the node was registered or, if it is initialized, of the first
	// of consecutive failures.
	Since time.Time `json:"since"`

	// isFound: the cloud has the instance, so only the node controller knows what fails.
	isFound bool
}

// The reasons of nodes in the status, beside those of events.
const (
	initializationPending = "InitializationPending"
	initializationFailed  = "InitializationFailed"
)

// troubledNodes returns the nodes that wait, and the initialized ones that fail, as the node
// controllers know them, the oldest first.
func troubledNodes(uninitialized []nodes.Waiting, initialized []nodes.Failing) []NodeStatus {
	var waiting, failing []NodeStatus
	for _, w := range uninitialized {
		reason := initializationPending
		if w.Failed {
			reason = initializationFailed
		}
		waiting = append(waiting, NodeStatus{
			Name: w.Name, Reason: reason, Message: w.Message, Since: w.Since, isFound: w.Found,
		})
	}
	for _, f := range initialized {
		failing = append(failing, NodeStatus{
			Name: f.Name, Reason: f.Reason, Message: f.Message, Since: f.Since,
		})
	}
	slices.SortFunc(failing, oldestFirst)
	all := shortNodes(preferReported(waiting, failing))
	slices.SortFunc(all, oldestFirst)
	return all
}

// maxName is how many characters of a name are in the status: those that the name of a Kubernetes
// object may have.
const maxName = 253

// shortNodes and shortBalancers return copies of reports with short and printable texts. Names may
// come from informers of the host, whose objects are not checked, and from the cloud, as may
// addresses and the IDs in requests.
func shortNodes(all []NodeStatus) []NodeStatus {
	all = slices.Clone(all)
	for i := range all {
		node := &all[i]
		node.Name = printable.Text(node.Name, maxName)
		node.Reason = printable.Text(node.Reason, maxName)
		node.Message = printable.Text(node.Message, maxReason)
	}
	return all
}

func shortBalancers(all []LoadBalancerStatus) []LoadBalancerStatus {
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

func oldestFirst(a, b NodeStatus) int {
	return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name))
}

// preferReported returns the provider's entries, and the others of nodes that it does not report or
// has found. It changes the provider's entries.
func preferReported(reported, others []NodeStatus) []NodeStatus {
	for _, other := range others {
		i := slices.IndexFunc(reported, func(n NodeStatus) bool { return n.Name == other.Name })
		switch {
		case i < 0:
			reported = append(reported, other)
		case other.isFound:
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
				func(n NodeStatus) bool { return n.Name == name })
		})
	}
	return does
}

// objects reads the state of a provider's objects. It is nil if the provider does not report them.
type objects struct {
	reporter ObjectReporter
	cloud    *guard.Cloud
}

// fill adds the state of the objects to a snapshot. The locks of the term and the Manager must not
// be held, because fill calls the provider.
func (o *objects) fill(status *Status) {
	if o == nil {
		return
	}
	o.cloud.Ask("LoadBalancerStatus",
		func() { status.LoadBalancers = shortBalancers(o.reporter.LoadBalancerStatus()) })
	o.cloud.Ask("NodeStatus", func() {
		status.Nodes = preferReported(shortNodes(o.reporter.NodeStatus()), status.Nodes)
	})
	slices.SortFunc(status.LoadBalancers, func(a, b LoadBalancerStatus) int {
		return cmp.Or(cmp.Compare(a.State.rank(), b.State.rank()),
			-cmp.Compare(a.defects(), b.defects()), a.Since.Compare(b.Since),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Service, b.Service))
	})
	slices.SortFunc(status.Nodes, oldestFirst)
}

// metrics returns the objects that the metrics count.
func (o *objects) metrics() metrics.Objects {
	var status Status
	o.fill(&status)
	var all metrics.Objects
	for _, lb := range status.LoadBalancers {
		counted := metrics.LoadBalancer{
			State: string(lb.State), ProvisioningStatus: lb.ProvisioningStatus, Since: lb.Since,
		}
		if lb.defects() > 0 {
			counted.Defect = lb.Reason
		}
		all.LoadBalancers = append(all.LoadBalancers, counted)
	}
	for _, node := range status.Nodes {
		all.Nodes = append(all.Nodes, node.Since)
	}
	return all
}

// rank sorts states, worst first.
func (s LoadBalancerState) rank() int {
	return slices.Index(metrics.LoadBalancerStates(), string(s))
}

package status

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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

// LoadBalancer is a snapshot of the load balancer of one Service.
type LoadBalancer struct {
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

// Node is a snapshot of a node that waits for its initialization: it has the taint
// node.cloudprovider.kubernetes.io/uninitialized. Or it is one of an initialized node that cannot
// be updated, looked up or deleted.
type Node struct {
	Name string `json:"name"`
	// Reason is a CamelCase word, and Message a sentence.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Since has the time at which the node was registered or, if it is initialized, of the first
	// of consecutive failures.
	Since time.Time `json:"since"`
}

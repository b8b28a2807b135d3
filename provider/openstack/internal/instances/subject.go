package instances

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/internal/members"
)

// The sources of errors, in their texts.
const (
	apiServer = "Kubernetes"
	compute   = "Nova"
)

// subject is a node with the data that identifies its instance.
type subject struct {
	// id is the server ID in the node's provider ID. Empty: only the name is known.
	id   string
	name string
	// systemUUID is the machine's system UUID. With libvirt it is the server ID.
	systemUUID string
	created    time.Time
	// new: the cloud has not initialized the node.
	new bool
	// ready: the kubelet reports the node as ready. silent: the kubelet stopped reporting.
	ready, silent bool
	node          *v1.Node
}

// subjectOf refuses the provider ID of another region, whose servers are invisible here.
func (i *Instances) subjectOf(node *v1.Node) (subject, error) {
	s := subject{
		name: node.Name, created: node.CreationTimestamp.Time,
		new: members.IsNew(node), node: node,
	}
	s.systemUUID, _ = parseUUID(node.Status.NodeInfo.SystemUUID)
	if condition := readyCondition(node); condition != nil {
		s.ready, s.silent = condition.Status == v1.ConditionTrue,
			condition.Status == v1.ConditionUnknown
	}
	if node.Spec.ProviderID == "" {
		return s, nil
	}
	id, err := ParseProviderID(node.Spec.ProviderID)
	if err != nil {
		return s, fmt.Errorf("%s: %w", apiServer, err)
	}
	if id.Region != "" && id.Region != i.config.Region {
		return s, fmt.Errorf("%s: provider ID %q belongs to region %q, but the configured "+
			"region is %q; correct region in cloud.conf",
			apiServer, node.Spec.ProviderID, id.Region, i.config.Region)
	}
	s.id = id.ID
	return s, nil
}

// key identifies the instance in caches.
func (s subject) key() string {
	if s.id != "" {
		return idKey(s.id)
	}
	return nameKey(s.name)
}

func (s subject) String() string {
	if s.id == "" {
		return fmt.Sprintf("the server of node %s", s.name)
	}
	return fmt.Sprintf("server %s of node %s", s.id, s.name)
}

func readyCondition(node *v1.Node) *v1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == v1.NodeReady {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

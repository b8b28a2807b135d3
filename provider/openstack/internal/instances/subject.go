package instances

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// subject is a node as far as its instance is concerned.
type subject struct {
	// id is the server's, by the node's provider ID. Empty: the node has none, and is known by its name only.
	id   string
	name string
	// systemUUID is what the machine says of itself. With libvirt it is the server's id.
	systemUUID string
	created    time.Time
	// new: the cloud has not initialised the node yet.
	new bool
	// ready: the kubelet says that the node is ready. silent: the kubelet has said nothing for a while.
	ready, silent bool
	// node is nil if it is known by its provider ID or name only.
	node *v1.Node
}

func (i *Instances) subjectOf(node *v1.Node) (subject, error) {
	s := subject{name: node.Name, created: node.CreationTimestamp.Time, new: isNew(node), node: node}
	s.systemUUID, _ = parseUUID(node.Status.NodeInfo.SystemUUID)
	if condition := readyCondition(node); condition != nil {
		s.ready, s.silent = condition.Status == v1.ConditionTrue, condition.Status == v1.ConditionUnknown
	}
	if node.Spec.ProviderID == "" {
		return s, nil
	}
	identified, err := i.subjectWithID(node.Spec.ProviderID)
	s.id = identified.id
	return s, err
}

// subjectWithID refuses the provider ID of another region: of its servers nothing is known here.
func (i *Instances) subjectWithID(providerID string) (subject, error) {
	id, err := ParseProviderID(providerID)
	if err != nil {
		return subject{}, err
	}
	if id.Region != "" && id.Region != i.region {
		return subject{}, fmt.Errorf("provider ID %q is of region %q, and this is region %q", providerID, id.Region, i.region)
	}
	return subject{id: id.ID}, nil
}

// key is what the instance is remembered by.
func (s subject) key() string {
	if s.id != "" {
		return idKey(s.id)
	}
	return nameKey(s.name)
}

func (s subject) String() string {
	switch {
	case s.id == "":
		return fmt.Sprintf("the server of node %s", s.name)
	case s.name == "":
		return "server " + s.id
	}
	return fmt.Sprintf("server %s of node %s", s.id, s.name)
}

func isNew(node *v1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == cloudproviderapi.TaintExternalCloudProvider {
			return true
		}
	}
	return false
}

func readyCondition(node *v1.Node) *v1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == v1.NodeReady {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

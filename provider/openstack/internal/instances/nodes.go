package instances

import (
	corev1 "k8s.io/client-go/listers/core/v1"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// nodes are the nodes of the cluster.
type nodes struct {
	lister corev1.NodeLister
	synced func() bool
}

// list returns false before the nodes are known.
func (n nodes) list() (all []*v1.Node, known bool) {
	if n.lister == nil || !n.synced() {
		return nil, false
	}
	all, err := n.lister.List(labels.Everything())
	return all, err == nil
}

// SetNodes sets the nodes of the cluster, which are used once synced returns true. Before that, the
// requested nodes count as all nodes.
func (i *Instances) SetNodes(lister corev1.NodeLister, synced func() bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.nodes = nodes{lister, synced}
}

func (i *Instances) currentNodes() nodes {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.nodes
}

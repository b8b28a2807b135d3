package absence

import (
	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/internal/members"
)

// IsLeaving reports whether a node is marked for removal: it is being deleted, or has a taint of
// the cluster autoscaler, of Karpenter, or with one of the other keys. A cordoned node is not: most
// come back. Cluster API needs no mark, because it deletes the nodes of its machines itself.
func IsLeaving(node *v1.Node, otherTaints []string) bool {
	return members.IsLeaving(node, otherTaints...)
}

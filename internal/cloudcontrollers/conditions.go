package cloudcontrollers

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// conditionClient is a client that reports the results of writes of conditions. Upstream's route
// controller only logs them.
type conditionClient struct {
	kubernetes.Interface
	wrote func(node string, err error)
}

// CoreV1 implements kubernetes.Interface.
func (c conditionClient) CoreV1() typedcorev1.CoreV1Interface {
	return conditionCore{c.Interface.CoreV1(), c.wrote}
}

type conditionCore struct {
	typedcorev1.CoreV1Interface
	wrote func(node string, err error)
}

// Nodes implements typedcorev1.NodesGetter.
func (c conditionCore) Nodes() typedcorev1.NodeInterface {
	return conditionNodes{c.CoreV1Interface.Nodes(), c.wrote}
}

type conditionNodes struct {
	typedcorev1.NodeInterface
	wrote func(node string, err error)
}

// PatchStatus implements typedcorev1.NodeExpansion.
func (n conditionNodes) PatchStatus(
	ctx context.Context, name string, data []byte,
) (*v1.Node, error) {
	node, err := n.NodeInterface.PatchStatus(ctx, name, data)
	n.wrote(name, err)
	return node, err
}

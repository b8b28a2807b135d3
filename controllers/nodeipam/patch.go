package nodeipam

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// patch is a JSON merge patch of a node. The API server refuses it if the node has other ranges or
// another UID, so it needs no resource version.
type patch struct {
	Metadata struct {
		UID types.UID `json:"uid"`
	} `json:"metadata"`
	Spec struct {
		PodCIDR  string   `json:"podCIDR"`
		PodCIDRs []string `json:"podCIDRs"`
	} `json:"spec"`
}

// write gives a node its ranges in one request.
func (c *controller) write(
	ctx context.Context, node *corev1.Node, prefixes []netip.Prefix,
) error {
	var p patch
	p.Metadata.UID = node.UID
	for _, prefix := range prefixes {
		p.Spec.PodCIDRs = append(p.Spec.PodCIDRs, prefix.String())
	}
	p.Spec.PodCIDR = p.Spec.PodCIDRs[0]
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, body,
		metav1.PatchOptions{FieldManager: Name})
	switch {
	case err == nil:
		klog.FromContext(ctx).Info("Node got its pod ranges", "node", node.Name, "podCIDRs",
			p.Spec.PodCIDRs)
		return nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsInvalid(err):
		// Another client has deleted or changed the node, and the informer will report that.
		return fmt.Errorf("write spec.podCIDRs: %w", err)
	}
	return c.fail(ctx, node, "write spec.podCIDRs "+strings.Join(p.Spec.PodCIDRs, ", "), err)
}

// fail reports a failed request from the second attempt on: at the end of a term, requests fail
// shortly before ctx ends.
func (c *controller) fail(
	ctx context.Context, node *corev1.Node, doing string, err error,
) error {
	err = fmt.Errorf("%s: %w", doing, err)
	if ctx.Err() != nil || c.queue.NumRequeues(node.Name) == 0 {
		return err
	}
	return c.refuse(node, reasonAssignmentFailed, err.Error()+"; retrying")
}

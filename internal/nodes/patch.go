package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/fxccm/fxccm/internal/rights"
)

// operation is one of a JSON patch (RFC 6902). Unlike a merge patch, it removes one taint without
// naming the others, so that a field of theirs that this program does not know survives.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// A writer patches nodes.
type writer struct {
	nodes   typedcorev1.NodesGetter
	missing *rights.Missing
}

// write writes a change, if there is one.
func (w writer) write(ctx context.Context, node *v1.Node, c change) error {
	var status []operation
	if c.addresses != nil {
		status = append(status, operation{"add", "/status/addresses", c.addresses})
	}
	if c.abandoned {
		status = append(status, withoutConditions(node, isNoRoute)...)
	}
	if len(status) > 0 {
		if err := w.patch(ctx, node, "status", status...); err != nil {
			return err
		}
	}
	var all []operation
	if c.providerID != "" {
		all = append(all, operation{"test", "/spec/providerID", nil},
			operation{"add", "/spec/providerID", c.providerID})
	}
	if len(c.labels) > 0 && node.Labels == nil {
		all = append(all, operation{"test", "/metadata/labels", nil},
			operation{"add", "/metadata/labels", map[string]string{}})
	}
	for _, key := range slices.Sorted(maps.Keys(c.labels)) {
		path := strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
		all = append(all, operation{"add", "/metadata/labels/" + path, c.labels[key]})
	}
	if c.taint {
		all = append(all, withoutTaints(node, isUninitialized)...)
	}
	if len(all) == 0 {
		return nil
	}
	return w.patch(ctx, node, "", all...)
}

// withoutTaints removes taints. A node whose taints have changed meanwhile is not patched.
func withoutTaints(node *v1.Node, isRemoved func(v1.Taint) bool) (all []operation) {
	for i, taint := range slices.Backward(node.Spec.Taints) {
		if isRemoved(taint) {
			path := fmt.Sprint("/spec/taints/", i)
			all = append(all, operation{"test", path + "/key", taint.Key},
				operation{"test", path + "/effect", taint.Effect},
				operation{Op: "remove", Path: path})
		}
	}
	return all
}

// withoutConditions removes conditions. A node whose conditions have changed meanwhile is not
// patched, except if only their heartbeats have.
func withoutConditions(
	node *v1.Node, isRemoved func(v1.NodeCondition) bool,
) (all []operation) {
	for i, condition := range slices.Backward(node.Status.Conditions) {
		if isRemoved(condition) {
			path := fmt.Sprint("/status/conditions/", i)
			all = append(all, operation{"test", path + "/type", condition.Type},
				operation{"test", path + "/status", condition.Status},
				operation{"test", path + "/reason", condition.Reason},
				operation{"test", path + "/lastTransitionTime", condition.LastTransitionTime},
				operation{Op: "remove", Path: path})
		}
	}
	return all
}

func withTaint(node *v1.Node, taint v1.Taint) []operation {
	if len(node.Spec.Taints) > 0 {
		return []operation{{"add", "/spec/taints/-", taint}}
	}
	return []operation{
		{"test", "/spec/taints", nil}, {"add", "/spec/taints", []v1.Taint{taint}},
	}
}

// patch changes only what it names, and only in this node, not in a later one of its name.
func (w writer) patch(
	ctx context.Context, node *v1.Node, subresource string, all ...operation,
) error {
	all = append([]operation{{"test", "/metadata/uid", node.UID}}, all...)
	data, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	right := toPatch
	var resources []string
	if subresource != "" {
		right, resources = toPatch+"/"+subresource, []string{subresource}
	}
	_, err = w.nodes.Nodes().Patch(ctx, node.Name, types.JSONPatchType, data, metav1.PatchOptions{},
		resources...)
	w.missing.Wrote(right, node.Name, err)
	switch {
	case err == nil:
		return nil
	case isStale(err):
		return errStale
	case rights.IsDenied(err), apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return refusef("write the node: %w", err)
	}
	return fmt.Errorf("write the node: %w", err)
}

// errStale: the node has changed, or is gone. The informer reports it.
var errStale = errors.New("the node has changed")

// isStale reports whether a write came too late. A failed test of a JSON patch is an "Invalid" of
// no kind; an "Invalid" of the kind Node is the result of the validation.
func isStale(err error) bool {
	if rights.IsDenied(err) {
		return false
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return true
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && apierrors.IsInvalid(err) &&
		(status.ErrStatus.Details == nil || status.ErrStatus.Details.Kind == "")
}

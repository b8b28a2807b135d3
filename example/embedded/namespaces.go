package main

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podSecurity is the label that selects the Pod Security Standard of a namespace.
const (
	podSecurity      = "pod-security.kubernetes.io/enforce"
	podSecurityLevel = "baseline"
)

// namespaceReconciler is the host's own reconciler: it adds a default label for Pod Security to a
// namespace without one.
type namespaceReconciler struct{ client.Client }

func addNamespaceReconciler(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).Named("namespaces").For(&corev1.Namespace{}).Complete(
		&namespaceReconciler{m.GetClient()})
}

// Reconcile implements reconcile.Reconciler.
func (r *namespaceReconciler) Reconcile(
	ctx context.Context, request ctrl.Request,
) (ctrl.Result, error) {
	var namespace corev1.Namespace
	if err := r.Get(ctx, request.NamespacedName, &namespace); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if strings.HasPrefix(namespace.Name, "kube-") || namespace.Labels[podSecurity] != "" {
		return ctrl.Result{}, nil
	}
	before := namespace.DeepCopy()
	if namespace.Labels == nil {
		namespace.Labels = map[string]string{}
	}
	namespace.Labels[podSecurity] = podSecurityLevel
	err := r.Patch(ctx, &namespace, client.MergeFrom(before))
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fxccm/fxccm/hosting/controllerruntime"
)

// recordReconciler keeps a DNS record in the cloud for each Service with a load balancer. The
// cloud controller manager beside it creates the load balancer and sets the address.
type recordReconciler struct {
	client.Client
	// zone is the URL of the cloud's records.
	zone  string
	cloud http.Client
}

// docs: begin records

// addRecordReconciler binds the reconciler's requests to the lease: without the lease they are
// canceled and refused, like those of the cloud controller manager.
func addRecordReconciler(m ctrl.Manager, zone string) error {
	transport, err := controllerruntime.Transport(m, http.DefaultTransport)
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(m).Named("records").For(&corev1.Service{}).Complete(
		&recordReconciler{m.GetClient(), zone, http.Client{Transport: transport}})
}

// docs: end

// record is the content of a DNS record.
type record struct {
	Address string `json:"address"`
}

// Reconcile implements reconcile.Reconciler.
func (r *recordReconciler) Reconcile(
	ctx context.Context, request ctrl.Request,
) (ctrl.Result, error) {
	var service corev1.Service
	err := r.Get(ctx, request.NamespacedName, &service)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	method, content := http.MethodDelete, record{}
	if ingress := service.Status.LoadBalancer.Ingress; err == nil && len(ingress) > 0 {
		method, content.Address = http.MethodPut, ingress[0].IP
	}
	return ctrl.Result{}, r.send(ctx, method, request.String(), content)
}

func (r *recordReconciler) send(
	ctx context.Context, method, name string, content record,
) error {
	body, err := json.Marshal(content)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, r.zone+"/"+name, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := r.cloud.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= 300 && resp.StatusCode != http.StatusNotFound {
		return fmt.Errorf("%s the record %s: %s", method, name, resp.Status)
	}
	return nil
}

package controllerruntime_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/conformance"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/hosting/controllerruntime"
	"github.com/fxccm/fxccm/internal/waittest"
)

const writeRecord = "PUT /records/*"

// stubbornReconciler writes a record of each Node to a cloud. It ignores the end of its context,
// and repeats a failed write in a goroutine that does not end with its campaign.
type stubbornReconciler struct {
	url     string
	http    http.Client
	retries context.Context
	refused *atomic.Int32
}

func (r *stubbornReconciler) Reconcile(
	_ context.Context, request ctrl.Request,
) (ctrl.Result, error) {
	err := r.write(request.Name)
	if err != nil {
		go func() {
			for r.retries.Err() == nil && errors.Is(r.write(request.Name), ccm.ErrTermOver) {
				r.refused.Add(1)
				time.Sleep(time.Millisecond)
			}
		}()
	}
	return ctrl.Result{}, err
}

func (r *stubbornReconciler) write(name string) error {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPut,
		r.url+"/records/"+name, nil)
	if err != nil {
		return err
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func TestTransport_LeaseTakenDuringACall_CloudGetsNothingBeforeTheNextCampaign(t *testing.T) {
	t.Parallel()
	var cloud conformance.Gate
	server := httptest.NewServer(cloud.Handler(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), nil))
	defer server.Close()
	var refused atomic.Int32
	w := start(t, func(m ctrl.Manager) error {
		transport, err := controllerruntime.Transport(m, http.DefaultTransport)
		if err != nil {
			return err
		}
		return ctrl.NewControllerManagedBy(m).Named("records").For(&corev1.Node{}).Complete(
			&stubbornReconciler{
				server.URL, http.Client{Transport: transport}, t.Context(), &refused,
			})
	})
	ccmtest.Eventually(t, "the Manager leads", ccmtest.Ready(w.manager))
	release := cloud.Hold(writeRecord)
	defer release()
	w.wantNode("node-1")
	written := func(what string, is func(conformance.Request) bool) {
		t.Helper()
		waittest.Until(t, what, func() error {
			for _, r := range cloud.Requests() {
				if is(r) {
					return nil
				}
			}
			return fmt.Errorf("the requests are %v", cloud.Requests())
		})
	}
	written("a write is in flight", func(r conformance.Request) bool { return r.Ended.IsZero() })

	w.hold("another-process")
	ccmtest.Eventually(t, "the Manager is a standby",
		ccmtest.State(w.manager, status.Standby))
	written("the write was canceled",
		func(r conformance.Request) bool { return !r.Ended.IsZero() })
	release()
	between := refused.Load()
	waittest.Until(t, "later writes were refused",
		func() bool { return refused.Load()-between >= 10 })
	if late := cloud.Requests()[1:]; len(late) > 0 {
		t.Errorf("without leadership the cloud received %v", late)
	}

	campaigned := time.Now()
	w.hold("")
	ccmtest.Eventually(t, "leads in term 2", ccmtest.Status(w.manager,
		func(s status.Manager) bool { return s.Ready && s.Term == 2 }))
	written("the next campaign has written", func(r conformance.Request) bool {
		return r.Began.After(campaigned) && !r.Ended.IsZero()
	})
	between = refused.Load()
	waittest.Until(t, "writes of the first campaign are still refused",
		func() bool { return refused.Load() > between })
}

func TestTransport_ManagerOfNoHost_IsAnError(t *testing.T) {
	t.Parallel()
	var foreign manager.Manager
	if _, err := controllerruntime.Transport(foreign, http.DefaultTransport); err == nil {
		t.Error("Transport accepted a manager that no Host has created")
	}
}

var _ reconcile.Reconciler = (*stubbornReconciler)(nil)

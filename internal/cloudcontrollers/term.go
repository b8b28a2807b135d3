package cloudcontrollers

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/fxccm/fxccm/internal/nodes"
)

// ErrNotServed is wrapped by a constructor's error if the provider does not serve an interface that
// the controller needs. The error's text names the interface. The controller is skipped; it has not
// failed.
var ErrNotServed = errors.New("not served by the provider")

// Run works until its context ends. It returns earlier only with an error.
type Run func(ctx context.Context) error

// Term is the part of a *ccm.Term that the controllers use.
type Term interface {
	// ClusterName is --cluster-name.
	ClusterName() string
	// Cloud is the provider.
	Cloud() cloudprovider.Interface
	// Client returns a client for the named identity.
	Client(name string) (kubernetes.Interface, error)
	// Informers are started after all controllers are built.
	Informers() informers.SharedInformerFactory
	// EndpointInformers returns informers for EndpointSlices alone, which the caller starts and
	// shuts down.
	EndpointInformers() (informers.SharedInformerFactory, error)
	// Recorder returns an event recorder of a component.
	Recorder(source string) record.EventRecorder
	// NodeRecord is what the controllers of nodes know.
	NodeRecord() *nodes.Record
	// ReportTrouble reports a problem to the status, and its end with nil.
	ReportTrouble(subject string, cause error)
	// Registerer registers a controller's metrics. It may be nil.
	Registerer() prometheus.Registerer
	// Metrics counts running controllers.
	Metrics() *controllersmetrics.ControllerManagerMetrics
}

func notServed(what string) error { return fmt.Errorf("%w: it has no %s", ErrNotServed, what) }

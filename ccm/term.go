package ccm

import (
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/fxccm/fxccm/internal/informerview"
)

// A Term is one period of leadership, for a controller. The provider, informers, clients and
// controllers belong to a term and end with it. Its methods are safe for concurrent use; their
// results end with the term.
type Term struct {
	run *termRun
	// informers are the controller's part of the term's.
	informers *informerview.View
}

// Number counts the terms of the Manager from 1. It is 0 for a controller without leader election.
func (t *Term) Number() uint64 { return t.run.number }

// Manager returns the Manager's name, for the label "manager" of metrics. It may be empty.
func (t *Term) Manager() string { return t.run.manager }

// Registerer registers the metrics of a controller. Nil: they are not registered. It outlives the
// term, and several Managers may share it, so the collectors may be registered already
// (prometheus.AlreadyRegisteredError).
func (t *Term) Registerer() prometheus.Registerer { return t.run.registerer }

// Config returns the Manager's configuration.
func (t *Term) Config() Config { return t.run.config }

// Logger returns the term's logger.
func (t *Term) Logger() logr.Logger { return t.run.log }

// Cloud returns the provider. The fence checks its calls, they end with the term, and they return
// panics as errors. It is nil for a controller without leader election.
func (t *Term) Cloud() cloudprovider.Interface { return t.run.guarded }

// RESTConfig returns a client configuration for the named identity. The name is a part of the user
// agent, or with --use-service-account-credentials the ServiceAccount in kube-system. After the
// term, mutating requests are refused, and reads end with the term's context.
//
// The configuration has a Transport, which the term's clients share, in place of TLS settings and
// credentials. It works for clients of client-go. Requests that open their own connections, such as
// exec, fail.
func (t *Term) RESTConfig(name string) (*rest.Config, error) { return t.run.clients.Config(name) }

// Client returns a client with the configuration of RESTConfig.
func (t *Term) Client(name string) (kubernetes.Interface, error) {
	return t.run.clients.Client(name)
}

// Informers returns the term's shared informers. Request all needed informers in [Controller.New]:
// they start when every controller has been built.
func (t *Term) Informers() informers.SharedInformerFactory { return t.informers }

// Metrics counts the running controllers, as upstream's running_managed_controllers.
func (t *Term) Metrics() *controllersmetrics.ControllerManagerMetrics { return t.run.metrics }

// Recorder returns an event recorder. source names the component in the events. Events recorded
// until the end of the term's drain are sent; they bypass the fence.
//
// With [Params].EventRecorders it is the host's recorder.
func (t *Term) Recorder(source string) record.EventRecorder { return t.run.recorder(source) }

// Leadership returns the leadership of the term. A controller without leader election never loses
// it.
func (t *Term) Leadership() Leadership { return t.run.leadership() }

package cloudcontrollers

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
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
	// Metrics counts running controllers.
	Metrics() *controllersmetrics.ControllerManagerMetrics
}

func notServed(what string) error { return fmt.Errorf("%w: it has no %s", ErrNotServed, what) }

// servesInstances checks the condition of upstream's two node controllers.
func servesInstances(cloud cloudprovider.Interface) error {
	if _, ok := cloud.InstancesV2(); ok {
		return nil
	}
	if _, ok := cloud.Instances(); ok {
		return nil
	}
	return notServed("instances")
}

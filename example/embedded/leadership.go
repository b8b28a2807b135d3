package main

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/hosting/controllerruntime"
)

const (
	leaseNamespace = "kube-system"
	leaseName      = "control-plane"

	// managerGrace is how long the runnables of controller-runtime may take to end.
	managerGrace = 5 * time.Second
)

// newHostConfig describes the manager of controller-runtime, with its election and its reconcilers.
// Most hosts need no lock: this one has a flag for the identity in the lease.
func newHostConfig(
	flags hostFlags, config *rest.Config, ccmConfig ccm.Config, log logr.Logger,
) (controllerruntime.Config, error) {
	e := flags.election
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, leaseNamespace,
		leaseName,
		resourcelock.ResourceLockConfig{Identity: e.identity}, config, e.renewDeadline)
	if err != nil {
		return controllerruntime.Config{}, fmt.Errorf("lock for the election: %w", err)
	}
	cloud, err := readCloudConfig(ccmConfig.CloudProvider.ConfigFile)
	if err != nil {
		return controllerruntime.Config{}, err
	}
	return controllerruntime.Config{
		Options: ctrl.Options{
			Logger:                              log.WithName("host"),
			LeaderElection:                      e.enabled,
			LeaderElectionID:                    leaseName,
			LeaderElectionResourceLockInterface: lock,
			LeaseDuration:                       &e.leaseDuration,
			RenewDeadline:                       &e.renewDeadline,
			RetryPeriod:                         &e.retryPeriod,
			GracefulShutdownTimeout:             ptr.To(managerGrace),
		},
		Setup: func(m ctrl.Manager) error {
			if err := addNamespaceReconciler(m); err != nil || cloud.Records == "" {
				return err
			}
			return addRecordReconciler(m, cloud.Records)
		},
	}, nil
}

// electorOf lets the cloud controller manager lead with the host. With --ccm-leader-elect it has a
// lease of its own.
func electorOf(host election.Elector, config ccm.Config) election.Elector {
	if config.LeaderElection.LeaderElect {
		return nil
	}
	return host
}

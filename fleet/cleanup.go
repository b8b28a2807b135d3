package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// deletePeriod is the pause before the deletion of a Lease is retried.
const deletePeriod = time.Second

// hasLeft reports whether the member's cluster was cleaned up, or has left the fleet after its
// Manager campaigned for a Lease in the management cluster.
func (f *Fleet) hasLeft(m *member) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, wanted := f.clusters[m.cluster.Name]
	return m.cleanedUp.Load() || m.leading != nil && !wanted && f.stopping == nil
}

// deleteLease deletes the released Lease of a cluster that has left the fleet. A replica whose
// source still has the cluster may take the Lease at any moment, and then keeps it.
func (f *Fleet) deleteLease(cluster string) {
	limit := f.params.Election.RenewDeadline.Duration
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	leases := f.client.CoordinationV1().Leases(f.params.Namespace)
	log := f.log.WithValues("cluster", cluster, "lease", f.leaseOf(cluster))
	var last error
	_ = wait.PollUntilContextCancel(ctx, deletePeriod, true,
		func(ctx context.Context) (done bool, _ error) {
			ctx, cancel := context.WithTimeout(ctx, limit/2)
			defer cancel()
			lease, err := leases.Get(ctx, f.leaseOf(cluster), metav1.GetOptions{})
			switch holder := holderOf(lease); {
			case err == nil && holder != "":
				log.Info("The cluster has left this replica, and another one serves it",
					"holder", holder)
				last = nil
				return true, nil
			case err == nil:
				err = deleteUnchanged(ctx, leases, lease)
			}
			last = err
			return err == nil || apierrors.IsNotFound(err), nil
		})
	if last != nil && !apierrors.IsNotFound(last) {
		log.Error(last, "The Lease of a cluster that has left the fleet remains; delete it by hand")
	}
}

// deleteUnchanged deletes a Lease unless it differs from the one that was read.
func deleteUnchanged(
	ctx context.Context, leases coordinationclient.LeaseInterface, lease *coordinationv1.Lease,
) error {
	return leases.Delete(ctx, lease.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{
			UID: &lease.UID, ResourceVersion: &lease.ResourceVersion,
		},
	})
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// deleteDead deletes the announcements of dead replicas. A killed replica cannot delete its own. A
// replica that was only frozen announces itself again.
func deleteDead(
	ctx context.Context, leases coordinationclient.LeaseInterface, dead []*coordinationv1.Lease,
) error {
	var errs []error
	for _, lease := range dead {
		err := deleteUnchanged(ctx, leases, lease)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("delete the announcement of the dead replica %s: %w",
				holderOf(lease), err))
		}
	}
	return errors.Join(errs...)
}

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

const (
	// fleetLabel is on each Lease of a fleet, with the fleet's name.
	fleetLabel = "fxccm.dev/fleet"
	// clusterLabel is on the Lease of a cluster, with the cluster's name if a label can hold it.
	// replicaLabel is on the Lease by which a replica announces itself.
	replicaLabel = "fxccm.dev/fleet-replica"
	// weightAnnotation is on the same Lease.
	weightAnnotation = "fxccm.dev/fleet-weight"

	// A replica announces itself every announcePeriod, and counts for announceDuration.
	announcePeriod   = 4 * time.Second
	announceDuration = 12 * time.Second
)

// leaseView is what this process has seen of the fleet's Leases. Other processes' clocks play no
// part in it: a Lease is valid for its duration from the moment at which this process saw it
// change. It is safe for concurrent use.
type leaseView struct {
	now func() time.Time

	mu       sync.Mutex
	clusters map[string]seenLease // by Lease name
	replicas map[string]seenLease
}

type seenLease struct {
	holder string
	weight int
	// until is when the holder loses the Lease unless it renews. since is the last change.
	since, until time.Time
}

func newLeaseView(now func() time.Time) *leaseView {
	return &leaseView{now: now, clusters: map[string]seenLease{}, replicas: map[string]seenLease{}}
}

// observe records a Lease, and returns the name of the cluster's Lease whose holder has changed.
func (v *leaseView) observe(lease *coordinationv1.Lease, deleted bool) (changed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	of := v.clusters
	if lease.Labels[replicaLabel] != "" {
		of = v.replicas
	}
	last, known := of[lease.Name]
	if deleted {
		delete(of, lease.Name)
		return known
	}
	seen := seenLease{since: v.now()}
	if lease.Spec.HolderIdentity != nil {
		seen.holder = *lease.Spec.HolderIdentity
	}
	if d := lease.Spec.LeaseDurationSeconds; d != nil {
		seen.until = seen.since.Add(time.Duration(*d) * time.Second)
	}
	seen.weight, _ = strconv.Atoi(lease.Annotations[weightAnnotation])
	of[lease.Name] = seen
	return !known || last.holder != seen.holder || last.weight != seen.weight
}

// cluster returns the holder of a cluster's Lease, and since when or until when that is so. A free
// Lease has no holder.
func (v *leaseView) cluster(lease string) (holder string, since, until time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen, ok := v.clusters[lease]
	if !ok {
		return "", time.Time{}, time.Time{}
	}
	if seen.holder != "" && !v.now().Before(seen.until) {
		return "", seen.until, time.Time{}
	}
	return seen.holder, seen.since, seen.until
}

// live returns the replicas that are live, in the order of their identities, and when the first of
// them ceases to be unless it renews.
func (v *leaseView) live() (all []replica, until time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, seen := range v.replicas {
		if seen.holder == "" || !v.now().Before(seen.until) {
			continue
		}
		all = append(all, replica{identity: seen.holder, weight: seen.weight})
		if until.IsZero() || seen.until.Before(until) {
			until = seen.until
		}
	}
	slices.SortFunc(all, func(a, b replica) int { return strings.Compare(a.identity, b.identity) })
	return all, until
}

// announcer keeps this replica's own Lease.
type announcer struct {
	leases   coordinationclient.LeaseInterface
	name     string
	fleet    string
	self     replica
	problem  func(error)
	deadline time.Duration
}

// run announces the replica until ctx ends, and then takes the announcement back, so that the
// other replicas take over at once.
func (a *announcer) run(ctx context.Context) {
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, a.deadline)
		defer cancel()
		err := a.announce(ctx)
		switch {
		case err == nil:
			a.problem(nil)
		case !errors.Is(ctx.Err(), context.Canceled): // else this replica stops
			a.problem(fmt.Errorf("announce this replica: %w", err))
		}
	}, announcePeriod, 0.1, true)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.deadline)
	defer cancel()
	if err := a.leases.Delete(last, a.name, metav1.DeleteOptions{}); err != nil &&
		!apierrors.IsNotFound(err) {
		a.problem(fmt.Errorf("take back this replica's announcement: %w", err))
	}
}

func (a *announcer) announce(ctx context.Context) error {
	lease, err := a.leases.Get(ctx, a.name, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	switch {
	case missing:
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: a.name}}
	case err != nil:
		return err
	}
	now, duration := metav1.NowMicro(), int32(announceDuration/time.Second)
	metav1.SetMetaDataLabel(&lease.ObjectMeta, fleetLabel, a.fleet)
	metav1.SetMetaDataLabel(&lease.ObjectMeta, replicaLabel, "true")
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, weightAnnotation, strconv.Itoa(a.self.weight))
	lease.Spec.HolderIdentity = &a.self.identity
	lease.Spec.LeaseDurationSeconds = &duration
	lease.Spec.RenewTime = &now
	if missing {
		lease.Spec.AcquireTime = &now
		_, err = a.leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		_, err = a.leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	return err
}

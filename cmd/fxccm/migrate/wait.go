package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// pollInterval is the pause between two requests to the API server.
const pollInterval = time.Second

// until calls check until it returns "", and prints the state when it changes.
func (m *migration) until(
	ctx context.Context, what string, check func(context.Context) (string, error),
) error {
	seen := ""
	err := wait.PollUntilContextTimeout(ctx, pollInterval, m.line.timeout, true,
		func(ctx context.Context) (bool, error) {
			state, err := check(ctx)
			if err != nil {
				state = err.Error() // the API server may answer again
			}
			if state != "" && state != seen && ctx.Err() == nil {
				m.say("  waiting until %s: %s", what, state)
				seen = state
			}
			return state == "", nil
		})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("timeout after %s while waiting until %s: %s", m.line.timeout, what, seen)
}

// pods returns the Pods of a workload whose containers may run.
func (m *migration) pods(ctx context.Context, selector *metav1.LabelSelector) ([]v1.Pod, error) {
	labels, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, err
	}
	pods, err := m.CoreV1().Pods(m.occm.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: labels.String()})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pods.Items, func(p v1.Pod) bool {
		return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
	}), nil
}

// awaitGone waits until no Pod of the selector runs.
func (m *migration) awaitGone(
	ctx context.Context, what string, selector *metav1.LabelSelector,
) error {
	return m.until(ctx, what+"'s Pods are gone", func(ctx context.Context) (string, error) {
		pods, err := m.pods(ctx, selector)
		var names []string
		for _, pod := range pods {
			names = append(names, pod.Name+" on "+pod.Spec.NodeName)
		}
		return strings.Join(names, ", "), err
	})
}

// leaseState is the state of the lease, or its absence.
type leaseState struct{ *coordinationv1.Lease }

func (l leaseState) holder() string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

func (l leaseState) duration() time.Duration {
	if l.Spec.LeaseDurationSeconds == nil {
		return 0
	}
	return time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
}

func (m *migration) readLease(ctx context.Context) (leaseState, error) {
	election := m.settings.Config.LeaderElection
	lease, err := m.served.CoordinationV1().Leases(election.ResourceNamespace).Get(ctx,
		election.ResourceName, metav1.GetOptions{})
	return leaseState{lease}, err
}

// awaitFree waits until the lease is released, or was not renewed for its duration. It uses only
// this machine's clock, because other clocks may differ.
func (m *migration) awaitFree(ctx context.Context) error {
	version, since := "", time.Now()
	return m.until(ctx, "the lease is free", func(ctx context.Context) (string, error) {
		lease, err := m.readLease(ctx)
		switch {
		case apierrors.IsNotFound(err):
			return "", nil
		case err != nil:
			return "", err
		case lease.holder() == "":
			return "", nil
		case lease.ResourceVersion != version:
			version, since = lease.ResourceVersion, time.Now()
		case time.Since(since) > lease.duration():
			return "", nil
		}
		return fmt.Sprintf("%s holds it for up to %s", lease.holder(), lease.duration()), nil
	})
}

// isRenewed watches the lease for its duration, and reports whether it changes. Like awaitFree, it
// uses only this machine's clock.
func (m *migration) isRenewed(ctx context.Context, lease leaseState) (bool, error) {
	err := wait.PollUntilContextTimeout(ctx, pollInterval, lease.duration()+pollInterval, false,
		func(context.Context) (bool, error) {
			now, err := m.readLease(ctx)
			return err == nil && now.ResourceVersion != lease.ResourceVersion, err
		})
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case wait.Interrupted(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read the lease: %w", err)
	}
	return true, nil
}

// awaitLeader waits until a Pod of fxccm leads and is ready.
func (m *migration) awaitLeader(ctx context.Context) error {
	return m.until(ctx, "fxccm leads and is ready", func(ctx context.Context) (string, error) {
		pods, err := m.pods(ctx, fxccmSelector())
		if err != nil {
			return "", err
		}
		lease, err := m.readLease(ctx)
		if err != nil {
			return "", err
		}
		states := []string{fmt.Sprintf("%q leads", lease.holder())}
		for _, pod := range pods {
			if isReady(pod) && pod.Name == lease.holder() {
				return "", nil
			}
			states = append(states, pod.Name+" is "+stateOf(pod))
		}
		if len(pods) == 0 {
			states = append(states, "no Pod exists")
		}
		return strings.Join(states, ", "), nil
	})
}

func isReady(pod v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
}

// stateOf returns why a Pod is not ready, like "kubectl get pods".
func stateOf(pod v1.Pod) string {
	if isReady(pod) {
		return "ready"
	}
	for _, c := range pod.Status.ContainerStatuses {
		if waiting := c.State.Waiting; waiting != nil && waiting.Reason != "" {
			return strings.TrimSpace(waiting.Reason + " " + waiting.Message)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			return "not scheduled: " + c.Message
		}
	}
	return "not ready"
}

// fxccmSelector selects the Pods of the installed Deployment.
func fxccmSelector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{
		nameLabel: fxccmName, "app.kubernetes.io/part-of": fxccmName,
	}}
}

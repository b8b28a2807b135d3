//go:build linux

package invariants_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest/netfault"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/replica"
)

// Each of the four controllers meets a provider that panics in its process, and one that answers
// (nil, nil).
func TestProviderPanics_TheCallFailsAndTheProcessLives(t *testing.T) {
	w := newWorld(t, shortLane)
	r := w.start(t,
		launch{
			name: "replica-a", lease: usualLease,
			args: []string{"--node-status-update-frequency=1s"},
		})
	w.awaitLeader(t)
	w.addWork(t, 3, 0)
	w.awaitConvergence(t)
	// The lifecycle controller asks only for nodes that are not ready.
	w.markNotReady(t, w.nodes[0])

	methods := []fake.Method{
		fake.EnsureLoadBalancer, fake.InstanceMetadata, fake.CreateRoute,
		fake.ListRoutes, fake.InstanceExists,
	}
	for _, method := range methods {
		w.cloud.On(method).Times(2).Panic("the provider's " + string(method) + " is broken")
	}
	w.cloud.On(fake.InstanceMetadata).Times(3).ReturnZero()
	w.addWork(t, 5, 5)
	replica.Eventually(t, "all panics have happened", func() error {
		if !r.Running() {
			t.Fatalf("the process has ended with code %d", r.ExitCode())
		}
		if faults := w.cloud.Faults(); faults > 0 {
			return fmt.Errorf("%d faults have not been used up", faults)
		}
		return nil
	})
	w.awaitConvergence(t)
	if !r.Running() || r.Term(t) != 1 || r.Leads() != nil {
		t.Errorf("the process runs: %t, in term %d: %v; want it to lead in its first term",
			r.Running(), r.Term(t), r.Leads())
	}
	said, err := r.Entries(replica.Panicked)
	if err != nil {
		t.Fatal(err)
	}
	if len(said) != 2*len(methods) {
		t.Errorf("the log reports %d panics, want %d", len(said), 2*len(methods))
	}
	w.wantEvent(t, "SyncLoadBalancerFailed", "the provider's EnsureLoadBalancer is broken")
}

func (w *world) markNotReady(t *testing.T, name string) {
	t.Helper()
	replica.Eventually(t, name+" is not ready", func() error {
		node, err := w.admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range node.Status.Conditions {
			if node.Status.Conditions[i].Type == "Ready" {
				node.Status.Conditions[i].Status = "False"
			}
		}
		_, err = w.admin.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
		return err
	})
}

// wantEvent waits for an event whose text contains part.
func (w *world) wantEvent(t *testing.T, reason, part string) {
	t.Helper()
	replica.Eventually(t, "an event tells that "+part, func() error {
		events, err := w.admin.CoreV1().Events(metav1.NamespaceAll).List(t.Context(),
			metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if strings.Contains(event.Message, part) {
				return nil
			}
		}
		return fmt.Errorf("%d other events", len(events.Items))
	})
}

// startStubborn starts a host whose provider does not hear the end of a context, waits until a call
// hangs in it, and starts a replica of the example that stands by.
func (w *world) startStubborn(
	t *testing.T, lease replica.LeaseTimes, kubeconfig string, args ...string,
) (stubborn, heir *replica.Replica) {
	t.Helper()
	stubborn = w.start(t, launch{
		name: "stubborn", program: programs.stubborn, lease: lease, kubeconfig: kubeconfig,
		args: args,
	})
	w.awaitLeader(t)
	heir = w.start(t, launch{name: "heir", lease: lease})
	w.cloud.On(fake.EnsureLoadBalancer).By(stubborn.Caller(1)).Hang()
	w.addWork(t, 0, 3)
	w.awaitMutatingCall(t, stubborn)
	return stubborn, heir
}

// wantDrainTimeout checks the end of a process with a call that does not: reported, by the exit
// code, too; the lease kept; and the next one leads when it has expired.
func (w *world) wantDrainTimeout(
	t *testing.T, times replica.LeaseTimes, stubborn, heir *replica.Replica,
) {
	t.Helper()
	if code := stubborn.Wait(t); code != ccm.ExitDrainTimeout {
		t.Errorf("exit code %d, want %d", code, ccm.ExitDrainTimeout)
	}
	gone := time.Now()
	if h := w.holder(t); h != stubborn.Name {
		t.Errorf("the lease names %q, want it left to expire in the name of %s", h, stubborn.Name)
	}
	lease, err := w.lease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	renewed := lease.Spec.RenewTime.Time
	if log := stubborn.Tail(20); !strings.Contains(log, "did not end within its drain timeout") ||
		!strings.Contains(log, "call LoadBalancer.EnsureLoadBalancer") {
		t.Errorf("its log does not name the call that still ran:\n%s", log)
	}
	w.awaitLeader(t, stubborn)
	if lease, err = w.lease(t.Context()); err != nil {
		t.Fatal(err)
	}
	waited := lease.Spec.AcquireTime.Sub(renewed)
	t.Logf(
		"the process had gone %s after its last renewal; the next one took the lease %s after it",
		gone.Sub(renewed), waited)
	if waited < times.Duration {
		t.Errorf("%s took the lease %s after its last renewal, before it had expired", heir.Name,
			waited)
	}
	w.awaitConvergence(t)
	w.wantOneTermAtATime(t)
}

func TestDrainTimeoutOfStop_IsReportedAndTheLeaseExpires(t *testing.T) {
	w := newWorld(t, shortLane)
	stubborn, heir := w.startStubborn(t, patientLease, "", "--drain-timeout=500ms")
	stubborn.Signal(t, syscall.SIGTERM)
	w.wantDrainTimeout(t, patientLease, stubborn, heir)
}

// The process ends by itself, because nothing else ends the call.
// The drain timeout is the default, which is longer than what is left of the lease.
func TestDrainTimeoutOfLoss_EndsTheProcessBeforeAnotherLeads(t *testing.T) {
	w := newWorld(t, shortLane)
	wire := w.startWire(t, "stubborn")
	stubborn, heir := w.startStubborn(t, patientLease, wire.kubeconfig)
	wire.set(t, netfault.BlackHole())
	w.wantDrainTimeout(t, patientLease, stubborn, heir)
}

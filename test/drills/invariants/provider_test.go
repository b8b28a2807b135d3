//go:build linux

package invariants_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/replica"
)

// Each of the four controllers calls a provider that panics, and one that returns (nil, nil).
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
	// The lifecycle controller checks only nodes that are not ready.
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
		if r.HasExited() {
			t.Fatalf("the process has ended with code %d", r.ExitCode())
		}
		if faults := w.cloud.Faults(); faults > 0 {
			return fmt.Errorf("%d faults have not been used up", faults)
		}
		return nil
	})
	w.awaitConvergence(t)
	if r.HasExited() || r.Term(t) != 1 || r.Leads() != nil {
		t.Errorf("the process runs: %t, in term %d: %v; want it to lead in its first term",
			!r.HasExited(), r.Term(t), r.Leads())
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
	replica.Eventually(t, "an event has the text "+part, func() error {
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

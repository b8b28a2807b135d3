//go:build linux

package drills_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/netfault"
	"github.com/fxccm/fxccm/test/internal/replica"
)

// hangs is how long the provider of a replica hangs in a term that gives it startTimeout to start.
func hangs() (hangs, startTimeout time.Duration) {
	if all() {
		return 150 * time.Second, 20 * time.Second
	}
	return 40 * time.Second, 8 * time.Second
}

// The provider of one replica does not start, and ignores its cancellation. A replica with a
// healthy provider leads instead. The other replica stands by as soon as its provider works again,
// and can lead later.
func TestProvider_DoesNotStart_TheStandbyLeads(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"hanging-new", "hanging-initialize"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			lane(t)
			w := newWorld(t, planes.shared.started(t), kind)
			faulty := filepath.Join(w.dir, "faulty")
			if err := os.WriteFile(faulty, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			hangs, startTimeout := hangs()
			ill := w.start(w.name+"-ill", programs.host, "--provider="+kind, "--fault-file="+faulty,
				"--cloud-provider-start-timeout="+startTimeout.String())
			begun := ill.AwaitEntry(t, 1, replica.TermBegins).At
			healthy := w.start(w.name+"-healthy", programs.host)
			w.addNode()
			w.addService()

			// It is the start timeout, the drain timeout, and the expiry of the lease.
			limit := startTimeout + drainTimeout + replica.QuickLease().Duration
			leader := w.awaitLeader()
			took := w.entries(leader, replica.TermReady)[0].At.Sub(begun)
			t.Logf("%s leads %s after the other has won the lease", leader.Name, took)
			if leader != healthy || took > limit+leadsAtLast {
				t.Errorf("%s leads after %s, want %s after %s", leader.Name, took, healthy.Name,
					limit)
			}
			w.awaitServed()

			time.Sleep(time.Until(begun.Add(hangs)))
			if err := os.Remove(faulty); err != nil {
				t.Fatal(err)
			}
			if ill.HasExited() {
				t.Fatalf("%s has ended with code %d", ill.Name, ill.ExitCode())
			}
			healthy.Signal(t, syscall.SIGTERM)
			if code := healthy.Wait(t); code != 0 {
				t.Errorf("%s has ended with code %d", healthy.Name, code)
			}
			w.addNode()
			if leader := w.awaitLeader(); leader != ill {
				t.Errorf("%s leads, want %s", leader.Name, ill.Name)
			}
			w.awaitServed()
			w.wantNothingLate()
		})
	}
}

// A call to the cloud continues after its cancellation, and the host has the default
// DrainTimeoutPolicy: the process ends before another replica leads.
func TestProvider_IgnoresItsCancellation_TheProcessEndsBeforeAnotherLeads(t *testing.T) {
	t.Parallel()
	lane(t)
	w := newWorld(t, planes.shared.started(t), "deaf")
	deaf := w.start(w.name+"-deaf", programs.host, "--provider=deaf")
	w.awaitLeader()
	other := w.start(w.name+"-other", programs.host)
	w.cloud.On("EnsureLoadBalancer").By(deaf.Caller(1)).Hang()
	service := w.nextService()
	w.create(service)
	w.awaitInFlight("EnsureLoadBalancer", w.name+"/"+service.Name, func() {
		if err := deaf.endpoint.Set(netfault.BlackHole()); err != nil {
			t.Fatal(err)
		}
	})
	if leader := w.awaitAnother(deaf); leader != other {
		t.Fatalf("%s leads, want %s", leader.Name, other.Name)
	}
	if !deaf.HasExited() {
		t.Error("the process whose call continues still runs when another leads")
	} else if code := deaf.ExitCode(); code != ccm.ExitDrainTimeout {
		t.Errorf("it has ended with code %d, want %d", code, ccm.ExitDrainTimeout)
	}
	w.awaitServed()
	w.wantNothingLate()
}

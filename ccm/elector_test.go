package ccm_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/provider/fake"
)

// frozenElector grants one term that expires by the clock, and does not notice the expiry, like the
// elector of a frozen process.
type frozenElector struct {
	until time.Time
	ended chan error
}

func (e *frozenElector) Elect(
	ctx context.Context, lead func(context.Context, election.Grant) error,
) error {
	err := lead(context.WithoutCancel(ctx),
		election.Grant{ValidUntil: func() time.Time { return e.until }})
	e.ended <- err
	<-ctx.Done()
	return context.Cause(ctx)
}

// The fence notices the expiry by the clock; the elector does not report it.
func TestTerm_LeadershipExpiresByTheClock_CallInFlightIsCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := fake.New()
		cloud.On("ListRoutes").Hang()
		answer := make(chan error, 1)
		elector := &frozenElector{
			until: time.Now().Add(2 * time.Second),
			ended: make(chan error, 1),
		}
		p := standaloneParams("lister")
		p.Elector = elector
		p.Providers = []ccm.Provider{provider(func() (cloudprovider.Interface,
			error,
		) {
			return cloud.Provider(), nil
		})}
		p.Controllers = []ccm.Controller{{
			Name: "lister",
			New: func(_ context.Context, term *ccm.Term) (ccm.Runnable, error) {
				routes, _ := term.Cloud().Routes()
				return ccm.RunnableFunc(func(ctx context.Context) error {
					// a call that does not end with its context
					_, err := routes.ListRoutes(context.WithoutCancel(ctx), "c")
					answer <- err
					<-ctx.Done()
					return nil
				}), nil
			},
		}}
		_, stop := start(t, p)
		select {
		case err := <-answer:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the call in flight ended with %v", err)
			}
		case <-time.After(limit):
			t.Fatal("the call in flight was not canceled")
		}
		if err := <-elector.ended; !errors.Is(err, election.ErrLost) ||
			!strings.Contains(err.Error(), "expired without a renewal") {
			t.Errorf("the term ended with %v, want the loss of leadership by the clock", err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestElector_HostLeadsThreeTimes_ManagerRunsThreeTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := election.NewHost()
		p := standaloneParams("mine")
		p.Controllers = []ccm.Controller{idle("mine")}
		p.Elector = e
		m, stop := start(t, p)
		for round := uint64(1); round <= 3; round++ {
			host, lose := context.WithCancel(t.Context())
			lent := make(chan error, 1)
			go func() { lent <- e.Lead(host, election.Grant{}) }()
			eventually(t, m.Status,
				func(s status.Manager) bool { return s.Ready && s.Term == round }, "ready")
			lose()
			if err := <-lent; err != nil {
				t.Fatal(err)
			}
			eventually(t, m.Status,
				func(s status.Manager) bool { return s.State == status.Standby }, "standby")
		}
		_ = stop()
	})
}

// waitingElector never leads, because a holder that is no longer in the lease may still lead.
type waitingElector struct{ status election.Status }

func (e *waitingElector) Elect(
	ctx context.Context, _ func(context.Context, election.Grant) error,
) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (e *waitingElector) ElectionStatus() election.Status { return e.status }

func TestStatus_LeaseWasDeleted_NamesTheHolderThatTheStandbyWaitsFor(t *testing.T) {
	until := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	p := standaloneParams("idle")
	p.Controllers = []ccm.Controller{idle("idle")}
	p.Elector = &waitingElector{election.Status{
		Identity: "standby", WaitsFor: "ghost", WaitsUntil: until,
	}}
	m, _ := start(t, p)
	s := eventually(t, m.Status, func(s status.Manager) bool { return s.State == status.Standby },
		"a standby")
	if !strings.Contains(s.Reason, `"ghost"`) ||
		!strings.Contains(s.Reason, until.Format(time.RFC3339)) {
		t.Errorf("the reason is %q, want the holder and the time", s.Reason)
	}
}

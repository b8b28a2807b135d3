package ccm_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/fake"
)

// frozenElector grants one term that expires by the clock, and never notices: the elector of a process that was frozen and has
// not got round to anything yet.
type frozenElector struct {
	until time.Time
	ended chan error
}

func (e *frozenElector) Elect(ctx context.Context, lead func(context.Context, ccm.Grant) error) error {
	err := lead(context.WithoutCancel(ctx), ccm.Grant{ValidUntil: func() time.Time { return e.until }})
	e.ended <- err
	<-ctx.Done()
	return context.Cause(ctx)
}

// When leadership expires by the clock the call in flight is cancelled and the term ends, although nobody has told it.
func TestTerm_EndsByTheClockAndCancelsWhatIsInFlight(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	cloud := fake.New()
	cloud.On(fake.ListRoutes).Hang()
	answer := make(chan error, 1)
	elector := &frozenElector{until: time.Now().Add(2 * time.Second), ended: make(chan error, 1)}
	p := standaloneParams("lister")
	p.Elector = elector
	p.Providers = []ccm.Provider{provider(func() (cloudprovider.Interface, error) { return cloud.Provider(), nil })}
	p.Controllers = []ccm.Controller{{Name: "lister", New: func(_ context.Context, term *ccm.Term) (ccm.Runnable, error) {
		routes, _ := term.Cloud().Routes()
		return ccm.RunnableFunc(func(ctx context.Context) error {
			_, err := routes.ListRoutes(context.WithoutCancel(ctx), "c") // it has lost track of its context
			answer <- err
			<-ctx.Done()
			return nil
		}), nil
	}}}
	_, stop := start(t, p)
	select {
	case err := <-answer:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the call in flight ended with %v", err)
		}
	case <-time.After(limit):
		t.Fatal("the call in flight was not cancelled")
	}
	if err := <-elector.ended; !errors.Is(err, ccm.ErrLeadershipLost) || !strings.Contains(err.Error(), "expired without a renewal") {
		t.Errorf("the term ended with %v, want the loss of leadership by the clock", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

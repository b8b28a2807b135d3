package hostintegration_test

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
)

// By the host's clock leadership is valid, and what failed is tried again.
func TestClock_OfTheHostSaysHowLateItIs(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC))
	inThatYear := func(at time.Time) bool { return at.UTC().Year() == 2001 }
	p := params(t, newCloud(t), nil)
	p.Clock = clock
	// A lease that is renewed every ten minutes or so: for this test, never.
	p.Config.LeaderElection.LeaseDuration = metav1.Duration{Duration: 20 * time.Minute}
	p.Config.LeaderElection.RenewDeadline = metav1.Duration{Duration: 15 * time.Minute}
	p.Config.LeaderElection.RetryPeriod = metav1.Duration{Duration: 10 * time.Minute}
	var said lines
	log := said.logger()
	p.Logger = &log
	built := 0
	flaky := controller("flaky", func(*ccm.Term) (ccm.RunnableFunc, error) {
		if built++; built == 1 {
			return nil, errors.New("not yet")
		}
		return untilEnd, nil
	})
	flaky.OnFailure = ccm.RestartController
	p.Controllers, p.Config.Controllers = []ccm.Controller{flaky}, []string{"flaky"}
	m, _ := run(t, p)

	status := ccmtest.WaitReady(t, m)
	if !inThatYear(status.Election.LastRenewal) {
		t.Errorf("the lease was renewed at %s", status.Election.LastRenewal)
	}
	failed := waitController(t, m, "flaky", func(s ccm.ControllerStatus) bool {
		return s.State == ccm.ControllerFailed && !s.RetryAt.IsZero()
	})
	if !inThatYear(failed.RetryAt) {
		t.Errorf("it is tried again at %s", failed.RetryAt)
	}
	ccmtest.WaitStatus(t, m, "the controller runs", func(ccm.Status) bool {
		clock.Step(time.Second) // until the pause is over, however long it was made
		return statusOf(t, m, "flaky").State == ccm.ControllerRunning
	})
	if s := m.Status(); s.Term != 1 {
		t.Errorf("it is term %d", s.Term)
	}
	ccmtest.WaitStatus(t, m, "the second term is ready", func(s ccm.Status) bool {
		if s.Term == 1 {
			clock.Step(time.Minute) // until the lease has not been renewed for long enough
		}
		return s.Ready && s.Term == 2
	})
	if got := said.containing(`"msg"="Term ends"`,
		"leadership expired without a renewal"); len(got) != 1 {
		t.Errorf("the end of the term was told like this: %q", said.containing(`"msg"="Term ends"`))
	}
}

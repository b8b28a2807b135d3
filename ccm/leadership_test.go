package ccm_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
)

// outside is a controller that records an activity outside the process. It sends the leadership of
// its term, and the function that ends the activity.
func outside(begun chan<- ccm.Leadership, end chan<- func()) ccm.Controller {
	return ccm.Controller{
		Name: "outside",
		New: func(_ context.Context, term *ccm.Term) (ccm.Runnable, error) {
			return ccm.RunnableFunc(func(ctx context.Context) error {
				leadership := term.Leadership()
				done, err := leadership.Begin("process 1234")
				if err != nil {
					return err
				}
				begun <- leadership
				end <- done
				<-ctx.Done()
				return nil
			}), nil
		},
	}
}

func TestLeadership_OutsideActivityContinues_TermDoesNotEndAndCanBeLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, end := make(chan ccm.Leadership, 1), make(chan func(), 1)
		elector := election.NewHost()
		p := standaloneParams("outside")
		p.Elector, p.Controllers = elector, []ccm.Controller{outside(begun, end)}
		m := newManager(t, p)
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = m.Run(ctx) }()
		leading, lose := context.WithCancel(t.Context())
		until := time.Now().Add(time.Hour)
		released := make(chan error, 1)
		go func() {
			released <- elector.Lead(leading,
				election.Grant{ValidUntil: func() time.Time { return until }})
		}()
		leadership, done := <-begun, <-end
		if got := leadership.ValidUntil(); got != until {
			t.Errorf("ValidUntil returned %s, want the grant's %s", got, until)
		}

		stop()
		time.Sleep(time.Second) // with the fake clock, all other goroutines block by then
		select {
		case err := <-released:
			t.Fatalf("Lead returned %v while the activity continues", err)
		case <-leadership.Lost:
			t.Fatal("a stop lost leadership")
		default:
		}
		lose()
		<-leadership.Lost
		done()
		<-m.Done()
		if err := <-released; err != nil {
			t.Errorf("Lead returned %v", err)
		}
		if _, err := leadership.Begin("another"); !errors.Is(err, ccm.ErrTermOver) {
			t.Errorf("Begin after the term returned %v, want ErrTermOver", err)
		}
	})
}

func TestLeadership_OutsideActivityHangs_DrainTimeoutMayAct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, end := make(chan ccm.Leadership, 1), make(chan func(), 1)
		p := standaloneParams("outside")
		p.Controllers = []ccm.Controller{outside(begun, end)}
		_, stop := start(t, p)
		<-begun
		done := <-end
		defer done()
		timedOut, ok := errors.AsType[*ccm.DrainTimeoutError](stop())
		if !ok || !timedOut.MayAct() || timedOut.Running[0].Name != "process 1234" {
			t.Errorf("Run returned %v, want a DrainTimeoutError for process 1234 that may act",
				timedOut)
		}
	})
}

// lossy is an elector that grants leadership that is already lost.
type lossy struct{ terms int }

func (l *lossy) Elect(
	ctx context.Context, lead func(context.Context, election.Grant) error,
) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l.terms++
	led, lose := context.WithCancelCause(context.WithoutCancel(ctx))
	lose(election.ErrLost)
	return lead(led, election.Grant{})
}

func TestCampaign_LeadershipIsLostAgainAndAgain_AFewTermsBeginAtOnceThenOneASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		elector := &lossy{}
		p := standaloneParams()
		p.Elector = elector
		m := newManager(t, p)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second+time.Millisecond)
		defer stop()
		if err := m.Run(ctx); err != nil {
			t.Error(err)
		}
		// The first pause is after the sixth term.
		if got := elector.terms; got != 16 {
			t.Errorf("%d terms began in ten seconds, want 16", got)
		}
	})
}

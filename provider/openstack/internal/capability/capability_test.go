package capability

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

var errDown = errors.New("the cloud is down")

// cloud returns the configured answer, and counts the requests.
type cloud struct {
	mu    sync.Mutex
	asked int
	yes   bool
	err   error
	// hold, if set, delays the answer until it is closed.
	hold, entered chan struct{}
}

func (c *cloud) ask(ctx context.Context) (bool, error) {
	c.mu.Lock()
	c.asked++
	hold, entered := c.hold, c.entered
	c.mu.Unlock()
	if hold != nil {
		entered <- struct{}{}
		select {
		case <-hold:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.yes, c.err
}

func (c *cloud) set(yes bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.yes, c.err = yes, err
}

func (c *cloud) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func newFact(c *cloud) (*Fact[bool], *clocktesting.FakeClock) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	return New(c.ask, Options{Clock: clock}), clock
}

func want(t *testing.T, f *Fact[bool], yes bool, known bool) {
	t.Helper()
	got, err := f.Get(t.Context())
	if known && (err != nil || got != yes) {
		t.Errorf("the answer is %t, %v; want %t", got, err, yes)
	}
	if !known && (!errors.Is(err, ErrUnknown) || !errors.Is(err, errDown)) {
		t.Errorf("the error is %v; want unknown, for the cloud is down", err)
	}
}

func TestGet_Known_IsCached(t *testing.T) {
	for _, yes := range []bool{true, false} {
		c := &cloud{yes: yes}
		f, clock := newFact(c)
		for range 5 {
			want(t, f, yes, true)
			clock.Step(DefaultLife / 6)
		}
		if c.count() != 1 {
			t.Errorf("%d requests for the fact %t", c.count(), yes)
		}
	}
}

func TestGet_CloudDown_IsUnknownAndRequestedAgain(t *testing.T) {
	c := &cloud{err: errDown}
	f, clock := newFact(c)
	for range 100 {
		want(t, f, false, false)
	}
	if c.count() != 1 {
		t.Errorf("100 concurrent callers sent %d requests to a cloud that is down", c.count())
	}
	c.set(true, nil)
	clock.Step(DefaultRetry)
	want(t, f, true, true)
}

func TestGet_Expired_IsRequestedAgain(t *testing.T) {
	c := &cloud{yes: false}
	f, clock := newFact(c)
	want(t, f, false, true)
	c.set(true, nil)
	clock.Step(DefaultLife)
	want(t, f, true, true)
}

func TestGet_ExpiredWhileTheCloudIsDown_ReturnsThePreviousResponse(t *testing.T) {
	c := &cloud{yes: true}
	f, clock := newFact(c)
	want(t, f, true, true)
	c.set(false, errDown)
	clock.Step(DefaultLife)
	for range 10 {
		want(t, f, true, true)
	}
	if c.count() != 2 {
		t.Errorf("%d requests, want 2", c.count())
	}
	c.set(false, nil)
	clock.Step(DefaultRetry)
	want(t, f, false, true)
}

func TestGet_ConcurrentCallers_ShareOneRequest(t *testing.T) {
	c := &cloud{yes: true, hold: make(chan struct{}), entered: make(chan struct{}, 1)}
	f, _ := newFact(c)
	var callers sync.WaitGroup
	for range 50 {
		callers.Go(func() { want(t, f, true, true) })
	}
	<-c.entered
	close(c.hold)
	callers.Wait()
	if c.count() != 1 {
		t.Errorf("%d requests", c.count())
	}
}

func TestGet_CallerCanceled_OthersGetTheResponse(t *testing.T) {
	c := &cloud{yes: true, hold: make(chan struct{}), entered: make(chan struct{}, 2)}
	f, _ := newFact(c)

	first, giveUp := context.WithCancel(t.Context())
	answers := make(chan error, 2)
	go func() {
		_, err := f.Get(first)
		answers <- err
	}()
	<-c.entered

	// The second caller waits for the first, and is canceled as well.
	waiting, leave := context.WithCancel(t.Context())
	leave()
	if _, err := f.Get(waiting); !errors.Is(err, context.Canceled) {
		t.Errorf("the canceled waiting caller gets %v", err)
	}

	// The third caller waits, and sends the next request.
	go func() {
		yes, err := f.Get(t.Context())
		if err == nil && !yes {
			err = errors.New("a wrong answer")
		}
		answers <- err
	}()
	giveUp()
	if err := <-answers; !errors.Is(err, context.Canceled) {
		t.Errorf("the canceled requesting caller gets %v", err)
	}
	<-c.entered
	close(c.hold)
	if err := <-answers; err != nil {
		t.Errorf("the next requesting caller gets %v", err)
	}
}

package controllerruntime

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/fence"
)

// counted counts requests. All of them fail.
type counted int

var errCounted = errors.New("counted")

func (c *counted) RoundTrip(*http.Request) (*http.Response, error) {
	*c++
	return nil, errCounted
}

// The process was frozen past its lease, and its elector has not noticed that yet.
func TestTransport_LeadershipExpiresByTheClock_RequestsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := New(&rest.Config{Host: "http://127.0.0.1:1"}, Config{Options: ctrl.Options{
			LeaderElection: true, LeaderElectionResourceLockInterface: &memoryLock{},
		}})
		if err != nil {
			t.Fatal(err)
		}
		m := &trackedManager{calls: fence.New(h.validUntil, clock.RealClock{})}
		m.lock = &strictLock{Interface: h.lock, acting: m.acting}
		var sent counted
		transport, err := Transport(m, &sent)
		if err != nil {
			t.Fatal(err)
		}
		write := func() error {
			req, err := http.NewRequest(http.MethodPut, "http://cloud", strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = transport.RoundTrip(req)
			return err
		}
		if err := write(); !errors.Is(err, ccm.ErrTermOver) {
			t.Errorf("before leadership: %v", err)
		}
		if err := m.lock.Update(t.Context(),
			resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); err != nil {
			t.Fatal(err)
		}
		// With the default times another process may lead after 15 s.
		for _, step := range []struct {
			frozen time.Duration
			want   error
		}{{0, errCounted}, {12 * time.Second, errCounted}, {time.Second, ccm.ErrTermOver}} {
			time.Sleep(step.frozen)
			if err := write(); !errors.Is(err, step.want) {
				t.Errorf("frozen for %s: %v, want %v", step.frozen, err, step.want)
			}
		}
		if sent != 2 {
			t.Errorf("%d requests were sent, want 2", sent)
		}
	})
}

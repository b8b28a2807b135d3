package serving

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
	"github.com/fxccm/fxccm/internal/inflight"
)

// checked returns the settings of a port with an API server at the address.
func checked(t *testing.T, address string) *settings {
	t.Helper()
	cfg := servingconfig.Default()
	cfg.Authentication.SkipLookup = true
	log := logr.Discard()
	s, err := check(&rest.Config{Host: address}, cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestReviews_Limits_AreThoseOfUpstream(t *testing.T) {
	s := checked(t, "https://127.0.0.1:1")
	if s.authentication.RateLimiter == s.authorization.RateLimiter {
		t.Error("reviews of tokens and of access share a limit")
	}
	for name, config := range map[string]*rest.Config{
		"authentication": s.authentication,
		"authorization":  s.authorization,
	} {
		limiter := config.RateLimiter
		if limiter == nil {
			t.Errorf("%s has no limit", name)
			continue
		}
		if got := limiter.QPS(); got != 200 {
			t.Errorf("%s is limited to %v requests a second, want 200", name, got)
		}
		atOnce := 0
		for limiter.TryAccept() {
			atOnce++
		}
		// The limiter grants some more while a slow machine runs the loop.
		if atOnce < 400 || atOnce > 500 {
			t.Errorf("%s may send %d requests at once, want 400", name, atOnce)
		}
	}
}

// quota permits a number of requests, and refuses all others.
type quota struct {
	flowcontrol.RateLimiter
	left atomic.Int32
}

func (q *quota) Wait(context.Context) error {
	if q.left.Add(-1) < 0 {
		return errors.New("the quota is used up")
	}
	return nil
}

func TestReviews_OfRandomTokens_ReachTheAPIServerNoFasterThanTheLimit(t *testing.T) {
	const allowed, callers = 7, 50
	var asked atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusForbidden)
	}))
	defer api.Close()
	s := checked(t, api.URL)
	q := &quota{}
	q.left.Store(allowed)
	s.authentication.RateLimiter = reviewLimiter{q}
	who, err := s.identities(&inflight.Set{}, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer who.close()
	g := &gate{identities: who, next: http.NotFoundHandler(), log: logr.Discard()}
	var turnedAway atomic.Int32
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			r.Header.Set("Authorization", fmt.Sprintf("Bearer random-%d", i))
			w := httptest.NewRecorder()
			g.ServeHTTP(w, r)
			if w.Code != http.StatusServiceUnavailable {
				t.Errorf("a caller whose token was not reviewed gets %d %s", w.Code, w.Body)
			}
			if strings.Contains(w.Body.String(), "too many requests wait for a review") {
				turnedAway.Add(1)
			}
		})
	}
	wg.Wait()
	if asked.Load() != allowed || turnedAway.Load() != callers-allowed {
		t.Errorf(
			"%d tokens: the API server reviewed %d and the limit refused %d callers; want %d and %d",
			callers, asked.Load(), turnedAway.Load(), allowed, callers-allowed)
	}
}

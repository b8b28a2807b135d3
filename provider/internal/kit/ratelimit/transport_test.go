package ratelimit

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

func TestRetryAfter_AnyValue_IsAPauseOrNone(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                              0,
		"0":                             0,
		"7":                             7 * time.Second,
		" 7 ":                           7 * time.Second,
		"-7":                            0,
		"soon":                          0,
		"1e9":                           0,
		"99999999999999999999":          0,
		"Fri, 01 May 2026 12:01:30 GMT": 90 * time.Second,
		"Fri, 01 May 2026 11:00:00 GMT": 0,
	} {
		resp := &http.Response{Header: http.Header{"Retry-After": {value}}}
		if got := RetryAfter(resp, now); got != want {
			t.Errorf("Retry-After %q: %s, want %s", value, got, want)
		}
	}
	if got := RetryAfter(nil, now); got != 0 {
		t.Errorf("without a response the pause is %s", got)
	}
}

// answers returns the responses of a cloud in order.
type answers []*http.Response

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	first := (*a)[0]
	*a = (*a)[1:]
	return first, nil
}

func answer(status int, retryAfter string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {retryAfter}}}
}

func TestTransport_CloudRequestsAPause_NextRequestWaits(t *testing.T) {
	for name, c := range map[string]struct {
		first  *http.Response
		pauses bool
		want   time.Duration
	}{
		"success":                 {answer(200, "20"), true, 0},
		"too many":                {answer(429, "20"), true, 20 * time.Second},
		"too many, without time":  {answer(429, ""), true, time.Second},
		"too many, for a day":     {answer(429, "86400"), true, time.Minute},
		"unavailable":             {answer(503, "20"), true, 20 * time.Second},
		"unavailable, no time":    {answer(503, ""), true, 0},
		"the cloud may not pause": {answer(429, "20"), false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var waited time.Duration
				transport := &Transport{
					Next:   &answers{c.first, answer(200, "")},
					Queue:  New(1000, 1000, clock.RealClock{}),
					Pauses: c.pauses, Waited: func(d time.Duration) { waited = d },
				}
				defer transport.Queue.Close()
				for range 2 {
					req, err := http.NewRequest(http.MethodPost, "http://cloud",
						strings.NewReader("x"))
					if err != nil {
						t.Fatal(err)
					}
					if _, err := transport.RoundTrip(req); err != nil {
						t.Fatal(err)
					}
				}
				if waited != c.want {
					t.Errorf("the second request waited %s, want %s", waited, c.want)
				}
			})
		})
	}
}

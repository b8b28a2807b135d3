package serving

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/util/flowcontrol"
)

// The limits of each kind of review are those of k8s.io/apiserver's delegated authentication and
// authorization. A client can send a different token with each request, which no cache can limit.
const (
	reviewQPS   = 200
	reviewBurst = 400
)

// errTooManyReviews means that a review was not sent in time.
var errTooManyReviews = errors.New("too many reviews are waiting")

// reviewLimiter wraps its error so that callers can distinguish it from errors of the API server.
type reviewLimiter struct{ flowcontrol.RateLimiter }

func newReviewLimiter() flowcontrol.RateLimiter {
	return reviewLimiter{flowcontrol.NewTokenBucketRateLimiter(reviewQPS, reviewBurst)}
}

// Wait implements flowcontrol.RateLimiter.
func (l reviewLimiter) Wait(ctx context.Context) error {
	if err := l.RateLimiter.Wait(ctx); err != nil {
		return fmt.Errorf("%w: %w", errTooManyReviews, err)
	}
	return nil
}

package serving

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/util/flowcontrol"
)

// The limits of each kind of review, per second and at once, are those of k8s.io/apiserver's
// delegated authentication and authorization: anyone who reaches the port can send a different
// token with each request, and no cache helps against that.
const (
	reviewQPS   = 200
	reviewBurst = 400
)

// errTooManyReviews is wrapped by the error of a review that could not be sent in time.
var errTooManyReviews = errors.New("too many reviews are waiting")

// reviewLimiter is a limit whose error differs from those of the API server.
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

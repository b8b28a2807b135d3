package guard

import (
	"context"
	"errors"
	"strings"
	"time"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/internal/fence"
)

// An Observer observes every call. iface is the name of an interface of k8s.io/cloud-provider, or
// "Cloud" for cloudprovider.Interface itself and for SetInformers and Close. The methods are called
// in the goroutine of the call, so they must be safe for concurrent use, and must not block.
type Observer interface {
	// CallStarted reports a call that has passed the fence. CallEnded always follows.
	CallStarted(iface, method string)
	// CallEnded reports the result of a call that has started. The duration does not include the
	// wait at the fence.
	CallEnded(iface, method string, result Result, duration time.Duration)
	// CallRefused reports a call that the fence refused. Neither of the other methods is called for
	// it.
	CallRefused(iface, method string)
}

// A Result classifies how a call ended.
type Result string

// All results.
const (
	OK       Result = "ok"
	Failed   Result = "error"
	NotFound Result = "not_found"
	// NotImplemented: the provider does not implement the call, or leaves it to another controller.
	NotImplemented Result = "not_implemented"
	// Retry: the provider asks for another call after a time.
	Retry    Result = "retry"
	Panicked Result = "panic"
	// Canceled calls failed because the term or the caller's context ended while they were in
	// flight. The provider's own timeout is Failed.
	Canceled Result = "canceled"
	// Refused calls arrived after the end of the term, or waited while it drained. They were not
	// made.
	Refused Result = "refused"
)

// Results lists all results.
func Results() []Result {
	return []Result{OK, Failed, NotFound, NotImplemented, Retry, Panicked, Canceled, Refused}
}

// resultOf looks for the errors that upstream's controllers distinguish, in the whole chain. ctx is
// the context of the call.
func resultOf(ctx context.Context, err error) Result {
	switch {
	case err == nil:
		return OK
	case is[*PanicError](err):
		return Panicked
	case errors.Is(err, cloudprovider.InstanceNotFound), errors.Is(err, cloudprovider.DiskNotFound):
		return NotFound
	case errors.Is(err, cloudprovider.NotImplemented), errors.Is(err,
		cloudprovider.ImplementedElsewhere):
		return NotImplemented
	case is[*api.RetryError](err):
		return Retry
	// Some providers do not wrap the cause, so the context is checked, too.
	case ctx.Err() != nil, errors.Is(err, context.Canceled), errors.Is(err, fence.ErrClosed):
		return Canceled
	default:
		return Failed
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// split splits the name of a call. It does not allocate.
func split(name string) (iface, method string) {
	if iface, method, ok := strings.Cut(name, "."); ok {
		return iface, method
	}
	return "Cloud", name
}

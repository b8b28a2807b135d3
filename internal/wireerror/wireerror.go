// Package wireerror carries the errors of a cloud provider from one process to another, so that
// callers can still compare them.
package wireerror

import (
	"context"
	"errors"
	"time"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
)

// sentinels are the errors that callers compare with, and their names on the wire. The map is never
// written.
var sentinels = map[string]error{
	"InstanceNotFound":     cloudprovider.InstanceNotFound,
	"NotImplemented":       cloudprovider.NotImplemented,
	"ImplementedElsewhere": cloudprovider.ImplementedElsewhere,
	"DiskNotFound":         cloudprovider.DiskNotFound,
	"Canceled":             context.Canceled,
	"DeadlineExceeded":     context.DeadlineExceeded,
}

// Error is an error on the wire. A sentinel arrives as itself, so that == holds; an error around a
// sentinel or an *api.RetryError arrives as one that wraps it.
type Error struct {
	// Sentinel is a key of sentinels, or "".
	Sentinel string `json:"sentinel,omitempty"`
	// Message is the text; "" for a sentinel itself.
	Message string `json:"message,omitempty"`
	// RetryAfter is that of an *api.RetryError, and RetryMessage its text.
	RetryAfter   *time.Duration `json:"retryAfter,omitempty"`
	RetryMessage string         `json:"retryMessage,omitempty"`
}

// Encode returns nil for nil.
func Encode(err error) *Error {
	if err == nil {
		return nil
	}
	if retry, ok := errors.AsType[*api.RetryError](err); ok {
		after := retry.RetryAfter()
		return &Error{
			Message: err.Error(), RetryAfter: &after, RetryMessage: retry.Error(),
		}
	}
	for name, sentinel := range sentinels {
		if err == sentinel {
			return &Error{Sentinel: name}
		}
		if errors.Is(err, sentinel) {
			return &Error{Sentinel: name, Message: err.Error()}
		}
	}
	return &Error{Message: err.Error()}
}

// Decode returns nil for nil.
func (w *Error) Decode() error {
	if w == nil {
		return nil
	}
	wrapped := sentinels[w.Sentinel]
	switch {
	case w.RetryAfter != nil:
		wrapped = api.NewRetryError(w.RetryMessage, *w.RetryAfter)
	case wrapped == nil:
		return errors.New(w.Message)
	case w.Message == "":
		return wrapped
	}
	return remoteError{w.Message, wrapped}
}

// remoteError is an error around one that callers test for.
type remoteError struct {
	message string
	wrapped error
}

func (e remoteError) Error() string { return e.message }
func (e remoteError) Unwrap() error { return e.wrapped }

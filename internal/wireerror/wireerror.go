// Package wireerror carries the errors of a cloud provider from one process to another, so that
// callers can still compare them.
package wireerror

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
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
	"Unsupported":          errors.ErrUnsupported,
}

// Error is an error on the wire. A sentinel is decoded to itself, so that == holds. An error that
// wraps sentinels or an *api.RetryError is decoded to an error that wraps them.
type Error struct {
	// Sentinels are the keys of sentinels that the error wraps, sorted.
	Sentinels []string `json:"sentinels,omitempty"`
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
	w := &Error{Message: err.Error()}
	for name, sentinel := range sentinels {
		if err == sentinel {
			return &Error{Sentinels: []string{name}}
		}
		if errors.Is(err, sentinel) {
			w.Sentinels = append(w.Sentinels, name)
		}
	}
	slices.Sort(w.Sentinels)
	if retry, ok := errors.AsType[*api.RetryError](err); ok {
		after := retry.RetryAfter()
		w.RetryAfter, w.RetryMessage = &after, retry.Error()
	}
	return w
}

// Decode returns nil for nil.
func (w *Error) Decode() error {
	if w == nil {
		return nil
	}
	var wrapped []error
	for _, name := range w.Sentinels {
		// A newer program may have further sentinels.
		if sentinel := sentinels[name]; sentinel != nil {
			wrapped = append(wrapped, sentinel)
		}
	}
	if w.Message == "" && len(wrapped) == 1 {
		return wrapped[0]
	}
	if w.RetryAfter != nil {
		wrapped = append(wrapped, api.NewRetryError(w.RetryMessage, *w.RetryAfter))
	}
	return remoteError{cmp.Or(w.Message, strings.Join(w.Sentinels, ", ")), wrapped}
}

// remoteError wraps the errors that callers test for.
type remoteError struct {
	message string
	wrapped []error
}

func (e remoteError) Error() string   { return e.message }
func (e remoteError) Unwrap() []error { return e.wrapped }

package fake

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
)

// reply is the answer to a provider's call over HTTP: what it returned, or what it panicked with.
type reply struct {
	results
	Error *wireError `json:"error,omitempty"`
	Panic *string    `json:"panic,omitempty"`
}

// sentinels are the errors that callers compare with, and their names on the wire. It is never
// written.
var sentinels = []struct {
	kind string
	err  error
}{
	{"InstanceNotFound", cloudprovider.InstanceNotFound},
	{"NotImplemented", cloudprovider.NotImplemented},
	{"ImplementedElsewhere", cloudprovider.ImplementedElsewhere},
	{"DiskNotFound", cloudprovider.DiskNotFound},
	{"Canceled", context.Canceled},
	{"DeadlineExceeded", context.DeadlineExceeded},
}

const retryKind = "Retry"

// wireError is an error on the wire. A sentinel arrives as itself, so that == holds; an error
// around a sentinel or around an *api.RetryError arrives as one that wraps it.
type wireError struct {
	// Kind is the name of a sentinel, or Retry, or "" for any other error.
	Kind string `json:"kind,omitempty"`
	// Message is the text of the error; it may be omitted for a sentinel.
	Message string `json:"message,omitempty"`
	// RetryAfter, such as "5s", is that of an *api.RetryError, and RetryMessage its text when the
	// error is one around it.
	RetryAfter   string `json:"retryAfter,omitempty"`
	RetryMessage string `json:"retryMessage,omitempty"`
}

func encodeError(err error) *wireError {
	if err == nil {
		return nil
	}
	// An error without a text could not be told from no error at all.
	w := &wireError{Message: cmp.Or(err.Error(), "an error without a text")}
	if retry, ok := errors.AsType[*api.RetryError](err); ok {
		w.Kind, w.RetryAfter = retryKind, retry.RetryAfter().String()
		if error(retry) != err {
			w.RetryMessage = cmp.Or(retry.Error(), w.Message)
		}
		return w
	}
	for _, s := range sentinels {
		if err == s.err {
			return &wireError{Kind: s.kind}
		}
		if errors.Is(err, s.err) {
			w.Kind = s.kind
			return w
		}
	}
	return w
}

// decode returns the error that was encoded. malformed reports that w does not hold an error.
func (w *wireError) decode() (_, malformed error) {
	switch w.Kind {
	case "":
		if w.Message == "" {
			return nil, errors.New("an error has neither a kind nor a message")
		}
		return errors.New(w.Message), nil
	case retryKind:
		after, err := time.ParseDuration(w.RetryAfter)
		if err != nil {
			return nil, fmt.Errorf("an error's retryAfter %q is not a duration such as \"5s\"",
				w.RetryAfter)
		}
		if w.RetryMessage == "" {
			return api.NewRetryError(w.Message, after), nil
		}
		return remoteError{w.Message, api.NewRetryError(w.RetryMessage, after)}, nil
	default:
		for _, s := range sentinels {
			switch {
			case s.kind != w.Kind:
			case w.Message == "":
				return s.err, nil
			default:
				return remoteError{w.Message, s.err}, nil
			}
		}
		return nil, fmt.Errorf("an error's kind %q is unknown", w.Kind)
	}
}

// remoteError is an error around one that callers ask for.
type remoteError struct {
	message string
	wrapped error
}

func (e remoteError) Error() string { return e.message }
func (e remoteError) Unwrap() error { return e.wrapped }

// wireFault is a Fault on the wire.
type wireFault struct {
	Methods       []Method   `json:"methods,omitempty"`
	Object        string     `json:"object,omitempty"`
	Caller        string     `json:"caller,omitempty"`
	Times         int        `json:"times,omitempty"`
	Delay         string     `json:"delay,omitempty"`
	Hang          bool       `json:"hang,omitempty"`
	Error         *wireError `json:"error,omitempty"`
	Panic         *string    `json:"panic,omitempty"`
	ReturnZero    bool       `json:"returnZero,omitempty"`
	IgnoreContext bool       `json:"ignoreContext,omitempty"`
	AfterEffect   bool       `json:"afterEffect,omitempty"`
}

// MarshalJSON writes durations as text ("1.5s"), errors by kind and message, and a panic's value as
// text.
func (f Fault) MarshalJSON() ([]byte, error) {
	w := wireFault{
		Methods: f.Methods, Object: f.Object, Caller: f.Caller, Times: f.Times,
		Hang: f.Hang, Error: encodeError(f.Err), ReturnZero: f.ReturnZero,
		IgnoreContext: f.IgnoreContext, AfterEffect: f.AfterEffect,
	}
	if f.Delay != 0 {
		w.Delay = f.Delay.String()
	}
	if f.Panic != nil {
		text := fmt.Sprint(f.Panic)
		w.Panic = &text
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON writes. It accepts no unknown fields.
func (f *Fault) UnmarshalJSON(data []byte) error {
	var w wireFault
	if err := decodeStrictly(bytes.NewReader(data), &w); err != nil {
		return err
	}
	*f = Fault{
		Methods: w.Methods, Object: w.Object, Caller: w.Caller, Times: w.Times,
		Hang: w.Hang, ReturnZero: w.ReturnZero,
		IgnoreContext: w.IgnoreContext, AfterEffect: w.AfterEffect,
	}
	var err error
	if w.Delay != "" {
		if f.Delay, err = time.ParseDuration(w.Delay); err != nil {
			return fmt.Errorf("a fault's delay %q is not a duration such as \"50ms\"", w.Delay)
		}
	}
	if w.Error != nil {
		if f.Err, err = w.Error.decode(); err != nil {
			return err
		}
	}
	if w.Panic != nil {
		f.Panic = *w.Panic
	}
	return nil
}

// decodeStrictly reads one JSON value and nothing else: no unknown fields, nothing after it.
func decodeStrictly(r io.Reader, into any) error {
	decoder := json.NewDecoder(r)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something after the JSON value")
	}
	return nil
}

package fake

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/internal/rescue"
)

// maxBody bounds a request's body, in bytes. Ten thousand instances need 3 MB.
const maxBody = 16 << 20

// Handler serves the cloud to other processes; see [Dial] for the other end, and the package
// documentation for the protocol. It has neither authentication nor encryption: serve it on a
// loopback address.
//
// A call whose client goes away is cancelled. A call that hangs and ignores its context holds its
// connection until it is released: call ClearFaults before closing the server.
func (c *Cloud) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /v1/cloud", endpoint(func(*http.Request) (any, error) { return c.info(), nil }))
	mux.Handle("GET /v1/call/{method}", endpoint(c.serveCall))
	mux.Handle("POST /v1/call/{method}", endpoint(c.serveCall))
	c.addAdmin(mux)
	mux.Handle("/", endpoint(func(r *http.Request) (any, error) {
		return nil, &statusError{
			http.StatusNotFound,
			fmt.Errorf("the fake cloud does not serve %s %s", r.Method, r.URL.Path),
		}
	}))
	return mux
}

// serveCall makes a provider's call. The provider's results, errors and panics are answers with
// status 200; only requests that are no call are refused.
func (c *Cloud) serveCall(r *http.Request) (any, error) {
	method := Method(r.PathValue("method"))
	args, err := readArguments(r, method)
	if err != nil {
		return nil, err
	}
	op, err := operationFor(method, args)
	if err != nil {
		return nil, err
	}
	if op.of != Core && !c.supported[op.of] {
		return nil, fmt.Errorf("%s: this cloud is without %s", method, op.of)
	}
	return c.answerCall(r, method, args), nil
}

func (c *Cloud) answerCall(r *http.Request, method Method, args arguments) (answer reply) {
	_ = rescue.Call(func() error {
		res, err := c.call(r.Context(), r.URL.Query().Get("caller"), method, args)
		answer = reply{results: res, Error: encodeError(err)}
		return nil
	}, func(value any) error {
		// An injected panic is meant for the caller's process.
		text := fmt.Sprint(value)
		answer = reply{Panic: &text}
		return nil
	})
	return answer
}

// readArguments takes the arguments from the body of a POST, or from the query of a GET. Which of
// the two a method uses is fixed, so that whoever sits in between can tell what changes the cloud.
func readArguments(r *http.Request, method Method) (args arguments, err error) {
	if want := verbOf(method); method.Interface() != "" && r.Method != want {
		return args, &statusError{
			http.StatusMethodNotAllowed,
			fmt.Errorf("%s is called with %s", method, want),
		}
	}
	if r.Method == http.MethodPost {
		if err := allowQuery(r, "caller"); err != nil {
			return args, err
		}
		return args, readBody(r, &args)
	}
	if err := allowQuery(r, "caller", "args"); err != nil {
		return args, err
	}
	text := r.URL.Query().Get("args")
	if text == "" {
		return args, nil
	}
	if err := decodeStrictly(strings.NewReader(text), &args); err != nil {
		return args, fmt.Errorf("the query parameter args cannot be understood: %w", err)
	}
	return args, nil
}

func verbOf(m Method) string {
	if m.Mutating() {
		return http.MethodPost
	}
	return http.MethodGet
}

func readBody(r *http.Request, into any) error {
	if err := decodeStrictly(r.Body, into); err != nil {
		return fmt.Errorf("the body of %s %s cannot be understood: %w", r.Method, r.URL.Path, err)
	}
	return nil
}

func allowQuery(r *http.Request, names ...string) error {
	for name := range r.URL.Query() {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%s %s has no query parameter %q", r.Method, r.URL.Path, name)
		}
	}
	return nil
}

// endpoint answers with a value as JSON, or with 204 for nil. An error is answered with its status,
// by default 400, and its text.
type endpoint func(*http.Request) (any, error)

// statusError is an error with an HTTP status of its own.
type statusError struct {
	status int
	error
}

// refusal is the body of an answer that is not 200.
type refusal struct {
	Error string `json:"error"`
}

func (e endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	value, err := e(r)
	status := http.StatusOK
	if err != nil {
		status, value = http.StatusBadRequest, refusal{err.Error()}
		if withStatus, ok := errors.AsType[*statusError](err); ok {
			status = withStatus.status
		}
	}
	if value == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	body, err := json.Marshal(value)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(
			`{"error":"the answer cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A client that has gone away has no use for the rest.
	_, _ = w.Write(body)
}

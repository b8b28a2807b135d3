package openstacktest

import (
	"context"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// A Fault makes requests fail, from [Cloud.Inject] until it is used up or removed. Its functions
// must not use the Cloud, because they run with its lock held.
type Fault struct {
	// Service and Operation select the requests, as patterns of path.Match: "server_*". Empty: all.
	Service   string `json:"service,omitempty"`
	Operation string `json:"operation,omitempty"`
	// Match selects among them. Nil: all.
	Match func(Call) bool `json:"-"`

	// Skip is how many of these requests pass first, and Times how many are faulty then. 0: all.
	Skip  int `json:"skip,omitempty"`
	Times int `json:"times,omitempty"`

	// Delay delays the answer, in addition to the latency.
	Delay time.Duration `json:"-"`

	// Status answers with an error, in the service's own form, instead of executing the request.
	// RetryAfter is the header Retry-After, in seconds.
	Status     int           `json:"status,omitempty"`
	Message    string        `json:"message,omitempty"`
	RetryAfter time.Duration `json:"-"`
	// Body replaces the service's form, like the answer of a proxy in front of the service. It is
	// sent as HTML.
	Body string `json:"body,omitempty"`
	// AfterEffect executes the request before Status, Hang or Drop.
	AfterEffect bool `json:"afterEffect,omitempty"`

	// Hang sends no answer, until the client disconnects or the Cloud is closed.
	Hang bool `json:"hang,omitempty"`
	// Drop closes the connection instead of answering.
	Drop bool `json:"drop,omitempty"`

	// Rewrite changes the service's answer.
	Rewrite func(call Call, status int, body []byte) (int, []byte) `json:"-"`
	// Truncate ends the body after so many bytes of the announced length. 0: the whole body.
	Truncate int `json:"truncate,omitempty"`
}

// injected is an active fault.
type injected struct {
	Fault
	id         int
	seen, used int
}

// Inject lets requests fail from now on. If several faults match a request, the oldest one applies.
func (s *Cloud) Inject(fault Fault) (remove func()) {
	id := s.inject(fault).id
	return func() { s.removeFault(id) }
}

func (s *Cloud) inject(fault Fault) *injected {
	defer s.state.Enter()()
	s.injected++
	f := &injected{Fault: fault, id: s.injected}
	s.faults = append(s.faults, f)
	return f
}

// removeFault reports whether the fault was active.
func (s *Cloud) removeFault(id int) bool {
	defer s.state.Enter()()
	before := len(s.faults)
	s.faults = slices.DeleteFunc(s.faults, func(f *injected) bool { return f.id == id })
	return len(s.faults) < before
}

// RemoveFaults removes all faults.
func (s *Cloud) RemoveFaults() {
	defer s.state.Enter()()
	s.faults = nil
}

// takeFault is called with the lock held. The zero Fault means no fault.
func (s *Cloud) takeFault(call Call) Fault {
	for _, f := range s.faults {
		if !f.matches(call) {
			continue
		}
		f.seen++
		if f.seen <= f.Skip || (f.Times > 0 && f.used >= f.Times) {
			continue
		}
		f.used++
		return f.Fault
	}
	return Fault{}
}

func (f Fault) matches(call Call) bool {
	return matches(f.Service, call.Service) && matches(f.Operation, call.Operation) &&
		(f.Match == nil || f.Match(call))
}

// matches treats a malformed pattern as one that matches no text.
func matches(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	matched, err := path.Match(pattern, text)
	return err == nil && matched
}

// replaces reports whether the request is not executed.
func (f Fault) replaces() bool { return !f.AfterEffect && (f.Status != 0 || f.Hang || f.Drop) }

func (f Fault) answer(service string) api.Rendered {
	if f.Status == 0 {
		return api.Rendered{Header: http.Header{}}
	}
	message := f.Message
	if message == "" {
		message = http.StatusText(f.Status)
	}
	r := api.Render(api.Failure(service, f.Status, message))
	if f.Body != "" {
		r.Body = []byte(f.Body)
		r.Header.Set("Content-Type", "text/html")
	}
	if f.RetryAfter > 0 {
		r.Header.Set("Retry-After", strconv.Itoa(int((f.RetryAfter+time.Second-1)/time.Second)))
	}
	return r
}

func (f Fault) change(call Call, r api.Rendered) api.Rendered {
	if f.AfterEffect && f.Status != 0 {
		return f.answer(call.Service)
	}
	if f.Rewrite != nil {
		r.Status, r.Body = f.Rewrite(call, r.Status, r.Body)
	}
	return r
}

// send writes the answer, as changed by the fault. ctx ends when the client disconnects or the
// Cloud is closed.
func (f Fault) send(ctx context.Context, w http.ResponseWriter, r api.Rendered) {
	control := http.NewResponseController(w)
	// Otherwise, a client that does not read would block Close of the Cloud.
	defer context.AfterFunc(ctx, func() { _ = control.SetWriteDeadline(time.Unix(1, 0)) })()
	if f.Hang {
		<-ctx.Done()
		hangUp()
	}
	if f.Drop {
		hangUp()
	}
	maps.Copy(w.Header(), r.Header)
	if len(r.Body) > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(r.Body)))
	}
	w.WriteHeader(r.Status)
	body := r.Body
	truncated := f.Truncate > 0 && f.Truncate < len(body)
	if truncated {
		body = body[:f.Truncate]
	}
	_, _ = w.Write(body)
	if truncated {
		_ = control.Flush()
		hangUp()
	}
}

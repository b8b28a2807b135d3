package openstacktest

import (
	"context"
	"net/http"
	"path"
	"slices"
	"strconv"
	"time"
)

// A Fault is something that goes wrong with requests, from [Server.Inject] until it is used up or removed.
type Fault struct {
	// Service and Operation choose the requests, as patterns of path.Match: "server_*". Empty: all.
	Service   string
	Operation string
	// Match chooses further. Nil: all.
	Match func(Call) bool

	// Skip lets so many of these requests pass first, and Times is how many are faulty then. 0: all.
	Skip  int
	Times int

	// Delay holds the answer back, beside the latency.
	Delay time.Duration

	// Status answers with an error instead of carrying the request out, in the service's own form. RetryAfter is put into the
	// header of that name, in seconds.
	Status     int
	Message    string
	RetryAfter time.Duration
	// AfterEffect carries the request out before it is answered with Status, Hang or Drop.
	AfterEffect bool

	// Hang never answers: until the client gives up or the Server is closed.
	Hang bool
	// Drop closes the connection instead of answering.
	Drop bool

	// Rewrite changes the true answer.
	Rewrite func(call Call, status int, body []byte) (int, []byte)
	// Truncate ends the body after so many bytes, while its length was announced. 0: not.
	Truncate int
	// Slow sends the body in small pieces, and pauses as long after each. 0: not.
	Slow time.Duration
}

// injected is a fault that is in force.
type injected struct {
	Fault
	seen, used int
}

// Inject lets requests fail from now on. Faults that were injected first are asked first; one request has one fault.
func (s *Server) Inject(fault Fault) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &injected{Fault: fault}
	s.faults = append(s.faults, f)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.faults = slices.DeleteFunc(s.faults, func(other *injected) bool { return other == f })
	}
}

// RemoveFaults removes all faults.
func (s *Server) RemoveFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// takeFault is called with the lock held. The zero Fault is none.
func (s *Server) takeFault(call Call) Fault {
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
	return matches(f.Service, call.Service) && matches(f.Operation, call.Operation) && (f.Match == nil || f.Match(call))
}

// matches takes a malformed pattern for a text that nothing is equal to.
func matches(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	matched, err := path.Match(pattern, text)
	return err == nil && matched
}

// replaces tells whether the request is not carried out.
func (f Fault) replaces() bool { return !f.AfterEffect && (f.Status != 0 || f.Hang || f.Drop) }

func (f Fault) answer(service string) rendered {
	if f.Status == 0 {
		return rendered{}
	}
	message := f.Message
	if message == "" {
		message = http.StatusText(f.Status)
	}
	r := render(failure(service, f.Status, message))
	if f.RetryAfter > 0 {
		r.header.Set("Retry-After", strconv.Itoa(int((f.RetryAfter+time.Second-1)/time.Second)))
	}
	return r
}

func (f Fault) change(call Call, r rendered) rendered {
	if f.AfterEffect && f.Status != 0 {
		return f.answer(call.Service)
	}
	if f.Rewrite != nil {
		r.status, r.body = f.Rewrite(call, r.status, r.body)
	}
	return r
}

// send writes the answer, as far as the fault lets it.
func (f Fault) send(ctx context.Context, w http.ResponseWriter, r rendered) {
	if f.Hang {
		<-ctx.Done()
		return
	}
	if f.Drop {
		panic(http.ErrAbortHandler)
	}
	for key, values := range r.header {
		w.Header()[key] = values
	}
	if len(r.body) > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(r.body)))
	}
	w.WriteHeader(r.status)
	body := r.body
	if f.Truncate > 0 && f.Truncate < len(body) {
		_, _ = w.Write(body[:f.Truncate])
		panic(http.ErrAbortHandler)
	}
	if f.Slow <= 0 {
		_, _ = w.Write(body)
		return
	}
	for piece := range slices.Chunk(body, 64) {
		if _, err := w.Write(piece); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		if !pause(ctx, f.Slow) {
			return
		}
	}
}

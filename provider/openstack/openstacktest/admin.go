package openstacktest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// adminPath is the path under which other processes control the cloud; see [WithAdmin].
const adminPath = "/_sim"

// errNotThere is the error for a path that names an object that does not exist.
var errNotThere = errors.New("not there")

// setUpAdmin serves the actions of a test on the cloud, as opposed to requests of OpenStack's
// clients. They are not recorded, and no [Fault] applies to them.
func (s *Cloud) setUpAdmin(mux *http.ServeMux) {
	for pattern, serve := range map[string]adminEndpoint{
		"GET /calls":    s.adminCalls,
		"DELETE /calls": adminDoes(s.ForgetCalls),
		"GET /counts":   func(*http.Request) (any, error) { return s.Counts(), nil },
		"GET /faults": func(*http.Request) (any, error) {
			return s.adminFaults(), nil
		},
		"POST /faults":        adminTakes(s.adminInject),
		"DELETE /faults":      adminDoes(s.RemoveFaults),
		"DELETE /faults/{id}": s.adminRemoveFault,
		"GET /servers": func(*http.Request) (any, error) {
			return api.NonNil(s.Servers()), nil
		},
		"POST /servers": adminTakes(func(_ *http.Request, i Server) (any, error) {
			return object{"id": s.AddServer(i)}, nil
		}),
		"PUT /servers/{id}/status": adminTakes(s.adminSetStatus),
		"DELETE /servers/{id}": func(r *http.Request) (any, error) {
			return nil, notThere(s.DeleteServer(r.PathValue("id")))
		},
		"DELETE /tokens": adminDoes(s.RevokeTokens),
		"PUT /latency":   adminTakes(s.adminSetLatency),
		"PUT /page-size": adminTakes(s.adminSetPageSize),
		"GET /cloud-conf": func(*http.Request) (any, error) {
			return object{"cloudConf": s.CloudConf("password")}, nil
		},
	} {
		method, below, _ := strings.Cut(pattern, " ")
		mux.Handle(method+" "+adminPath+below, serve)
	}
}

// adminEndpoint answers in JSON. An error has status 400, or 404 for a missing object.
type adminEndpoint func(*http.Request) (any, error)

func (serve adminEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	result, err := serve(r)
	a := answer{Status: http.StatusOK, Body: result}
	switch {
	case errors.Is(err, errNotThere):
		a = answer{Status: http.StatusNotFound, Body: object{"error": err.Error()}}
	case err != nil:
		a = answer{Status: http.StatusBadRequest, Body: object{"error": err.Error()}}
	case result == nil:
		a = api.NoContent()
	}
	Fault{}.send(r.Context(), w, api.Render(a))
}

func adminDoes(do func()) adminEndpoint {
	return func(*http.Request) (any, error) {
		do()
		return nil, nil
	}
}

// adminTakes serves a request whose body is a T. An unknown field is an error.
func adminTakes[T any](apply func(*http.Request, T) (any, error)) adminEndpoint {
	return func(r *http.Request) (any, error) {
		var body T
		decoder := json.NewDecoder(r.Body)
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&body); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("the body is not as expected: %w", err)
		}
		return apply(r, body)
	}
}

func notThere(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errNotThere, err)
}

// adminCalls returns the calls whose operation matches the query's pattern, if it has one.
func (s *Cloud) adminCalls(r *http.Request) (any, error) {
	pattern := r.URL.Query().Get("operation")
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("the pattern %q: %w", pattern, err)
	}
	return slices.DeleteFunc(api.NonNil(s.Calls()),
		func(c Call) bool { return !matches(pattern, c.Operation) }), nil
}

// statusBody, latencyBody and pageSizeBody are the bodies of the requests that set these.
type (
	statusBody struct {
		Status string `json:"status"`
	}
	latencyBody struct {
		Latency jsonDuration `json:"latency"`
	}
	pageSizeBody struct {
		Items int `json:"items"`
	}
)

func (s *Cloud) adminSetStatus(r *http.Request, body statusBody) (any, error) {
	if body.Status == "" {
		return nil, errors.New("the status is missing")
	}
	return nil, notThere(s.SetServerStatus(r.PathValue("id"), body.Status))
}

func (s *Cloud) adminSetLatency(_ *http.Request, body latencyBody) (any, error) {
	s.setLatency(time.Duration(body.Latency))
	return nil, nil
}

func (s *Cloud) adminSetPageSize(_ *http.Request, body pageSizeBody) (any, error) {
	if body.Items < 0 {
		return nil, fmt.Errorf("a page cannot have %d items", body.Items)
	}
	s.SetPageSize(body.Items)
	return nil, nil
}

// jsonDuration is a duration such as "50ms".
type jsonDuration time.Duration

func (d jsonDuration) MarshalText() ([]byte, error) {
	return []byte(time.Duration(d).String()), nil
}

func (d *jsonDuration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err == nil && parsed < 0 {
		err = fmt.Errorf("the duration %s is negative", parsed)
	}
	*d = jsonDuration(parsed)
	return err
}

// faultBody is a [Fault] in JSON, without the functions.
type faultBody struct {
	ID int `json:"id,omitempty"`
	Fault
	Delay      jsonDuration `json:"delay,omitzero"`
	RetryAfter jsonDuration `json:"retryAfter,omitzero"`
	// Used is the number of faulty requests so far.
	Used int `json:"used,omitempty"`
}

func (b faultBody) fault() Fault {
	f := b.Fault
	f.Delay, f.RetryAfter = time.Duration(b.Delay), time.Duration(b.RetryAfter)
	return f
}

func (f *injected) body() faultBody {
	return faultBody{
		ID: f.id, Fault: f.Fault, Delay: jsonDuration(f.Delay),
		RetryAfter: jsonDuration(f.RetryAfter), Used: f.used,
	}
}

func (s *Cloud) adminInject(_ *http.Request, body faultBody) (any, error) {
	if body.ID != 0 || body.Used != 0 {
		return nil, errors.New("id and used are read-only")
	}
	if body.Status != 0 && (body.Status < 200 || body.Status > 599) {
		return nil, fmt.Errorf("status %d is invalid", body.Status)
	}
	for _, pattern := range []string{body.Service, body.Operation} {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, fmt.Errorf("the pattern %q: %w", pattern, err)
		}
	}
	return object{"id": s.inject(body.fault()).id}, nil
}

func (s *Cloud) adminFaults() []faultBody {
	defer s.state.Enter()()
	all := []faultBody{}
	for _, f := range s.faults {
		all = append(all, f.body())
	}
	return all
}

func (s *Cloud) adminRemoveFault(r *http.Request) (any, error) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil {
		return nil, fmt.Errorf("the id %q is not a number", r.PathValue("id"))
	}
	if !s.removeFault(id) {
		return nil, notThere(fmt.Errorf("there is no fault %d", id))
	}
	return nil, nil
}

package fake

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// addAdmin serves what a test does to a cloud, as opposed to a provider.
func (c *Cloud) addAdmin(mux *http.ServeMux) {
	for pattern, serve := range map[string]endpoint{
		"GET /v1/instances": func(*http.Request) (any,
			error,
		) {
			return c.Instances(), nil
		},
		"POST /v1/instances": change(func(all []Instance) (any,
			error,
		) {
			return nil, c.AddInstances(all...)
		}),
		"DELETE /v1/instances/{name}":     onInstance(c.RemoveInstance),
		"POST /v1/instances/{name}/stop":  onInstance(c.StopInstance),
		"POST /v1/instances/{name}/start": onInstance(c.StartInstance),
		"GET /v1/loadbalancers": func(*http.Request) (any,
			error,
		) {
			return c.LoadBalancers(), nil
		},
		"GET /v1/routes": func(*http.Request) (any,
			error,
		) {
			return c.Routes(), nil
		},
		"POST /v1/routes": change(func(all []Route) (any,
			error,
		) {
			return nil, c.AddRoutes(all...)
		}),
		"PUT /v1/latency": change(c.putLatency),
		"GET /v1/faults": func(*http.Request) (any,
			error,
		) {
			return c.Faults(), nil
		},
		"POST /v1/faults":        change(c.postFault),
		"DELETE /v1/faults/{id}": c.deleteFault,
		"DELETE /v1/faults":      done(c.ClearFaults),
		"GET /v1/calls":          c.getCalls,
		"GET /v1/calls/wait":     c.waitForCall,
		"DELETE /v1/calls":       done(c.ResetCalls),
		"GET /v1/concurrent-calls": func(*http.Request) (any,
			error,
		) {
			return c.ConcurrentCalls(), nil
		},
		"GET /v1/stats": func(*http.Request) (any,
			error,
		) {
			return c.Stats(), nil
		},
	} {
		mux.Handle(pattern, serve)
	}
}

// change serves a request whose body is a T.
func change[T any](apply func(T) (any, error)) endpoint {
	return func(r *http.Request) (any, error) {
		var body T
		if err := readBody(r, &body); err != nil {
			return nil, err
		}
		return apply(body)
	}
}

func done(f func()) endpoint {
	return func(*http.Request) (any, error) {
		f()
		return nil, nil
	}
}

func onInstance(f func(name string) error) endpoint {
	return func(r *http.Request) (any, error) { return nil, notFound(f(r.PathValue("name"))) }
}

func notFound(err error) error {
	if err == nil {
		return nil
	}
	return &statusError{http.StatusNotFound, err}
}

// latencyBody is the body of PUT /v1/latency.
type latencyBody struct {
	Latency string `json:"latency"`
}

func (c *Cloud) putLatency(body latencyBody) (any, error) {
	d, err := time.ParseDuration(body.Latency)
	if err != nil || d < 0 {
		return nil, fmt.Errorf("the latency %q is not a duration such as \"50ms\"", body.Latency)
	}
	c.SetLatency(d)
	return nil, nil
}

// injected is the answer to POST /v1/faults.
type injected struct {
	ID int `json:"id"`
}

func (c *Cloud) postFault(f Fault) (any, error) {
	id, err := c.Inject(f)
	return injected{id}, err
}

func (c *Cloud) deleteFault(r *http.Request) (any, error) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil {
		return nil, fmt.Errorf("the fault ID %q is not a number", r.PathValue("id"))
	}
	return nil, notFound(c.ClearFault(id))
}

func (c *Cloud) getCalls(r *http.Request) (any, error) {
	filter, err := filterFrom(r)
	if err != nil {
		return nil, err
	}
	calls := c.Calls(filter.Matches)
	if calls == nil {
		calls = []Call{}
	}
	return calls, nil
}

func (c *Cloud) waitForCall(r *http.Request) (any, error) {
	filter, err := filterFrom(r)
	if err != nil {
		return nil, err
	}
	call, err := c.WaitForCall(r.Context(), filter.Matches)
	if err != nil {
		return nil, &statusError{http.StatusRequestTimeout, err}
	}
	return call, nil
}

// query writes the filter as filterFrom reads it.
func (f CallFilter) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{
		"method": string(f.Method), "interface": string(f.Interface), "caller": f.Caller,
		"object": f.Object,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, value := range map[string]bool{
		"mutating": f.Mutating, "finished": f.Finished,
		"failed": f.Failed,
	} {
		if value {
			q.Set(name, "true")
		}
	}
	return q
}

func filterFrom(r *http.Request) (CallFilter, error) {
	q := r.URL.Query()
	f := CallFilter{
		Method: Method(q.Get("method")), Interface: Interface(q.Get("interface")),
		Caller: q.Get("caller"), Object: q.Get("object"),
	}
	if f.Method != "" && f.Method.Interface() == "" {
		return f, fmt.Errorf("there is no method %q", f.Method)
	}
	if f.Interface != "" && f.Interface != Core && !slices.Contains(optional(), f.Interface) {
		return f, fmt.Errorf("there is no interface %q", f.Interface)
	}
	for name, into := range map[string]*bool{
		"mutating": &f.Mutating, "finished": &f.Finished,
		"failed": &f.Failed,
	} {
		if !q.Has(name) {
			continue
		}
		value, err := strconv.ParseBool(q.Get(name))
		if err != nil {
			return f, fmt.Errorf("the query parameter %s is %q, neither true nor false", name,
				q.Get(name))
		}
		*into = value
	}
	return f, allowQuery(r, "method", "interface", "caller", "object", "mutating", "finished",
		"failed")
}

package fake

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// AddInstances is [Cloud.AddInstances].
func (c *Client) AddInstances(ctx context.Context, instances ...Instance) error {
	return c.do(ctx, http.MethodPost, "instances", nil, instances, nil)
}

// RemoveInstance is [Cloud.RemoveInstance].
func (c *Client) RemoveInstance(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodDelete, "instances/"+url.PathEscape(name), nil, nil, nil)
}

// StopInstance is [Cloud.StopInstance].
func (c *Client) StopInstance(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodPost, "instances/"+url.PathEscape(name)+"/stop", nil, nil, nil)
}

// StartInstance is [Cloud.StartInstance].
func (c *Client) StartInstance(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodPost, "instances/"+url.PathEscape(name)+"/start", nil, nil, nil)
}

// Instances is [Cloud.Instances].
func (c *Client) Instances(ctx context.Context) ([]Instance, error) {
	return get[[]Instance](ctx, c, "instances", nil)
}

// LoadBalancers is [Cloud.LoadBalancers].
func (c *Client) LoadBalancers(ctx context.Context) ([]Balancer, error) {
	return get[[]Balancer](ctx, c, "loadbalancers", nil)
}

// Routes is [Cloud.Routes].
func (c *Client) Routes(ctx context.Context) ([]Route, error) {
	return get[[]Route](ctx, c, "routes", nil)
}

// AddRoutes is [Cloud.AddRoutes].
func (c *Client) AddRoutes(ctx context.Context, routes ...Route) error {
	return c.do(ctx, http.MethodPost, "routes", nil, routes, nil)
}

// SetLatency is [Cloud.SetLatency].
func (c *Client) SetLatency(ctx context.Context, d time.Duration) error {
	return c.do(ctx, http.MethodPut, "latency", nil, latencyBody{max(d, 0).String()}, nil)
}

// Inject is [Cloud.Inject]. Of Err only what [Dial]'s callers can tell apart arrives: the sentinels
// of k8s.io/cloud-provider and package context, *api.RetryError, errors around these, and else the
// text.
func (c *Client) Inject(ctx context.Context, f Fault) (id int, err error) {
	var answer injected
	err = c.do(ctx, http.MethodPost, "faults", nil, f, &answer)
	return answer.ID, err
}

// ClearFault is [Cloud.ClearFault].
func (c *Client) ClearFault(ctx context.Context, id int) error {
	return c.do(ctx, http.MethodDelete, "faults/"+strconv.Itoa(id), nil, nil, nil)
}

// ClearFaults is [Cloud.ClearFaults].
func (c *Client) ClearFaults(ctx context.Context) error {
	return c.do(ctx, http.MethodDelete, "faults", nil, nil, nil)
}

// Faults is [Cloud.Faults].
func (c *Client) Faults(ctx context.Context) ([]ActiveFault, error) {
	return get[[]ActiveFault](ctx, c, "faults", nil)
}

// Calls is [Cloud.Calls] with one filter.
func (c *Client) Calls(ctx context.Context, filter CallFilter) ([]Call, error) {
	return get[[]Call](ctx, c, "calls", filter.query())
}

// WaitForCall is [Cloud.WaitForCall] with one filter.
func (c *Client) WaitForCall(ctx context.Context, filter CallFilter) (Call, error) {
	call, err := get[Call](ctx, c, "calls/wait", filter.query())
	if err != nil {
		return Call{}, fmt.Errorf("wait for a call to the fake cloud: %w", err)
	}
	return call, nil
}

// ResetCalls is [Cloud.ResetCalls].
func (c *Client) ResetCalls(ctx context.Context) error {
	return c.do(ctx, http.MethodDelete, "calls", nil, nil, nil)
}

// ConcurrentCalls is [Cloud.ConcurrentCalls].
func (c *Client) ConcurrentCalls(ctx context.Context) ([]ConcurrentCalls, error) {
	return get[[]ConcurrentCalls](ctx, c, "concurrent-calls", nil)
}

// Stats is [Cloud.Stats].
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	return get[Stats](ctx, c, "stats", nil)
}

func get[T any](
	ctx context.Context, c *Client, path string, query url.Values,
) (answer T, err error) {
	err = c.do(ctx, http.MethodGet, path, query, nil, &answer)
	return answer, err
}

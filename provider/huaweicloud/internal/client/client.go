// Package client makes the SDK's clients of Huawei Cloud for one term.
package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/huaweicloud/huaweicloud-sdk-go-v3/core"
	"github.com/huaweicloud/huaweicloud-sdk-go-v3/core/auth/basic"
	"github.com/huaweicloud/huaweicloud-sdk-go-v3/core/config"
	"github.com/huaweicloud/huaweicloud-sdk-go-v3/core/impl"
	"github.com/huaweicloud/huaweicloud-sdk-go-v3/core/sdkerr"
	ecs "github.com/huaweicloud/huaweicloud-sdk-go-v3/services/ecs/v2"
	eip "github.com/huaweicloud/huaweicloud-sdk-go-v3/services/eip/v2"
	elb "github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/apiconn"
	"github.com/fxccm/fxccm/provider/internal/kit/ratelimit"
)

const (
	// requestTimeout limits one request with its response.
	requestTimeout = time.Minute
	// requestsPerSecond and burst stay below the limits of Huawei's API gateway.
	requestsPerSecond, burst = 20, 40
	// maxResponse limits a response. A page of the largest lists has a few megabytes.
	maxResponse = 64 << 20
)

// Config is the input of [New].
type Config struct {
	ECS, ELB, EIP string // URLs

	ProjectID, AccessKeyID, AccessKeySecret string

	// Transport adds the term's fence. Optional.
	Transport  func(http.RoundTripper) http.RoundTripper
	UserAgents []string
	// Rate overrides the default number of requests per second. Optional.
	Rate rate.Limit
}

// Client builds a cheap client of the SDK for each call, because calls of the SDK have no context.
// It is safe for concurrent use.
type Client struct {
	config    Config
	base      *http.Transport
	transport *ratelimit.Transport
}

// New sends no request.
func New(c Config) *Client {
	// HTTP/1.1: a canceled request ends its connection, and its unsent bytes with it.
	base := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         apiconn.NewDialer(nil).Dial,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     90 * time.Second,
		MaxIdleConnsPerHost: 10,
	}
	limited := &ratelimit.Transport{Next: base, Pauses: true}
	limited.Queue = ratelimit.New(cmp.Or(c.Rate, requestsPerSecond), burst, clock.RealClock{})
	if c.Transport != nil {
		limited.Next = c.Transport(base)
	}
	return &Client{config: c, base: base, transport: limited}
}

// Close closes idle connections.
func (c *Client) Close() { c.base.CloseIdleConnections() }

// ECS returns a client whose calls end with ctx.
func (c *Client) ECS(ctx context.Context) *ecs.EcsClient {
	return ecs.NewEcsClient(c.sdk(ctx, c.config.ECS))
}

// ELB returns a client whose calls end with ctx.
func (c *Client) ELB(ctx context.Context) *elb.ElbClient {
	return elb.NewElbClient(c.sdk(ctx, c.config.ELB))
}

// EIP returns a client whose calls end with ctx.
func (c *Client) EIP(ctx context.Context) *eip.EipClient {
	return eip.NewEipClient(c.sdk(ctx, c.config.EIP))
}

func (c *Client) sdk(ctx context.Context, endpoint string) *core.HcHttpClient {
	// With a project ID the SDK does not request one from IAM.
	credentials := &basic.Credentials{ProjectId: c.config.ProjectID}
	credentials.AK, credentials.SK = c.config.AccessKeyID, c.config.AccessKeySecret
	settings := config.DefaultHttpConfig().
		// The limit of the SDK would be lost with the request's own context.
		WithTimeout(0).
		WithHttpRoundTripper(roundTripper{ctx: ctx, client: c}).
		WithUserAgent(strings.Join(slices.Concat(c.config.UserAgents, []string{"fxccm"}), " "))
	return core.NewHcHttpClient(impl.NewDefaultHttpClient(settings)).
		WithEndpoints([]string{endpoint}).
		WithCredential(credentials)
}

// roundTripper sends the request of one call with the context of the call.
type roundTripper struct {
	ctx    context.Context
	client *Client
}

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeoutCause(r.ctx, requestTimeout,
		fmt.Errorf("no response within %s", requestTimeout))
	defer cancel()
	response, err := r.client.transport.RoundTrip(request.WithContext(ctx))
	if err != nil {
		return nil, cause(ctx, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		return nil, cause(ctx, err)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// cause returns why ctx has ended, if it has.
func cause(ctx context.Context, err error) error {
	ended, why := ctx.Err(), context.Cause(ctx)
	switch {
	case ended == nil:
		return err
	case errors.Is(why, ended):
		return why
	}
	return fmt.Errorf("%w: %w", ended, why)
}

// Call sends a request. what names the operation in errors, such as "create pool x".
func Call[Q, R any](what string, method func(*Q) (*R, error), request *Q) (*R, error) {
	response, err := method(request)
	if err == nil {
		return response, nil
	}
	var refusal *sdkerr.ServiceResponseError
	if errors.As(err, &refusal) {
		err = (*Error)(refusal)
	}
	return nil, fmt.Errorf("%s: %w", what, err)
}

// Get is Call for an object of the response. A response without the object is an error.
func Get[Q, R, T any](what string, method func(*Q) (*R, error), request *Q,
	object func(*R) *T,
) (T, error) {
	response, err := Call(what, method, request)
	if err != nil {
		return *new(T), err
	}
	if found := object(response); found != nil {
		return *found, nil
	}
	return *new(T), fmt.Errorf("%s: the response is empty", what)
}

// Error is a refusal by Huawei Cloud.
type Error sdkerr.ServiceResponseError

// Error implements error. The text of the SDK's error is JSON.
func (e *Error) Error() string {
	text := fmt.Sprintf("HTTP %d", e.StatusCode)
	if e.ErrorCode != "" {
		text += " " + e.ErrorCode
	}
	text += ": " + e.ErrorMessage
	if e.RequestId != "" {
		text += " (request " + e.RequestId + ")"
	}
	return text
}

// IsNotFound reports whether the cloud answered that the object does not exist.
func IsNotFound(err error) bool {
	var refusal *Error
	return errors.As(err, &refusal) && refusal.StatusCode == http.StatusNotFound
}

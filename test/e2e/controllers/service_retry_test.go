package controllers_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/fake"
)

const (
	// firstRetry is upstream's pause before the first retry of a Service; each further one is twice
	// as long.
	firstRetry = 5 * time.Second
	// cleanupResync is after how long upstream looks again at Services that are to lose their load
	// balancer.
	cleanupResync = 30 * time.Second
	// slack is what a slow machine may add to a pause, and less than any difference that matters
	// here.
	slack = 4 * time.Second
)

// answering answers requests of the CCM in the API server's place, if answer returns a status code
// and not 0.
func answering(answer func(*http.Request) int) func(*ccm.Params) {
	return func(p *ccm.Params) {
		p.RESTConfig = rest.CopyConfig(p.RESTConfig)
		p.RESTConfig.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return substitute{next, answer}
		})
	}
}

type substitute struct {
	next   http.RoundTripper
	answer func(*http.Request) int
}

func (s substitute) RoundTrip(req *http.Request) (*http.Response, error) {
	code := s.answer(req)
	if code == 0 {
		return s.next.RoundTrip(req)
	}
	reasons := map[int]string{
		http.StatusConflict:            "Conflict",
		http.StatusInternalServerError: "InternalError",
	}
	body := fmt.Sprintf(
		`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"the test says no","reason":%q,"code":%d}`, reasons[code], code)
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewBufferString(body)), ContentLength: int64(len(body)),
	}, nil
}

// pauses are the times between the end of a call and the beginning of the next.
func pauses(calls []fake.Call) []time.Duration {
	var all []time.Duration
	for i := 1; i < len(calls); i++ {
		all = append(all, calls[i].Started.Sub(calls[i-1].Ended))
	}
	return all
}

// about tells whether a pause is the one that was asked for: a timer does not fire early.
func about(pause, want time.Duration) bool { return pause >= want && pause < want+slack }

func TestService_WhatFailsIsRetried(t *testing.T) {
	t.Parallel()
	const soon = 300 * time.Millisecond
	busy := cloudproviderapi.NewRetryError("busy", soon)
	tests := map[string]struct {
		method fake.Method
		fault  func(fake.FaultBuilder) func()
		retry  time.Duration
		// says is what an event says; none is told if the cloud only wants to be asked again.
		says string
	}{
		"retry-error":         {fake.EnsureLoadBalancer, fails(errors.New("quota exceeded")), firstRetry, "failed to ensure load balancer: quota exceeded"},
		"retry-asked":         {fake.EnsureLoadBalancer, fails(busy), soon, ""},
		"retry-asked-wrapped": {fake.EnsureLoadBalancer, fails(fmt.Errorf("provisioning: %w", busy)), soon, ""},
		"retry-no-status":     {fake.EnsureLoadBalancer, fake.FaultBuilder.ReturnZero, firstRetry, "service status returned by EnsureLoadBalancer is nil"},
		// Upstream compares with ==.
		"retry-elsewhere-wrapped": {
			fake.EnsureLoadBalancer,
			fails(fmt.Errorf("not mine: %w", cloudprovider.ImplementedElsewhere)), firstRetry,
			"failed to ensure load balancer: not mine: ",
		},
		// This is ours: upstream would end the process.
		"retry-panic": {
			fake.EnsureLoadBalancer,
			func(s fake.FaultBuilder) func() {
				return s.Panic("nil map")
			}, firstRetry,
			"failed to ensure load balancer: cloud provider panicked in LoadBalancer.EnsureLoadBalancer: nil map",
		},
		// Upstream flattens the error, so it is kept from upstream.
		"retry-delete":       {fake.EnsureLoadBalancerDeleted, fails(busy), soon, ""},
		"retry-delete-check": {fake.GetLoadBalancer, fails(busy), soon, ""},
	}
	cloud := newCloud(t, nil)
	runServiceLB(t, cloud, failingStatusOnce("retry-status"))
	services := map[string]*corev1.Service{}
	for name, test := range tests {
		test.fault(cloud.On(test.method).For("default/" + name).Times(1))
		services[name] = ccmtest.CreateService(t, shared.Client(t),
			ccmtest.LoadBalancerService(name))
	}
	services["retry-status"] = ccmtest.CreateService(t, shared.Client(t),
		ccmtest.LoadBalancerService("retry-status"))
	for name, test := range tests {
		if test.method != fake.EnsureLoadBalancer {
			ccmtest.WaitServiceAddress(t, shared.Client(t), "default", name)
			deleteService(t, name)
		}
	}

	for name, test := range tests {
		calls := waitCalls(t, cloud, "the call about "+name+" is made again", 2,
			fake.CallFilter{Method: test.method, Object: "default/" + name}.Matches)
		if pause := pauses(calls)[0]; !about(pause, test.retry) {
			t.Errorf("%s: retried after %s, want %s", name, pause, test.retry)
		}
		if test.says != "" {
			if e := waitServiceEvent(t, services[name],
				"SyncLoadBalancerFailed"); !strings.Contains(e.Message,
				"Error syncing load balancer: "+test.says) {
				t.Errorf("%s: the event says %q, want it to say %q", name, e.Message, test.says)
			}
		}
		if test.method == fake.EnsureLoadBalancer {
			ccmtest.WaitServiceAddress(t, shared.Client(t), "default", name)
		} else {
			ccmtest.WaitServiceGone(t, shared.Client(t), "default", name)
		}
	}
	ccmtest.WaitServiceAddress(t, shared.Client(t), "default", "retry-status")
	if e := waitServiceEvent(t, services["retry-status"],
		"SyncLoadBalancerFailed"); !strings.Contains(e.Message,
		"failed to update load balancer status: ") {
		t.Errorf("an API server that fails is told as %q", e.Message)
	}
}

func fails(err error) func(fake.FaultBuilder) func() {
	return func(s fake.FaultBuilder) func() { return s.Fail(err) }
}

// failingStatusOnce lets the API server fail once to take the status of a Service, which is the
// second patch: the first one sets the finalizer.
func failingStatusOnce(service string) func(*ccm.Params) {
	var patches atomic.Int32
	return answering(func(req *http.Request) int {
		if req.Method == http.MethodPatch &&
			strings.HasSuffix(req.URL.Path, "/services/"+service+"/status") && patches.Add(1) == 2 {
			return http.StatusInternalServerError
		}
		return 0
	})
}

// A provider says so of Services that somebody else serves: the Service is left alone, but for the
// finalizer that upstream has set before it asked.
func TestService_ImplementedElsewhere_IsNoFailure(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	cloud.On(fake.EnsureLoadBalancer).For("default/elsewhere").Fail(
		cloudprovider.ImplementedElsewhere)
	cloud.On(fake.EnsureLoadBalancerDeleted).For("default/elsewhere-deleted").Fail(
		cloudprovider.ImplementedElsewhere)
	runServiceLB(t, cloud, serviceWorkers(1))
	service := ccmtest.CreateService(t, shared.Client(t), ccmtest.LoadBalancerService("elsewhere"))
	deleted := createLoadBalancer(t, "elsewhere-deleted")
	deleteService(t, deleted.Name)
	ccmtest.WaitServiceGone(t, shared.Client(t), "default", deleted.Name)
	waitServiceEvents(t, deleted, "Normal EnsuringLoadBalancer", "Warning UnAvailableLoadBalancer",
		"Normal EnsuredLoadBalancer",
		"Normal DeletingLoadBalancer", "Normal DeletedLoadBalancer")

	// Events are sent in order: those about the first Service were sent before.
	waitServiceEvents(t, service, "Normal EnsuringLoadBalancer", "Warning UnAvailableLoadBalancer")
	if s := getService(t, "elsewhere"); !servicehelpers.HasLBFinalizer(s) ||
		len(s.Status.LoadBalancer.Ingress) > 0 {
		t.Errorf("its finalizers are %v and its status %+v", s.Finalizers, s.Status)
	}
}

// The pause goes on doubling up to five minutes, which is too long for a test. That Services to be
// cleaned up are looked at every thirty seconds all the same shows that the service controller's
// resync, which is much more frequent than the informers', has its effect.
func TestService_RetriesComeEverLaterButCleanupsEveryThirtySeconds(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	cloud.On(fake.EnsureLoadBalancer).For("default/later-ensure").Fail(errors.New("quota exceeded"))
	cloud.On(fake.GetLoadBalancer).For("default/later-cleanup").Fail(errors.New("the API is down"))
	cloud.On(fake.EnsureLoadBalancer).For("default/later-never").Fail(
		cloudprovider.ImplementedElsewhere)
	// They are there from the beginning, so that their first calls are made when the thirty seconds
	// begin.
	ccmtest.CreateService(t, shared.Client(t), ccmtest.LoadBalancerService("later-ensure"))
	ccmtest.CreateService(t, shared.Client(t), ccmtest.LoadBalancerService("later-never"))
	ccmtest.CreateService(t, shared.Client(t),
		ccmtest.LoadBalancerService("later-cleanup", withFinalizer))
	deleteService(t, "later-cleanup")
	runServiceLB(t, cloud)

	cleanups := waitCalls(t, cloud, "the cleanup is tried a fourth time", 4,
		callsOf(fake.GetLoadBalancer, "default/later-cleanup"))
	resync := cleanupResync - 3*firstRetry
	if got := pauses(cleanups); !about(got[0], firstRetry) || !about(got[1], 2*firstRetry) ||
		got[2] < resync-slack || got[2] >= resync+slack {
		t.Errorf("the cleanup was tried after pauses of %v, want %s, %s, and then the resync at %s",
			got, firstRetry, 2*firstRetry, cleanupResync)
	}
	ensures := cloud.Calls(callsOf(fake.EnsureLoadBalancer, "default/later-ensure"))
	if got := pauses(ensures); len(got) != 2 || !about(got[0], firstRetry) ||
		!about(got[1], 2*firstRetry) {
		t.Errorf(
			"the load balancer was asked for after pauses of %v, want %s and %s, and no resync",
			got, firstRetry, 2*firstRetry)
	}
	if n := len(cloud.Calls(callsOf(fake.EnsureLoadBalancer, "default/later-never"))); n != 1 {
		t.Errorf("a load balancer that is implemented elsewhere was asked for %d times", n)
	}
}

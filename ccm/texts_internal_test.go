package ccm

import (
	"errors"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/inflight"
	"github.com/fxccm/fxccm/internal/nodes"
)

// An API server, a cloud and a provider in a process of its own choose parts of these texts.
func TestStatus_TextsOfOthers_AreShortAndPrintable(t *testing.T) {
	long := strings.Repeat("\x1b[31m", 100_000)
	clock := clocktesting.NewFakeClock(time.Unix(1_000_000, 0))
	of := newTroubles(clock, func(string, bool) {})
	for range 2 { // the second report replaces the first
		of.report(long, errors.New(long))
	}
	term := &measurement{clock: clock, history: &termHistory{}, status: status.Term{Number: 1}}
	term.drains(errors.New(long))
	waiting := []nodes.Waiting{{Name: "n", Message: long}}
	failing := []nodes.Failing{{Name: "n", Message: long}}
	texts := map[string]string{
		"why a term drains": term.history.list()[0].Reason,
		"a node waits":      troubledNodes(waiting, nil)[0].Message,
		"a node fails":      troubledNodes(nil, failing)[0].Message,
	}
	if found := of.list(); len(found) == 1 {
		texts["the subject of a problem"], texts["a problem"] = found[0].Subject, found[0].Reason
	} else {
		t.Errorf("%d problems, want 1", len(found))
	}
	for name, text := range texts {
		if text == "" || len(text) > maxReason+10 || strings.ContainsRune(text, '\x1b') {
			t.Errorf("%s: %d bytes, %.100q", name, len(text), text)
		}
	}
}

// Informers of a host do not check names, and a cloud may choose its own.
func TestStatus_NamesOfOthers_AreShortAndPrintable(t *testing.T) {
	long := strings.Repeat("a.\x1b", 1<<20)
	lb := shortBalancers([]status.LoadBalancer{{
		Namespace: long, Service: long, Reason: long, ID: long, Name: long,
		ProvisioningStatus: long, OperatingStatus: long, Addresses: []string{long},
		Drift: []string{long}, Requests: []status.CloudRequest{{Request: long, Result: long}},
	}})[0]
	call := newActivity("call ", inflight.Activity{Name: "LoadBalancer.Ensure", Object: long})
	for what, name := range map[string]string{
		"node":      troubledNodes([]nodes.Waiting{{Name: long}}, nil)[0].Name,
		"namespace": lb.Namespace, "Service": lb.Service, "reason": lb.Reason, "ID": lb.ID,
		"load balancer": lb.Name, "provisioning status": lb.ProvisioningStatus,
		"operating status": lb.OperatingStatus, "address": lb.Addresses[0],
		"result": lb.Requests[0].Result,
	} {
		if len(name) > maxName+3 || strings.ContainsRune(name, '\x1b') {
			t.Errorf("%s: %d bytes, %.100q", what, len(name), name)
		}
	}
	for what, text := range map[string]string{
		"drift": lb.Drift[0], "request": lb.Requests[0].Request,
	} {
		if len(text) > maxReason+3 || strings.ContainsRune(text, '\x1b') {
			t.Errorf("%s: %d bytes, %.100q", what, len(text), text)
		}
	}
	if len(call.Object) > maxActivity+3 || strings.ContainsRune(call.String(), '\x1b') {
		t.Errorf("a call: %d bytes, %.100q", len(call.Object), call)
	}
	for _, warning := range overdue([]inflight.Activity{{Object: long}}, time.Now()) {
		if len(warning) > maxActivity+100 {
			t.Errorf("a warning: %d bytes", len(warning))
		}
	}
}

// The provider knows only that it has found the instance.
func TestStatus_NodeCannotBeWritten_HasTheCauseAlsoIfTheProviderReportsIt(t *testing.T) {
	waiting := []nodes.Waiting{
		{Name: "denied", Failed: true, Message: "a webhook denies it", Found: true},
		{Name: "unknown", Failed: true, Message: "503"},
	}
	all := preferReported(
		[]status.Node{{Name: "denied", Reason: "Mine"}, {Name: "unknown", Reason: "Mine"}},
		troubledNodes(waiting, nil), foundNodes(waiting))
	for i, want := range []status.Node{
		{Name: "denied", Reason: initializationFailed, Message: "a webhook denies it"},
		{Name: "unknown", Reason: "Mine"},
	} {
		if len(all) != 2 || all[i] != want {
			t.Errorf("the entries are %+v, want %+v", all, want)
		}
	}
}

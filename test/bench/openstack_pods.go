package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// podsOfService is how many pods each Service has, on all nodes in turn.
	podsOfService = 20
	podPort       = 8080
	// podsAtOnce are replaced together; rolloutPause later the next ones are.
	podsAtOnce   = 2
	rolloutPause = time.Second
	// lastStep is when the last pods have ended that were replaced.
	lastStep = podsOfService/podsAtOnce + 1
	// mostPodServices is for how many Services a node has addresses.
	mostPodServices = 50
)

// measurePods restarts all pods of many Services step by step, as their Deployments do, once with
// pods as members and once with nodes.
func measurePods(b *bench) {
	n := b.podServices
	memory := map[string]float64{} // by target
	for _, target := range []string{"pod", "node"} {
		title := fmt.Sprintf("%d Services of %d pods, each member a %s", n, podsOfService, target)
		b.onOpenStack(title, fewNodes, func(t *openStackTrial) {
			services := newServices(n, 1)
			t.createEndpoints(services)
			serving := t.startServing("member-target = "+target+"\npod-ranges = "+podsCIDR+"\n",
				t.cloud.podNodes())
			t.serve(services...)
			t.letPass(b.rest, "the process rests")
			used := t.usage(serving)
			t.cloud.ForgetCalls()
			took := t.rollOut(services, target)
			counted := t.cloud.recorded()
			written, err := counted.members()
			t.Check(err)
			t.keep(countOf(title+": calls of a rolling restart", counted, noTarget, cost{}))
			t.keep(figure{
				title: title + ": members written", value: float64(written), unit: count,
				target: noTarget,
			})
			if target == "pod" {
				t.keep(timeOf(title+": time until all members are new", took, noTarget, cost{}))
			}
			t.keep(figure{
				title: title + ": memory before", value: used[private], unit: mebibytes,
				target: noTarget,
			})
			memory[target] = used[private]
			t.Check(t.cloud.checkBalancers(services, len(t.cloud.members(1, target))))
		})
	}
	if len(memory) == 2 { // neither trial has reached its limit before
		b.keep(figure{
			title: fmt.Sprintf("%d Services of %d pods: memory per 1,000 endpoints", n,
				podsOfService),
			value: (memory["pod"] - memory["node"]) * 1000 / float64(n*podsOfService),
			unit:  mebibytes, target: noTarget,
		})
	}
}

// rollOut replaces the pods of all Services, and tells how long it takes until the cloud has the
// new ones.
func (t *openStackTrial) rollOut(services []*corev1.Service, target string) time.Duration {
	begun := time.Now()
	for step := 1; step <= lastStep; step++ {
		inParallel(t.trial, services, func(ctx context.Context, service *corev1.Service) error {
			_, err := t.client.DiscoveryV1().EndpointSlices(service.Namespace).Update(ctx,
				t.cloud.endpoints(slices.Index(services, service), service, step),
				metav1.UpdateOptions{})
			return err
		})
		t.letPass(rolloutPause, "the next pods start")
	}
	want := t.cloud.members(len(services), target)
	t.until(func() bool { return slices.Equal(t.cloud.memberAddresses(), want) })
	took := time.Since(begun)
	t.letPass(settleTime, "calls are counted")
	return took
}

func (t *openStackTrial) createEndpoints(services []*corev1.Service) {
	inParallel(t.trial, services, func(ctx context.Context, service *corev1.Service) error {
		_, err := t.client.DiscoveryV1().EndpointSlices(service.Namespace).Create(ctx,
			t.cloud.endpoints(slices.Index(services, service), service, 0), metav1.CreateOptions{})
		return err
	})
}

// endpoints is the EndpointSlice of the i-th Service after so many steps of a restart: in the step
// of a pod its successor is ready, and it is terminating itself.
func (o *openStack) endpoints(
	i int, service *corev1.Service, step int,
) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: service.Namespace, Name: service.Name,
			Labels: map[string]string{discoveryv1.LabelServiceName: service.Name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{
			Name: &service.Spec.Ports[0].Name, Port: new(int32(podPort)),
		}},
	}
	for pod := range podsOfService {
		own := pod/podsAtOnce + 1
		if step >= own {
			slice.Endpoints = append(slice.Endpoints, o.endpoint(i, pod, 1, true))
		}
		if step <= own {
			slice.Endpoints = append(slice.Endpoints, o.endpoint(i, pod, 0, step < own))
		}
	}
	return slice
}

// endpoint is a pod of the i-th Service. Its successor is of the next generation.
func (o *openStack) endpoint(i, pod, generation int, isReady bool) discoveryv1.Endpoint {
	node := o.servers[pod%len(o.servers)]
	address := netip.MustParsePrefix(node.pods).Addr().As4()
	// A node has two pods of each Service.
	address[3] = byte(1 + 4*i + pod/len(o.servers)*2 + generation)
	return discoveryv1.Endpoint{
		Addresses: []string{netip.AddrFrom4(address).String()}, NodeName: &node.name,
		Conditions: discoveryv1.EndpointConditions{
			Ready: new(isReady), Serving: new(true), Terminating: new(!isReady),
		},
	}
}

// members are the addresses of the members of all pools, after a restart.
func (o *openStack) members(services int, target string) (all []string) {
	for i := range services {
		if target == "node" {
			for _, s := range o.servers {
				all = append(all, s.address)
			}
			continue
		}
		for pod := range podsOfService {
			all = append(all, o.endpoint(i, pod, 1, true).Addresses...)
		}
	}
	slices.Sort(all)
	return all
}

// memberAddresses are those that the cloud has.
func (o *openStack) memberAddresses() (all []string) {
	for _, lb := range o.LoadBalancers() {
		for _, pool := range lb.Pools {
			for _, m := range pool.Members {
				all = append(all, m.Address)
			}
		}
	}
	slices.Sort(all)
	return all
}

// members is how many members the requests write: all members of a pool, or a single one.
func (c calls) members() (n int, err error) {
	for _, call := range c {
		_, single, isOfMembers := strings.Cut(call.Path, "/members")
		switch {
		case !isOfMembers || call.Method == http.MethodGet:
			continue
		case single != "" || call.Method != http.MethodPut:
			n++
			continue
		}
		var body struct {
			Members []json.RawMessage `json:"members"`
		}
		if err := json.Unmarshal([]byte(call.Body), &body); err != nil {
			return 0, fmt.Errorf("read the members of a request: %w", err)
		}
		n += len(body.Members)
	}
	return n, nil
}

package openstack_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
	"github.com/fxccm/fxccm/test/internal/project"
)

// The annotations that fxccm writes to a Service, and the prefix of those that it reads.
const (
	annotation         = "loadbalancer.openstack.org/"
	annotationID       = annotation + "load-balancer-id"
	annotationAddress  = annotation + "load-balancer-address"
	annotationInternal = "service.beta.kubernetes.io/openstack-internal-load-balancer"
)

// A story is a cluster with nodes, whose Services the provider serves. The test calls the provider
// like the service controller.
type story struct {
	*project.Project
	t         *testing.T
	config    cloudconf.Config
	clock     clock.Clock
	cloud     *project.Cloud
	balancers cloudprovider.LoadBalancer
	servers   []project.Server
	// before is the inventory before the first Service.
	before project.Inventory
}

// begin starts a story with nodes node-1, node-2 ... change may be nil.
func begin(
	t *testing.T, nodes int, change func(*project.Project, *cloudconf.LoadBalancer),
	options ...project.Option,
) *story {
	t.Helper()
	// On the simulator, time goes fast for Octavia and for the provider alike: the provider looks a
	// second after a change whether it is done.
	fast := waittest.Hasty(20)
	options = append(options,
		project.OnSimulator(openstacktest.WithClock(fast),
			openstacktest.WithProvisioning(500*time.Millisecond)))
	p := project.New(t, options...)
	s := &story{Project: p, t: t, config: p.Config(), clock: clock.RealClock{}}
	if !p.Real() {
		s.clock = fast
	}
	s.config.LoadBalancer.DriftPeriod = 0
	if change != nil {
		change(p, &s.config.LoadBalancer)
	}
	names := make([]string, nodes)
	for i := range names {
		names[i] = fmt.Sprintf("node-%d", i+1)
	}
	s.servers = p.AddServers(names)
	s.open()
	for _, server := range s.servers {
		s.addNode(server)
	}
	s.before = p.Inventory()
	return s
}

func (s *story) open() {
	s.t.Helper()
	s.cloud = s.OpenWith(s.t, []openstack.Option{openstack.WithConfig(s.config)},
		func(env *ccm.ProviderEnv) { env.Clock = s.clock })
	s.balancers, _ = s.cloud.LoadBalancer()
}

// restart replaces the provider by a new one without cached data.
func (s *story) restart() {
	s.t.Helper()
	services := s.services()
	nodes, err := s.cloud.Kube.CoreV1().Nodes().List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.cloud.Close()
	s.open()
	for i := range nodes.Items {
		s.addNodeObject(&nodes.Items[i])
	}
	for i := range services {
		s.add(&services[i])
	}
}

// end deletes all Services; nothing may be left of them.
func (s *story) end(except ...string) {
	s.t.Helper()
	var names []string
	for _, service := range s.services() {
		names = append(names, service.Name)
	}
	s.remove(names...)
	if left := s.before.Differences(s.Inventory(), except...); len(left) > 0 {
		s.t.Errorf("when all Services are deleted there is a difference to before them:\n%s",
			strings.Join(left, "\n"))
	}
}

func (s *story) addNode(server project.Server) {
	s.t.Helper()
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: server.Name, UID: uuid.NewUUID(),
			Labels: map[string]string{"name": server.Name},
		},
		Spec: v1.NodeSpec{ProviderID: server.ProviderID()},
	}
	for _, version := range slices.Sorted(maps.Keys(server.Addresses)) {
		node.Status.Addresses = append(node.Status.Addresses,
			v1.NodeAddress{Type: v1.NodeInternalIP, Address: server.Addresses[version]})
	}
	s.addNodeObject(node)
}

func (s *story) addNodeObject(node *v1.Node) {
	s.t.Helper()
	if _, err := s.cloud.Kube.CoreV1().Nodes().Create(s.t.Context(), node,
		metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.seen(func() bool {
		_, err := s.cloud.Informers.Core().V1().Nodes().Lister().Get(node.Name)
		return err == nil
	})
}

// editNode changes a node; without a change it is deleted.
func (s *story) editNode(name string, change func(*v1.Node)) {
	s.t.Helper()
	nodes, lister := s.cloud.Kube.CoreV1().Nodes(), s.cloud.Informers.Core().V1().Nodes().Lister()
	if change == nil {
		if err := nodes.Delete(s.t.Context(), name, metav1.DeleteOptions{}); err != nil {
			s.t.Fatal(err)
		}
		s.seen(func() bool { _, err := lister.Get(name); return err != nil })
		return
	}
	node, err := nodes.Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	change(node)
	if node, err = nodes.Update(s.t.Context(), node, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.seen(func() bool {
		is, err := lister.Get(name)
		return err == nil && equality.Semantic.DeepEqual(is, node)
	})
}

// seen waits until the informers have the change.
func (s *story) seen(has func() bool) {
	s.t.Helper()
	s.Wait("the informers have it", func() error {
		if !has() {
			return errors.New("not yet")
		}
		return nil
	})
}

// An edit changes a Service.
type edit func(*v1.Service)

// annotated sets annotations: names, those of fxccm and OCCM without the prefix, and values in
// turn; "-" removes one.
func annotated(pairs ...string) edit {
	return func(service *v1.Service) {
		for i := 0; i < len(pairs); i += 2 {
			name := pairs[i]
			if !strings.Contains(name, "/") {
				name = annotation + name
			}
			if pairs[i+1] == "-" {
				delete(service.Annotations, name)
			} else {
				service.Annotations[name] = pairs[i+1]
			}
		}
	}
}

func internal() edit { return annotated(annotationInternal, "true") }

// ports are named as "80/TCP"; their node ports are 30000 more.
func ports(names ...string) edit {
	return func(service *v1.Service) {
		service.Spec.Ports = nil
		for _, name := range names {
			port := v1.ServicePort{Name: strings.ToLower(strings.ReplaceAll(name, "/", "-"))}
			var protocol string
			if _, err := fmt.Sscanf(strings.ReplaceAll(name, "/", " "), "%d %s", &port.Port,
				&protocol); err != nil {
				panic(err)
			}
			port.Protocol, port.NodePort = v1.Protocol(protocol), 30000+port.Port
			service.Spec.Ports = append(service.Spec.Ports, port)
		}
	}
}

// local is externalTrafficPolicy: Local.
func local(healthCheckNodePort int32) edit {
	return func(service *v1.Service) {
		service.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
		service.Spec.HealthCheckNodePort = healthCheckNodePort
	}
}

func families(of ...v1.IPFamily) edit {
	return func(service *v1.Service) { service.Spec.IPFamilies = of }
}

// create makes a Service with port 80/TCP, or others.
func (s *story) create(name string, edits ...edit) {
	s.t.Helper()
	service := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: uuid.NewUUID(), Annotations: map[string]string{},
			CreationTimestamp: metav1.NewTime(time.Now().Truncate(time.Second)),
			Finalizers:        []string{servicehelpers.LoadBalancerCleanupFinalizer},
		},
		Spec: v1.ServiceSpec{
			Type:       v1.ServiceTypeLoadBalancer,
			IPFamilies: []v1.IPFamily{v1.IPv4Protocol},
		},
	}
	for _, change := range append([]edit{ports("80/TCP")}, edits...) {
		change(service)
	}
	s.add(service)
}

func (s *story) add(service *v1.Service) {
	s.t.Helper()
	if _, err := s.cloud.Kube.CoreV1().Services(service.Namespace).Create(s.t.Context(), service,
		metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.seenService(service.Name)
}

// change edits a Service.
func (s *story) change(name string, edits ...edit) {
	s.t.Helper()
	service := s.service(name)
	for _, edit := range edits {
		edit(service)
	}
	if _, err := s.cloud.Kube.CoreV1().Services(service.Namespace).Update(s.t.Context(), service,
		metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.seenService(name)
}

func (s *story) seenService(name string) {
	s.t.Helper()
	lister := s.cloud.Informers.Core().V1().Services().Lister()
	s.seen(func() bool {
		is, err := lister.Services("default").Get(name)
		return err == nil && equality.Semantic.DeepEqual(is, s.service(name))
	})
}

// service is a Service as the API server has it.
func (s *story) service(name string) *v1.Service {
	s.t.Helper()
	service, err := s.cloud.Kube.CoreV1().Services("default").Get(s.t.Context(), name,
		metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return service
}

func (s *story) services() []v1.Service {
	s.t.Helper()
	list, err := s.cloud.Kube.CoreV1().Services("default").List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

// clusterName is the CCM's --cluster-name.
const clusterName = "kubernetes"

// pass handles a changed Service like the service controller: one call, whose result becomes the
// Service's status.
func (s *story) pass(ctx context.Context, name string) error {
	kube := s.cloud.Kube.CoreV1().Services("default")
	service, err := kube.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	status, err := s.balancers.EnsureLoadBalancer(ctx, clusterName, service, nil)
	if err != nil {
		return err
	}
	if service, err = kube.Get(ctx, name, metav1.GetOptions{}); err != nil ||
		equality.Semantic.DeepEqual(service.Status.LoadBalancer, *status) {
		return err
	}
	service.Status.LoadBalancer = *status
	_, err = kube.UpdateStatus(ctx, service, metav1.UpdateOptions{})
	return err
}

// isWait reports whether a pass was only too early, and neither failed nor waits for an operator.
func isWait(err error) bool {
	var retry *api.RetryError
	return errors.As(err, &retry) && retry.RetryAfter() < time.Minute
}

// isSlow tells a request that OpenStack has not answered in time: its result the next pass
// sees.
func isSlow(err error) bool { return strings.Contains(err.Error(), "no complete response within") }

// insist makes passes until one has no work left. Errors other than waits are passed to failed; if
// it is nil, they end the test.
func (s *story) insist(
	ctx context.Context, what string, pass func() error, failed func(error),
) error {
	deadline := time.Now().Add(15 * time.Minute)
	for {
		err := pass()
		switch {
		case err == nil:
			return nil
		case isWait(err), isSlow(err):
		case failed == nil || time.Now().After(deadline):
			return fmt.Errorf("%s: %w", what, err)
		default:
			failed(err)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// serve has Services served, all at once.
func (s *story) serve(names ...string) {
	s.t.Helper()
	s.serveDespite(nil, names...)
}

// serveDespite is serve where passes may fail.
func (s *story) serveDespite(failed func(error), names ...string) {
	s.t.Helper()
	s.Together(len(names), 4, func(ctx context.Context, i int) error {
		return s.insist(ctx, "serve "+names[i], func() error { return s.pass(ctx, names[i]) },
			failed)
	})
	for _, name := range names {
		s.seenService(name)
	}
}

// update handles a change of the nodes like the service controller.
func (s *story) update(name string) {
	s.t.Helper()
	err := s.insist(s.t.Context(), "update "+name, func() error {
		return s.balancers.UpdateLoadBalancer(s.t.Context(), clusterName, s.service(name), nil)
	}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
}

// refused makes a pass that must be refused until an operator acts, with the reason in an event.
func (s *story) refused(name string, words ...string) {
	s.t.Helper()
	var err error
	_ = s.insist(s.t.Context(), name,
		func() error { err = s.pass(s.t.Context(), name); return err }, nil)
	var retry *api.RetryError
	if !errors.As(err, &retry) {
		s.t.Errorf("%s is not refused: %v", name, err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			s.t.Errorf("%s is refused with %q, which does not speak of %q", name, err, word)
		}
	}
}

// remove deletes Services, as the service controller does.
func (s *story) remove(names ...string) {
	s.t.Helper()
	s.removeDespite(nil, names...)
}

func (s *story) removeDespite(failed func(error), names ...string) {
	s.t.Helper()
	services := s.cloud.Kube.CoreV1().Services("default")
	lister := s.cloud.Informers.Core().V1().Services().Lister().Services("default")
	for _, name := range names {
		s.change(name, func(service *v1.Service) {
			now := metav1.Now()
			service.DeletionTimestamp = &now
		})
	}
	s.Together(len(names), 4, func(ctx context.Context, i int) error {
		service := s.service(names[i])
		return s.insist(ctx, "delete "+names[i], func() error { return s.removal(ctx, service) },
			failed)
	})
	for _, name := range names {
		if err := services.Delete(s.t.Context(), name, metav1.DeleteOptions{}); err != nil {
			s.t.Fatal(err)
		}
		s.seen(func() bool { _, err := lister.Get(name); return err != nil })
	}
}

func (s *story) removal(ctx context.Context, service *v1.Service) error {
	_, exists, err := s.balancers.GetLoadBalancer(ctx, clusterName, service)
	if err != nil || !exists {
		return err
	}
	return s.balancers.EnsureLoadBalancerDeleted(ctx, clusterName, service)
}

// quiet: another pass changes nothing, in the cloud or in the Service.
func (s *story) quiet(names ...string) {
	s.t.Helper()
	for _, name := range names {
		before, mark := s.service(name), s.Wire.Mark()
		if err := s.pass(s.t.Context(), name); err != nil {
			s.t.Errorf("another pass for %s: %v", name, err)
		}
		after := s.service(name)
		if !maps.Equal(before.Annotations, after.Annotations) ||
			!equality.Semantic.DeepEqual(before.Status, after.Status) {
			s.t.Errorf("another pass changes the Service %s from %v, %+v to %v, %+v", name,
				before.Annotations, before.Status, after.Annotations, after.Status)
		}
		for _, call := range s.Wire.Since(mark, project.Call.Changes) {
			s.t.Errorf("another pass for %s makes %s %s %s", name, call.Method, call.Path,
				call.RequestBody)
		}
	}
}

// quietAfterRestart: a provider without cached data finds no difference.
func (s *story) quietAfterRestart() {
	s.t.Helper()
	s.restart()
	for _, service := range s.services() {
		s.quiet(service.Name)
	}
}

// told waits for an event whose text has all the words.
func (s *story) told(words ...string) {
	s.t.Helper()
	var heard []string
	for {
		event := s.cloud.NextEvent()
		if event == "" {
			s.t.Errorf("no event has %q, but there are %q", words, heard)
			return
		}
		if !slices.ContainsFunc(words,
			func(word string) bool { return !strings.Contains(event, word) }) {
			return
		}
		heard = append(heard, event)
	}
}

// tags are those of what belongs to a Service alone.
func (s *story) tags(name string) []string {
	s.t.Helper()
	return []string{
		"fxccm-cluster=" + string(project.ClusterUID),
		"fxccm-service=" + string(s.service(name).UID),
	}
}

// balancerName is the load balancer's name, as OCCM makes it.
func balancerName(service string) string {
	return "kube_service_" + clusterName + "_default_" + service
}

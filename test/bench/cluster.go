package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

// writers is how many requests prepare and clear a cluster at once.
const writers = 8

func (t *trial) createNodes(nodes ...*corev1.Node) {
	inParallel(t, nodes, func(ctx context.Context, node *corev1.Node) error {
		_, err := t.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		return err
	})
}

func (t *trial) createServices(services ...*corev1.Service) {
	inParallel(t, services, func(ctx context.Context, service *corev1.Service) error {
		_, err := t.client.CoreV1().Services(service.Namespace).Create(ctx, service,
			metav1.CreateOptions{})
		return err
	})
}

// deleteServices deletes all Services, and waits until none is there any more.
func (t *trial) deleteServices() (begun, done time.Time) {
	services := t.client.CoreV1().Services(serviceNamespace)
	list := func() []corev1.Service {
		all, err := services.List(t.Context(), metav1.ListOptions{})
		t.Check(err)
		return all.Items
	}
	all := list()
	begun = time.Now()
	inParallel(t, all, func(ctx context.Context, service corev1.Service) error {
		return services.Delete(ctx, service.Name, metav1.DeleteOptions{})
	})
	for left := len(all); left > 0; left = len(list()) {
		t.update("%d are left", left)
		t.pause(4 * pollInterval)
	}
	return begun, time.Now()
}

// inParallel does the same to all items, a few at once, and stops at the first error.
func inParallel[I any](t *trial, items []I, do func(context.Context, I) error) {
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(writers)
	for _, item := range items {
		group.Go(func() error { return do(ctx, item) })
	}
	t.Check(group.Wait())
}

// reset removes what a trial has left, the leases included.
func (t *trial) reset() {
	services, err := t.client.CoreV1().Services(metav1.NamespaceAll).List(t.Context(),
		metav1.ListOptions{})
	t.Check(err)
	inParallel(t, services.Items, t.removeService)
	t.Check(t.client.CoreV1().Nodes().DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{}))
	t.Check(t.client.DiscoveryV1().EndpointSlices(serviceNamespace).DeleteCollection(t.Context(),
		metav1.DeleteOptions{}, metav1.ListOptions{}))
	namespaces, err := t.client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	t.Check(err)
	inParallel(t, namespaces.Items, func(ctx context.Context, namespace corev1.Namespace) error {
		leases := metav1.ListOptions{}
		if namespace.Name == metav1.NamespaceSystem { // where the API server has its own
			leases.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField,
				ccmLease).String()
		}
		return errors.Join(
			t.client.CoordinationV1().Leases(namespace.Name).DeleteCollection(ctx,
				metav1.DeleteOptions{}, leases),
			t.client.CoreV1().Events(namespace.Name).DeleteCollection(ctx,
				metav1.DeleteOptions{}, metav1.ListOptions{}),
		)
	})
	t.settle()
}

// removeService takes the finalizer off first: whoever would do that has been stopped.
func (t *trial) removeService(ctx context.Context, service corev1.Service) error {
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil // the API server's own
	}
	services := t.client.CoreV1().Services(service.Namespace)
	_, err := services.Patch(ctx, service.Name, types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	return services.Delete(ctx, service.Name, metav1.DeleteOptions{})
}

const (
	// calmWindow is how long etcd and kube-apiserver must be calm, and calmShare of one core is
	// what they may use then.
	calmWindow = 500 * time.Millisecond
	calmShare  = 0.25
	// calmLimit is how long it may take.
	calmLimit = time.Minute
)

// settle waits until etcd and kube-apiserver have nothing more to do.
func (t *trial) settle() {
	for begun, before := time.Now(), t.planeCPU(); ; {
		t.pause(calmWindow)
		after := t.planeCPU()
		if after-before <= calmShare*calmWindow.Seconds() {
			return
		}
		if before = after; time.Since(begun) > calmLimit {
			t.Fatalf("etcd and kube-apiserver were still busy after %s", calmLimit)
		}
	}
}

// planeCPU is how long etcd and kube-apiserver have computed.
func (t *trial) planeCPU() float64 {
	return t.cpuTime(t.plane.APIServerPID()) + t.cpuTime(t.plane.EtcdPID())
}

// cpuTime is how long a process has computed, in seconds.
func (t *trial) cpuTime(pid int) float64 {
	proc, err := procfs.NewProc(pid)
	t.Check(err)
	stat, err := proc.Stat()
	t.Check(err)
	return stat.CPUTime()
}

// memory is what the kernel knows of a process's memory.
func (t *trial) memory(p *process) procfs.ProcStatus {
	proc, err := procfs.NewProc(p.PID())
	t.Check(err)
	status, err := proc.NewStatus()
	t.Check(err)
	if status.VmHWM == 0 || status.VmRSS == 0 || status.RssAnon == 0 {
		t.Check(fmt.Errorf("the kernel does not show the memory of %s: %+v", p.name, status))
	}
	return status
}

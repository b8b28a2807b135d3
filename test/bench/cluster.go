package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// writers is how many requests prepare and clear a cluster at once.
const writers = 8

// A cluster is the API server under the candidates, as the administrator sees it.
type cluster struct {
	plane  *controlplane.ControlPlane
	client kubernetes.Interface
}

// startCluster starts a control plane in which the candidates' account may do its work.
func startCluster(ctx context.Context) (*cluster, error) {
	plane, err := controlplane.Start(ctx, controlplane.Options{
		// The record of each request is for tests; it would be written while time is measured.
		DisableAudit: true,
		APIServerArgs: []string{
			"--delete-collection-workers=4",
			// Two for each Service of a large fleet; no node listens there.
			"--service-node-port-range=10000-60000",
		},
	})
	if err != nil {
		return nil, err
	}
	c := &cluster{plane: plane}
	if err := c.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the cluster: %w", err), c.close())
	}
	return c, nil
}

func (c *cluster) close() error { return c.plane.Stop(context.Background()) }

func (c *cluster) prepare(ctx context.Context) (err error) {
	config := c.plane.RESTConfig()
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType + ",application/json"
	config.UserAgent = "bench"
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if _, err := c.client.RbacV1().ClusterRoles().Create(ctx, newRole(),
		metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := c.client.RbacV1().ClusterRoleBindings().Create(ctx, newRoleBinding(),
		metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, name := range []string{serviceNamespace, fleetNamespace} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := c.client.CoreV1().Namespaces().Create(ctx, namespace,
			metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// account is what the candidates reach the API server with.
func (c *cluster) account() (*rest.Config, error) {
	return c.plane.ServiceAccountConfig(metav1.NamespaceSystem, accountName)
}

func (c *cluster) createNodes(ctx context.Context, nodes ...*corev1.Node) error {
	return inParallel(ctx, nodes, func(ctx context.Context, node *corev1.Node) error {
		_, err := c.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		return err
	})
}

func (c *cluster) createServices(ctx context.Context, services ...*corev1.Service) error {
	return inParallel(ctx, services, func(ctx context.Context, service *corev1.Service) error {
		_, err := c.client.CoreV1().Services(service.Namespace).Create(ctx, service,
			metav1.CreateOptions{})
		return err
	})
}

// reset removes what a trial has left, the lease included.
func (c *cluster) reset(ctx context.Context) error {
	services, err := c.client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("reset the cluster: %w", err)
	}
	made := slices.DeleteFunc(services.Items, func(s corev1.Service) bool {
		return s.Spec.Type != corev1.ServiceTypeLoadBalancer
	})
	if err := inParallel(ctx, made, c.deleteService); err != nil {
		return fmt.Errorf("reset the cluster: %w", err)
	}
	if err := c.client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{}); err != nil {
		return fmt.Errorf("reset the cluster: delete the nodes: %w", err)
	}
	namespaces, err := c.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("reset the cluster: %w", err)
	}
	if err := inParallel(ctx, namespaces.Items, c.resetNamespace); err != nil {
		return fmt.Errorf("reset the cluster: %w", err)
	}
	return c.settle(ctx)
}

// resetNamespace deletes the lease, if it is here, and all events.
func (c *cluster) resetNamespace(ctx context.Context, namespace corev1.Namespace) error {
	err := c.client.CoordinationV1().Leases(namespace.Name).Delete(ctx, ccmLease().Name,
		metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the lease in %s: %w", namespace.Name, err)
	}
	if namespace.Name == fleetNamespace {
		err := c.client.CoordinationV1().Leases(namespace.Name).DeleteCollection(ctx,
			metav1.DeleteOptions{}, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("delete the leases in %s: %w", namespace.Name, err)
		}
	}
	err = c.client.CoreV1().Events(namespace.Name).DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("delete the events in %s: %w", namespace.Name, err)
	}
	return nil
}

// deleteService takes the finalizer off first: whoever would do that has been stopped.
func (c *cluster) deleteService(ctx context.Context, service corev1.Service) error {
	services := c.client.CoreV1().Services(service.Namespace)
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
	// clockTick is the unit of times in /proc: USER_HZ, which is 100 on every platform of Go's.
	clockTick = 10 * time.Millisecond
)

// settle waits until etcd and kube-apiserver have nothing more to do.
func (c *cluster) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, calmLimit,
		fmt.Errorf("etcd and kube-apiserver were still busy after %s", calmLimit))
	defer cancel()
	for {
		before, err := c.cpuTime()
		if err != nil {
			return err
		}
		select {
		case <-time.After(calmWindow):
		case <-ctx.Done():
			return fmt.Errorf("let the API server settle: %w", context.Cause(ctx))
		}
		after, err := c.cpuTime()
		if err != nil {
			return err
		}
		if float64(after-before) <= calmShare*float64(calmWindow) {
			return nil
		}
	}
}

// cpuTime is how long both processes have computed.
func (c *cluster) cpuTime() (total time.Duration, _ error) {
	for _, pid := range []int{c.plane.APIServerPID(), c.plane.EtcdPID()} {
		computed, err := cpuTime(pid)
		if err != nil {
			return 0, err
		}
		total += computed
	}
	return total, nil
}

// cpuTime is how long a process has computed.
func cpuTime(pid int) (total time.Duration, _ error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of a process: %w", err)
	}
	// The name of the program, in parentheses, may hold anything; utime and stime are the 12th
	// and 13th field after it (proc(5)).
	_, text, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(text)
	if len(fields) < 13 {
		return 0, fmt.Errorf("read the CPU time of a process: /proc/%d/stat is not as expected",
			pid)
	}
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the CPU time of a process: %w", err)
		}
		total += time.Duration(ticks) * clockTick
	}
	return total, nil
}

// inParallel does the same to all items, a few at once, and stops at the first error.
func inParallel[T any](ctx context.Context, items []T, do func(context.Context, T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, item := range items {
		group.Go(func() error { return do(ctx, item) })
	}
	return group.Wait()
}

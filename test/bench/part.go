package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/endpoint"
)

// A part of the cluster is shown to one candidate as if it were a cluster of its own, at an
// endpoint of its own, with a cloud of its own.
type part struct {
	name       string
	endpoint   *endpoint.Endpoint
	cloud      *cloudServer
	kubeconfig string
	// requests counts those of the candidate, except watches.
	requests atomic.Int64
}

// openPart fills a part with nodes that have just registered and with Services that wait.
func (b *bench) openPart(
	ctx context.Context, name string, nodes, services int,
) (_ *part, err error) {
	p := &part{name: name, kubeconfig: filepath.Join(b.dir, name+".kubeconfig")}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	account, err := b.cluster.account()
	if err != nil {
		return nil, err
	}
	if p.endpoint, err = endpoint.Start(account, name, endpoint.WithHandler(p.count)); err != nil {
		return nil, err
	}
	if err := controlplane.WriteKubeconfig(p.kubeconfig, p.endpoint.RESTConfig()); err != nil {
		return nil, err
	}
	if p.cloud, err = serveCloud(); err != nil {
		return nil, err
	}
	return p, b.cluster.fillPart(ctx, p, nodes, services)
}

// count counts requests in front of the endpoint.
func (p *part) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			p.requests.Add(1)
		}
		next.ServeHTTP(w, r)
	})
}

// newNode returns a node of the part that has just registered, and that the part's cloud has.
func (p *part) newNode(name string) (*corev1.Node, error) {
	node := newNode(endpoint.NodeName(p.name, name))
	node.Labels[endpoint.PartLabel] = p.name
	return node, p.cloud.current.Load().AddInstances(fake.Instance{Name: node.Name})
}

// close ends the endpoint and the cloud. The next reset empties the cluster.
func (p *part) close() (err error) {
	if p.endpoint != nil {
		err = p.endpoint.Close()
	}
	if p.cloud != nil {
		err = errors.Join(err, p.cloud.close())
	}
	return err
}

func (c *cluster) fillPart(ctx context.Context, p *part, nodes, services int) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.name}}
	if _, err := c.client.CoreV1().Namespaces().Create(ctx, namespace,
		metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the namespace %s: %w", p.name, err)
	}
	var registered []*corev1.Node
	for i := range nodes {
		node, err := p.newNode(fmt.Sprintf("node-%04d", i))
		if err != nil {
			return err
		}
		registered = append(registered, node)
	}
	if err := c.createNodes(ctx, registered...); err != nil {
		return fmt.Errorf("create the nodes of %s: %w", p.name, err)
	}
	var waiting []*corev1.Service
	for i := range services {
		service := newService(fmt.Sprintf("%s-service-%04d", p.name, i))
		service.Namespace = p.name
		waiting = append(waiting, service)
	}
	if err := c.createServices(ctx, waiting...); err != nil {
		return fmt.Errorf("create the Services of %s: %w", p.name, err)
	}
	return nil
}

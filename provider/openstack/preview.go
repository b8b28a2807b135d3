package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/client"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/metrics"
)

// PreviewInput is the input of [Preview]. All fields are required unless they say otherwise.
type PreviewInput struct {
	Config cloudconf.Config
	// ClusterName is --cluster-name.
	ClusterName string
	// ClusterUID is the UID of the namespace kube-system, which tags the objects of the cluster.
	ClusterUID string
	// Service is the Service of the load balancer. If it is being deleted, or is of another type,
	// the load balancer would be deleted.
	Service *v1.Service
	// Nodes are all nodes of the cluster in any order.
	Nodes []*v1.Node
	// Logger is optional.
	Logger logr.Logger
}

// LoadBalancerPreview says what the provider would do for a Service.
type LoadBalancerPreview struct {
	// LoadBalancer describes the current load balancer of the Service.
	LoadBalancer string
	// Notices are the events that the Service would get.
	Notices []string
	// Refused: the provider would not serve the Service, for the reason in the notices.
	Refused bool
	// Steps are the requests in order; further lines of a step list what it creates. Empty: the
	// load balancer is up to date.
	Steps []string
}

// String formats the preview for people.
func (p LoadBalancerPreview) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Load balancer: %s\n", p.LoadBalancer)
	for _, n := range p.Notices {
		fmt.Fprintf(&b, "Notice: %s\n", n)
	}
	switch {
	case p.Refused:
		b.WriteString("No changes: the Service is refused.\n")
	case len(p.Steps) == 0:
		b.WriteString("No changes: the load balancer is up to date.\n")
	default:
		fmt.Fprintf(&b, "Steps: %d\n", len(p.Steps))
	}
	for i, step := range p.Steps {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, strings.ReplaceAll(step, "\n", "\n     "))
	}
	return b.String()
}

// Preview computes what the provider would do for a Service with the current state of OpenStack. It
// changes nothing: except for the login, it sends only read requests.
func Preview(ctx context.Context, in PreviewInput) (LoadBalancerPreview, error) {
	if in.ClusterUID == "" || in.Service == nil {
		return LoadBalancerPreview{}, errors.New("the cluster UID and the Service are required")
	}
	if !in.Config.LoadBalancer.Enabled {
		return LoadBalancerPreview{},
			errors.New("load balancers are disabled: [LoadBalancer] enabled is false")
	}
	problems, err := cloudconf.Classify(cloudconf.Validate(in.Config), false)
	if err != nil {
		return LoadBalancerPreview{}, err
	}
	for _, warning := range problems {
		in.Logger.Info("Problem in the cloud configuration", "warning", warning.String())
	}
	set, err := metrics.New(nil, "")
	if err != nil {
		return LoadBalancerPreview{}, err
	}
	series := set.Begin()
	defer series.End()
	clients, err := client.New(in.Config, client.Options{
		Transport: func(next http.RoundTripper) http.RoundTripper { return readOnly{next} },
		Logger:    in.Logger,
		Observer:  series,
	})
	if err != nil {
		return LoadBalancerPreview{}, err
	}
	b := newBalancing(in.Config, ccm.ProviderEnv{
		Clock: clock.RealClock{}, Logger: in.Logger, Recorder: func(string) record.EventRecorder {
			return nil
		},
	}, clients, series, nil, func(context.Context) (string, error) { return in.ClusterUID, nil })
	defer func() {
		b.close()
		_ = clients.Close()
	}()
	preview, err := b.balancers.Preview(ctx, in.ClusterName, in.Service, in.Nodes)
	if err != nil {
		return LoadBalancerPreview{}, err
	}
	return shown(preview), nil
}

func shown(preview loadbalancer.Preview) LoadBalancerPreview {
	p := LoadBalancerPreview{
		LoadBalancer: "none", Notices: preview.Notices,
		Refused: preview.Refused,
	}
	if lb := preview.LoadBalancer; lb != nil {
		p.LoadBalancer = fmt.Sprintf("%s (%s), %s; the Service is its %s", lb.Name, lb.ID,
			lb.Status, preview.Role)
	}
	for _, step := range preview.Plan.Steps {
		p.Steps = append(p.Steps, plan.Text(step))
	}
	return p
}

// readOnly refuses requests that may change something.
type readOnly struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o readOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	login := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/auth/tokens")
	if !login && !slices.Contains([]string{http.MethodGet, http.MethodHead}, r.Method) {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, fmt.Errorf("a preview must not send %s %s", r.Method, r.URL.Path)
	}
	return o.next.RoundTrip(r)
}

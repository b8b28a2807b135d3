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

// PreviewInput is what [Preview] needs. All must be set but where it is said.
type PreviewInput struct {
	Config cloudconf.Config
	// ClusterName is --cluster-name.
	ClusterName string
	// ClusterUID is the UID of the cluster's namespace kube-system, which is in the tags of what belongs to the cluster.
	ClusterUID string
	// Service is what the load balancer is for. One that is being deleted, or of another type, is to have none.
	Service *v1.Service
	// Nodes are all of the cluster, in any order.
	Nodes []*v1.Node
	// Logger may be the zero value.
	Logger logr.Logger
}

// LoadBalancerPreview is what would be done for a Service.
type LoadBalancerPreview struct {
	// LoadBalancer says what the Service has.
	LoadBalancer string
	// Notices are the events that the Service would get.
	Notices []string
	// Refused: the Service would not be served, for the reason in the notices.
	Refused bool
	// Steps are the requests that would be made, in this order; what one makes is told in lines below its first. None: all is as it
	// should be.
	Steps []string
}

// String is the whole, in lines for people.
func (p LoadBalancerPreview) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Load balancer: %s\n", p.LoadBalancer)
	for _, n := range p.Notices {
		fmt.Fprintf(&b, "Notice: %s\n", n)
	}
	switch {
	case p.Refused:
		b.WriteString("Nothing would be done: the Service is refused.\n")
	case len(p.Steps) == 0:
		b.WriteString("Nothing would be done: all is as it should be.\n")
	default:
		fmt.Fprintf(&b, "Steps: %d\n", len(p.Steps))
	}
	for i, step := range p.Steps {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, strings.ReplaceAll(step, "\n", "\n     "))
	}
	return b.String()
}

// Preview tells what the provider would do for a Service, from what it finds in OpenStack, and does nothing: of its requests only those that
// read are let through, and the login.
func Preview(ctx context.Context, in PreviewInput) (LoadBalancerPreview, error) {
	if in.ClusterUID == "" || in.Service == nil {
		return LoadBalancerPreview{}, errors.New("the UID of the cluster and the Service must be given")
	}
	if !in.Config.LoadBalancer.Enabled {
		return LoadBalancerPreview{}, errors.New("[LoadBalancer] enabled is false: no load balancers are served")
	}
	problems, err := cloudconf.Classify(cloudconf.Validate(in.Config), false)
	if err != nil {
		return LoadBalancerPreview{}, err
	}
	for _, warning := range problems {
		in.Logger.Info("Cloud configuration", "warning", warning.String())
	}
	set, err := metrics.New(nil, "")
	if err != nil {
		return LoadBalancerPreview{}, err
	}
	series := set.Begin()
	defer series.End()
	clients, err := client.New(in.Config, client.Options{
		Transport: func(next http.RoundTripper) http.RoundTripper { return onlyReads{next} },
		Logger:    in.Logger,
		Observer:  series,
	})
	if err != nil {
		return LoadBalancerPreview{}, err
	}
	b := newBalancing(in.Config, ccm.ProviderEnv{
		Clock: clock.RealClock{}, Logger: in.Logger, Recorder: func(string) record.EventRecorder { return nil },
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
	p := LoadBalancerPreview{LoadBalancer: "none", Notices: preview.Notices, Refused: preview.Refused}
	if lb := preview.LoadBalancer; lb != nil {
		p.LoadBalancer = fmt.Sprintf("%s (%s), %s; the Service is its %s", lb.Name, lb.ID, lb.Status, preview.Role)
	}
	for _, step := range preview.Plan.Steps {
		p.Steps = append(p.Steps, plan.Text(step))
	}
	return p
}

// onlyReads lets nothing through that might change something.
type onlyReads struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o onlyReads) RoundTrip(r *http.Request) (*http.Response, error) {
	login := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/auth/tokens")
	if !login && !slices.Contains([]string{http.MethodGet, http.MethodHead}, r.Method) {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, fmt.Errorf("%s %s would change something, and this is a preview", r.Method, r.URL.Path)
	}
	return o.next.RoundTrip(r)
}

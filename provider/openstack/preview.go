package openstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/client"
	"github.com/fxccm/fxccm/provider/openstack/internal/instances"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/internal/metrics"
)

// PreviewInput is the input of [Preview]. All fields are required unless they say otherwise.
type PreviewInput struct {
	Config cloudconf.Config
	// ClusterName is --cluster-name.
	ClusterName string
	// ClusterUID is the UID of the namespace kube-system, which tags the objects of the cluster.
	ClusterUID string
	// ClusterCIDR is --cluster-cidr if the CCM serves routes, and otherwise "".
	ClusterCIDR string
	// Service is the Service of the load balancer. If it is being deleted, or is of another type,
	// the load balancer would be deleted.
	Service *v1.Service
	// Nodes are all nodes of the cluster in any order.
	Nodes []*v1.Node
	// EndpointSlices is as in [PreviewerConfig]. Optional.
	EndpointSlices func(context.Context, *v1.Service) ([]*discoveryv1.EndpointSlice, error)
	// Logger is optional.
	Logger logr.Logger
}

// LoadBalancerPreview describes what the provider would do for a Service.
type LoadBalancerPreview struct {
	// LoadBalancer describes the current load balancer of the Service.
	LoadBalancer string
	// Notices are the events that the Service would get; last the one that refuses it.
	Notices []string
	// Refused: the provider would not serve the Service, for the reason in the notices.
	Refused bool
	// Steps are the requests in order; further lines of a step list what it creates. Empty: the
	// load balancer is up to date.
	Steps []string
	// TagsOnly: all steps change only tags.
	TagsOnly bool
	// Desired and Observed list the objects that should exist and that exist: the load balancer,
	// listeners, pools, members, monitors, floating IPs and the security group. Each object and
	// attribute is a line, indented below its parent. Desired is empty if the Service is refused,
	// or if its load balancer would be deleted.
	Desired, Observed []string
	// LoadBalancerID is empty if the Service has no load balancer.
	LoadBalancerID string
	// OtherClusters are the tags of the load balancer that name other clusters or, if
	// [PreviewerConfig] has Services, a Service that the cluster does not have.
	OtherClusters []string
}

// String formats the preview for people.
func (p LoadBalancerPreview) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Load balancer: %s\n", p.LoadBalancer)
	for _, n := range p.Notices {
		fmt.Fprintf(&b, "Notice: %s\n", n)
	}
	switch {
	case p.Refused && len(p.Notices) > 0:
		fmt.Fprintf(&b, "No changes: the Service is refused: %s\n", p.Notices[len(p.Notices)-1])
	case len(p.Steps) == 0 && len(p.Notices) > 0:
		b.WriteString("No changes: what can be changed is up to date. The notices name the rest.\n")
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
// changes nothing: except for the login, it sends only read requests. For several Services, use a
// [Previewer]. If Octavia does not answer, Desired is set beside the error.
func Preview(ctx context.Context, in PreviewInput) (LoadBalancerPreview, error) {
	if in.Service == nil {
		return LoadBalancerPreview{}, errors.New("the Service is required")
	}
	p, err := NewPreviewer(PreviewerConfig{
		Config: in.Config, ClusterName: in.ClusterName, ClusterUID: in.ClusterUID,
		ClusterCIDR: in.ClusterCIDR, EndpointSlices: in.EndpointSlices, Logger: in.Logger,
	})
	if err != nil {
		return LoadBalancerPreview{}, err
	}
	defer p.Close()
	return p.Preview(ctx, in.Service, in.Nodes)
}

// PreviewerConfig is the input of [NewPreviewer]. All fields are required unless they say
// otherwise.
type PreviewerConfig struct {
	Config cloudconf.Config
	// ClusterName is --cluster-name.
	ClusterName string
	// ClusterUID is the UID of the namespace kube-system, which tags the objects of the cluster.
	ClusterUID string
	// ClusterCIDR is --cluster-cidr if the CCM serves routes, and otherwise "".
	ClusterCIDR string
	// EndpointSlices lists the EndpointSlices of a Service. It is called for Services whose load
	// balancers forward to pods. Optional: without it, their previews are errors.
	EndpointSlices func(context.Context, *v1.Service) ([]*discoveryv1.EndpointSlice, error)
	// Logger is optional.
	Logger logr.Logger
	// Services are all Services of the cluster that have a load balancer, for
	// [LoadBalancerPreview].OtherClusters. OCCM's tags have only names. Optional.
	Services []*v1.Service
}

// Previewer reads what the provider would do, with one login for all Services. Its methods are safe
// for concurrent use. It may use answers of OpenStack that are some seconds old.
type Previewer struct {
	config    PreviewerConfig
	clients   *client.Clients
	series    *metrics.Series
	balancing *balancing
	// regions are the further regions that serve load balancers, by name.
	regions map[string]*Previewer
}

// NewPreviewer checks the configuration and sends no request. The caller must Close the Previewer.
func NewPreviewer(c PreviewerConfig) (*Previewer, error) {
	if c.ClusterUID == "" {
		return nil, errors.New("the cluster UID is required")
	}
	if !c.Config.LoadBalancer.Enabled {
		return nil, errors.New("load balancers are disabled: [LoadBalancer] enabled is false")
	}
	problems, err := cloudconf.Validate(c.Config, false)
	if err != nil {
		return nil, err
	}
	for _, warning := range problems {
		c.Logger.Info("Problem in the cloud configuration", "warning", warning.String())
	}
	names := c.Config.RegionNames()
	first, err := newPreviewer(c, names[0])
	if err != nil {
		return nil, err
	}
	first.regions = map[string]*Previewer{}
	balancings := map[string]*balancing{names[0]: first.balancing}
	for _, name := range names[1:] {
		if !c.Config.Regions[name].LoadBalancer.Enabled {
			continue
		}
		if first.regions[name], err = newPreviewer(c, name); err != nil {
			delete(first.regions, name)
			first.Close()
			return nil, err
		}
		balancings[name] = first.regions[name].balancing
	}
	setRegions(names, balancings)
	return first, nil
}

func newPreviewer(c PreviewerConfig, region string) (*Previewer, error) {
	sortNodes := nodeSorter(c.Config, region)
	c.Config, _ = c.Config.In(region)
	set, err := metrics.New(nil, "")
	if err != nil {
		return nil, err
	}
	p := &Previewer{config: c, series: set.Begin()}
	p.clients, err = client.New(c.Config, client.Options{
		Transport: func(next http.RoundTripper) http.RoundTripper { return readOnly{next} },
		Logger:    c.Logger,
		Observer:  p.series,
	})
	if err != nil {
		p.series.End()
		return nil, err
	}
	p.balancing = newBalancing(c.Config, ccm.ProviderEnv{
		Config: ccm.Config{
			ConfigureCloudRoutes: c.ClusterCIDR != "", ClusterCIDR: c.ClusterCIDR,
		},
		Clock: clock.RealClock{}, Logger: c.Logger, Recorder: func(string) record.EventRecorder {
			return nil
		},
	}, p.clients, p.series, nil, func(context.Context) (string, error) { return c.ClusterUID, nil },
		shares{}, nil, sortNodes)
	return p, nil
}

// nodeSorter returns a function that sorts nodes by the region that their provider ID names, or
// else their label. It sends no request, so the project of a node is unknown if several are of one
// region. With one cloud it is nil.
func nodeSorter(
	config cloudconf.Config, name string,
) func(context.Context, []*v1.Node) (here, unknown []*v1.Node) {
	if len(config.Regions) == 0 {
		return nil
	}
	clouds := map[string]int{} // their numbers, by the name of the region in Keystone's catalog
	for _, each := range config.RegionNames() {
		in, _ := config.In(each)
		clouds[in.Global.Region]++
	}
	own, _ := config.In(name)
	return func(_ context.Context, nodes []*v1.Node) (here, unknown []*v1.Node) {
		for _, node := range nodes {
			id, _ := instances.ParseProviderID(node.Spec.ProviderID)
			region := cmp.Or(id.Region, node.Labels[v1.LabelTopologyRegion])
			isOwn := region == own.Global.Region
			switch {
			case isOwn && clouds[region] == 1:
				here = append(here, node)
			case isOwn, id.Region == "" && clouds[region] != 1:
				unknown = append(unknown, node)
			}
		}
		return here, unknown
	}
}

// Preview computes what the provider would do for a Service with all nodes of the cluster. With
// several regions, the region is the Service's, and a node's provider ID or label names its region;
// a node whose region remains unknown is a member if it is one already.
func (p *Previewer) Preview(
	ctx context.Context, service *v1.Service, nodes []*v1.Node,
) (LoadBalancerPreview, error) {
	name := cmp.Or(service.Annotations[settings.AnnotationLoadBalancerRegion],
		service.Annotations[settings.AnnotationRegion])
	if in := p.regions[name]; in != nil {
		return in.preview(ctx, service, nodes)
	}
	// The settings of the default region refuse a region that cloud.conf does not have.
	return p.preview(ctx, service, nodes)
}

func (p *Previewer) preview(
	ctx context.Context, service *v1.Service, nodes []*v1.Node,
) (LoadBalancerPreview, error) {
	endpoints, err := p.endpoints(ctx, service)
	if err != nil {
		return LoadBalancerPreview{}, err
	}
	preview, err := p.balancing.balancers.Preview(ctx, p.config.ClusterName, service, nodes,
		endpoints)
	if err != nil {
		return LoadBalancerPreview{Desired: preview.Desired}, err
	}
	shown := shown(preview)
	if lb := preview.LoadBalancer; lb != nil {
		shown.OtherClusters = p.otherClusters(lb.Tags)
	}
	return shown, nil
}

// endpoints returns the EndpointSlices of a Service if its load balancer forwards to pods.
func (p *Previewer) endpoints(
	ctx context.Context, service *v1.Service,
) ([]*discoveryv1.EndpointSlice, error) {
	switch {
	case !p.balancing.balancers.WantsEndpoints(service):
		return nil, nil
	case p.config.EndpointSlices == nil:
		return nil, errors.New("the load balancer forwards to pods, so the preview needs a " +
			"cluster, which has the EndpointSlices of the Service")
	}
	return p.config.EndpointSlices(ctx, service)
}

// otherClusters returns the tags of other clusters, and OCCM's tags of their Services.
func (p *Previewer) otherClusters(tags []string) []string {
	var others []string
	for _, uid := range (desired.Identity{ClusterUID: p.config.ClusterUID}).OtherClusters(tags) {
		others = append(others, desired.Identity{ClusterUID: uid}.ClusterTag())
	}
	if len(p.config.Services) == 0 {
		return others
	}
	own := map[string]bool{}
	for _, service := range p.config.Services {
		own[identify(p.config.ClusterName, service).LoadBalancerName()] = true
	}
	for _, tag := range tags {
		if strings.HasPrefix(tag, desired.ServicePrefix) && !own[tag] {
			others = append(others, tag)
		}
	}
	return others
}

// Close ends requests and closes the connections.
func (p *Previewer) Close() {
	for _, region := range p.regions {
		region.Close()
	}
	p.balancing.close()
	_ = p.clients.Close()
	p.series.End()
}

func shown(preview loadbalancer.Preview) LoadBalancerPreview {
	p := LoadBalancerPreview{
		LoadBalancer: "none", Notices: preview.Notices,
		Refused: preview.Refused, TagsOnly: preview.Plan.TagsOnly(),
		Desired: preview.Desired, Observed: preview.Observed,
	}
	if lb := preview.LoadBalancer; lb != nil {
		p.LoadBalancerID = lb.ID
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

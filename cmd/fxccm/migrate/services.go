package migrate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/cmd/fxccm/cli"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// Outcome summarizes a plan for a Service.
type Outcome string

// The outcomes, from the best to the worst.
const (
	NoChange Outcome = "no change"
	TagsOnly Outcome = "tags only"
	Changes  Outcome = "changes"
	Refused  Outcome = "refused"
	Failed   Outcome = "failed"
)

func (o Outcome) color() cli.Color {
	switch o {
	case Changes:
		return cli.Yellow
	case Refused, Failed:
		return cli.Red
	}
	return cli.Plain
}

// ServicePlan is the plan for a Service.
type ServicePlan struct {
	Service string  `json:"service"`
	Outcome Outcome `json:"outcome"`
	// LoadBalancer is the ID of the load balancer.
	LoadBalancer string `json:"loadBalancer,omitempty"`
	// OtherClusters are tags of the load balancer that name other clusters or their Services.
	OtherClusters []string `json:"otherClusters,omitempty"`
	Steps         []string `json:"steps,omitempty"`
	Notices       []string `json:"notices,omitempty"`
	// Error says why the plan could not be computed.
	Error string `json:"error,omitempty"`
}

// ServicePlans are the plans for all Services.
type ServicePlans []ServicePlan

// PlanServices computes the plans for all Services of a namespace, with one login. "" is all
// namespaces. flags are those of the CCM.
func PlanServices(
	ctx context.Context, config cloudconf.Config, flags ccm.Config, namespace string, world World,
) (ServicePlans, error) {
	if len(world.Services) == 0 || !config.LoadBalancer.Enabled {
		return ServicePlans{}, nil
	}
	previewer, err := newPreviewer(config, flags, world)
	if err != nil {
		return nil, err
	}
	defer previewer.Close()
	plans := make(ServicePlans, 0, len(world.Services))
	for _, service := range world.Services {
		if namespace != "" && service.Namespace != namespace {
			continue
		}
		preview, err := previewer.Preview(ctx, service, world.Nodes)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		plans = append(plans, NewServicePlan(service, preview, err))
	}
	return plans, nil
}

// NewServicePlan summarizes a preview. "failed" is why it does not exist, or nil.
func NewServicePlan(
	service *v1.Service, preview openstack.LoadBalancerPreview, failed error,
) ServicePlan {
	plan := ServicePlan{
		Service:      service.Namespace + "/" + service.Name,
		LoadBalancer: preview.LoadBalancerID, OtherClusters: preview.OtherClusters,
		Steps: preview.Steps, Notices: preview.Notices,
	}
	switch {
	case failed != nil:
		plan.Outcome, plan.Error = Failed, failed.Error()
	case preview.Refused:
		plan.Outcome = Refused
	case len(preview.Steps) == 0:
		plan.Outcome = NoChange
	case preview.TagsOnly:
		plan.Outcome = TagsOnly
	default:
		plan.Outcome = Changes
	}
	return plan
}

func newPreviewer(
	config cloudconf.Config, flags ccm.Config, world World,
) (*openstack.Previewer, error) {
	input := openstack.PreviewerConfig{
		Config: config, ClusterName: flags.ClusterName, ClusterUID: world.UID,
		Services: world.Services, EndpointSlices: world.EndpointSlices, Logger: logr.Discard(),
	}
	if flags.ConfigureCloudRoutes {
		input.ClusterCIDR = flags.ClusterCIDR
	}
	return openstack.NewPreviewer(input)
}

// with returns the plans with one of the outcomes.
func (p ServicePlans) with(outcomes ...Outcome) ServicePlans {
	var found ServicePlans
	for _, plan := range p {
		for _, outcome := range outcomes {
			if plan.Outcome == outcome {
				found = append(found, plan)
			}
		}
	}
	return found
}

// Summary counts the Services, such as "3 Services: 1 no change, 2 tags only".
func (p ServicePlans) Summary() string {
	var counts []string
	for _, outcome := range []Outcome{NoChange, TagsOnly, Changes, Refused, Failed} {
		if n := len(p.with(outcome)); n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, outcome))
		}
	}
	if len(counts) == 0 {
		return "No Service of type LoadBalancer was compared with OpenStack."
	}
	return fmt.Sprintf("%d Services: %s.", len(p), strings.Join(counts, ", "))
}

// WriteTable writes a line for each Service, with its notices and the steps that change more than
// tags.
func (p ServicePlans) WriteTable(out io.Writer) error {
	if len(p) == 0 {
		_, err := fmt.Fprintln(out, p.Summary())
		return err
	}
	table := cli.NewTables()
	table.Row("SERVICE", "LOAD BALANCER", "PLAN")
	for _, plan := range p {
		table.ColoredRow(plan.Outcome.color(), plan.Service, cmp.Or(plan.LoadBalancer, "none"),
			string(plan.Outcome))
	}
	if err := table.Print(out); err != nil {
		return err
	}
	for _, plan := range p {
		lines := slices.Clone(plan.Notices)
		switch plan.Outcome {
		case NoChange, TagsOnly:
			if len(lines) == 0 {
				continue
			}
		default:
			lines = append(lines, plan.Steps...)
		}
		_, _ = fmt.Fprintf(out, "\n%s: %s\n", plan.Service, plan.Outcome)
		if plan.Error != "" {
			lines = append(lines, plan.Error)
		}
		for _, line := range lines {
			_, _ = fmt.Fprintf(out, "  - %s\n",
				strings.ReplaceAll(cli.Printable(line), "\n", "\n    "))
		}
	}
	_, err := fmt.Fprintf(out, "\n%s\n", p.Summary())
	return err
}

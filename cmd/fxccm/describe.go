package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/cmd/fxccm/cli"
	"github.com/fxccm/fxccm/cmd/fxccm/migrate"
	"github.com/fxccm/fxccm/provider/openstack"
)

const describeAbout = `Print why a Service of type LoadBalancer is as it is: its addresses, conditions and events, what the running CCM
reports about it, its calls in flight and its last requests to OpenStack, the desired objects, the observed ones,
and the requests that would make them equal.

The command changes nothing. The running CCM is asked as by "fxccm status". Without --cloud-config, OpenStack is not asked.`

const describeExample = `  fxccm describe service web -n shop
  fxccm describe service/web --cloud-config=cloud.conf -o yaml`

// maxEvents is how many events of a Service are printed.
const maxEvents = 10

// describeLine is the command line of "fxccm describe".
type describeLine struct {
	cli.Output
	comparison
	// status reads from the running replicas.
	status          statusLine
	namespace, name string
}

// newDescribeCommand is "fxccm describe".
func newDescribeCommand() *cobra.Command {
	d := &describeLine{status: statusLine{lease: defaultLease}}
	cmd := &cobra.Command{
		Use:   "describe service/NAME | service [NAMESPACE/]NAME",
		Short: "Print why a load balancer is as it is",
		Long:  describeAbout, Example: describeExample, DisableFlagsInUseLine: true,
		ValidArgsFunction: services,
		RunE: cli.UntilSignal(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if err := d.check(args); err != nil {
				return err
			}
			return d.run(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
		}),
	}
	set := cmd.Flags()
	d.status.Access.AddFlags(set)
	d.comparison.addFlags(set,
		"The cloud.conf, to compare the Service with the objects in OpenStack.")
	d.status.addPodFlags(set, podsSelector)
	set.StringVar(&d.status.namespace, "ccm-namespace", metav1.NamespaceSystem,
		"The namespace of the CCM's pods and lease.")
	addServiceNamespace(set, &d.namespace)
	d.Output.AddFlag(set, "text")
	return cmd
}

func (d *describeLine) check(args []string) (err error) {
	if len(args) == 0 || len(args) == 1 && !strings.Contains(args[0], "/") {
		return cli.Usagef("want a Service as service/NAME or service NAME, got %q", args)
	}
	if d.namespace, d.name, err = serviceName(args, d.namespace); err != nil {
		return err
	}
	if err := d.status.check(); err != nil {
		return err
	}
	if err := checkSelector("--node-selector", d.nodeSelector); err != nil {
		return err
	}
	return d.Output.Check()
}

// description is what "fxccm describe" knows about a Service.
type description struct {
	Service *v1.Service `json:"service"`
	// Events begin with the newest.
	Events []v1.Event `json:"events"`
	// Running is nil if no replica leads. RunningError then says why.
	Running      *runningCCM `json:"running,omitempty"`
	RunningError string      `json:"runningError,omitempty"`
	// OpenStack is nil without --cloud-config, and after OpenStackError.
	OpenStack      *comparedObjects `json:"openStack,omitempty"`
	OpenStackError string           `json:"openStackError,omitempty"`
}

// runningCCM is the report of the leading replica about a Service.
type runningCCM struct {
	Replica       string                `json:"replica"`
	Term          uint64                `json:"term"`
	LoadBalancers []status.LoadBalancer `json:"loadBalancers,omitempty"`
	Calls         []status.Activity     `json:"calls,omitempty"`
}

// comparedObjects are the objects in OpenStack, a line each.
type comparedObjects struct {
	migrate.ServicePlan
	Nodes    int      `json:"nodes"`
	Desired  []string `json:"desired,omitempty"`
	Observed []string `json:"observed,omitempty"`

	preview openstack.LoadBalancerPreview
	// unserved says why the CCM does not serve the Service, and nothing was compared.
	unserved string
}

// run prints the report of each source. If a source fails, the others are still printed.
func (d *describeLine) run(ctx context.Context, stdout, stderr io.Writer) error {
	cluster, err := d.status.Connect()
	if err != nil {
		return err
	}
	var all description
	if all.Service, err = readService(ctx, cluster, d.namespace, d.name); err != nil {
		return err
	}
	var failed error
	all.Events, failed = readEvents(ctx, cluster, all.Service)
	all.Running, err = d.readRunning(ctx, cluster, all.Service)
	if err != nil {
		all.RunningError = err.Error()
	}
	var compared error
	if d.cloudConfig != "" {
		all.OpenStack, compared = d.compare(ctx, cluster, all.Service, stderr)
		if compared != nil {
			all.OpenStackError = compared.Error()
		}
	}
	printed := d.Print(stdout, all, func(out io.Writer) error {
		_, err := io.WriteString(out, all.text(time.Now()))
		return err
	})
	return errors.Join(failed, compared, printed)
}

// compare compares the Service with OpenStack. Beside an error, the result may be incomplete.
func (d *describeLine) compare(
	ctx context.Context, cluster *cli.Cluster, service *v1.Service, stderr io.Writer,
) (*comparedObjects, error) {
	config, err := d.load(stderr)
	if err != nil {
		return nil, err
	}
	if notice := d.unserved(service); notice != "" {
		compared := &comparedObjects{unserved: "The Service " + notice + "."}
		compared.ServicePlan = migrate.NewServicePlan(service,
			openstack.LoadBalancerPreview{Notices: []string{compared.unserved}}, nil)
		return compared, nil
	}
	input := openstack.PreviewInput{
		Config: config, ClusterName: d.clusterName, ClusterCIDR: d.clusterCIDR, Service: service,
		EndpointSlices: migrate.EndpointSlices(cluster), Logger: logr.Discard(),
	}
	if input.ClusterUID, err = migrate.ReadUID(ctx, cluster); err != nil {
		return nil, err
	}
	if input.Nodes, err = migrate.ReadNodes(ctx, cluster, d.nodeSelector); err != nil {
		return nil, err
	}
	preview, err := openstack.Preview(ctx, input)
	if err != nil && len(preview.Desired) == 0 {
		return nil, err
	}
	return &comparedObjects{
		ServicePlan: migrate.NewServicePlan(service, preview, err), Nodes: len(input.Nodes),
		Desired: preview.Desired, Observed: preview.Observed, preview: preview,
	}, err
}

// readEvents reads the last events of a Service.
func readEvents(
	ctx context.Context, client kubernetes.Interface, service *v1.Service,
) ([]v1.Event, error) {
	list, err := client.CoreV1().Events(service.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.Set{
			"involvedObject.kind": "Service", "involvedObject.uid": string(service.UID),
		}.String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list the events: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1.Event) int { return lastOf(b).Compare(lastOf(a)) })
	return list.Items, nil
}

func lastOf(e v1.Event) time.Time {
	if e.LastTimestamp.IsZero() {
		return e.EventTime.Time
	}
	return e.LastTimestamp.Time
}

// readRunning reads the leading replica's report about a Service.
func (d *describeLine) readRunning(
	ctx context.Context, cluster *cli.Cluster, service *v1.Service,
) (*runningCCM, error) {
	current, err := d.status.read(ctx, cluster)
	if err != nil {
		return nil, fmt.Errorf("unknown: %w", err)
	}
	var reasons []string
	for _, r := range current.Replicas {
		if r.Status.State != status.Leading {
			reasons = append(reasons, r.Name+": "+cmp.Or(r.Error, string(r.Status.State)))
			continue
		}
		running := &runningCCM{Replica: r.Name, Term: uint64(r.Status.Term)}
		for _, lb := range r.Status.LoadBalancers {
			if lb.Namespace == service.Namespace && lb.Service == service.Name {
				running.LoadBalancers = append(running.LoadBalancers, lb)
			}
		}
		for _, a := range r.Status.Running {
			if a.Object == service.Namespace+"/"+service.Name {
				running.Calls = append(running.Calls, a)
			}
		}
		return running, nil
	}
	return nil, errors.New("no replica leads: " + strings.Join(reasons, "; "))
}

// text formats the description for people.
func (d description) text(now time.Time) string {
	var out strings.Builder
	describeService(&out, d.Service, now)
	describeEvents(&out, d.Events, now)
	if d.Running == nil {
		fmt.Fprintf(&out, "\nThe running CCM: %s\n", d.RunningError)
	} else {
		d.Running.describe(&out, now)
	}
	switch {
	case d.OpenStack != nil:
		d.OpenStack.describe(&out)
	case d.OpenStackError == "": // an error is printed beside the description
		fmt.Fprintf(&out, "\nDesired and observed objects in OpenStack: give --cloud-config\n")
	}
	return out.String()
}

func (c *comparedObjects) describe(out io.Writer) {
	if c.unserved != "" {
		fmt.Fprintf(out, "\nDesired and observed objects in OpenStack: not compared\n  %s\n",
			c.unserved)
		return
	}
	describeObjects(out, "Desired", c.Desired)
	if c.Error != "" {
		fmt.Fprintf(out, "\nObserved in OpenStack\n  unknown: %s\n", c.Error)
		return
	}
	describeObjects(out, "Observed", c.Observed)
	fmt.Fprintf(out, "\nDifference in OpenStack, with %d nodes\n%s", c.Nodes, c.preview)
}

func describeObjects(out io.Writer, title string, lines []string) {
	if len(lines) == 0 {
		lines = []string{"none"}
	}
	fmt.Fprintf(out, "\n%s in OpenStack\n  %s\n", title, strings.Join(lines, "\n  "))
}

func (r *runningCCM) describe(out io.Writer, now time.Time) {
	fmt.Fprintf(out, "\nThe running CCM: %s leads in term %d\n", r.Replica, r.Term)
	for _, lb := range r.LoadBalancers {
		text := fmt.Sprintf("  %s for %s", lb.State, ageOf(lb.Since, now))
		for _, why := range []string{lb.Reason, lb.Message} {
			if why != "" {
				text += ": " + why
			}
		}
		fmt.Fprintln(out, text)
		if !lb.ComparedAt.IsZero() {
			fmt.Fprintf(out, "  compared %s ago\n", ageOf(lb.ComparedAt, now))
		}
		for _, drift := range lb.Drift {
			fmt.Fprintf(out, "  drift %s ago: %s\n", ageOf(lb.DriftedAt, now), drift)
		}
		describeRequests(out, lb.Requests, now)
	}
	for _, a := range r.Calls {
		fmt.Fprintf(out, "  in flight for %s: %s\n", ageOf(a.Since, now), a.Name)
	}
}

func describeRequests(out io.Writer, requests []status.CloudRequest, now time.Time) {
	if len(requests) == 0 {
		return
	}
	fmt.Fprintf(out, "  last requests to the cloud, newest first\n")
	for _, r := range requests {
		often := ""
		if r.Count > 1 {
			often = fmt.Sprintf(", %d times", r.Count)
		}
		fmt.Fprintf(out, "    %s ago: %s: %s in %s%s\n", ageOf(r.Ended, now), r.Request, r.Result,
			r.Duration.Round(time.Millisecond), often)
	}
}

func describeService(out io.Writer, service *v1.Service, now time.Time) {
	fmt.Fprintf(out, "Service %s/%s, type %s, %s old\n", service.Namespace, service.Name,
		service.Spec.Type, ageOf(service.CreationTimestamp.Time, now))
	var addresses []string
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		addresses = append(addresses, cmp.Or(ingress.IP, ingress.Hostname))
	}
	fmt.Fprintf(out, "Addresses: %s\n", cmp.Or(strings.Join(addresses, ", "), "none"))
	for _, c := range service.Status.Conditions {
		stale := ""
		if c.ObservedGeneration != 0 && c.ObservedGeneration != service.Generation {
			stale = " (of an older version of the Service)"
		}
		fmt.Fprintf(out, "Condition %s: %s for %s%s: %s: %s\n", c.Type, c.Status,
			ageOf(c.LastTransitionTime.Time, now), stale, c.Reason, c.Message)
	}
}

func describeEvents(out io.Writer, events []v1.Event, now time.Time) {
	fmt.Fprintf(out, "\nEvents: %d, newest first\n", len(events))
	for _, e := range events[:min(len(events), maxEvents)] {
		fmt.Fprintf(out, "  %s ago, %s %s: %s\n", ageOf(lastOf(e), now), e.Type, e.Reason,
			e.Message)
	}
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/example/migrate"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

const describeAbout = `Print why a Service of type LoadBalancer is as it is: its addresses, conditions and events, what the running CCM
reports about it, its calls in flight and its last requests to OpenStack, the desired objects, the observed ones,
and the requests that would make them equal.

Usage:
  fxccm describe service [namespace/]name
  fxccm describe service [namespace/]name --cloud-config=cloud.conf

Nothing is changed. The running CCM is asked as by "fxccm status". Without --cloud-config, OpenStack is not asked.
`

// maxEvents is how many events of a Service are printed.
const maxEvents = 10

// describeLine is the command line of "fxccm describe".
type describeLine struct {
	// plan reads the Service, the nodes and the cloud. status reads from the running replicas.
	plan      *planLine
	status    *statusLine
	namespace string
	help      bool

	flags *pflag.FlagSet
}

func newDescribeLine() *describeLine {
	d := &describeLine{
		plan: newPlanLine(), status: newStatusLine(),
		flags: pflag.NewFlagSet("fxccm describe", pflag.ContinueOnError),
	}
	d.flags.Usage = func() {}
	for _, name := range []string{
		"kubeconfig", "cloud-config", "cloud-config-strict", "cluster-name",
	} {
		d.flags.AddFlag(d.plan.flags.Lookup(name))
	}
	d.flags.Lookup("kubeconfig").Usage = kubeconfigUsage
	d.flags.Lookup("cloud-config").Usage = "The cloud.conf, to compare the Service with the objects in OpenStack."
	for _, name := range []string{
		"selector", "port", "server", "server-ca", "insecure-skip-tls-verify",
	} {
		d.flags.AddFlag(d.status.flags.Lookup(name))
	}
	pods := *d.status.flags.Lookup("namespace")
	pods.Name, pods.Shorthand = "ccm-namespace", "" // --namespace is the namespace of the Service
	d.flags.AddFlag(&pods)
	d.flags.StringVarP(&d.namespace, "namespace", "n", "",
		"The namespace of the Service, unless its name is given with one. (default \"default\")")
	d.flags.BoolVarP(&d.help, "help", "h", false, "Show this help and exit.")
	return d
}

func (d *describeLine) parse(args []string) error {
	if err := d.flags.Parse(args); err != nil || d.help {
		return err
	}
	switch args := d.flags.Args(); {
	case len(args) != 2 || !slices.Contains([]string{"service", "services", "svc"}, args[0]):
		return fmt.Errorf("want the word service and the name of one, got %q", args)
	case d.namespace != "" && strings.Contains(args[1], "/"):
		return fmt.Errorf("--namespace is given, and so is the namespace in %q", args[1])
	case d.namespace != "":
		d.plan.service = d.namespace + "/" + args[1]
	default:
		d.plan.service = args[1]
	}
	return nil
}

// runDescribe is "fxccm describe" from its arguments to its exit code.
func runDescribe(args []string, stdout, stderr io.Writer) int {
	line := newDescribeLine()
	return subcommand{
		name: "describe", about: describeAbout, flags: line.flags, parse: line.parse,
		run: func(ctx context.Context, stdout, _ io.Writer) error { return line.run(ctx, stdout) },
	}.main(args, stdout, stderr)
}

// run prints the report of each source. If a source fails, the others are still printed.
func (d *describeLine) run(ctx context.Context, stdout io.Writer) error {
	cluster, err := migrate.Connect(d.plan.kubeconfig)
	if err != nil {
		return err
	}
	service, err := readService(ctx, cluster, d.plan.service)
	if err != nil {
		return err
	}
	var out strings.Builder
	describeService(&out, service, time.Now())
	failed := describeEvents(ctx, &out, cluster, service, time.Now())
	d.describeRunning(ctx, &out, cluster, service, time.Now())
	compared := d.describeDifference(ctx, &out, cluster, service)
	_, writing := io.WriteString(stdout, printable(out.String()))
	return errors.Join(failed, compared, writing)
}

// describeDifference compares the Service with OpenStack.
func (d *describeLine) describeDifference(
	ctx context.Context, out io.Writer, cluster *migrate.Cluster, service *v1.Service,
) error {
	if d.plan.cloudConfig == "" {
		fmt.Fprintf(out, "\nDesired and observed objects in OpenStack: give --cloud-config\n")
		return nil
	}
	loaded, err := cloudconf.Load(d.plan.cloudConfig,
		cloudconf.Options{Strict: d.plan.strict, Environment: os.Getenv})
	if err != nil {
		return err
	}
	input := openstack.PreviewInput{
		Config: loaded.Config, ClusterName: d.plan.clusterName, Service: service,
		Logger: logr.Discard(),
	}
	if err := d.plan.complete(ctx, cluster, &input); err != nil {
		return err
	}
	preview, err := openstack.Preview(ctx, input)
	if err != nil {
		return err
	}
	describeObjects(out, "Desired", preview.Desired)
	describeObjects(out, "Observed", preview.Observed)
	fmt.Fprintf(out, "\nDifference in OpenStack, with %d nodes\n%s", len(input.Nodes), preview)
	return nil
}

func describeObjects(out io.Writer, title string, lines []string) {
	if len(lines) == 0 {
		lines = []string{"none"}
	}
	fmt.Fprintf(out, "\n%s in OpenStack\n  %s\n", title, strings.Join(lines, "\n  "))
}

func describeRequests(out io.Writer, requests []ccm.CloudRequest, now time.Time) {
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

func describeEvents(
	ctx context.Context, out io.Writer, client kubernetes.Interface, service *v1.Service,
	now time.Time,
) error {
	list, err := client.CoreV1().Events(service.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.Set{
			"involvedObject.kind": "Service", "involvedObject.uid": string(service.UID),
		}.String(),
	})
	if err != nil {
		return fmt.Errorf("list the events: %w", err)
	}
	last := func(e v1.Event) time.Time {
		if e.LastTimestamp.IsZero() {
			return e.EventTime.Time
		}
		return e.LastTimestamp.Time
	}
	slices.SortFunc(list.Items, func(a, b v1.Event) int { return last(b).Compare(last(a)) })
	fmt.Fprintf(out, "\nEvents: %d, newest first\n", len(list.Items))
	for _, e := range list.Items[:min(len(list.Items), maxEvents)] {
		fmt.Fprintf(out, "  %s ago, %s %s: %s\n", ageOf(last(e), now), e.Type, e.Reason, e.Message)
	}
	return nil
}

// describeRunning prints the leading replica's report about a Service.
func (d *describeLine) describeRunning(
	ctx context.Context, out io.Writer, cluster *migrate.Cluster, service *v1.Service,
	now time.Time,
) {
	status, err := d.status.read(ctx, cluster)
	if err != nil {
		fmt.Fprintf(out, "\nThe running CCM: unknown: %v\n", err)
		return
	}
	var reasons []string
	for _, r := range status.Replicas {
		if r.Status.State != ccm.StateLeading {
			reasons = append(reasons, r.Name+": "+cmp.Or(r.Error, string(r.Status.State)))
			continue
		}
		fmt.Fprintf(out, "\nThe running CCM: %s leads in term %d\n", r.Name, r.Status.Term)
		for _, lb := range r.Status.LoadBalancers {
			if lb.Namespace != service.Namespace || lb.Service != service.Name {
				continue
			}
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
		for _, a := range r.Status.Running {
			if a.Object == service.Namespace+"/"+service.Name {
				fmt.Fprintf(out, "  in flight for %s: %s\n", ageOf(a.Since, now), a.Name)
			}
		}
		return
	}
	fmt.Fprintf(out, "\nThe running CCM: no replica leads: %s\n", strings.Join(reasons, "; "))
}

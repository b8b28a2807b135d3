package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	servicehelper "k8s.io/cloud-provider/service/helpers"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/cmd/fxccm/cli"
	"github.com/fxccm/fxccm/cmd/fxccm/migrate"
	"github.com/fxccm/fxccm/internal/configfile"
	"github.com/fxccm/fxccm/internal/servicelb"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

const planAbout = `Print the requests that fxccm would send to OpenStack for a Service of type LoadBalancer, and send none.

The Service and the nodes come from the cluster, or from files as "kubectl get -o yaml" writes them. The file
overrides a Service of the cluster.`

const planExample = `  fxccm plan --cloud-config=cloud.conf service/web -n shop
  fxccm plan --cloud-config=cloud.conf shop/web
  fxccm plan --cloud-config=cloud.conf --all

  # Without a cluster
  fxccm plan --cloud-config=cloud.conf --cluster-uid=UID --service-file=service.yaml --node-file=nodes.yaml`

// comparison is the part of a command line that compares Services with OpenStack.
type comparison struct {
	cloudConfig, clusterName, clusterCIDR, nodeSelector string
	strict, defaultLoadBalancer                         bool
	loadBalancerClasses                                 []string
}

func (c *comparison) addFlags(set *pflag.FlagSet, cloudConfigUsage string) {
	cli.AddFlags(set, "Flags of the CCM", func(set *pflag.FlagSet) {
		c.ccmFlags(set, cloudConfigUsage)
	})
}

func (c *comparison) ccmFlags(set *pflag.FlagSet, cloudConfigUsage string) {
	set.StringVar(&c.cloudConfig, "cloud-config", "", cloudConfigUsage)
	set.BoolVar(&c.strict, "cloud-config-strict", true,
		"Unknown keys in the cloud.conf are errors.")
	set.StringVar(&c.clusterName, "cluster-name", "kubernetes",
		"The --cluster-name of the cloud controller manager.")
	set.StringVar(&c.clusterCIDR, "cluster-cidr", "",
		"The --cluster-cidr of the cloud controller manager, if it serves routes.")
	set.StringVar(&c.nodeSelector, "node-selector", "",
		"The --node-selector of the cloud controller manager.")
	set.BoolVar(&c.defaultLoadBalancer, "default-load-balancer", true,
		"The --default-load-balancer of the cloud controller manager.")
	set.StringSliceVar(&c.loadBalancerClasses, "load-balancer-classes", nil,
		"The --load-balancer-classes of the cloud controller manager.")
}

// classes are those that the CCM serves.
func (c *comparison) classes() servicelb.Classes {
	return servicelb.Classes{Default: c.defaultLoadBalancer, Names: c.loadBalancerClasses}
}

// unserved says why the CCM does not serve a Service of type LoadBalancer, or does not clean up
// after one of another type; "" if it does, or if there is nothing to clean up.
func (c *comparison) unserved(service *v1.Service) string {
	switch class := service.Spec.LoadBalancerClass; {
	case c.classes().Serves(service):
		return ""
	case service.Spec.Type != v1.ServiceTypeLoadBalancer:
		if servicehelper.HasLBFinalizer(service) {
			return "is not of type LoadBalancer, and its load balancer was not of a served class"
		}
		return ""
	case class == nil:
		return "has no load balancer class, and --default-load-balancer is false"
	default:
		return fmt.Sprintf("has the load balancer class %s, which is not in "+
			"--load-balancer-classes", *class)
	}
}

// planLine is the command line of "fxccm plan".
type planLine struct {
	cli.Access
	cli.Output
	comparison
	serviceFile, nodeFile, clusterUID, namespace string
	all                                          bool
	// service is the argument.
	service string
}

// newPlanCommand is "fxccm plan".
func newPlanCommand() *cobra.Command {
	p := &planLine{}
	cmd := &cobra.Command{
		Use:   "plan [service/]NAME | NAMESPACE/NAME | --all | --service-file=FILE",
		Short: "Print the requests that fxccm would send for a Service, and send none",
		Long:  planAbout, Example: planExample, DisableFlagsInUseLine: true,
		ValidArgsFunction: services,
		RunE: cli.UntilSignal(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if err := p.check(args); err != nil {
				return err
			}
			return p.run(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
		}),
	}
	set := cmd.Flags()
	p.Access.AddFlags(set)
	set.Lookup("kubeconfig").Usage += " Not needed with all flags in place of the cluster."
	p.comparison.addFlags(set, "The cloud.conf.")
	cli.AddFlags(set, "Flags in place of the cluster", p.addFileFlags)
	set.BoolVar(&p.all, "all", false, "All Services of type LoadBalancer, in a table.")
	addServiceNamespace(set, &p.namespace)
	set.Lookup("namespace").Usage += " With --all: only its Services; default: those of all namespaces."
	p.Output.AddFlag(set, "text")
	return cmd
}

func (p *planLine) addFileFlags(set *pflag.FlagSet) {
	set.StringVar(&p.serviceFile, "service-file", "",
		"A file with the Service, instead of its name.")
	set.StringVar(&p.nodeFile, "node-file", "",
		"A file with the nodes, as one list or several documents. Default: those of the cluster.")
	set.StringVar(&p.clusterUID, "cluster-uid", "",
		"The UID of the namespace kube-system. Default: that of the cluster.")
}

func addServiceNamespace(set *pflag.FlagSet, namespace *string) {
	cli.AddFlags(set, cli.ClusterFlags, func(set *pflag.FlagSet) {
		set.StringVarP(namespace, "namespace", "n", "",
			"The namespace of the Service. Default: that of the kubeconfig's context.")
	})
}

// serviceName reads a Service's name as kubectl does, with or without its kind, or as
// namespace/name. "" is the namespace of the context.
func serviceName(args []string, namespace string) (_, name string, err error) {
	if len(args) == 2 && isServiceKind(args[0]) {
		args = args[1:]
	}
	if len(args) != 1 {
		return "", "", cli.Usagef("want the name of one Service, got %q", args)
	}
	before, name, isPair := strings.Cut(args[0], "/")
	switch {
	case !isPair:
		name = before
	case isServiceKind(before) && !strings.Contains(name, "/"):
	case isServiceKind(before):
		return serviceName([]string{name}, namespace)
	case namespace != "" && namespace != before:
		return "", "", cli.Usagef("--namespace=%s is given, and %q has another namespace",
			namespace, args[0])
	default:
		namespace = before
	}
	if name == "" || strings.Contains(name, "/") || isPair && before == "" {
		return "", "", cli.Usagef("%q is not the name of a Service", args[0])
	}
	return namespace, name, nil
}

func isServiceKind(word string) bool {
	return slices.Contains([]string{"service", "services", "svc"}, strings.ToLower(word))
}

// check reads the arguments. The error is a usage error.
func (p *planLine) check(args []string) (err error) {
	switch {
	case p.cloudConfig == "":
		return cli.Usagef("--cloud-config must be given")
	case p.all && len(args) > 0, p.all && p.serviceFile+p.nodeFile != "":
		return cli.Usagef("--all takes no Service and no files")
	case !p.all && len(args) == 0 && p.serviceFile == "":
		return cli.Usagef("want the name of a Service, --service-file or --all")
	case len(args) > 0 && p.serviceFile != "":
		return cli.Usagef("want the name of a Service or --service-file, and not both")
	}
	if len(args) > 0 {
		if p.namespace, p.service, err = serviceName(args, p.namespace); err != nil {
			return err
		}
	}
	if err := checkSelector("--node-selector", p.nodeSelector); err != nil {
		return err
	}
	return p.Output.Check()
}

// needsCluster reports whether the files and flags are incomplete.
func (p *planLine) needsCluster() bool {
	return p.Kubeconfig+p.Context != "" || p.serviceFile == "" || p.nodeFile == "" ||
		p.clusterUID == ""
}

func (p *planLine) run(ctx context.Context, stdout, stderr io.Writer) error {
	config, err := p.load(stderr)
	if err != nil {
		return err
	}
	if p.all {
		return p.runAll(ctx, config, stdout)
	}
	input, err := p.read(ctx)
	if err != nil {
		return err
	}
	if notice := p.unserved(input.Service); notice != "" {
		return p.printNotice(stdout, input.Service, notice)
	}
	input.Config, input.Logger = config, logr.Discard()
	input.ClusterName, input.ClusterCIDR = p.clusterName, p.clusterCIDR
	preview, err := openstack.Preview(ctx, input)
	if err != nil {
		return err
	}
	if input.Service.Spec.Type != v1.ServiceTypeLoadBalancer && len(preview.Steps) == 0 {
		return p.printNotice(stdout, input.Service, "is not of type LoadBalancer")
	}
	plan := migrate.NewServicePlan(input.Service, preview, nil)
	return p.Print(stdout, plan, func(out io.Writer) error {
		_, err = fmt.Fprintf(out, "Service %s, %d nodes\n%s", plan.Service, len(input.Nodes),
			cli.Printable(preview.String()))
		return err
	})
}

// printNotice prints why there is no plan for a Service.
func (p *planLine) printNotice(stdout io.Writer, service *v1.Service, notice string) error {
	plan := migrate.NewServicePlan(service,
		openstack.LoadBalancerPreview{Notices: []string{"The Service " + notice + "."}}, nil)
	return p.Print(stdout, plan, func(out io.Writer) error {
		_, err := fmt.Fprintf(out, "Service %s %s.\n", plan.Service, notice)
		return err
	})
}

// flags are those of the CCM that the plan depends on.
func (c *comparison) flags() ccm.Config {
	return ccm.Config{
		ClusterName: c.clusterName, ClusterCIDR: c.clusterCIDR,
		ConfigureCloudRoutes: c.clusterCIDR != "",
	}
}

// load reads the cloud.conf. Its warnings go to stderr.
func (c *comparison) load(stderr io.Writer) (cloudconf.Config, error) {
	loaded, err := cloudconf.Load(c.cloudConfig,
		cloudconf.Options{Strict: c.strict, Environment: os.Getenv})
	if err != nil {
		return cloudconf.Config{}, err
	}
	for _, warning := range loaded.Warnings {
		_, _ = fmt.Fprintln(stderr, "warning: "+warning.String())
	}
	return loaded.Config, nil
}

// runAll previews all Services of the cluster with one login. It fails if one cannot be previewed.
func (p *planLine) runAll(ctx context.Context, config cloudconf.Config, stdout io.Writer) error {
	cluster, err := p.Connect()
	if err != nil {
		return err
	}
	world, err := migrate.ReadWorld(ctx, cluster, p.nodeSelector, p.classes())
	if err != nil {
		return err
	}
	if p.clusterUID != "" {
		world.UID = p.clusterUID
	}
	plans, err := migrate.PlanServices(ctx, config, p.flags(), p.namespace, world)
	if err != nil {
		return err
	}
	if err := p.Print(stdout, plans, plans.WriteTable); err != nil {
		return err
	}
	hasFailed := func(plan migrate.ServicePlan) bool { return plan.Outcome == migrate.Failed }
	if slices.ContainsFunc(plans, hasFailed) {
		return &cli.ExitError{Code: exitFailed}
	}
	return nil
}

// read reads the Service and the nodes from the given files, and the rest from the cluster.
func (p *planLine) read(ctx context.Context) (openstack.PreviewInput, error) {
	in := openstack.PreviewInput{ClusterUID: p.clusterUID}
	if p.serviceFile != "" {
		services, err := fromFile[v1.Service](p.serviceFile, "Service")
		if err != nil {
			return in, err
		}
		if len(services) != 1 {
			return in, fmt.Errorf("%s holds %d Services, want one", p.serviceFile, len(services))
		}
		in.Service = services[0]
		if given := in.Service.Namespace; given != "" && p.namespace != "" && given != p.namespace {
			return in, fmt.Errorf("--namespace=%s is given, and the Service of %s is in namespace "+
				"%s", p.namespace, p.serviceFile, given)
		}
		in.Service.Namespace = cmp.Or(in.Service.Namespace, p.namespace, metav1.NamespaceDefault)
	}
	if p.nodeFile != "" {
		nodes, err := fromFile[v1.Node](p.nodeFile, "Node")
		if err != nil {
			return in, err
		}
		in.Nodes = nodes
	}
	if !p.needsCluster() {
		return in, nil
	}
	cluster, err := p.Connect()
	if err != nil {
		return in, err
	}
	in.EndpointSlices = migrate.EndpointSlices(cluster)
	if in.Service == nil {
		in.Service, err = readService(ctx, cluster, p.namespace, p.service)
	} else if in.Service.UID == "" {
		err = adopt(ctx, cluster, in.Service)
	}
	if err != nil {
		return in, err
	}
	if in.ClusterUID == "" {
		if in.ClusterUID, err = migrate.ReadUID(ctx, cluster); err != nil {
			return in, err
		}
	}
	if p.nodeFile == "" {
		in.Nodes, err = migrate.ReadNodes(ctx, cluster, p.nodeSelector)
	}
	return in, err
}

// readService reads a Service. Without a namespace, it is in that of the context.
func readService(
	ctx context.Context, cluster *cli.Cluster, namespace, name string,
) (*v1.Service, error) {
	service, err := cluster.CoreV1().Services(cmp.Or(namespace, cluster.Namespace)).Get(ctx, name,
		metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the Service: %w", err)
	}
	return service, nil
}

// adopt completes a Service of a file with what identifies its load balancer, if the cluster has
// the Service.
func adopt(ctx context.Context, client kubernetes.Interface, service *v1.Service) error {
	there, err := client.CoreV1().Services(service.Namespace).Get(ctx, service.Name,
		metav1.GetOptions{})
	switch {
	case err == nil:
		service.UID, service.CreationTimestamp, service.Status = there.UID,
			there.CreationTimestamp, there.Status
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read the Service: %w", err)
	}
	return nil
}

// maxObjectBytes limits a file of objects: "kubectl get nodes -o yaml" of 5,000 nodes has 100 MB.
const maxObjectBytes = 256 << 20

// fromFile reads the objects of a kind: YAML or JSON, several documents or a list.
func fromFile[T any](path, kind string) ([]*T, error) {
	content, err := configfile.ReadUpTo(path, maxObjectBytes)
	if err != nil {
		return nil, err
	}
	var found []*T
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		var raw runtime.RawExtension
		switch err := documents.Decode(&raw); {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(raw.Raw) == 0 || string(raw.Raw) == "null" {
			continue
		}
		objects, err := decoded(raw.Raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, object := range objects {
			wanted, ok := any(object).(*T)
			if !ok {
				return nil,
					fmt.Errorf("%s holds a %s, want %s", path,
						object.GetObjectKind().GroupVersionKind().Kind, kind)
			}
			found = append(found, wanted)
		}
	}
}

// decoded returns the objects of a document: those of its list, or the single one.
func decoded(document []byte) ([]runtime.Object, error) {
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
	if err != nil {
		return nil, err
	}
	switch list := object.(type) {
	case *v1.List:
		var objects []runtime.Object
		for _, item := range list.Items {
			inner, err := decoded(item.Raw)
			if err != nil {
				return nil, err
			}
			objects = append(objects, inner...)
		}
		return objects, nil
	case *v1.NodeList:
		var objects []runtime.Object
		for i := range list.Items {
			objects = append(objects, &list.Items[i])
		}
		return objects, nil
	}
	return []runtime.Object{object}, nil
}

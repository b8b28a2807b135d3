package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/fxccm/fxccm/example/migrate"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

const planAbout = `Print the requests that fxccm would send to OpenStack for a Service of type LoadBalancer, and send none.

Usage:
  fxccm plan --cloud-config=cloud.conf [namespace/]service
  fxccm plan --cloud-config=cloud.conf --all
  fxccm plan --cloud-config=cloud.conf --service-file=service.yaml
  fxccm plan --cloud-config=cloud.conf --cluster-uid=UID --service-file=service.yaml --node-file=nodes.yaml

The Service and the nodes come from the cluster, or from files as "kubectl get -o yaml" writes them. The file
overrides a Service of the cluster.
`

// planLine is the command line of "fxccm plan".
type planLine struct {
	cloudConfig, kubeconfig, serviceFile, nodeFile string
	clusterName, clusterUID                        string
	strict, help, all                              bool
	service, output                                string

	flags *pflag.FlagSet
}

func newPlanLine() *planLine {
	p := &planLine{flags: pflag.NewFlagSet("fxccm plan", pflag.ContinueOnError)}
	p.flags.Usage = func() {}
	p.flags.StringVar(&p.cloudConfig, "cloud-config", "", "The cloud.conf.")
	p.flags.BoolVar(&p.strict, "cloud-config-strict", true,
		"Unknown keys in the cloud.conf are errors.")
	p.flags.StringVar(&p.kubeconfig, "kubeconfig", "",
		kubeconfigUsage+" Not needed if --service-file, --node-file and --cluster-uid are given.")
	p.flags.StringVar(&p.serviceFile, "service-file", "",
		"A file with the Service, instead of its name.")
	p.flags.StringVar(&p.nodeFile, "node-file", "",
		"A file with the nodes, as one list or several documents. Default: those of the cluster.")
	p.flags.StringVar(&p.clusterName, "cluster-name", "kubernetes",
		"The --cluster-name of the cloud controller manager.")
	p.flags.StringVar(&p.clusterUID, "cluster-uid", "",
		"The UID of the namespace kube-system. Default: that of the cluster.")
	p.flags.BoolVar(&p.all, "all", false, "All Services of type LoadBalancer, in a table.")
	p.flags.StringVarP(&p.output, "output", "o", "", "With --all: json. Empty: a table.")
	p.flags.BoolVarP(&p.help, "help", "h", false, "Show this help and exit.")
	return p
}

func (p *planLine) parse(args []string) error {
	if err := p.flags.Parse(args); err != nil || p.help {
		return err
	}
	if p.flags.NArg() > 1 {
		return fmt.Errorf("want one Service, got %q", p.flags.Args())
	}
	p.service = p.flags.Arg(0)
	switch {
	case p.cloudConfig == "":
		return errors.New("--cloud-config must be given")
	case p.output != "" && (p.output != "json" || !p.all):
		return fmt.Errorf("--output=%s is not supported: want json, with --all", p.output)
	case p.all && p.service+p.serviceFile+p.nodeFile != "":
		return errors.New("--all takes no Service and no files")
	case p.all:
		return nil
	case (p.service == "") == (p.serviceFile == ""):
		return errors.New("want the name of a Service or --service-file, and not both")
	}
	return nil
}

// needsCluster reports whether the files and flags are incomplete.
func (p *planLine) needsCluster() bool {
	return p.kubeconfig != "" || p.serviceFile == "" || p.nodeFile == "" || p.clusterUID == ""
}

// runPlan is "fxccm plan" from its arguments to its exit code.
func runPlan(args []string, stdout, stderr io.Writer) int {
	line := newPlanLine()
	return subcommand{
		name: "plan", about: planAbout, flags: line.flags, parse: line.parse,
		run: line.run,
	}.main(args, stdout, stderr)
}

func (p *planLine) run(ctx context.Context, stdout, stderr io.Writer) error {
	loaded, err := cloudconf.Load(p.cloudConfig,
		cloudconf.Options{Strict: p.strict, Environment: os.Getenv})
	if err != nil {
		return err
	}
	for _, warning := range loaded.Warnings {
		_, _ = fmt.Fprintln(stderr, "fxccm plan: warning: "+warning.String())
	}
	if p.all {
		return p.runAll(ctx, loaded.Config, stdout)
	}
	input, err := p.read(ctx)
	if err != nil {
		return err
	}
	input.Config, input.ClusterName, input.Logger = loaded.Config, p.clusterName, logr.Discard()
	preview, err := openstack.Preview(ctx, input)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "Service %s/%s, %d nodes\n%s", input.Service.Namespace,
		input.Service.Name, len(input.Nodes), preview)
	return err
}

// runAll previews all Services of the cluster with one login.
func (p *planLine) runAll(ctx context.Context, config cloudconf.Config, stdout io.Writer) error {
	cluster, err := migrate.Connect(p.kubeconfig)
	if err != nil {
		return err
	}
	world, err := cluster.Read(ctx)
	if err != nil {
		return err
	}
	if p.clusterUID != "" {
		world.UID = p.clusterUID
	}
	plans, err := migrate.PlanServices(ctx, config, p.clusterName, world)
	if err != nil {
		return err
	}
	if p.output == "json" {
		return plans.WriteJSON(stdout)
	}
	return plans.WriteTable(stdout)
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
		if in.Service.Namespace == "" {
			in.Service.Namespace = metav1.NamespaceDefault
		}
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
	cluster, err := migrate.Connect(p.kubeconfig)
	if err != nil {
		return in, err
	}
	return in, p.complete(ctx, cluster, &in)
}

// readService reads a Service by its [namespace/]name.
func readService(
	ctx context.Context, client kubernetes.Interface, reference string,
) (*v1.Service, error) {
	namespace, name, found := strings.Cut(reference, "/")
	if !found {
		namespace, name = metav1.NamespaceDefault, reference
	}
	service, err := client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the Service: %w", err)
	}
	return service, nil
}

// complete reads missing input from the cluster.
func (p *planLine) complete(
	ctx context.Context, client kubernetes.Interface, in *openstack.PreviewInput,
) (err error) {
	if in.ClusterUID == "" {
		namespace, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem,
			metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read the UID of namespace %s: %w", metav1.NamespaceSystem, err)
		}
		in.ClusterUID = string(namespace.UID)
	}
	if in.Service == nil {
		if in.Service, err = readService(ctx, client, p.service); err != nil {
			return err
		}
	} else if in.Service.UID == "" {
		// The UID of the Service in the cluster identifies the load balancer.
		there, err := client.CoreV1().Services(in.Service.Namespace).Get(ctx, in.Service.Name,
			metav1.GetOptions{})
		switch {
		case err == nil:
			in.Service.UID, in.Service.CreationTimestamp, in.Service.Status = there.UID,
				there.CreationTimestamp, there.Status
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("read the Service: %w", err)
		}
	}
	if p.nodeFile != "" {
		return nil
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	for i := range nodes.Items {
		in.Nodes = append(in.Nodes, &nodes.Items[i])
	}
	return nil
}

// fromFile reads the objects of a kind: YAML or JSON, several documents or a list.
func fromFile[T any](path, kind string) ([]*T, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var found []*T
	documents := yaml.NewYAMLOrJSONDecoder(file, 4096)
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

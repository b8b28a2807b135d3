package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/ccm"
)

const statusAbout = `Print the state of the running replicas: the leader, its term, controllers, load balancers, waiting nodes and
calls in flight.

Usage:
  fxccm status --kubeconfig=admin.conf
  fxccm status --kubeconfig=admin.conf --server=https://10.0.0.5:10258 --server-ca=serving-ca.crt

Without --server, a port is forwarded to each pod of --selector, as "kubectl port-forward" does. The credentials of the
kubeconfig are sent to the secure port, which must let them get /statusz.
`

const (
	// statusTimeout is for one replica.
	statusTimeout = 15 * time.Second
	watchInterval = 2 * time.Second
	// clearScreen moves the cursor of a terminal to the top, and clears what is below.
	clearScreen = "\x1b[H\x1b[J"
)

// statusLine is the command line of "fxccm status".
type statusLine struct {
	kubeconfig, namespace, selector, lease string
	servers                                []string
	serverCA, output                       string
	port                                   uint16
	insecure, watch, help                  bool

	flags *pflag.FlagSet
}

func newStatusLine() *statusLine {
	s := &statusLine{flags: pflag.NewFlagSet("fxccm status", pflag.ContinueOnError)}
	s.flags.Usage = func() {}
	s.flags.StringVar(&s.kubeconfig, "kubeconfig", "", "The kubeconfig of the cluster.")
	s.flags.StringVarP(&s.namespace, "namespace", "n", metav1.NamespaceSystem,
		"The namespace of the pods and of the lease.")
	s.flags.StringVarP(&s.selector, "selector", "l",
		"app.kubernetes.io/name=cloud-controller-manager", "The labels of the pods.")
	s.flags.Uint16Var(&s.port, "port", 10258, "The --secure-port of the pods.")
	s.flags.StringVar(&s.lease, "lease", "cloud-controller-manager", "The name of the lease.")
	s.flags.StringSliceVar(&s.servers, "server", nil,
		"The secure port of a replica, instead of pods; can be repeated.")
	s.flags.StringVar(&s.serverCA, "server-ca", "",
		"A file with the CA of --server. Default: the CAs of this machine.")
	s.flags.BoolVar(&s.insecure, "insecure-skip-tls-verify", false,
		"Send the credentials to --server without a check of its certificate.")
	s.flags.StringVarP(&s.output, "output", "o", "", "json. Empty: tables.")
	s.flags.BoolVarP(&s.watch, "watch", "w", false, "Print again when something changes.")
	s.flags.BoolVarP(&s.help, "help", "h", false, "Show this help and exit.")
	return s
}

func (s *statusLine) parse(args []string) error {
	if err := s.flags.Parse(args); err != nil || s.help {
		return err
	}
	switch {
	case s.flags.NArg() > 0:
		return fmt.Errorf("want flags only, got %q", s.flags.Args())
	case s.kubeconfig == "":
		return errors.New("--kubeconfig must be given")
	case s.output != "" && s.output != "json":
		return fmt.Errorf("--output=%s is not supported: want json", s.output)
	case len(s.servers) == 0 && (s.serverCA != "" || s.insecure):
		return errors.New("--server-ca and --insecure-skip-tls-verify are for --server")
	}
	return nil
}

// runStatus is "fxccm status" from its arguments to its exit code.
func runStatus(args []string, stdout, stderr io.Writer) int {
	line := newStatusLine()
	return subcommand{
		name: "status", about: statusAbout, flags: line.flags, parse: line.parse,
		run: func(ctx context.Context, stdout, _ io.Writer) error { return line.run(ctx, stdout) },
	}.main(args, stdout, stderr)
}

// replica is what one process answered.
type replica struct {
	// Name is that of the pod, or the address of --server.
	Name string `json:"name"`
	// Error is why there is no status.
	Error string `json:"error,omitempty"`
	// Raw is /statusz, and Status the part of it that the tables show.
	Raw    json.RawMessage `json:"status,omitempty"`
	Status ccm.Status      `json:"-"`
}

// leaseStatus is the lease that the replicas share.
type leaseStatus struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Holder    string    `json:"holder,omitempty"`
	Renewed   time.Time `json:"renewed,omitzero"`
	Error     string    `json:"error,omitempty"`
}

// clusterStatus is everything that one call of the command has read.
type clusterStatus struct {
	Lease    leaseStatus `json:"lease"`
	Replicas []replica   `json:"replicas"`
}

func (s *statusLine) run(ctx context.Context, stdout io.Writer) error {
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return fmt.Errorf("read --kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	before := ""
	for {
		status, err := s.read(ctx, config, client)
		if ctx.Err() != nil && s.watch {
			return nil
		}
		if err != nil {
			return err
		}
		text, err := s.text(status)
		if err != nil {
			return err
		}
		if s.watch && isTerminal(stdout) {
			text = clearScreen + text
		}
		if text != before {
			if _, err := io.WriteString(stdout, text); err != nil {
				return err
			}
		}
		if !s.watch {
			return unanswered(status)
		}
		before = text
		select {
		case <-time.After(watchInterval):
		case <-ctx.Done():
			return nil
		}
	}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// unanswered is an error if no replica has answered. The reasons are in the tables.
func unanswered(status clusterStatus) error {
	for _, r := range status.Replicas {
		if r.Error == "" {
			return nil
		}
	}
	return errors.New("no replica has told its state")
}

func (s *statusLine) text(status clusterStatus) (string, error) {
	if s.output == "json" {
		text, err := json.MarshalIndent(status, "", "  ")
		return string(text) + "\n", err
	}
	return statusTables(status, time.Now())
}

func (s *statusLine) read(
	ctx context.Context, config *rest.Config, client kubernetes.Interface,
) (clusterStatus, error) {
	status := clusterStatus{Lease: leaseStatus{Namespace: s.namespace, Name: s.lease}}
	lease, err := client.CoordinationV1().Leases(s.namespace).Get(ctx, s.lease, metav1.GetOptions{})
	if err != nil {
		status.Lease.Error = err.Error()
	} else {
		status.Lease.Holder = ptr.Deref(lease.Spec.HolderIdentity, "")
		status.Lease.Renewed = ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time
	}
	for _, server := range s.servers {
		to := rest.CopyConfig(config)
		to.TLSClientConfig.CAFile, to.TLSClientConfig.Insecure = s.serverCA, s.insecure
		status.Replicas = append(status.Replicas, askReplica(ctx, server, server, to))
	}
	if len(s.servers) > 0 {
		return status, nil
	}
	pods, err := client.CoreV1().Pods(s.namespace).List(ctx,
		metav1.ListOptions{LabelSelector: s.selector})
	if err != nil {
		return status, fmt.Errorf("list the pods: %w", err)
	}
	if len(pods.Items) == 0 {
		return status, fmt.Errorf("no pods in namespace %s have the labels %s", s.namespace,
			s.selector)
	}
	for _, pod := range pods.Items {
		status.Replicas = append(status.Replicas, s.askPod(ctx, config, client, pod))
	}
	return status, nil
}

// askPod asks a pod through a port that is forwarded to it.
func (s *statusLine) askPod(
	ctx context.Context, config *rest.Config, client kubernetes.Interface, pod v1.Pod,
) replica {
	if pod.Status.Phase != v1.PodRunning {
		return replica{Name: pod.Name, Error: "the pod is " + string(pod.Status.Phase)}
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	at := client.CoreV1().RESTClient().Post().Namespace(pod.Namespace).Resource("pods").
		Name(pod.Name).SubResource("portforward").URL()
	port, err := func() (uint16, error) {
		transport, upgrader, err := spdy.RoundTripperFor(config)
		if err != nil {
			return 0, err
		}
		dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)
		ready := make(chan struct{})
		forwarder, err := portforward.NewOnAddressesWithContext(ctx, dialer, []string{"127.0.0.1"},
			[]string{fmt.Sprintf("0:%d", s.port)}, ready, io.Discard, io.Discard)
		if err != nil {
			return 0, err
		}
		failed := make(chan error, 1)
		go func() { failed <- forwarder.ForwardPorts() }()
		select {
		case <-ready:
		case err := <-failed:
			return 0, err
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		ports, err := forwarder.GetPorts()
		if err != nil {
			return 0, err
		}
		return ports[0].Local, nil
	}()
	if err != nil {
		return replica{Name: pod.Name, Error: "forward a port to the pod: " + err.Error()}
	}
	to := rest.CopyConfig(config)
	// The API server and the kubelet vouch for the other end. Its certificate is usually one that
	// the process made for itself.
	to.TLSClientConfig.CAFile, to.TLSClientConfig.Insecure = "", true
	to.Proxy = nil
	return askReplica(ctx, pod.Name, fmt.Sprintf("https://127.0.0.1:%d", port), to)
}

// askReplica reads /statusz of one replica with the credentials of config.
func askReplica(ctx context.Context, name, address string, config *rest.Config) replica {
	r := replica{Name: name}
	if err := r.ask(ctx, address, config); err != nil {
		r.Error = err.Error()
	}
	return r
}

func (r *replica) ask(ctx context.Context, address string, config *rest.Config) error {
	// CAs and names of the API server do not apply.
	config.TLSClientConfig.CAData, config.TLSClientConfig.ServerName = nil, ""
	config.Host, config.APIPath, config.Timeout = address, "", statusTimeout
	config.GroupVersion = &v1.SchemeGroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return err
	}
	if r.Raw, err = client.Get().AbsPath("/statusz").Do(ctx).Raw(); err != nil {
		r.Raw = nil
		switch {
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return fmt.Errorf(`%w; the user needs a ClusterRole with nonResourceURLs ["/statusz"]`, err)
		case errors.As(err, new(*tls.CertificateVerificationError)):
			return fmt.Errorf("%w; see --server-ca", err)
		}
		return err
	}
	if err := json.Unmarshal(r.Raw, &r.Status); err != nil {
		r.Raw = nil
		return fmt.Errorf("%s/statusz is not the status of a CCM: %w", address, err)
	}
	return nil
}

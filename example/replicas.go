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
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"github.com/fxccm/fxccm/example/migrate"
)

const (
	// statusTimeout limits the requests to one replica.
	statusTimeout = 15 * time.Second
	watchInterval = 2 * time.Second
	// clearScreen moves the cursor of a terminal to the top, and clears the lines below.
	clearScreen = "\x1b[H\x1b[J"

	kubeconfigUsage = "The kubeconfig of the cluster. Empty: as kubectl."
)

// replicasLine is the part of a command line that selects the replicas and the output.
type replicasLine struct {
	kubeconfig, namespace, selector string
	servers                         []string
	serverCA, output                string
	port                            uint16
	insecure, watch, help           bool

	flags *pflag.FlagSet
}

// newReplicasLine has the given namespace and labels of the pods as defaults.
func newReplicasLine(command, namespace, selector string) *replicasLine {
	l := &replicasLine{flags: pflag.NewFlagSet(command, pflag.ContinueOnError)}
	l.flags.Usage = func() {}
	l.flags.StringVar(&l.kubeconfig, "kubeconfig", "", kubeconfigUsage)
	l.flags.StringVarP(&l.namespace, "namespace", "n", namespace, "The namespace of the pods.")
	l.flags.StringVarP(&l.selector, "selector", "l", selector, "The labels of the pods.")
	l.flags.Uint16Var(&l.port, "port", 10258, "The --secure-port of the pods.")
	l.flags.StringSliceVar(&l.servers, "server", nil,
		"The secure port of a replica, instead of pods; can be repeated.")
	l.flags.StringVar(&l.serverCA, "server-ca", "",
		"A file with the CA of --server. Default: the CAs of this machine.")
	l.flags.BoolVar(&l.insecure, "insecure-skip-tls-verify", false,
		"Send the credentials to --server without a check of its certificate.")
	l.flags.StringVarP(&l.output, "output", "o", "", "json. Empty: tables.")
	l.flags.BoolVarP(&l.watch, "watch", "w", false,
		"Print again when something other than an age changes; on a terminal, always.")
	l.flags.BoolVarP(&l.help, "help", "h", false, "Show this help and exit.")
	return l
}

func (l *replicasLine) parse(args []string) error {
	if err := l.flags.Parse(args); err != nil || l.help {
		return err
	}
	switch {
	case l.flags.NArg() > 0:
		return fmt.Errorf("want flags only, got %q", l.flags.Args())
	case l.output != "" && l.output != "json":
		return fmt.Errorf("--output=%s is not supported: want json", l.output)
	case len(l.servers) == 0 && (l.serverCA != "" || l.insecure):
		return errors.New("--server-ca and --insecure-skip-tls-verify are for --server")
	}
	return nil
}

// A snapshot is the state that a command has read, and can be printed as JSON or as tables.
type snapshot interface {
	// tables omits ages if now is the zero time.
	tables(now time.Time) (string, error)
	// answered reports whether at least one replica has answered.
	answered() bool
}

// print reads and prints a snapshot: once, or with --watch after each change until ctx ends.
func (l *replicasLine) print(
	ctx context.Context, stdout io.Writer, read func(context.Context) (snapshot, error),
) error {
	shown, clear := "", ""
	if l.watch && isTerminal(stdout) {
		clear = clearScreen
	}
	for {
		status, err := read(ctx)
		if ctx.Err() != nil && l.watch {
			return nil
		}
		if err != nil {
			return err
		}
		text, err := l.text(status)
		if err != nil {
			return err
		}
		ageless, err := status.tables(time.Time{})
		if err != nil {
			return err
		}
		if ageless != shown || clear != "" {
			if _, err := io.WriteString(stdout, clear+text); err != nil {
				return err
			}
		}
		if !l.watch {
			if !status.answered() { // the reasons are in the tables
				return errors.New("no replica has told its state")
			}
			return nil
		}
		shown = ageless
		select {
		case <-time.After(watchInterval):
		case <-ctx.Done():
			return nil
		}
	}
}

func (l *replicasLine) text(status snapshot) (string, error) {
	if l.output == "json" {
		text, err := json.MarshalIndent(status, "", "  ")
		return string(text) + "\n", err
	}
	return status.tables(time.Now())
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// A replica is the answer of one process. S is the part of it that the tables show.
type replica[S any] struct {
	// Name is the name of the pod, or the address of --server.
	Name string `json:"name"`
	// Error is why there is no status.
	Error string `json:"error,omitempty"`
	// Raw is the content of /statusz.
	Raw    json.RawMessage `json:"status,omitempty"`
	Status S               `json:"-"`
}

func anyAnswered[S any](replicas []replica[S]) bool {
	for _, r := range replicas {
		if r.Error == "" {
			return true
		}
	}
	return false
}

// askReplicas reads from the servers, or otherwise from the pods.
func askReplicas[S any](
	ctx context.Context, l *replicasLine, cluster *migrate.Cluster,
) (all []replica[S], err error) {
	for _, server := range l.servers {
		to := rest.CopyConfig(cluster.Config)
		to.TLSClientConfig.CAFile, to.TLSClientConfig.Insecure = l.serverCA, l.insecure
		all = append(all, askReplica[S](ctx, server, server, to))
	}
	if len(l.servers) > 0 {
		return all, nil
	}
	pods, err := cluster.CoreV1().Pods(l.namespace).List(ctx,
		metav1.ListOptions{LabelSelector: l.selector})
	if err != nil {
		return nil, fmt.Errorf("list the pods: %w", err)
	}
	if len(pods.Items) == 0 {
		return nil, fmt.Errorf("no pods in namespace %s have the labels %s", l.namespace,
			l.selector)
	}
	for _, pod := range pods.Items {
		all = append(all, askPod[S](ctx, l.port, cluster, pod))
	}
	return all, nil
}

// askPod reads from a pod through a forwarded port.
func askPod[S any](
	ctx context.Context, securePort uint16, cluster *migrate.Cluster, pod v1.Pod,
) replica[S] {
	if pod.Status.Phase != v1.PodRunning {
		return replica[S]{Name: pod.Name, Error: "the pod is " + string(pod.Status.Phase)}
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	at := cluster.CoreV1().RESTClient().Post().Namespace(pod.Namespace).Resource("pods").
		Name(pod.Name).SubResource("portforward").URL()
	port, err := func() (uint16, error) {
		transport, upgrader, err := spdy.RoundTripperFor(cluster.Config)
		if err != nil {
			return 0, err
		}
		dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)
		ready := make(chan struct{})
		forwarder, err := portforward.NewOnAddressesWithContext(ctx, dialer, []string{"127.0.0.1"},
			[]string{fmt.Sprintf("0:%d", securePort)}, ready, io.Discard, io.Discard)
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
		return replica[S]{Name: pod.Name, Error: "forward a port to the pod: " + err.Error()}
	}
	to := rest.CopyConfig(cluster.Config)
	// The API server and the kubelet authenticate the pod, whose certificate is usually
	// self-signed.
	to.TLSClientConfig.CAFile, to.TLSClientConfig.Insecure = "", true
	to.Proxy = nil
	return askReplica[S](ctx, pod.Name, fmt.Sprintf("https://127.0.0.1:%d", port), to)
}

// askReplica reads /statusz of one replica with the credentials of config.
func askReplica[S any](
	ctx context.Context, name, address string, config *rest.Config,
) replica[S] {
	r := replica[S]{Name: name}
	if err := r.ask(ctx, address, config); err != nil {
		r.Error, r.Raw = err.Error(), nil
	}
	return r
}

func (r *replica[S]) ask(ctx context.Context, address string, config *rest.Config) error {
	// The CA and the server name are those of the API server.
	config.TLSClientConfig.CAData, config.TLSClientConfig.ServerName = nil, ""
	config.Host, config.APIPath, config.Timeout = address, "", statusTimeout
	config.GroupVersion = &v1.SchemeGroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return err
	}
	if r.Raw, err = client.Get().AbsPath("/statusz").Do(ctx).Raw(); err != nil {
		switch {
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return fmt.Errorf(`%w; the user needs a ClusterRole with nonResourceURLs ["/statusz"]`, err)
		case errors.As(err, new(*tls.CertificateVerificationError)):
			return fmt.Errorf("%w; see --server-ca", err)
		}
		return err
	}
	if err := json.Unmarshal(r.Raw, &r.Status); err != nil {
		return fmt.Errorf("%s/statusz is not the expected status: %w", address, err)
	}
	return nil
}

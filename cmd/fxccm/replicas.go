package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
	"github.com/fxccm/fxccm/cmd/fxccm/cli"
	"github.com/fxccm/fxccm/internal/configfile"
)

const (
	// statusTimeout limits the requests to one replica.
	statusTimeout = 15 * time.Second
	watchInterval = 2 * time.Second
	// tokenLifetime is the shortest that the API server accepts.
	tokenLifetime = 10 * time.Minute
	// maxStatusBytes limits the memory that a replica can occupy. The status of 1,000 clusters has
	// about 1 MB.
	maxStatusBytes = 64 << 20
	// clearScreen moves the cursor of a terminal to the top, and clears the lines below.
	clearScreen = "\x1b[H\x1b[J"
)

// replicasLine is the part of a command line that selects the replicas and the output.
type replicasLine struct {
	cli.Access
	cli.Output
	namespace, selector   string
	servers               []string
	serverCA              string
	port                  uint16
	insecure, watch, wide bool
}

// addFlags has the given namespace and labels of the pods as defaults.
func (l *replicasLine) addFlags(set *pflag.FlagSet, namespace, selector string) {
	l.Access.AddFlags(set)
	cli.AddFlags(set, cli.ClusterFlags, func(set *pflag.FlagSet) {
		set.StringVarP(&l.namespace, "namespace", "n", namespace, "The namespace of the pods.")
	})
	l.addPodFlags(set, selector)
	l.Output.AddFlag(set, "tables")
	set.BoolVarP(&l.watch, "watch", "w", false,
		"Print again after each change, except of ages. On a terminal, refresh continuously.")
	set.BoolVar(&l.wide, "wide", false, "Print each row on one line, even if it is wider than the terminal.")
}

func (l *replicasLine) addPodFlags(set *pflag.FlagSet, selector string) {
	cli.AddFlags(set, "Flags of the replicas", func(set *pflag.FlagSet) {
		l.podFlags(set, selector)
	})
}

func (l *replicasLine) podFlags(set *pflag.FlagSet, selector string) {
	set.StringVarP(&l.selector, "selector", "l", selector, "The labels of the pods.")
	set.Uint16Var(&l.port, "port", 10258, "The --secure-port of the pods.")
	// Not a StringSlice: its errors quote the value, which may have a password.
	set.StringArrayVar(&l.servers, "server", nil,
		"The secure port of a replica, as host:port or https URL, instead of pods; can be repeated.")
	set.StringVar(&l.serverCA, "server-ca", "",
		"A file with the CA of --server. Default: the CAs of this machine.")
	set.BoolVar(&l.insecure, "insecure-skip-tls-verify", false,
		"Send the credentials to --server without a check of its certificate.")
}

// check returns a usage error if flags contradict each other.
func (l *replicasLine) check() error {
	if len(l.servers) == 0 && (l.serverCA != "" || l.insecure) {
		return cli.Usagef("--server-ca and --insecure-skip-tls-verify are for --server")
	}
	if l.serverCA != "" && l.insecure {
		return cli.Usagef("give one of --server-ca and --insecure-skip-tls-verify")
	}
	l.servers = strings.Split(strings.Join(l.servers, ","), ",")
	if l.servers[0] == "" && len(l.servers) == 1 {
		l.servers = nil
	}
	for _, server := range l.servers {
		if _, err := serverURL(server); err != nil {
			return err
		}
	}
	if err := checkSelector("--selector", l.selector); err != nil {
		return err
	}
	return l.Output.Check()
}

// checkSelector returns a usage error if the value of a flag is not a label selector.
func checkSelector(flag, value string) error {
	if _, err := labels.Parse(value); err != nil {
		return cli.Usagef("%s=%s is not a label selector: %w", flag, value, err)
	}
	return nil
}

// serverURL is the URL of a --server. The error is a usage error that does not quote the value,
// because it may have a password.
func serverURL(server string) (string, error) {
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	at, err := url.Parse(server)
	switch {
	case err != nil || at.Hostname() == "":
		return "", cli.Usagef("--server is not a host, host:port or https URL")
	case at.Port() != "" && !isPort(at.Port()):
		return "", cli.Usagef("--server has the port %s, want one from 1 to 65535", at.Port())
	case at.Scheme != "https":
		return "", cli.Usagef("--server must be an https URL, because credentials are sent to it")
	case at.User != nil:
		return "", cli.Usagef("--server must have no user and no password: the credentials are those " +
			"of the kubeconfig")
	case at.RawQuery != "" || at.ForceQuery || at.Fragment != "":
		return "", cli.Usagef("--server must have no query and no fragment")
	}
	return server, nil
}

func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}

// A snapshot is the state that a command has read.
type snapshot interface {
	// tables omits ages if now is the zero time.
	tables(now time.Time) *cli.Tables
	// answered reports whether at least one replica has answered.
	answered() bool
}

// print reads and prints a snapshot: once, or with --watch after each change until ctx ends.
func (l *replicasLine) print(
	ctx context.Context, stdout io.Writer, read func(context.Context) (snapshot, error),
) error {
	screen, shown, clear := cli.ScreenOf(stdout, os.Getenv), "", ""
	if l.watch && screen.IsTerminal {
		clear = clearScreen
	}
	if l.wide {
		screen.Columns = 0
	}
	for {
		status, err := read(ctx)
		if ctx.Err() != nil && l.watch {
			return nil
		}
		if err != nil {
			return err
		}
		ageless, err := status.tables(time.Time{}).Text(cli.Screen{})
		if err != nil {
			return err
		}
		if ageless != shown || clear != "" {
			err := l.Print(stdout, status, func(out io.Writer) error {
				text, err := status.tables(time.Now()).Text(screen)
				if err != nil {
					return err
				}
				return cli.WriteStyled(out, clear+text)
			})
			if err != nil {
				return err
			}
		}
		if !l.watch {
			if !status.answered() { // the reasons are in the tables
				return errors.New("no replica has answered with its state")
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
	ctx context.Context, l *replicasLine, cluster *cli.Cluster,
) (all []replica[S], err error) {
	var authorities []byte
	if l.serverCA != "" {
		if authorities, err = configfile.Read(l.serverCA); err != nil {
			return nil, fmt.Errorf("--server-ca: %w", err)
		}
		if _, err := cert.ParseCertsPEM(authorities); err != nil {
			return nil, fmt.Errorf("--server-ca: read %s: it has no certificate in PEM: %w",
				l.serverCA, err)
		}
	}
	for _, server := range l.servers {
		to := rest.CopyConfig(cluster.Config)
		// The CA of the kubeconfig is that of the API server.
		to.TLSClientConfig.CAData, to.TLSClientConfig.CAFile = authorities, ""
		to.TLSClientConfig.Insecure = l.insecure
		address, err := serverURL(server)
		if err != nil {
			return nil, err
		}
		all = append(all, askReplica[S](ctx, server, address, to))
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
	ctx context.Context, securePort uint16, cluster *cli.Cluster, pod v1.Pod,
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
	to, err := podClient(ctx, cluster, pod)
	if err != nil {
		return replica[S]{Name: pod.Name, Error: err.Error()}
	}
	return askReplica[S](ctx, pod.Name, fmt.Sprintf("https://127.0.0.1:%d", port), to)
}

// podClient is the configuration of a client for a pod. Its certificate is usually self-signed, and
// its labels prove nothing, so it gets no credentials of the kubeconfig: only a token that opens
// secure ports, of an account that may only read the status. The API server refuses that token.
func podClient(
	ctx context.Context, cluster *cli.Cluster, pod v1.Pod,
) (*rest.Config, error) {
	account := pod.Spec.ServiceAccountName + "-status"
	token, err := cluster.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			Audiences:         []string{servingconfig.TokenAudience},
			ExpirationSeconds: ptr.To(int64(tokenLifetime.Seconds())),
		}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create a token of ServiceAccount %s/%s, which reads the status: %w",
			pod.Namespace, account, err)
	}
	return &rest.Config{
		BearerToken: token.Status.Token, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}, nil
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

// ask reads from an https URL. client-go would choose http for an address without a scheme.
func (r *replica[S]) ask(ctx context.Context, address string, config *rest.Config) error {
	config.TLSClientConfig.ServerName = "" // it is that of the API server
	config.Host, config.APIPath, config.Timeout = address, "", statusTimeout
	config.GroupVersion = &v1.SchemeGroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	transport.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}
	transport.Transport = limitedBodies{transport.Transport}
	client, err := rest.UnversionedRESTClientForConfigAndClient(config, transport)
	if err != nil {
		return err
	}
	if r.Raw, err = client.Get().AbsPath("/statusz").Do(ctx).Raw(); err != nil {
		switch {
		case apierrors.IsUnauthorized(err):
			return fmt.Errorf("%w; the replica does not accept the credentials of the kubeconfig", err)
		case apierrors.IsForbidden(err):
			return fmt.Errorf(`%w; the account needs a ClusterRole with nonResourceURLs ["/statusz"]`, err)
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

// limitedBodies fails the read of a response above maxStatusBytes.
type limitedBodies struct{ next http.RoundTripper }

func (l limitedBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxStatusBytes)
	}
	return response, err
}

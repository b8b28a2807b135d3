package program

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/hosting/internal/termprocess"
	"github.com/fxccm/fxccm/internal/kubeproxy"
)

const (
	// stopTimeout limits the end of the program after SIGTERM.
	stopTimeout = 2 * time.Second
	// startInterval and healthInterval are the pauses between two health checks, before and after
	// the first success.
	startInterval  = 100 * time.Millisecond
	healthInterval = time.Second
	// healthRequestTimeout limits one health check.
	healthRequestTimeout = 5 * time.Second
	// defaultHealthTimeout is the kubelet's: three failures, ten seconds apart.
	defaultHealthTimeout = 30 * time.Second

	// unhealthy is the subject of a reported problem.
	unhealthy = "program-health"
)

// UpstreamHealthURL is the [Options].HealthURL of a program with [UpstreamArgs].
const UpstreamHealthURL = "https://127.0.0.1:$(PORT)/healthz"

// Options describe the program.
type Options struct {
	// Name is the name of the provider. Required.
	Name string

	// Path is the path of the program. Required.
	Path string

	// Args are the arguments of the program, usually [UpstreamArgs] and more. $(KUBECONFIG) is
	// replaced by the path of the kubeconfig, and $(PORT) by the number of a free TCP port.
	Args []string

	// Env is the whole environment of the program, as "key=value". Nil: that of this process,
	// without the variables that lead to the API server of a Pod's cluster.
	Env []string

	// HealthURL is requested every second; status 200 means healthy. $(PORT) is replaced. A
	// certificate is not verified. Default "": the program is healthy while it runs.
	HealthURL string

	// HealthTimeout is how long the program may be unhealthy before its term ends. Default 30s.
	HealthTimeout time.Duration
}

// UpstreamArgs returns the arguments of fxccm for a program that is built with upstream's framework
// (k8s.io/cloud-provider/app): without election, with the kubeconfig, and with its secure port on
// the loopback address. Arguments that follow can override them.
func UpstreamArgs() []string {
	return []string{
		"--leader-elect=false",
		"--kubeconfig=$(KUBECONFIG)",
		"--authentication-kubeconfig=$(KUBECONFIG)",
		"--authorization-kubeconfig=$(KUBECONFIG)",
		"--bind-address=127.0.0.1",
		"--secure-port=$(PORT)",
	}
}

// Provider returns a provider that runs the program once a term.
func Provider(o Options) ccm.Provider {
	return ccm.Provider{Name: o.Name, New: o.start}
}

func (o Options) start(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
	if o.Path == "" {
		return nil, errors.New("program.Options.Path is empty")
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	expand := strings.NewReplacer("$(KUBECONFIG)", kubeconfigPath, "$(PORT)", strconv.Itoa(port))
	args := make([]string, 0, len(o.Args))
	for _, arg := range o.Args {
		args = append(args, expand.Replace(arg))
	}
	environ := o.Env
	if environ == nil {
		environ = termprocess.Environment()
	}
	process, err := termprocess.Start(env, termprocess.Spec{
		Provider: o.Name, Name: fmt.Sprintf("program of provider %q", o.Name),
		Path: o.Path, Args: args, Env: environ, UsesKubeconfig: true,
		Files: func(proxy *kubeproxy.Proxy) ([]*os.File, error) {
			return kubeconfig(proxy, o.Name)
		},
	})
	if err != nil {
		return nil, err
	}
	r := &running{
		Process: process, env: env, name: o.Name,
		health: expand.Replace(o.HealthURL), healthTimeout: o.HealthTimeout,
		healthy: make(chan struct{}), watched: make(chan struct{}), ended: make(chan struct{}),
	}
	if r.healthTimeout <= 0 {
		r.healthTimeout = defaultHealthTimeout
	}
	return r.begin(ctx)
}

// freePort returns a free TCP port. If another process takes it first, the program ends or stays
// unhealthy, and the next term uses another port.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// kubeconfig returns a file with the configuration of a client of the proxy.
func kubeconfig(proxy *kubeproxy.Proxy, client string) ([]*os.File, error) {
	const name = "fxccm"
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			name: {Server: proxy.Address(), CertificateAuthorityData: proxy.CA()},
		},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{
			name: {Token: kubeproxy.ClientToken(proxy.Token(), client)},
		},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig of the program: %w", err)
	}
	file, err := memoryFile("kubeconfig", content)
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig of the program: %w", err)
	}
	return []*os.File{file}, nil
}

// running is a program of a term.
type running struct {
	*termprocess.Process
	env           ccm.ProviderEnv
	name, health  string
	healthTimeout time.Duration
	// healthy is closed when the program is healthy for the first time, watched when the health
	// checks have ended, and ended when the program and all goroutines have.
	healthy, watched, ended chan struct{}
}

// begin supervises the program, and waits until it is healthy.
func (r *running) begin(ctx context.Context) (cloudprovider.Interface, error) {
	supervised, abandon := context.WithCancelCause(ctx)
	context.AfterFunc(ctx, func() { abandon(nil) })
	watching, endWatch := context.WithCancel(supervised)
	go r.watch(watching)
	go func() {
		defer close(r.ended)
		r.Supervise(termprocess.Supervision{
			Context:     supervised,
			Stop:        r.Terminate,
			StopTimeout: stopTimeout,
			CleanUp: func() {
				endWatch()
				<-r.watched
			},
		})
	}()
	select {
	case <-r.healthy:
		return cloud{r}, nil
	case <-r.Done():
		<-r.ended
		return nil, r.Err()
	case <-ctx.Done():
		<-r.ended
		return nil, context.Cause(ctx)
	}
}

// watch checks the health of the program until ctx ends.
func (r *running) watch(ctx context.Context) {
	defer close(r.watched)
	if r.health == "" {
		close(r.healthy)
		return
	}
	client := &http.Client{
		Timeout: healthRequestTimeout,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			// A program creates its own certificate for the loopback address.
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		},
		// The health of another server is not that of the program.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	interval := startInterval
	var since time.Time
	for {
		err := r.check(ctx, client)
		if ctx.Err() != nil {
			return
		}
		r.env.ReportTrouble(unhealthy, err)
		hasStarted := interval == healthInterval
		switch {
		case err == nil && !hasStarted:
			close(r.healthy)
			interval = healthInterval
		case err == nil:
			since = time.Time{}
		case hasStarted && since.IsZero():
			since = time.Now()
		}
		// Until the program is healthy, the start timeout of the Manager is the limit.
		if !since.IsZero() && time.Since(since) >= r.healthTimeout {
			r.env.Fail(fmt.Errorf("program is unhealthy for %s: %w",
				time.Since(since).Round(time.Millisecond), err))
			return
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return
		}
	}
}

// check returns nil if the program is healthy.
func (r *running) check(ctx context.Context, client *http.Client) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.health, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", r.health, response.Status)
	}
	return nil
}

// cloud serves no interface, so a Manager runs none of the four cloud controllers.
type cloud struct{ program *running }

var _ cloudprovider.Interface = cloud{}

// Close waits for the end of the program, which ends with the term.
func (c cloud) Close() error {
	<-c.program.ended
	return nil
}

func (c cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

func (c cloud) ProviderName() string { return c.program.name }
func (c cloud) HasClusterID() bool   { return true }

func (c cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }
func (c cloud) Instances() (cloudprovider.Instances, bool)       { return nil, false }
func (c cloud) InstancesV2() (cloudprovider.InstancesV2, bool)   { return nil, false }
func (c cloud) Zones() (cloudprovider.Zones, bool)               { return nil, false }
func (c cloud) Clusters() (cloudprovider.Clusters, bool)         { return nil, false }
func (c cloud) Routes() (cloudprovider.Routes, bool)             { return nil, false }

package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/internal/netfault"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

// A world is a management cluster's namespace and the clusters of a fleet, each with a controller
// that records where it runs.
type world struct {
	t         *testing.T
	namespace string

	mu       sync.Mutex
	clusters []fleet.Cluster
	changed  chan struct{}
	// active are the replicas in which a cluster's controller runs.
	active map[string][]string
	// begun counts the terms of each cluster.
	begun map[string]int
	twice []string
}

func newWorld(t *testing.T, clusters int) *world {
	t.Helper()
	w := &world{
		t: t, active: map[string][]string{}, begun: map[string]int{}, changed: make(chan struct{}),
	}
	client := kubernetes.NewForConfigOrDie(cluster.RESTConfig())
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "fleet-"}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.namespace = namespace.Name
	for i := range clusters {
		w.clusters = append(w.clusters, newCluster(fmt.Sprintf("cluster-%d", i)))
	}
	return w
}

func (w *world) leases() coordinationclient.LeaseInterface {
	return kubernetes.NewForConfigOrDie(cluster.RESTConfig()).CoordinationV1().Leases(w.namespace)
}

func newCluster(name string) fleet.Cluster {
	host := "https://" + name + ".invalid:6443"
	return fleet.Cluster{Name: name, RESTConfig: &rest.Config{Host: host}}
}

// Run implements fleet.Source.
func (w *world) Run(ctx context.Context, update func([]fleet.Cluster)) error {
	for {
		w.mu.Lock()
		clusters, changed := append([]fleet.Cluster{}, w.clusters...), w.changed
		w.mu.Unlock()
		update(clusters)
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// change replaces the source's clusters.
func (w *world) change(f func([]fleet.Cluster) []fleet.Cluster) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clusters = f(append([]fleet.Cluster{}, w.clusters...))
	close(w.changed)
	w.changed = make(chan struct{})
}

// A running replica.
type running struct {
	*fleet.Fleet
	name string
	stop context.CancelFunc
	done chan error
}

func (w *world) start(name string, change ...func(*fleet.Params)) *running {
	w.t.Helper()
	log := testr.NewWithInterface(quiet{}, testr.Options{})
	params := fleet.DefaultParams()
	params.Source, params.Namespace, params.Identity = w, w.namespace, name
	params.Management = cluster.RESTConfig()
	params.Logger = &log
	params.Manager = w.manager(name)
	for _, f := range change {
		f(&params)
	}
	params.Source = fleet.Trusted(params.Source) // the servers of tests are on loopback
	f, err := fleet.New(params)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{Fleet: f, name: name, stop: stop, done: make(chan error, 1)}
	go func() { r.done <- f.Run(ctx) }()
	w.t.Cleanup(func() {
		stop()
		r.done <- <-r.done
	})
	return r
}

type quiet struct{}

func (quiet) Helper()         {}
func (quiet) Log(args ...any) {}

// manager runs one controller, which tells where it runs, and needs no API server.
func (w *world) manager(replica string) func(fleet.Cluster) (ccm.Params, error) {
	return func(c fleet.Cluster) (ccm.Params, error) {
		cfg := ccm.DefaultConfig()
		cfg.ClusterName = c.Name
		cfg.Controllers = []string{"tells"}
		return ccm.Params{
			Config:    cfg,
			Providers: []ccm.Provider{fake.New().CCMProvider()},
			Controllers: []ccm.Controller{{
				Name: "tells",
				New: func(context.Context, *ccm.Term) (ccm.Runnable, error) {
					return ccm.RunnableFunc(func(ctx context.Context) error {
						w.enter(c.Name, replica)
						defer w.leave(c.Name, replica)
						<-ctx.Done()
						return nil
					}), nil
				},
			}},
		}, nil
	}
}

func (w *world) enter(name, replica string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active[name] = append(w.active[name], replica)
	w.begun[name]++
	if len(w.active[name]) > 1 {
		w.twice = append(w.twice, fmt.Sprintf("%s in %v", name, w.active[name]))
	}
}

func (w *world) leave(name, replica string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, r := range w.active[name] {
		if r == replica {
			w.active[name] = append(w.active[name][:i:i], w.active[name][i+1:]...)
			return
		}
	}
}

// served returns the replica of each served cluster.
func (w *world) served() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	by := map[string]string{}
	for name, replicas := range w.active {
		if len(replicas) > 0 {
			by[name] = replicas[0]
		}
	}
	return by
}

func (w *world) terms(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun[name]
}

// waitServed waits until each of the clusters is served by the replica that all replicas prefer. On
// a busy machine a replica may be late, and the others keep its clusters for a while, then longer.
func (w *world) waitServed(clusters int, replicas ...*running) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Minute)
	defer cancel()
	err := waittest.Poll(ctx, func() error { return w.servedWhere(clusters, replicas) })
	if err != nil {
		w.t.Fatalf("%d clusters are not served where they are preferred: %v", clusters, err)
	}
}

func (w *world) servedWhere(clusters int, replicas []*running) error {
	by := w.served()
	if len(by) != clusters {
		return fmt.Errorf("%d of %d clusters are served", len(by), clusters)
	}
	for _, r := range replicas {
		current := r.Status()
		if len(current.Replicas) != len(replicas) {
			return fmt.Errorf("%s sees %d replicas", r.name, len(current.Replicas))
		}
		for _, c := range current.Clusters {
			if by[c.Name] != c.Preferred || c.Leader != c.Preferred {
				return fmt.Errorf("%s is served by %q, led by %q, preferred is %q", c.Name,
					by[c.Name], c.Leader, c.Preferred)
			}
		}
	}
	return nil
}

// verify fails the test if a cluster was ever served twice at once.
func (w *world) verify() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.twice) > 0 {
		w.t.Errorf("served twice at once: %s", strings.Join(w.twice, ", "))
	}
}

func TestFleet_ReplicasComeAndGo_EachClusterIsServedOnceAndFewMove(t *testing.T) {
	t.Parallel()
	const clusters = 40
	w := newWorld(t, clusters)
	a, b := w.start("a"), w.start("b")
	w.waitServed(clusters, a, b)
	before := w.served()

	c := w.start("c")
	w.waitServed(clusters, a, b, c)
	moved := 0
	for name, replica := range w.served() {
		if replica != before[name] {
			moved++
			if replica != "c" {
				t.Errorf("%s moved from %s to %s when c came", name, before[name], replica)
			}
		}
	}
	if moved == 0 || moved > clusters/3+clusters/5 {
		t.Errorf("%d of %d clusters moved when the third replica came", moved, clusters)
	}

	a.stop()
	if err := <-a.done; err != nil {
		t.Errorf("the replica that goes: %v", err)
	}
	a.done <- nil
	w.waitServed(clusters, b, c)
	w.verify()
}

// A replica that cannot reach the management cluster stops to act before the others take over.
func TestFleet_ReplicaIsCutOff_OthersServeItsClustersAndNoneIsServedTwice(t *testing.T) {
	t.Parallel()
	const clusters = 12
	w := newWorld(t, clusters)
	proxy, err := netfault.ListenAPI(cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	}()
	a, b := w.start("a"), w.start("b", func(p *fleet.Params) { p.Management = proxy.RESTConfig() })
	w.waitServed(clusters, a, b)
	if err := proxy.Set(netfault.BlackHole()); err != nil {
		t.Fatal(err)
	}
	w.waitServed(clusters, a)
	if err := proxy.Set(netfault.Pass()); err != nil {
		t.Fatal(err)
	}
	w.waitServed(clusters, a, b)
	w.verify()
}

// Each write of a Lease would go through the watches of all clusters.
func TestFleet_ManyClusters_WatchTheirLeasesWithOneRequest(t *testing.T) {
	t.Parallel()
	const clusters = 12
	w := newWorld(t, clusters)
	api, release, err := netfault.APIHandler(cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	var watches atomic.Int64
	proxy, err := netfault.ListenHTTP(
		http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
			if in.URL.Query().Get("watch") != "" {
				watches.Add(1)
				defer watches.Add(-1)
			}
			api.ServeHTTP(out, in)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	}()
	a := w.start("a", func(p *fleet.Params) { p.Management = proxy.RESTConfig() })
	w.waitServed(clusters, a)
	// The one may have ended at this moment, and a new one begins.
	waittest.Until(t, "the fleet has one watch in the management cluster", func() error {
		if n := watches.Load(); n != 1 {
			return fmt.Errorf("there are %d watches", n)
		}
		return nil
	})
	a.stop()
	if err := <-a.done; err != nil {
		t.Error(err)
	}
	a.done <- nil
}

func TestFleet_CredentialsAreReplaced_ManagerUsesTheNewOnes(t *testing.T) {
	t.Parallel()
	var tokens sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if in.URL.Path == "/version" && strings.HasSuffix(in.UserAgent(), "/only/asks") {
			tokens.Store(in.Header.Get("Authorization"), true)
			_, _ = io.WriteString(out, "{}")
			return
		}
		http.NotFound(out, in)
	}))
	defer server.Close()
	w := newWorld(t, 1)
	w.clusters[0].RESTConfig = &rest.Config{Host: server.URL, BearerToken: "old"}
	r := w.start("only", asking)
	seen := func(token string) func() error {
		return func() error {
			if _, ok := tokens.Load("Bearer " + token); !ok {
				return errors.New("no request has it")
			}
			return nil
		}
	}
	waittest.Until(t, "requests have the first token", seen("old"))
	w.change(func(all []fleet.Cluster) []fleet.Cluster {
		all[0].RESTConfig = &rest.Config{Host: server.URL, BearerToken: "new"}
		return all
	})
	waittest.Until(t, "requests have the second token", seen("new"))
	tokens.Clear()
	waittest.Until(t, "requests have the second token again", seen("new"))
	if seen("old")() == nil {
		t.Error("a request had the replaced token")
	}
	if got := w.terms("cluster-0"); got != 1 {
		t.Errorf("the cluster had %d terms", got)
	}
	w.waitServed(1, r)
}

func TestFleet_ProxyIsReplaced_RequestsGoThroughTheNewOneInTheSameTerm(t *testing.T) {
	t.Parallel()
	// The name of the API server cannot be resolved: only a proxy answers.
	through := func() (config *rest.Config, asked *atomic.Bool) {
		asked = &atomic.Bool{}
		proxy := httptest.NewServer(http.HandlerFunc(
			func(out http.ResponseWriter, in *http.Request) {
				asked.Store(in.URL.Host == "cluster.invalid")
				http.NotFound(out, in)
			}))
		t.Cleanup(proxy.Close)
		address, err := url.Parse(proxy.URL)
		if err != nil {
			t.Fatal(err)
		}
		return &rest.Config{Host: "http://cluster.invalid", Proxy: http.ProxyURL(address)}, asked
	}
	wasAsked := func(asked *atomic.Bool) func() error {
		return func() error {
			if !asked.Load() {
				return errors.New("no request reached the proxy")
			}
			return nil
		}
	}
	w := newWorld(t, 1)
	first, firstAsked := through()
	second, secondAsked := through()
	w.clusters[0].RESTConfig = first
	w.start("only", asking)
	waittest.Until(t, "requests go through the first proxy", wasAsked(firstAsked))
	w.change(func(all []fleet.Cluster) []fleet.Cluster {
		all[0].RESTConfig = second
		return all
	})
	waittest.Until(t, "requests go through the second proxy", wasAsked(secondAsked))
	if got := w.terms("cluster-0"); got != 1 {
		t.Errorf("the cluster had %d terms", got)
	}
}

func TestFleet_ConfigurationOfAClusterChanges_OnlyThisOneHasAnotherTerm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.clusters[0].Labels = map[string]string{"read": "x", "unread": "x"}
	r := w.start("only", func(p *fleet.Params) { p.Labels = []string{"read"} })
	w.waitServed(3, r)
	want := 1
	for _, test := range []struct {
		name   string
		change func(*fleet.Cluster)
		terms  int
	}{
		{"cloud.conf", func(c *fleet.Cluster) { c.CloudConfig = []byte("[Global]") }, 1},
		{"UID", func(c *fleet.Cluster) { c.UID = "another" }, 1},
		{"address", func(c *fleet.Cluster) {
			c.RESTConfig = &rest.Config{Host: "https://moved.invalid"}
		}, 1},
		{"unread label", func(c *fleet.Cluster) {
			c.Labels = map[string]string{"read": "x", "unread": "y"}
		}, 0},
		{"label", func(c *fleet.Cluster) {
			c.Labels = map[string]string{"read": "y", "unread": "y"}
		}, 1},
	} {
		w.change(func(all []fleet.Cluster) []fleet.Cluster {
			test.change(&all[0])
			return all
		})
		want += test.terms
		waittest.Until(t, "the change of the "+test.name+" has its effect", func() error {
			if got := w.terms("cluster-0"); got != want {
				return fmt.Errorf("the cluster had %d terms, want %d", got, want)
			}
			return nil
		})
		w.waitServed(3, r)
	}
	for name, want := range map[string]int{
		"cluster-0": want, "cluster-1": 1, "cluster-2": 1,
	} {
		if got := w.terms(name); got != want {
			t.Errorf("%s had %d terms, want %d", name, got, want)
		}
	}
	w.verify()
}

func TestFleet_CloudConfigIsReplaced_TheProviderDecidesWhetherTheTermContinues(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.clusters[0].CloudConfig = []byte("first")
	var mu sync.Mutex
	var taken string
	var down atomic.Bool
	r := w.start("only", func(p *fleet.Params) {
		made := p.Manager
		p.Manager = func(c fleet.Cluster) (ccm.Params, error) {
			c.OnCloudConfig(func(_ context.Context, data []byte) (isKept bool, err error) {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case down.Load():
					return false, errors.New("Keystone is down")
				case string(data) == "another project":
					return false, nil
				}
				taken = string(data)
				return true, nil
			})
			return made(c)
		}
	})
	w.waitServed(1, r)
	give := func(data string) {
		w.change(func(all []fleet.Cluster) []fleet.Cluster {
			all[0].CloudConfig = []byte(data)
			return all
		})
	}
	reason := func(want string) func() error {
		return func() error {
			if c := statusOf(r, "cluster-0"); c.Reason != want || !c.Ready {
				return fmt.Errorf("it is %+v", c)
			}
			return nil
		}
	}
	down.Store(true)
	give("second")
	waittest.Until(t, "the status says why the term keeps its credentials",
		reason("Keystone is down"))
	down.Store(false)
	waittest.Until(t, "they are replaced when Keystone is back", reason(""))
	mu.Lock()
	if taken != "second" || w.terms("cluster-0") != 1 {
		t.Errorf("the provider has %q in %d terms", taken, w.terms("cluster-0"))
	}
	mu.Unlock()
	give("another project")
	waittest.Until(t, "another term has begun", func() error {
		if got := w.terms("cluster-0"); got != 2 {
			return fmt.Errorf("the cluster had %d terms", got)
		}
		return nil
	})
	w.waitServed(1, r)
	w.verify()
}

// asking adds a controller that asks the API server.
func asking(p *fleet.Params) {
	made := p.Manager
	p.Manager = func(c fleet.Cluster) (ccm.Params, error) {
		params, err := made(c)
		params.Config.Controllers = append(params.Config.Controllers, "asks")
		params.Controllers = append(params.Controllers,
			ccm.Controller{Name: "asks", New: newAsking})
		return params, err
	}
}

// newAsking makes a controller that asks the API server for its version again and again.
func newAsking(_ context.Context, term *ccm.Term) (ccm.Runnable, error) {
	client, err := term.Client("asks")
	if err != nil {
		return nil, err
	}
	return ccm.RunnableFunc(func(ctx context.Context) error {
		wait.UntilWithContext(ctx, func(context.Context) {
			_, _ = client.Discovery().ServerVersion()
		}, 10*time.Millisecond)
		return nil
	}), nil
}

func TestFleet_ClustersComeAndGo_AreServedAndDrained(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	r := w.start("only")
	w.waitServed(3, r)
	w.change(func(all []fleet.Cluster) []fleet.Cluster {
		return append(all[1:], newCluster("newcomer"))
	})
	waittest.Until(t, "the newcomer is served and the first cluster is not", func() error {
		by := w.served()
		if by["newcomer"] == "" || by["cluster-0"] != "" || len(by) != 3 {
			return fmt.Errorf("served are %v", by)
		}
		return nil
	})
	if got := w.terms("cluster-1"); got != 1 {
		t.Errorf("a cluster that stayed had %d terms", got)
	}
	leases := w.leases()
	waittest.Until(t, "only the Lease of the cluster that left is deleted", func() error {
		for name, want := range map[string]bool{
			"cluster-0": false, "cluster-1": true, "cluster-2": true, "newcomer": true,
		} {
			_, err := leases.Get(t.Context(), "fxccm."+name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) == want {
				return fmt.Errorf("Lease of %s: %w", name, err)
			}
		}
		return nil
	})
	w.verify()
}

// The source of one replica shows earlier than that of another one that a cluster has left.
func TestFleet_ClusterLeavesOneReplica_TheLeaseOfItsNewLeaderIsNotDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	const lease = "fxccm.cluster-0"
	leases := w.leases()
	ledBy := func(replica string) (err error) {
		now, err := leases.Get(t.Context(), lease, metav1.GetOptions{})
		if err == nil && ptr.Deref(now.Spec.HolderIdentity, "") != replica {
			err = fmt.Errorf("the holder is %q", ptr.Deref(now.Spec.HolderIdentity, ""))
		}
		return err
	}
	api, release, err := netfault.APIHandler(cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	var deletions atomic.Int64
	proxy, err := netfault.ListenHTTP(
		http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
			if in.Method == http.MethodDelete && strings.HasSuffix(in.URL.Path, lease) {
				deletions.Add(1)
				waittest.Until(t, "the other replica has taken the Lease", func() error {
					return ledBy("b")
				})
			}
			api.ServeHTTP(out, in)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	}()
	leave := make(chan struct{})
	a := w.start("a", func(p *fleet.Params) {
		p.Management = proxy.RESTConfig()
		p.Source = fleet.SourceFunc(func(ctx context.Context, update func([]fleet.Cluster)) error {
			update([]fleet.Cluster{newCluster("cluster-0")})
			select {
			case <-leave:
				update(nil)
			case <-ctx.Done():
			}
			<-ctx.Done()
			return nil
		})
	})
	w.waitServed(1, a)
	w.start("b", func(p *fleet.Params) { p.Weight = 0 })
	before, err := leases.Get(t.Context(), lease, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	close(leave)
	waittest.Until(t, "the other replica serves the cluster", func() error {
		if by := w.served()["cluster-0"]; by != "b" || deletions.Load() == 0 {
			return fmt.Errorf("it is served by %q after %d deletions", by, deletions.Load())
		}
		return nil
	})
	waittest.Until(t, "the first replica has finished", func() error {
		if c := a.Status().Clusters; len(c) != 0 {
			return fmt.Errorf("it has %v", c)
		}
		return nil
	})
	after, err := leases.Get(t.Context(), lease, metav1.GetOptions{})
	if err != nil || after.UID != before.UID {
		t.Errorf("the Lease was %s and is %s (%v)", before.UID, after.UID, err)
	}
	w.verify()
}

func TestFleet_ClusterCannotBeRead_IsServedAsBeforeAndTheStatusSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	r := w.start("only")
	w.waitServed(2, r)
	w.change(func(all []fleet.Cluster) []fleet.Cluster {
		all[0] = fleet.Cluster{Name: all[0].Name, Err: errors.New("the kubeconfig is garbled")}
		return append(all, fleet.Cluster{Name: "broken", Err: errors.New("no kubeconfig")})
	})
	waittest.Until(t, "the Status says what is wrong", func() error {
		reasons := map[string]fleet.ClusterStatus{}
		for _, c := range r.Status().Clusters {
			reasons[c.Name] = c
		}
		if c := reasons["cluster-0"]; c.State != status.Leading ||
			c.Reason != "the kubeconfig is garbled" {
			return fmt.Errorf("the first cluster is %+v", c)
		}
		if c := reasons["broken"]; c.State != fleet.StateFailed || c.Reason != "no kubeconfig" {
			return fmt.Errorf("the broken cluster is %+v", c)
		}
		return nil
	})
	if got := w.terms("cluster-0"); got != 1 {
		t.Errorf("the cluster had %d terms", got)
	}
}

func TestFleet_CloudDoesNotAnswerACluster_TheStatusSaysWhyUntilItDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	reports := make(chan func(string, error), 1)
	r := w.start("only", func(p *fleet.Params) {
		made := p.Manager
		p.Manager = func(c fleet.Cluster) (ccm.Params, error) {
			params, err := made(c)
			if err != nil || c.Name != "cluster-0" {
				return params, err
			}
			params.Providers = []ccm.Provider{{
				Name: "silent",
				New: func(_ context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
					reports <- env.ReportTrouble
					return fake.New().Provider(), nil
				},
			}}
			return params, nil
		}
	})
	w.waitServed(2, r)
	report := <-reports
	report("Octavia", errors.New("503 Service Unavailable"))
	report("Keystone", errors.New("401 Unauthorized"))
	since := regexp.MustCompile(` \(since [0-9TZ:-]+\)`)
	const want = "Keystone: 401 Unauthorized; Octavia: 503 Service Unavailable"
	if c := statusOf(r, "cluster-0"); c.State != status.Leading ||
		since.ReplaceAllString(c.Reason, "") != want || !since.MatchString(c.Reason) {
		t.Errorf("the cluster is %+v, want it to lead with %q", c, want)
	}
	if c := statusOf(r, "cluster-1"); c.Reason != "" {
		t.Errorf("the other cluster is %+v", c)
	}
	report("Octavia", nil)
	report("Keystone", nil)
	if c := statusOf(r, "cluster-0"); c.Reason != "" {
		t.Errorf("the cloud answers, and the cluster is %+v", c)
	}
}

func TestFleet_ManagerCannotBeMade_OthersAreServedAndItIsRetried(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	var (
		mu    sync.Mutex
		calls int
	)
	r := w.start("only", func(p *fleet.Params) {
		make := p.Manager
		p.Manager = func(c fleet.Cluster) (ccm.Params, error) {
			if c.Name != "cluster-0" {
				return make(c)
			}
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls == 1 {
				panic("no such project")
			}
			return make(c)
		}
	})
	w.waitServed(2, r)
	w.verify()
}

// Without an owner there is no mark that could be required.
func TestFleet_OwnerMarkIsRequired_ProvidersGetItAndClustersWithoutOwnerAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	var marked sync.Map
	r := w.start("only", func(p *fleet.Params) {
		p.RequireOwnerMark = true
		make := p.Manager
		p.Manager = func(c fleet.Cluster) (ccm.Params, error) {
			params, err := make(c)
			if c.Name == "cluster-1" {
				params.Owner = "tenant/" + c.Name
			}
			build := params.Providers[0].New
			params.Providers[0].New = func(
				ctx context.Context, env ccm.ProviderEnv,
			) (cloudprovider.Interface, error) {
				marked.Store(env.Owner, env.RequireOwnerMark)
				return build(ctx, env)
			}
			return params, err
		}
	})
	waittest.Until(t, "the cluster with an owner is served, and the other has failed", func() error {
		if required, _ := marked.Load("tenant/cluster-1"); required != true {
			return fmt.Errorf("the provider gets %v", required)
		}
		if c := statusOf(r, "cluster-0"); c.State != fleet.StateFailed ||
			!strings.Contains(c.Reason, "Params.Owner") {
			return fmt.Errorf("the cluster is %+v", c)
		}
		return nil
	})
	if served := w.served(); served["cluster-0"] != "" {
		t.Errorf("served are %v", served)
	}
}

func TestFleet_SourceFails_ClustersStayServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	failed := make(chan struct{})
	var once sync.Once
	r := w.start("only", func(p *fleet.Params) {
		p.Source = fleet.SourceFunc(func(ctx context.Context, update func([]fleet.Cluster)) error {
			first := false
			once.Do(func() { first = true })
			if !first {
				<-ctx.Done()
				return nil
			}
			update(w.clusters)
			<-failed
			return errors.New("the directory is gone")
		})
	})
	w.waitServed(2, r)
	close(failed)
	waittest.Until(t, "the Status names the source's error", func() error {
		if problems := r.Status().Problems; len(problems) != 1 ||
			problems[0] != "source: the directory is gone" {
			return fmt.Errorf("problems: %q", problems)
		}
		return nil
	})
	if by := w.served(); len(by) != 2 {
		t.Errorf("served are %v", by)
	}
}

func TestNew_InvalidParams_AreNamed(t *testing.T) {
	_, err := fleet.New(fleet.Params{Name: "Not a label", Weight: 101})
	for _, want := range []string{"name", "weight", "source", "manager", "management"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
	params := fleet.DefaultParams()
	params.Source, params.Manager = fleet.Static(), func(fleet.Cluster) (ccm.Params, error) {
		return ccm.Params{}, nil
	}
	params.Management = cluster.RESTConfig()
	params.Election.RenewDeadline.Duration = time.Hour
	if _, err := fleet.New(params); err == nil || !strings.Contains(err.Error(), "renewDeadline") {
		t.Errorf("a renew deadline beyond the lease duration: %v", err)
	}
}

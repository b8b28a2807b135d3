package hostintegration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/fx"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// agents returns the last parts of the user agents of requests: the names of the clients.
func agents(records []controlplane.AuditRecord) []string {
	var names []string
	for _, r := range records {
		names = append(names, r.UserAgent[strings.LastIndex(r.UserAgent, "/")+1:])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// lacks returns the elements of want that are not in have.
func lacks(have []string, want ...string) []string {
	return slices.DeleteFunc(want, func(name string) bool { return slices.Contains(have, name) })
}

func TestRESTConfig_UserAgentAndRateLimitOfTheHost_AreUsed(t *testing.T) {
	const qps, gets = 10, 11
	config := rest.CopyConfig(shared.Identity)
	config.UserAgent = agent(t) + "/1.2"
	config.QPS, config.Burst = qps, 1
	done := make(chan error, 1)
	busy := controller("busy", func(term *ccm.Term) (ccm.RunnableFunc, error) {
		client, err := term.Client("busy")
		return func(ctx context.Context) error {
			done <- getNodes(ctx, client, gets)
			return untilEnd(ctx)
		}, err
	})
	cloud := newCloud(t, "limits-1")
	app := startApp(t, cloud, ccmtest.WithIdentity(config), ccmtest.WithLease(),
		ccmtest.WithControllers(busy), only("busy", "cloud-node"),
		// The host's client configuration overrides the Config.
		ccmtest.WithConfig(func(cfg *ccm.Config) {
			cfg.ClientConnection.QPS, cfg.ClientConnection.Burst = 1000, 1000
		}))
	ccmtest.CreateNode(t, app.Client, ccmtest.TaintedNode("limits-1"))
	ccmtest.Eventually(t, "the node is initialized", ccmtest.Initialized(app.Client, "limits-1"))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	asked := waitRequests(t, gets, controlplane.ByUserAgent("/1.2/busy"))
	slices.SortFunc(asked,
		func(a, b controlplane.AuditRecord) int { return a.Time.Compare(b.Time) })
	if took := asked[gets-1].Time.Sub(asked[0].Time); took < (gets-1)*time.Second/qps*9/10 {
		t.Errorf("%d requests with a limit of %d a second came within %s", gets, qps, took)
	}
	all := requests(t, controlplane.ByUserAgent("/1.2/"))
	if missing := lacks(agents(all), "leader-election", "shared-informers", "node-controller",
		"busy"); len(missing) > 0 {
		t.Errorf("no request has the host's user agent and the name of the client %q; there are %q",
			missing, agents(all))
	}
	for _, r := range all {
		if r.User != shared.User {
			t.Errorf("a request of another user: %s", r)
		}
	}
}

// getNodes makes n requests.
func getNodes(ctx context.Context, client kubernetes.Interface, n int) error {
	for range n {
		if _, err := client.CoreV1().Nodes().Get(ctx, "there-is-none",
			metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("get a Node that does not exist: %w", err)
		}
	}
	return nil
}

// accounts is a client builder that gives each client its own ServiceAccount.
type accounts struct {
	t *testing.T

	mu sync.Mutex
	// asked are the requested names so far, broken those that have no identity at the moment.
	asked, broken []string
}

var errNoIdentity = errors.New("the vault has no such identity yet")

// config is a ccm.ClientBuilder.
func (a *accounts) config(name string) (*rest.Config, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, name)
	if slices.Contains(a.broken, name) {
		return nil, errNoIdentity
	}
	cfg, err := shared.ServiceAccountConfig("hosts", name)
	if err != nil {
		return nil, err
	}
	cfg.UserAgent = agent(a.t) + "/" + name
	return cfg, nil
}

func (a *accounts) supply() ccmtest.Option {
	return ccmtest.WithFx(fx.Supply(ccm.ClientBuilder(a.config)))
}

// patchingConfigMap changes a ConfigMap every 150 ms, with the client of the name. The pause lets a
// stop find a tenth of a second without a request in flight.
func patchingConfigMap(controllerName, clientName, configMap string) ccm.Controller {
	return controller(controllerName, func(term *ccm.Term) (ccm.RunnableFunc, error) {
		client, err := term.Client(clientName)
		return func(ctx context.Context) error {
			for ctx.Err() == nil {
				if err := patchConfigMap(ctx, client, configMap); err != nil && ctx.Err() == nil {
					return err
				}
				select {
				case <-time.After(150 * time.Millisecond):
				case <-ctx.Done():
				}
			}
			return nil
		}, err
	})
}

func patchConfigMap(ctx context.Context, client kubernetes.Interface, name string) error {
	patch := fmt.Appendf(nil, `{"data":{"at":%q}}`, time.Now().Format(time.RFC3339Nano))
	_, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Patch(ctx, name,
		types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// Each client has its own identity with only the rights that it needs: testdata/rbac.yaml.
func TestClientBuilder_EachName_HasTheIdentityOfTheHost(t *testing.T) {
	source := &accounts{t: t}
	cloud := newCloud(t, "named-1")
	createConfigMap(t, "named-1")
	app := startApp(t, cloud, source.supply(), ccmtest.WithLease(),
		ccmtest.WithControllers(patchingConfigMap("mine", "my-controller", "named-1")))
	ccmtest.CreateNode(t, app.Client,
		ccmtest.TaintedNode("named-1", ccmtest.NodePodCIDRs("10.244.1.0/24")))
	ccmtest.Eventually(t, "the node has an address",
		ccmtest.NodeAddress(app.Client, "named-1", "InternalIP"))
	ccmtest.Eventually(t, "the route exists", ccmtest.Routed(cloud, "named-1", "10.244.1.0/24"))
	waitRequests(t, 1, controlplane.ByUserAgent("/route-controller"),
		controlplane.ByResource("", "nodes/status"))
	service := ccmtest.CreateService(t, app.Client, ccmtest.LoadBalancerService("named-1"))
	ccmtest.Eventually(t, "the Service has an address",
		ccmtest.ServiceAddress(app.Client, service.Namespace, service.Name))
	waitRequests(t, 1, controlplane.ByUserAgent("/my-controller"), controlplane.Mutating())
	app.Stop()

	want := []string{
		"cloud-controller-manager", "leader-election", "shared-informers",
		"node-controller", "service-controller", "route-controller", "my-controller",
	}
	if missing := lacks(source.asked, slices.Clone(want)...); len(missing) > 0 {
		t.Errorf("the clients %q were not requested, only %q", missing, source.asked)
	}
	all := requests(t)
	// The test does not use the Manager's own client.
	if missing := lacks(agents(all), want[1:]...); len(missing) > 0 {
		t.Errorf("there is no request of the clients %q", missing)
	}
	for _, r := range all {
		name := r.UserAgent[strings.LastIndex(r.UserAgent, "/")+1:]
		if r.User != controlplane.ServiceAccountUser("hosts", name) {
			t.Errorf("client %s is known as %s: %s", name, r.User, r)
		}
	}
}

func TestServiceAccountCredentials_ControllersOfTheHost_HaveThem(t *testing.T) {
	maker, err := shared.ServiceAccountConfig("kube-system", "account-maker")
	if err != nil {
		t.Fatal(err)
	}
	maker.UserAgent = agent(t)
	createConfigMap(t, "account-1")
	cloud := newCloud(t, "account-1")
	app := startApp(t, cloud, ccmtest.WithIdentity(maker), only("cloud-node", "mine"),
		ccmtest.WithControllers(patchingConfigMap("mine", "my-controller", "account-1")),
		ccmtest.WithConfig(func(cfg *ccm.Config) { cfg.UseServiceAccountCredentials = true }))
	app.WaitReady()
	ccmtest.CreateNode(t, app.Client, ccmtest.TaintedNode("account-1"))
	ccmtest.Eventually(t, "the node is initialized", ccmtest.Initialized(app.Client, "account-1"))
	waitRequests(t, 1,
		controlplane.ByUser(controlplane.ServiceAccountUser("kube-system", "my-controller")),
		controlplane.ByVerb("patch"))

	// The fence checks requests of these clients, too.
	app.Elector.Lose(errors.New("the test wants it"))
	app.Elector.WaitReleased(t)
	ended := time.Now()
	app.Stop()
	want := map[string]string{
		"my-controller":   controlplane.ServiceAccountUser("kube-system", "my-controller"),
		"node-controller": controlplane.ServiceAccountUser("kube-system", "node-controller"),
		// The Manager itself reads for all controllers, and requests the tokens.
		"shared-informers":         controlplane.ServiceAccountUser("kube-system", "account-maker"),
		"cloud-controller-manager": controlplane.ServiceAccountUser("kube-system", "account-maker"),
	}
	seen := map[string]bool{}
	for _, r := range requests(t) {
		name := r.UserAgent[strings.LastIndex(r.UserAgent, "/")+1:]
		seen[name] = true
		if r.User != want[name] {
			t.Errorf("client %s is known as %s, want %s: %s", name, r.User, want[name], r)
		}
		if r.Mutating() && r.Time.After(ended) {
			t.Errorf("after the term: %s", r)
		}
	}
	for name := range want {
		if !seen[name] {
			t.Errorf("there is no request of client %s", name)
		}
	}
}

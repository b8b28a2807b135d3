package hostintegration_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/provider/fake"
)

// program is a host that already has an informer when the CCM starts, only for Nodes.
type program struct {
	factory informers.SharedInformerFactory
	nodes   *witness
	// lasting ends the informers that the CCM had to start.
	lasting chan struct{}
}

// hostUser is the host's user name in the API server.
const hostUser = "host-program"

func startProgram(t *testing.T) *program {
	t.Helper()
	cfg, err := shared.ControlPlane.UserConfig(hostUser)
	if err != nil {
		t.Fatal(err)
	}
	cfg.UserAgent = agent(t) + "/host"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := &program{
		factory: informers.NewSharedInformerFactory(client, 0), nodes: &witness{},
		lasting: make(chan struct{}),
	}
	if _, err := p.factory.Core().V1().Nodes().Informer().AddEventHandler(p.nodes); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	p.factory.StartWithContext(ctx)
	p.factory.WaitForCacheSyncWithContext(ctx)
	t.Cleanup(func() {
		stop()
		close(p.lasting)
		p.factory.Shutdown()
	})
	return p
}

func (p *program) informers() ccm.SharedInformers {
	return ccm.SharedInformers{Factory: p.factory, Stop: p.lasting}
}

// waitConfigMap waits until the host's informer, which the CCM has started, has a ConfigMap.
func (p *program) waitConfigMap(t *testing.T, name string) {
	t.Helper()
	lister := p.factory.Core().V1().ConfigMaps().Lister().ConfigMaps(metav1.NamespaceDefault)
	ccmtest.Eventually(t, "the host's informer knows ConfigMap "+name,
		func(context.Context) (*corev1.ConfigMap, error) { return lister.Get(name) })
}

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// watching is a controller with event handlers for Nodes and, by its resource, ConfigMaps. Each
// term it sends its handlers.
func watching(name string, built chan<- [2]*witness) ccm.Controller {
	return controller(name, func(term *ccm.Term) (ccm.RunnableFunc, error) {
		seen := [2]*witness{{}, {}}
		if _, err := term.Informers().Core().V1().Nodes().Informer().AddEventHandler(
			seen[0]); err != nil {
			return nil, err
		}
		maps, err := term.Informers().ForResource(configMaps)
		if err != nil {
			return nil, err
		}
		if _, err := maps.Informer().AddEventHandler(seen[1]); err != nil {
			return nil, err
		}
		built <- seen
		return untilEnd, nil
	})
}

func touchNode(t *testing.T, name string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"hosted.test/at":%q}}}`,
		time.Now().Format(time.RFC3339Nano))
	if _, err := shared.Admin.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func lose(t *testing.T, e *ccmtest.ManualElector) {
	t.Helper()
	e.Lose(errors.New("the test wants it"))
	if release := e.WaitReleased(t); !release.Drained {
		t.Fatalf("the term did not drain: %v", release.Err)
	}
}

// The four controllers and one of the host use the host's informers for two terms. The end of a
// term does not disturb the host.
func TestHostInformers_ServeOneTermAfterAnother(t *testing.T) {
	host := startProgram(t)
	cloud := newCloud(t, "shared-1", "shared-2", "shared-3")
	elector, built := leading(), make(chan [2]*witness, 2)
	p := params(t, cloud, elector)
	p.Informers = host.informers()
	p.Controllers = []ccm.Controller{watching("mine", built)}
	m, stop := run(t, p)

	ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(m))
	first := <-built
	worksOnNode(t, cloud, "shared-1", "10.244.11.0/24")
	service := ccmtest.CreateService(t, shared.Admin, ccmtest.LoadBalancerService("shared"))
	ccmtest.Eventually(t, "the Service has an address",
		ccmtest.ServiceAddress(shared.Admin, service.Namespace, service.Name))
	wantWarnings(t, m, "Informers are the host's", "failed lists and watches of nodes")
	if err := shared.Admin.CoreV1().Services(service.Namespace).Delete(t.Context(), service.Name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ccmtest.Eventually(t, "the Service is gone",
		ccmtest.Gone(shared.Admin.CoreV1().Services(service.Namespace).Get, service.Name))

	lose(t, elector)
	told := [2]int{first[0].count(), first[1].count()}
	calls := len(cloud.Calls())
	createConfigMap(t, "between-terms")
	ccmtest.CreateNode(t, shared.Admin,
		ccmtest.TaintedNode("shared-2", ccmtest.NodePodCIDRs("10.244.12.0/24")))
	touchNode(t, "shared-1")
	host.nodes.wait(t, "add shared-2", 1)
	host.waitConfigMap(t, "between-terms")

	elector.Lead()
	ccmtest.Eventually(t, "the second term is ready",
		ccmtest.Status(m, func(s status.Manager) bool { return s.Ready && s.Term == 2 }))
	second := <-built
	second[0].wait(t, "add shared-1", 1)
	second[0].wait(t, "add shared-2", 1)
	second[1].wait(t, "add between-terms", 1)
	worksOnNode(t, cloud, "shared-2", "")
	if got := [2]int{first[0].count(), first[1].count()}; got != told {
		t.Errorf("handlers of the first term were called %v times after its end",
			[]int{got[0] - told[0], got[1] - told[1]})
	}
	for _, call := range cloud.Calls()[calls:] {
		if call.Caller == fake.TermCaller(t.Name(), 1) {
			t.Errorf("a call of the first term after its end: %+v", call)
		}
	}

	if err := stop(); err != nil {
		t.Fatal(err)
	}
	told = [2]int{second[0].count(), second[1].count()}
	createConfigMap(t, "after-the-run")
	ccmtest.CreateNode(t, shared.Admin, ccmtest.ReadyNode("shared-3"))
	host.nodes.wait(t, "add shared-3", 1)
	host.waitConfigMap(t, "after-the-run")
	if got := [2]int{second[0].count(), second[1].count()}; got != told {
		t.Errorf("handlers of the second term were called %v times after the end of the run",
			[]int{got[0] - told[0], got[1] - told[1]})
	}
	for _, resource := range []string{"nodes", "services", "configmaps"} {
		wantOneWatch(t, resource)
	}
}

// worksOnNode creates a Node, unless it exists, and waits until it has its route.
func worksOnNode(t *testing.T, cloud *fake.Cloud, name, cidr string) {
	t.Helper()
	if cidr != "" {
		ccmtest.CreateNode(t, shared.Admin, ccmtest.TaintedNode(name, ccmtest.NodePodCIDRs(cidr)))
	}
	node := ccmtest.Eventually(t, "the node is initialized",
		ccmtest.Initialized(shared.Admin, name))
	ccmtest.Eventually(t, "the node has an address",
		ccmtest.NodeAddress(shared.Admin, name, corev1.NodeInternalIP))
	ccmtest.Eventually(t, "the route exists", ccmtest.Routed(cloud, name, node.Spec.PodCIDR))
}

func wantWarnings(t *testing.T, m *ccm.Manager, want ...string) {
	t.Helper()
	warnings := strings.Join(m.Status().Warnings, "\n")
	for _, text := range want {
		if !strings.Contains(warnings, text) {
			t.Errorf("the warnings lack %q: %s", text, warnings)
		}
	}
}

// wantOneWatch checks that only the host has listed and watched a resource, once.
func wantOneWatch(t *testing.T, resource string) {
	t.Helper()
	count := map[string]int{}
	for _, r := range requests(t, controlplane.ByResource("", resource),
		controlplane.ByVerb("list", "watch")) {
		if r.User != hostUser {
			t.Errorf("a request for %s is not the host's: %s", resource, r)
		}
		// A server that cannot stream a list, such as that of Kubernetes 1.31, refuses the request.
		if r.Code != http.StatusUnprocessableEntity {
			count[r.Verb]++
		}
	}
	// A watch that begins with the existing objects replaces a list.
	if count["watch"] != 1 || count["list"] > 1 {
		t.Errorf("the host has listed %s %d times and watched them %d times, want once", resource,
			count["list"], count["watch"])
	}
}

// The informers that the CCM had to start end with the fx app. The informers of the host continue.
func TestHostInformers_InAnApp_OnlyThoseThatTheCCMStartedEndWithIt(t *testing.T) {
	t.Parallel()
	host := startProgram(t)
	built := make(chan [2]*witness, 1)
	app := startApp(t, newCloud(t), only("mine"), ccmtest.WithControllers(watching("mine", built)),
		ccmtest.WithFx(
			fx.Supply(fx.Annotate(host.factory, fx.As(new(informers.SharedInformerFactory))))))
	app.WaitReady()
	app.Stop()
	maps, nodes := host.factory.Core().V1().ConfigMaps().Informer(),
		host.factory.Core().V1().Nodes().Informer()
	ccmtest.Eventually(t, "the informer that the CCM has started has stopped",
		func(context.Context) (cache.SharedIndexInformer, error) {
			if !maps.IsStopped() {
				return maps, errors.New("it runs")
			}
			return maps, nil
		})
	if nodes.IsStopped() {
		t.Error("the host's informer has stopped, too")
	}
}

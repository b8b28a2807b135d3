package nodeipam_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/controllers/nodeipam"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

func TestNodes_BeforeAndAfterTheStart_GetARangeOfEachFamilyInOnePatch(t *testing.T) {
	mark := suite.cp.Audit().Mark()
	kept := create(t, "kept", ccmtest.NodePodCIDRs("10.244.3.0/24", "fd00:0:0:3::/64"))
	names := []string{create(t, "before-1"), create(t, "before-2")}
	app := start(t, fake.New(), allocate("10.244.0.0/21,fd00::/56", func(c *ccm.Config) {
		c.NodeIPAM.ServiceCIDR = "10.244.0.0/23,fd00::/64"
	}))
	names = append(names, create(t, "after-1"), create(t, "after-2"), create(t, "after-3"))
	var all []string
	for _, name := range append(names, kept) {
		all = append(all, waitRanges(t, name, 2)...)
	}
	app.Stop()
	slices.Sort(all)
	// Services use none of six /24 ranges. Five of these are in use, and as many IPv6 ranges.
	if got := len(slices.Compact(all)); got != 12 {
		t.Errorf("%d ranges are in use, want 12 different ones: %v", got, all)
	}
	for _, cidr := range all {
		p := netip.MustParsePrefix(cidr)
		if p.Overlaps(netip.MustParsePrefix("10.244.0.0/23")) ||
			p.Overlaps(netip.MustParsePrefix("fd00::/64")) {
			t.Errorf("range %s overlaps the service CIDR", cidr)
		}
	}
	for _, name := range names {
		if got := writes(t, mark, name); !slices.Equal(got, []string{"patch 200"}) {
			t.Errorf("requests that change %s: %v, want one patch", name, got)
		}
	}
	if got := writes(t, mark, kept); len(got) > 0 {
		t.Errorf("the node with ranges was changed: %v", got)
	}
	app.VerifyNoLeaks()
}

func TestSecondTerm_NodesDeletedAndChangedBetweenTerms_UsesOnlyFreeRanges(t *testing.T) {
	names := []string{create(t, "a"), create(t, "b"), create(t, "c")}
	app := start(t, fake.New(), allocate("10.244.0.0/21", nil))
	for _, name := range names {
		waitRanges(t, name, 1)
	}
	app.Elector.Lose(errors.New("partition"))
	app.Elector.WaitReleased(t)

	remove(t, names[0])
	names = names[1:]
	// Another allocator writes a range between the terms.
	names = append(names, create(t, "d", ccmtest.NodePodCIDRs("10.244.6.0/24")))
	for i := range 5 {
		names = append(names, create(t, fmt.Sprint("e", i)))
	}
	mark := suite.cp.Audit().Mark()
	app.Elector.Lead()
	var all []string
	for _, name := range names {
		all = append(all, waitRanges(t, name, 1)...)
	}
	slices.Sort(all)
	want := []string{
		"10.244.0.0/24", "10.244.1.0/24", "10.244.2.0/24", "10.244.3.0/24",
		"10.244.4.0/24", "10.244.5.0/24", "10.244.6.0/24", "10.244.7.0/24",
	}
	if !slices.Equal(all, want) {
		t.Errorf("ranges %v, want all eight, each once", all)
	}
	app.Stop()
	for _, name := range names[:3] {
		if got := writes(t, mark, name); len(got) > 0 {
			t.Errorf("%s was changed although it had its range: %v", name, got)
		}
	}
	app.VerifyNoLeaks()
}

func TestFullClusterCIDR_NodeIsDeleted_WaitingNodeGetsItsRange(t *testing.T) {
	registry := prometheus.NewRegistry()
	app := ccmtest.StartApp(t, suite.cp, fake.New(), ccmtest.WithIdentity(suite.identity),
		ccmtest.WithControllers(nodeipam.Controller()), allocate("10.244.0.0/23", nil),
		ccmtest.WithFx(fx.Supply(registry)))
	names := []string{create(t, "first"), create(t, "second")}
	ranges := waitRanges(t, names[0], 1)
	waitRanges(t, names[1], 1)
	waits := create(t, "third")
	waitEvent(t, waits, "CIDRNotAvailable",
		"all /24 ranges of the cluster CIDR 10.244.0.0/23 are in use")
	waitMetrics(t, registry, 2, 0, 1)

	remove(t, names[0])
	if got := waitRanges(t, waits, 1); !slices.Equal(got, ranges) {
		t.Errorf("the waiting node got %v, want the released %v", got, ranges)
	}
	waitMetrics(t, registry, 2, 0, 0)
	if got := events(t, waits); len(got) != 1 || got[0].Count > 1 {
		t.Errorf("events %v, want one that was written once", got)
	}
	app.Stop()
	if got, err := registry.Gather(); err != nil || len(got) > 0 {
		t.Errorf("series after the stop: %v, %v", got, err)
	}
}

func TestIrregularRanges_AreReportedAndKept(t *testing.T) {
	mark := suite.cp.Audit().Mark()
	outside := create(t, "outside", ccmtest.NodePodCIDRs("192.168.7.0/24"))
	twins := []string{
		create(t, "twin", ccmtest.NodePodCIDRs("10.244.0.0/24")),
		create(t, "twin", ccmtest.NodePodCIDRs("10.244.0.0/24")),
	}
	app := start(t, fake.New(), allocate("10.244.0.0/23", nil))
	waitEvent(t, outside, "CIDROutsideClusterCIDR", "192.168.7.0/24 is outside the cluster CIDR")
	// The second twin in the list has the event.
	slices.Sort(twins)
	waitEvent(t, twins[1], "CIDRShared", "10.244.0.0/24 is also in use by "+twins[0])

	remove(t, twins[0])
	// The range of the deleted twin is still in use.
	if got := waitRanges(t, create(t, "new"), 1); !slices.Equal(got, []string{"10.244.1.0/24"}) {
		t.Errorf("the new node got %v", got)
	}
	app.Stop()
	for _, name := range append(twins, outside) {
		if got := writes(t, mark, name); !slices.Equal(got, nil) {
			t.Errorf("%s was changed: %v", name, got)
		}
	}
}

// tripper interferes with the first patch of a Node.
type tripper struct {
	next    http.RoundTripper
	tripped *atomic.Bool
	trip    func(next http.RoundTripper, r *http.Request) (*http.Response, error)
}

func (t tripper) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/nodes/") &&
		!t.tripped.Swap(true) {
		return t.trip(t.next, r)
	}
	return t.next.RoundTrip(r)
}

func TestFirstPatch_AnswerIsLostOrAnotherClientIsFaster_NodeKeepsItsFirstRange(t *testing.T) {
	for name, c := range map[string]struct {
		trip func(next http.RoundTripper, r *http.Request) (*http.Response, error)
		want []string
		// firstRange is the range of the node.
		firstRange string
	}{
		"answer lost": {
			func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if err == nil {
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
				return nil, errors.New("connection lost")
			},
			// The patch is repeated if the cache does not show its effect before the retry.
			[]string{"patch 200"},
			"10.244.0.0/24",
		},
		"another client is faster": {
			func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
				name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
				body := []byte(`{"spec":{"podCIDR":"10.244.7.0/24","podCIDRs":["10.244.7.0/24"]}}`)
				if _, err := suite.admin.CoreV1().Nodes().Patch(r.Context(), name,
					types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
					return nil, err
				}
				return next.RoundTrip(r)
			},
			[]string{"patch 422"},
			"10.244.7.0/24",
		},
	} {
		t.Run(name, func(t *testing.T) {
			mark := suite.cp.Audit().Mark()
			identity := rest.CopyConfig(suite.identity)
			tripped := &atomic.Bool{}
			identity.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return tripper{next, tripped, c.trip}
			})
			app := start(t, fake.New(), allocate("10.244.0.0/21", nil),
				ccmtest.WithIdentity(identity))
			node := create(t, "contested")
			waittest.Until(t, "the patches reached the API server", func() error {
				if got := slices.Compact(writes(t, mark, node)); !slices.Equal(got, c.want) {
					return fmt.Errorf("requests that change the node: %v, want %v", got,
						c.want)
				}
				return nil
			})
			all := waitRanges(t, node, 1)
			if !slices.Equal(all, []string{c.firstRange}) {
				t.Errorf("the node has %v, want %s", all, c.firstRange)
			}
			// All other ranges are free, so none leaked.
			for i := range 7 {
				all = append(all, waitRanges(t, create(t, fmt.Sprint("other", i)), 1)...)
			}
			slices.Sort(all)
			if got := len(slices.Compact(all)); got != 8 {
				t.Errorf("%d different ranges are in use, want 8: %v", got, all)
			}
			app.Stop()
		})
	}
}

func TestCloudAllocator_CloudAssignsRanges_NodesGetThemInEachTerm(t *testing.T) {
	mark := suite.cp.Audit().Mark()
	cloud := fake.New()
	assign := func(name string, cidrs ...string) {
		t.Helper()
		if err := cloud.AddInstances(fake.Instance{Name: name, PodCIDRs: cidrs}); err != nil {
			t.Fatal(err)
		}
	}
	first, later, wrong := create(t, "first"), create(t, "later"), create(t, "wrong")
	assign(first, "10.1.0.0/24", "10.1.0.0/24", "fd00:1::/64", "FD00:1:0::/64")
	assign(later)
	assign(wrong, "10.1.0.0/24", "10.2.0.0/24")
	app := start(t, cloud, allocate("", func(c *ccm.Config) {
		c.NodeIPAM.AllocatorType = nodeipam.CloudAllocator
	}))
	if got := waitRanges(t, first, 2); !slices.Equal(got, []string{"10.1.0.0/24", "fd00:1::/64"}) {
		t.Errorf("the node got %v", got)
	}
	waitEvent(t, later, "CIDRNotAvailable", "has not assigned a pod range")
	waitEvent(t, wrong, "CIDRNotAvailable", "are of one IP family")
	app.Elector.Lose(errors.New("partition"))
	app.Elector.WaitReleased(t)

	assign(later, "10.3.0.0/24")
	app.Elector.Lead()
	waitRanges(t, later, 1)
	app.Stop()
	if got := append(writes(t, mark, first), writes(t, mark, later)...); !slices.Equal(got,
		[]string{"patch 200", "patch 200"}) {
		t.Errorf("requests that change the nodes: %v, want one patch of each", got)
	}
	if got := writes(t, mark, wrong); len(got) > 0 {
		t.Errorf("the node with invalid ranges was changed: %v", got)
	}
	app.VerifyNoLeaks()
}

// unreporting is a cloud whose InstancesV2 does not report pod ranges.
type unreporting struct{ cloudprovider.Interface }

func (u unreporting) InstancesV2() (cloudprovider.InstancesV2, bool) {
	instances, ok := u.Interface.InstancesV2()
	return struct{ cloudprovider.InstancesV2 }{instances}, ok
}

func TestController_WithoutItsFlagOrProvider_IsSkippedWithTheReason(t *testing.T) {
	inner := fake.New().CCMProvider()
	provider := ccm.Provider{
		Name: inner.Name,
		New: func(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
			cloud, err := inner.New(ctx, env)
			return unreporting{cloud}, err
		},
	}
	for reason, change := range map[string]func(*ccm.Config){
		"(--allocate-node-cidrs) is false": func(c *ccm.Config) { c.AllocateNodeCIDRs = false },
		"does not report pod ranges": func(c *ccm.Config) {
			c.NodeIPAM.AllocatorType = nodeipam.CloudAllocator
		},
	} {
		t.Run(reason, func(t *testing.T) {
			app := start(t, fake.New(), allocate("10.244.0.0/16", change),
				ccmtest.WithProvider(provider))
			for _, c := range app.WaitReady().Controllers {
				if c.Name == nodeipam.Name && (c.State != status.ControllerSkipped ||
					!strings.Contains(c.Reason, reason)) {
					t.Errorf("the controller is %+v, want it skipped: %s", c, reason)
				}
			}
		})
	}
}

func TestNew_InvalidSettings_AreErrorsIfTheControllerWorks(t *testing.T) {
	for want, change := range map[string]func(*ccm.Config){
		"clusterCIDR: Required": func(c *ccm.Config) { c.ClusterCIDR = "" },
		"nodeIPAM.allocatorType: Unsupported value": func(c *ccm.Config) {
			c.NodeIPAM.AllocatorType = "IPAMFromCloud"
		},
		"node mask size 15 must be from 16": func(c *ccm.Config) {
			c.NodeIPAM.NodeCIDRMaskSize = 15
		},
		"node mask size 33 must be from 16": func(c *ccm.Config) {
			c.NodeIPAM.NodeCIDRMaskSizeIPv4 = 33
		},
		"--node-cidr-mask-size is for one cluster CIDR": func(c *ccm.Config) {
			c.ClusterCIDR, c.NodeIPAM.NodeCIDRMaskSize = "10.244.0.0/16,fd00::/56", 24
		},
		"an IP family that the cluster CIDR": func(c *ccm.Config) {
			c.NodeIPAM.NodeCIDRMaskSizeIPv6 = 64
		},
		"node mask size 64 must be at most 60": func(c *ccm.Config) { c.ClusterCIDR = "fd00::/40" },
		"nodeIPAM.serviceCIDR": func(c *ccm.Config) {
			c.NodeIPAM.ServiceCIDR = "10.96.0.0"
		},
	} {
		cfg := ccmtest.Config()
		cfg.Controllers = []string{"nodeipam"}
		cfg.ClusterCIDR, cfg.AllocateNodeCIDRs = "10.244.0.0/16", true
		change(&cfg)
		params := ccm.Params{
			Config: cfg, Providers: []ccm.Provider{fake.New().CCMProvider()},
			Controllers: []ccm.Controller{nodeipam.Controller()}, RESTConfig: suite.cp.RESTConfig(),
		}
		if _, err := ccm.New(params); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		// Manifests for upstream's command contain flags that had no effect there.
		if params.Config.Controllers = []string{"*"}; cfg.ClusterCIDR != "" {
			if _, err := ccm.New(params); err != nil {
				t.Errorf("%s: without the controller, got %v", want, err)
			}
		}
	}
}

// start runs a CCM with only this controller.
func start(t testing.TB, cloud *fake.Cloud, opts ...ccmtest.Option) *ccmtest.CCM {
	t.Helper()
	return ccmtest.StartManager(t, suite.cp, cloud, append([]ccmtest.Option{
		ccmtest.WithIdentity(suite.identity),
		ccmtest.WithControllers(nodeipam.Controller()),
	}, opts...)...)
}

func allocate(clusterCIDR string, change func(*ccm.Config)) ccmtest.Option {
	return ccmtest.WithConfig(func(c *ccm.Config) {
		c.Controllers = []string{nodeipam.Name}
		c.ClusterCIDR, c.AllocateNodeCIDRs = clusterCIDR, true
		if change != nil {
			change(c)
		}
	})
}

func create(t testing.TB, prefix string, opts ...ccmtest.NodeOption) string {
	t.Helper()
	node := ccmtest.ReadyNode(prefix+"-"+utilrand.String(5), opts...)
	return ccmtest.CreateNode(t, suite.admin, node).Name
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := suite.admin.CoreV1().Nodes().Delete(t.Context(), name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// waitRanges waits until the node has n ranges.
func waitRanges(t testing.TB, name string, n int) []string {
	t.Helper()
	return ccmtest.Eventually(t, fmt.Sprintf("has %d ranges", n),
		ccmtest.Object(suite.admin.CoreV1().Nodes().Get, name, func(node *corev1.Node) error {
			if len(node.Spec.PodCIDRs) != n || node.Spec.PodCIDR != node.Spec.PodCIDRs[0] {
				return fmt.Errorf("ranges %v", node.Spec.PodCIDRs)
			}
			return nil
		})).Spec.PodCIDRs
}

// writes lists the CCM's requests to change the node.
func writes(t *testing.T, since controlplane.Mark, name string) []string {
	t.Helper()
	records, err := suite.cp.Audit().Since(since, controlplane.ByUser(suite.user),
		controlplane.ByResource("", "nodes"), controlplane.ByName(name), controlplane.Mutating())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, r := range records {
		all = append(all, fmt.Sprint(r.Verb, " ", r.Code))
	}
	return all
}

func events(t *testing.T, node string) []corev1.Event {
	t.Helper()
	list, err := suite.admin.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(),
		metav1.ListOptions{FieldSelector: "involvedObject.name=" + node})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func waitEvent(t *testing.T, node, reason, message string) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("%s has the event %s: %s", node, reason, message), func() error {
		all := events(t, node)
		if !slices.ContainsFunc(all, func(e corev1.Event) bool {
			return e.Type == corev1.EventTypeWarning && e.Reason == reason &&
				strings.Contains(e.Message, message)
		}) {
			return fmt.Errorf("events %v", all)
		}
		return nil
	})
}

func waitMetrics(t *testing.T, registry *prometheus.Registry, ranges, free, waiting int) {
	t.Helper()
	const gauge = `# HELP %[1]s %[2]s
# TYPE %[1]s gauge
%[1]s{%[3]smanager=""} %[4]d
`
	cidr := `cluster_cidr="10.244.0.0/23",`
	want := fmt.Sprintf(gauge, "fxccm_node_ipam_ranges", "Node ranges in the cluster CIDR, "+
		"if node-ipam-controller divides it. Only the leader has them.", cidr, ranges) +
		fmt.Sprintf(gauge, "fxccm_node_ipam_ranges_free", "Node ranges in the cluster CIDR "+
			"that no node and no service CIDR uses.", cidr, free) +
		fmt.Sprintf(gauge, "fxccm_node_ipam_nodes_waiting", "Nodes that wait for a pod range "+
			"because the last attempt failed.", "", waiting)
	waittest.Until(t, "the metrics have their values", func() error {
		return testutil.GatherAndCompare(registry, strings.NewReader(want),
			"fxccm_node_ipam_ranges", "fxccm_node_ipam_ranges_free",
			"fxccm_node_ipam_nodes_waiting")
	})
}

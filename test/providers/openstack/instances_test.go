package openstack_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/test/internal/project"
)

// newNode is a node that the cloud is yet to initialize.
func newNode(name, providerID string) *v1.Node {
	node := nodeWithID(name, providerID)
	node.CreationTimestamp = metav1.Now()
	node.Spec.Taints = []v1.Taint{{
		Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true",
		Effect: v1.TaintEffectNoSchedule,
	}}
	return node
}

// fresh disables caching of answers.
func fresh(p *project.Project) cloudconf.Config {
	cfg := p.Config()
	cfg.Instances.StatusMaxAge, cfg.Instances.MetadataMaxAge = 0, 0
	return cfg
}

func instancesOf(t *testing.T, c cloudprovider.Interface) cloudprovider.InstancesV2 {
	t.Helper()
	instances, supported := c.InstancesV2()
	if !supported {
		t.Fatal("there are no instances")
	}
	return instances
}

// It looks at servers that do not change.
func TestInstances_Unchanged_AreFoundInEachWay(t *testing.T) {
	t.Parallel()
	p := project.New(t)
	servers := serversOfADeletedFlavor(t, p)
	p.AddServer("twin")
	t.Run("Metadata", func(t *testing.T) { testMetadata(t, p.In(t), servers[0]) })
	t.Run("Names", func(t *testing.T) { testNames(t, p.In(t), servers[1]) })
	t.Run("ProviderIDs", func(t *testing.T) { testProviderIDs(t, p.In(t), servers[0]) })
}

// serversOfADeletedFlavor have one of their own, of which only they know any more.
func serversOfADeletedFlavor(t *testing.T, p *project.Project) []project.Server {
	t.Helper()
	admin := p.Admin()
	flavor := project.ID(admin.Must(http.MethodPost, project.Compute, "/flavors",
		project.Object{"flavor": project.Object{
			"name": p.Name + ".short-lived", "vcpus": 1,
			"ram": 64, "disk": 1,
		}}).Inner("flavor"))
	// Flavors are no project's: it must not stay, whatever happens.
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, _ = admin.API().Do(ctx, http.MethodDelete, project.Compute, "/flavors/"+flavor, nil)
	})
	servers := p.AddServers([]string{"node-1", "NODE-1", "node-10", "twin"},
		project.Object{"flavorRef": flavor})
	admin.Must(http.MethodDelete, project.Compute, "/flavors/"+flavor, nil)
	return servers
}

// testMetadata of a new node that is known by its name: a request for the server and one for its
// ports. The flavor may be deleted.
func testMetadata(t *testing.T, p *project.Project, s project.Server) {
	for name, test := range map[string]struct {
		node *v1.Node
		want []string
	}{
		"by name":        {newNode(s.Name, ""), []string{"GET servers/detail 200", "GET v2.0/ports 200"}},
		"by provider ID": {newNode(s.Name, s.ProviderID()), []string{"GET servers/{id} 200", "GET v2.0/ports 200"}},
	} {
		c := p.Open(t, p.Config())
		mark := p.Wire.Mark()
		got, err := instancesOf(t, c).InstanceMetadata(t.Context(), test.node)
		want := &cloudprovider.InstanceMetadata{
			ProviderID: s.ProviderID(), InstanceType: p.Name + ".short-lived", Zone: p.Zones[0],
			Region:        p.Config().Global.Region,
			NodeAddresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: s.Addresses[4]}},
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
		if requests := traffic(p.Wire.Since(mark, nil)); !slices.Equal(requests,
			append([]string{loggedIn}, test.want...)) {
			t.Errorf("%s: the requests are %q", name, requests)
		}
	}
}

// testNames: Nova's filter is a pattern, and ignores case. A node's name does neither.
func testNames(t *testing.T, p *project.Project, upper project.Server) {
	c := p.Open(t, fresh(p))
	got, err := instancesOf(t, c).InstanceMetadata(t.Context(), nodeWithID("NODE-1", ""))
	if err != nil || got.ProviderID != upper.ProviderID() {
		t.Errorf("NODE-1 is %+v, %v; want %s", got, err, upper.ID)
	}
	for name, says := range map[string]string{
		"twin":   "several servers have the name of node",
		"node.1": "the instance is missing; waiting for confirmation",
		"node":   "the instance is missing; waiting for confirmation",
	} {
		if got, err := instancesOf(t, c).InstanceMetadata(t.Context(),
			nodeWithID(name, "")); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s is %+v, %v; want %q", name, got, err, says)
		}
	}
	if _, err := instancesOf(t, c).InstanceMetadata(t.Context(),
		newNode("node.1", "")); err == nil ||
		!strings.Contains(err.Error(), "no server matches the node") {
		t.Errorf("a new node without a server: %v", err)
	}
	// Hosts whose kubelets are named by the ids of their servers.
	if got, err := instancesOf(t, c).InstanceMetadata(t.Context(),
		newNode(upper.ID, "")); err != nil || got.ProviderID != upper.ProviderID() {
		t.Errorf("a node named %s is %+v, %v", upper.ID, got, err)
	}
}

func testProviderIDs(t *testing.T, p *project.Project, s project.Server) {
	cfg := fresh(p)
	region := cfg.Global.Region
	plain := p.Open(t, cfg)
	cfg.Instances.Regional = true
	regional := p.Open(t, cfg)
	for _, id := range []string{
		"openstack:///" + s.ID, "openstack://" + region + "/" + s.ID, "/" + s.ID,
		region + "/" + s.ID, s.ID, "openstack:///" + strings.ToUpper(s.ID),
	} {
		for c, want := range map[*project.Cloud]string{
			plain:    "openstack:///" + s.ID,
			regional: "openstack://" + region + "/" + s.ID,
		} {
			got, err := instancesOf(t, c).InstanceMetadata(t.Context(), nodeWithID("any", id))
			if err != nil || got.ProviderID != want || got.Region != region {
				t.Errorf("%s: %+v, %v; want %s", id, got, err, want)
			}
		}
	}
	mark := p.Wire.Mark()
	for _, id := range []string{
		"openstack://elsewhere/" + s.ID, "openstack://" + s.ID,
		"aws:///" + s.ID, "openstack:///", "openstack:///a/b/c",
	} {
		if exists, err := instancesOf(t, plain).InstanceExists(t.Context(),
			nodeWithID("any", id)); err == nil || !strings.Contains(err.Error(), id) {
			t.Errorf("%s: exists %t, %v", id, exists, err)
		}
	}
	if calls := p.Wire.Since(mark, nil); len(calls) != 0 {
		t.Errorf("Nova was requested a malformed ID: %q", traffic(calls))
	}
}

// It changes servers.
func TestInstances_Changed_AreSeen(t *testing.T) {
	t.Parallel()
	p := project.New(t)
	servers := p.AddServers([]string{"states", "deleted", "other-1"})
	t.Run("States", func(t *testing.T) { testNodeStates(t, p.In(t), servers[0]) })
	t.Run("Deleted", func(t *testing.T) {
		testDeletedTwiceDenied(t, p.In(t), servers[1], servers[2])
	})
}

// testNodeStates goes through the states that the fake hypervisor knows. An offloaded server has no
// zone.
func testNodeStates(t *testing.T, p *project.Project, s project.Server) {
	c := p.Open(t, fresh(p))
	node := nodeWithID(s.Name, s.ProviderID())
	act := func(who project.Requests, action string, body any) {
		who.Must(http.MethodPost, project.Compute, "/servers/"+s.ID+"/action",
			project.Object{action: body})
	}
	for _, step := range []struct {
		action   string
		body     any
		admin    bool
		status   string
		shutdown bool
		zone     string
	}{
		{"os-stop", nil, false, "SHUTOFF", true, p.Zones[0]},
		{"os-resetState", project.Object{"state": "error"}, true, "ERROR", true, p.Zones[0]},
		{"reboot", project.Object{"type": "HARD"}, false, "ACTIVE", false, p.Zones[0]},
		{"os-resetState", project.Object{"state": "error"}, true, "ERROR", false, p.Zones[0]},
		{"os-resetState", project.Object{"state": "active"}, true, "ACTIVE", false, p.Zones[0]},
		{"pause", nil, false, "PAUSED", true, p.Zones[0]},
		{"unpause", nil, false, "ACTIVE", false, p.Zones[0]},
		{"suspend", nil, false, "SUSPENDED", true, p.Zones[0]},
		{"resume", nil, false, "ACTIVE", false, p.Zones[0]},
		{"rescue", nil, false, "RESCUE", false, p.Zones[0]},
		{"unrescue", nil, false, "ACTIVE", false, p.Zones[0]},
		{"shelve", nil, false, "SHELVED_OFFLOADED", true, ""},
		{"unshelve", nil, false, "ACTIVE", false, p.Zones[0]},
		{"lock", nil, false, "ACTIVE", false, p.Zones[0]},
	} {
		who := p.User()
		if step.admin {
			who = p.Admin()
		}
		act(who, step.action, step.body)
		p.Wait("server "+s.ID+" is "+step.status, func() error {
			got := p.User().Get(project.Compute, "/servers/"+s.ID, "server")
			if got["status"] != step.status || got["OS-EXT-STS:task_state"] != nil {
				return fmt.Errorf("%v, %v", got["status"], got["OS-EXT-STS:task_state"])
			}
			return nil
		})
		exists, err1 := instancesOf(t, c).InstanceExists(t.Context(), node)
		shutdown, err2 := instancesOf(t, c).InstanceShutdown(t.Context(), node)
		meta, err3 := instancesOf(t, c).InstanceMetadata(t.Context(), node)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatalf("after %s: %v", step.action, err)
		}
		if !exists || shutdown != step.shutdown || meta.Zone != step.zone ||
			!slices.Contains(meta.NodeAddresses,
				v1.NodeAddress{Type: v1.NodeInternalIP, Address: s.Addresses[4]}) {
			t.Errorf("after %s, %s: exists %t, shut down %t, %+v; want shut down %t, zone %q",
				step.action, step.status, exists, shutdown, meta, step.shutdown, step.zone)
		}
	}
}

// testDeletedTwiceDenied: a deleted server counts as gone when Nova has denied it twice, ten
// seconds apart, by its ID or by its name.
func testDeletedTwiceDenied(t *testing.T, p *project.Project, s, other project.Server) {
	clock := clocktesting.NewFakeClock(time.Now())
	cfg := fresh(p)
	byID, byName, lives := nodeWithID("by-id", s.ProviderID()), nodeWithID(s.Name, ""),
		nodeWithID(other.Name, other.ProviderID())
	c := p.OpenWith(t, []openstack.Option{openstack.WithConfig(cfg)},
		func(env *ccm.ProviderEnv) { env.Clock = clock }, byID, byName, lives)
	instances := instancesOf(t, c)
	for _, node := range []*v1.Node{byID, byName} {
		if exists, err := instances.InstanceExists(t.Context(), node); err != nil || !exists {
			t.Fatalf("%s: exists %t, %v", node.Name, exists, err)
		}
	}
	p.User().Delete(project.Compute, "/servers/"+s.ID)
	p.WaitServer(s.ID, "")
	confirmation := cfg.Instances.AbsenceConfirmation
	for _, step := range []struct {
		after time.Duration
		gone  bool
	}{
		{time.Second, false},
		{confirmation - time.Second, false},
		{time.Second, true},
		{time.Second, true},
	} {
		clock.Step(step.after)
		for _, node := range []*v1.Node{byID, byName} {
			mark := p.Wire.Mark()
			exists, err := instances.InstanceExists(t.Context(), node)
			calls := p.Wire.Since(mark, nil)
			if exists || (err == nil) != step.gone {
				t.Errorf("%s: exists %t, %v; want gone %t; the requests are %q", node.Name, exists,
					err, step.gone, traffic(calls))
			}
			if _, err := instances.InstanceShutdown(t.Context(), node); errors.Is(err,
				cloudprovider.InstanceNotFound) != step.gone {
				t.Errorf("%s: shut down: %v; want gone %t", node.Name, err, step.gone)
			}
		}
	}
	if exists, err := instances.InstanceExists(t.Context(), lives); err != nil || !exists {
		t.Errorf("%s: exists %t, %v", lives.Name, exists, err)
	}
}

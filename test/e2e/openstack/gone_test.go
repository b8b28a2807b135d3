package openstack_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// deletionOf is when the CCM asked the API server to delete the node.
func deletionOf(t *testing.T, since controlplane.Mark, name string) controlplane.AuditRecord {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), ccmtest.WaitLimit)
	defer cancel()
	records, err := shared.Audit().Wait(ctx, since, 1, controlplane.ByUser(shared.User),
		controlplane.ByName(name),
		controlplane.ByVerb("delete"), controlplane.ByCode(http.StatusOK))
	if err != nil {
		t.Fatal(err)
	}
	return records[0]
}

func TestGone_ANodeIsDeletedWhenNovaHasDeniedItsServerTwice(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ready(t, s)
	m := s.addServer("gone-1")
	began := shared.Audit().Mark()
	node := notReady(t, m)
	s.waitCalls(0, 3, operations("server_get"), "the server is asked for")
	before := s.mark()
	s.must(s.DeleteServer(m.id))
	ccmtest.WaitNodeGone(t, shared.Client(t), m.name)
	event := waitEvent(t, shared.Client(t), node, "DeletingNode")
	if !strings.Contains(event.Message, "does not exist in the cloud provider") {
		t.Errorf("the event says %q", event.Message)
	}
	deleted := deletionOf(t, began, m.name).Time
	var denials []openstacktest.Call
	for _, c := range s.since(before, operations("server_get")) {
		if c.Status == http.StatusNotFound && c.Time.Before(deleted) {
			denials = append(denials, c)
		}
	}
	if len(denials) < 2 {
		t.Fatalf("the node was deleted after %d denials, want 2:\n%s", len(denials),
			describe(denials))
	}
	// A call is recorded a moment after the provider has looked at its clock, and the first one
	// more so than the second at times.
	if apart := denials[len(denials)-1].Time.Sub(denials[0].Time) * 10; apart < confirmation/2 {
		t.Errorf("the denials are %s apart, want about %s or more", apart, confirmation)
	}
}

// A node whose instance was never written to it is found by its name, and gone with the server of
// that name.
func TestGone_ANodeThatIsKnownByItsNameOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ready(t, s)
	stays, goes := s.addServer("by-name-stays"), s.addServer("by-name-goes")
	kept := ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.ReadyNode(stays.name, ccmtest.NodeNotReady()))
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode(goes.name, ccmtest.NodeNotReady()))
	s.waitCalls(0, 3, operations("server_list"), "servers are looked for by name")
	s.must(s.DeleteServer(goes.id))
	ccmtest.WaitNodeGone(t, shared.Client(t), goes.name)
	before := s.mark()
	s.waitCalls(before, 6, operations("server_list"), "the other one is looked for")
	wantUntouched(t, kept)
}

// A node that has never had a server may be misspelt, or its server of another project. It is kept
// and not initialised; the log says why.
func TestGone_ANewNodeThatNeverHadAServer_IsKept(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ready(t, s)
	node := ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.TaintedNode("never-1", ccmtest.NodeNotReady()))
	s.waitCalls(0, 15, operations("server_list"), "it is looked for")
	wantUntouched(t, node)
	s.addServer("never-1")
	initialised(t, "never-1")
}

func TestGone_ProviderIDsOfAllForms_LeadToTheServer(t *testing.T) {
	t.Parallel()
	for form, write := range map[string]func(id string) string{
		"full":     func(id string) string { return "openstack:///" + id },
		"regional": func(id string) string { return "openstack://RegionOne/" + id },
		"bare":     func(id string) string { return id },
		"upper":    func(id string) string { return "openstack:///" + strings.ToUpper(id) },
		"path":     func(id string) string { return "/" + id },
	} {
		t.Run(form, func(t *testing.T) {
			s := newSite(t)
			ready(t, s, refreshed)
			// The name leads nowhere: only the provider ID tells whose node it is.
			m := s.addServer("server-of-" + form)
			name := "id-" + form
			ccmtest.CreateNode(t, shared.Client(t),
				ccmtest.ReadyNode(name, ccmtest.NodeProviderID(write(m.id)),
					ccmtest.NodeNotReady()))
			waitAddress(t, name, corev1.NodeInternalIP, s.address(m, 4))
			s.must(s.DeleteServer(m.id))
			ccmtest.WaitNodeGone(t, shared.Client(t), name)
		})
	}
}

// Nobody knows what is in another region, or behind another cloud's provider ID.
func TestGone_NodesOfOtherCloudsAreKept(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := ready(t, s)
	var nodes []*corev1.Node
	for name, id := range map[string]string{
		"other-region": "openstack://RegionTwo/11111111-1111-4111-8111-111111111111",
		"other-cloud":  "aws:///eu-1/i-0123", "other-form": "openstack://nothing",
	} {
		nodes = append(nodes,
			ccmtest.CreateNode(t, shared.Client(t),
				ccmtest.ReadyNode(name, ccmtest.NodeProviderID(id), ccmtest.NodeNotReady())))
	}
	m := s.addServer("other-marker")
	notReady(t, m)
	s.waitCalls(0, 8, operations("server_*"), "there are passes that come to the one that is known")
	wantUntouched(t, nodes...)
	for _, c := range s.since(0, operations("server_get")) {
		if !strings.HasSuffix(c.Path, m.id) {
			t.Errorf("Nova was asked for the server of another cloud: %s", c.Path)
		}
	}
	r.unbroken()
}

// vanish makes nodes of six servers that are not ready, and deletes four of the servers at once. It
// returns when that is refused.
func vanish(t *testing.T, s *site, prefix string) (r *replica, gone, left []*corev1.Node) {
	t.Helper()
	r = ready(t, s, named(prefix))
	var machines []machine
	for i := range 6 {
		machines = append(machines, s.addServer(fmt.Sprintf("%s-%d", prefix, i)))
	}
	for i, m := range machines {
		node := notReady(t, m)
		if i < 4 {
			gone = append(gone, node)
		} else {
			left = append(left, node)
		}
	}
	s.waitCalls(0, 2, operations("server_list"), "all servers are listed")
	for _, m := range machines[:4] {
		s.must(s.DeleteServer(m.id))
	}
	for _, node := range gone {
		event := waitEvent(t, shared.Client(t), node, "InstancesVanished")
		if event.Type != corev1.EventTypeWarning ||
			!strings.Contains(event.Message, "vanished-number") {
			t.Errorf("the event is %s: %s", event.Type, event.Message)
		}
	}
	before := s.mark()
	s.waitCalls(before, 10, operations("server_list", "server_get"),
		"servers are asked for, for several confirmations")
	wantUntouched(t, gone...)
	wantUntouched(t, left...)
	ours := map[string]string{"manager": prefix}
	if n := metric(t, r.metrics, "fxccm_openstack_absent_instances", ours); n != 4 {
		t.Errorf("%v instances are absent by the metric, want 4", n)
	}
	if n := metric(t, r.metrics, "fxccm_openstack_absence_refused_total", ours); n < 4 {
		t.Errorf("%v absences were refused by the metric, want one for each node at least", n)
	}
	return r, gone, left
}

func TestGone_ManyAtOnce_AreKeptUntilAnOperatorHasDeletedSome(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r, gone, left := vanish(t, s, "vanished")
	// With these two, less than so many are absent that it is refused.
	deleteNode(t, gone[0].Name)
	deleteNode(t, gone[1].Name)
	ccmtest.WaitNodeGone(t, shared.Client(t), gone[2].Name)
	ccmtest.WaitNodeGone(t, shared.Client(t), gone[3].Name)
	wantUntouched(t, left...)
	ccmtest.Eventually(t, "the metric tells that none is absent",
		func(context.Context) (bool, error) {
			if n := metric(t, r.metrics, "fxccm_openstack_absent_instances", nil); n != 0 {
				return false, fmt.Errorf("%v", n)
			}
			return true, nil
		})
	r.unbroken()
}

func TestGone_ManyAtOnce_AreKeptUntilAnOperatorHasRaisedTheLimit(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r, gone, left := vanish(t, s, "allowed")
	r.stop()
	ready(t, s, configured(func(c *cloudconf.Config) { c.Instances.VanishedNumber = 5 }))
	for _, node := range gone {
		ccmtest.WaitNodeGone(t, shared.Client(t), node.Name)
	}
	wantUntouched(t, left...)
}

func TestGone_ManyAtOnce_AreKeptAndForgottenWhenTheyAreBack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r, gone, left := vanish(t, s, "restored")
	for _, node := range gone {
		s.AddServer(
			openstacktest.Server{
				ID:   strings.TrimPrefix(node.Spec.ProviderID, "openstack:///"),
				Name: node.Name,
			})
	}
	ccmtest.Eventually(t, "the metric tells that none is absent",
		func(context.Context) (bool, error) {
			if n := metric(t, r.metrics, "fxccm_openstack_absent_instances", nil); n != 0 {
				return false, fmt.Errorf("%v", n)
			}
			return true, nil
		})
	// A single one that is deleted now is deleted in truth.
	s.must(s.DeleteServer(strings.TrimPrefix(gone[0].Spec.ProviderID, "openstack:///")))
	ccmtest.WaitNodeGone(t, shared.Client(t), gone[0].Name)
	wantUntouched(t, append(left, gone[1:]...)...)
	r.unbroken()
}

// It is one story however long it goes on, told once: not anew with each list of servers that has
// become too old.
func TestGone_ManyAtOnce_IsToldOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r, gone, _ := vanish(t, s, "told")
	// What is known of servers is forgotten after twice the longest of the periods of the provider.
	began := r.clock.Now()
	ccmtest.Eventually(t, "all that was known is forgotten", func(context.Context) (bool, error) {
		if passed := r.clock.Since(began); passed < 5*confirmation {
			return false, fmt.Errorf("%s have passed", passed)
		}
		return true, nil
	})
	if told := r.log.linesWith("Mass deletion guard active: too many instances are missing"); len(
		told) != 1 {
		t.Errorf("that too many have vanished was told %d times, want once:\n%s", len(told),
			strings.Join(told, "\n"))
	}
	if told := r.log.linesWith("Mass deletion guard lifted"); len(told) > 0 {
		t.Errorf("it was told to be over: %q", told)
	}
	for _, node := range gone {
		if event := waitEvent(t, shared.Client(t), node, "InstancesVanished"); event.Count > 1 {
			t.Errorf("node %s was told %d times", node.Name, event.Count)
		}
	}
}

// The same when only one node is asked about: the others are ready, though the cloud does not know
// them.
func TestGone_ManyReadyOnesToo_IsToldOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := ready(t, s)
	for i := range 4 {
		id := fmt.Sprintf("22222222-2222-4222-8222-22222222222%d", i)
		ccmtest.CreateNode(t, shared.Client(t),
			ccmtest.ReadyNode(fmt.Sprintf("absent-%d", i),
				ccmtest.NodeProviderID("openstack:///"+id)))
	}
	lone := notReady(t, machine{id: "33333333-3333-4333-8333-333333333333", name: "absent-lone"})
	waitEvent(t, shared.Client(t), lone, "InstancesVanished")
	began := r.clock.Now()
	ccmtest.Eventually(t, "all that was known is forgotten", func(context.Context) (bool, error) {
		if passed := r.clock.Since(began); passed < 5*confirmation {
			return false, fmt.Errorf("%s have passed", passed)
		}
		return true, nil
	})
	if told := r.log.linesWith("Mass deletion guard lifted"); len(told) > 0 {
		t.Errorf("it was told to be over, %d times: %q", len(told), told[0])
	}
	wantUntouched(t, lone)
}

// A node that is deleted and made anew with the same name, as one that is scaled down and up.
func TestGone_ANameThatIsUsedAgain_IsANewNode(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ready(t, s)
	old := s.addServer("again-1")
	notReady(t, old)
	s.must(s.DeleteServer(old.id))
	ccmtest.WaitNodeGone(t, shared.Client(t), old.name)
	next := s.addServer("again-1")
	tainted(t, next.name)
	if got := initialised(t, next.name).Spec.ProviderID; got != next.providerID() {
		t.Errorf("provider ID %q, want that of the new server %q", got, next.providerID())
	}
	setReady(t, next.name, corev1.ConditionFalse)
	before := s.mark()
	s.waitCalls(before, 8, operations("server_get"), "the new server is asked for")
	if _, err := shared.Client(t).CoreV1().Nodes().Get(t.Context(), next.name,
		metav1.GetOptions{}); err != nil {
		t.Error(errors.Join(errors.New("the new node is not kept"), err))
	}
}

package loadbalancer

import (
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

var (
	birth = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	whose = desired.Identity{
		ClusterName: "kubernetes", ClusterUID: "cluster-1",
		Namespace: "default", Name: "web", UID: "c0ffee00-0000-4000-8000-000000000001",
	}
)

const ownName = "kube_service_kubernetes_default_web"

// of returns a load balancer that was created a minute after the Service.
func of(id, name string, tags ...string) octavia.LoadBalancer {
	return octavia.LoadBalancer{
		ID: id, Name: name, Tags: tags, Status: octavia.Active,
		CreatedAt: birth.Add(time.Minute),
	}
}

func TestClaimOf_EachLoadBalancer_IsOwnGuestOrForeign(t *testing.T) {
	ours, service, elsewhere := whose.ClusterTag(), whose.ServiceTag(), "fxccm-cluster=cluster-2"
	old := func(lb octavia.LoadBalancer) octavia.LoadBalancer {
		lb.CreatedAt = birth.Add(-time.Hour)
		return lb
	}
	late := func(lb octavia.LoadBalancer) octavia.LoadBalancer {
		lb.CreatedAt = birth.Add(time.Hour)
		return lb
	}
	in := func(status octavia.Status, lb octavia.LoadBalancer) octavia.LoadBalancer {
		lb.Status = status
		return lb
	}
	for name, test := range map[string]struct {
		named    string
		served   bool
		untagged bool
		all      []octavia.LoadBalancer

		want       string
		role       plan.Role
		duplicates int
		deleting   string
		lost       bool
		refused    string
	}{
		"none":                                 {all: nil},
		"one made by fxccm":                    {all: []octavia.LoadBalancer{of("a", ownName, ownName, ours, service)}, want: "a", role: plan.Owner},
		"one made by fxccm before the Service": {all: []octavia.LoadBalancer{old(of("a", ownName, ownName, ours, service))}, want: "a", role: plan.Owner},
		"another Service's":                    {all: []octavia.LoadBalancer{of("a", ownName, ownName, ours, "fxccm-service=other")}},
		// Two clusters of one name in one project.
		"another cluster's with the same name":                 {all: []octavia.LoadBalancer{of("a", ownName, ownName, elsewhere, "fxccm-service=other")}},
		"another cluster's with the same name and Service UID": {all: []octavia.LoadBalancer{of("a", ownName, ownName, elsewhere, service)}},
		"one made by OCCM, younger than the Service":           {all: []octavia.LoadBalancer{of("a", ownName, ownName)}, want: "a", role: plan.Owner},
		"one made by OCCM for another cluster, older":          {all: []octavia.LoadBalancer{old(of("a", ownName, ownName))}},
		"only the name is right":                               {all: []octavia.LoadBalancer{of("a", ownName)}},
		"only the name is right, and there are no tags": {
			untagged: true,
			all:      []octavia.LoadBalancer{of("a", ownName)}, want: "a", role: plan.Owner,
		},
		"the legacy name, which holds the UID": {all: []octavia.LoadBalancer{old(
			of("a", "ac0ffee0000004000800000000000000"))}, want: "a", role: plan.Owner},
		"the cluster's name has changed": {
			all: []octavia.LoadBalancer{of(
				"a", "kube_service_prod_default_web", "kube_service_prod_default_web", ours,
				service)},
			want: "a", role: plan.Owner,
		},
		// Duplicates do not block the Service.
		"two made by fxccm": {all: []octavia.LoadBalancer{
			of("b", ownName, ours, service),
			old(of("a", ownName, ours, service)),
		}, want: "a", role: plan.Owner, duplicates: 1},
		"two of OCCM's": {all: []octavia.LoadBalancer{of("b", ownName, ownName), of("a", ownName, ownName)}, want: "a", role: plan.Owner},
		"one made by fxccm, and another cluster's of OCCM's that is older": {
			all: []octavia.LoadBalancer{
				of("a", ownName, ownName),
				late(of("b", ownName, ownName, ours, service)),
			}, want: "b", role: plan.Owner,
		},
		"one is being deleted": {all: []octavia.LoadBalancer{in(octavia.PendingDelete,
			of("a", ownName, ours, service))}, deleting: "a", role: plan.Owner},
		"one was deleted":         {all: []octavia.LoadBalancer{in(octavia.Deleted, of("a", ownName, ours, service))}, role: plan.Owner},
		"a guest lost its id":     {all: []octavia.LoadBalancer{of("a", "users", "users", service)}, want: "a", role: plan.Guest},
		"named: one made by OCCM": {named: "a", all: []octavia.LoadBalancer{old(of("a", ownName, ownName))}, want: "a", role: plan.Owner},
		"named: a user's":         {named: "a", all: []octavia.LoadBalancer{of("a", "users")}, want: "a", role: plan.Guest},
		"named: another Service's": {
			named: "a",
			all: []octavia.LoadBalancer{of("a", "kube_service_kubernetes_default_api",
				"kube_service_kubernetes_default_api", ours, "fxccm-service=other")},
			want: "a", role: plan.Guest,
		},
		// A manifest that was copied from another cluster, with OCCM's annotation.
		"named: another cluster's, made by OCCM": {
			named: "a",
			all: []octavia.LoadBalancer{of("a", "kube_service_prod_default_web",
				"kube_service_prod_default_web")}, want: "a", role: plan.Guest,
		},
		"named: another cluster's, made by fxccm": {
			named: "a",
			all:   []octavia.LoadBalancer{of("a", ownName, ownName, elsewhere, service)},
			want:  "a", role: plan.Guest,
		},
		"a guest in another cluster's with the same name": {
			all: []octavia.LoadBalancer{of("a", ownName, ownName, elsewhere, "fxccm-service=other",
				ours, service, whose.GuestTag())},
			want: "a", role: plan.Guest,
		},
		"own, with a guest of another cluster": {
			all: []octavia.LoadBalancer{of("a", ownName, ownName, elsewhere, "fxccm-service=other",
				"fxccm-guest=cluster-2", ours, service)},
			want: "a", role: plan.Owner,
		},
		"named: one made by OCCM, with guests of fxccm": {
			named: "a",
			all: []octavia.LoadBalancer{of("a", ownName, ownName, elsewhere,
				"fxccm-guest=cluster-2", "fxccm-service=other", ours, whose.GuestTag(),
				"fxccm-service=guest")},
			want: "a", role: plan.Owner,
		},
		"named: the same, and the Service is one of the guests": {
			named: "a",
			all: []octavia.LoadBalancer{of("a", ownName, ownName, ours, whose.GuestTag(),
				service)},
			want: "a", role: plan.Guest,
		},
		"named: the same, and one cluster is no guest": {
			named: "a",
			all: []octavia.LoadBalancer{of("a", ownName, ownName, ours, whose.GuestTag(),
				elsewhere, "fxccm-service=other")},
			want: "a", role: plan.Guest,
		},
		"named: only the name is right, with guests of fxccm": {
			named: "a",
			all:   []octavia.LoadBalancer{of("a", ownName, elsewhere, "fxccm-guest=cluster-2")},
			want:  "a", role: plan.Guest,
		},
		"not named: one made by OCCM, with guests of fxccm": {
			all: []octavia.LoadBalancer{of("a", ownName, ownName, elsewhere,
				"fxccm-guest=cluster-2")},
		},
		"named: a guest in one that a cluster of another name lost": {
			named: "a",
			all:   []octavia.LoadBalancer{of("a", "kube_service_prod_default_web", ours, service)},
			want:  "a", role: plan.Guest,
		},
		// The load balancer of the annotation does not exist.
		"named: it no longer exists": {named: "a", served: true, lost: true},
		"named: it never existed":    {named: "a", refused: "LoadBalancerNotFound"},
		"named: gone, and there is another": {
			named: "a", served: true,
			all: []octavia.LoadBalancer{of("b", ownName, ours, service)}, want: "b",
			role: plan.Owner,
		},
		"named: own, with a duplicate": {
			named: "b",
			all: []octavia.LoadBalancer{
				old(of("a", ownName, ours, service)),
				of("b", ownName, ours, service),
			}, want: "b", role: plan.Owner, duplicates: 1,
		},
		"named: own, being deleted": {
			named: "a",
			all: []octavia.LoadBalancer{in(octavia.PendingDelete,
				of("a", ownName, ours, service))}, deleting: "a", role: plan.Owner,
		},
		"named: a user's, being deleted": {named: "a", all: []octavia.LoadBalancer{in(octavia.PendingDelete, of("a", "users"))}, deleting: "a"},
		"named: deleted, as Octavia still shows it": {
			named: "a", served: true,
			all:  []octavia.LoadBalancer{in(octavia.Deleted, of("a", ownName, ours, service))},
			lost: true, role: plan.Owner,
		},
		"OCCM's, but another's duplicate by its tags": {
			all: []octavia.LoadBalancer{of("a",
				ownName, ownName, ours, service), of("b", ownName, ownName)}, want: "a",
			role: plan.Owner,
		},
	} {
		t.Run(name, func(t *testing.T) {
			svc := &v1.Service{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(
				birth)}}
			if test.served {
				svc.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "192.0.2.1"}}
			}
			got, err := claimOf(whose, svc, test.named, test.all, !test.untagged)
			var refused *events.Notice
			if errors.As(err, &refused) != (test.refused != "") || refused != nil &&
				string(refused.Reason) != test.refused {
				t.Fatalf("the error is %v, want the reason %q", err, test.refused)
			}
			if id(got.balancer) != test.want || id(got.deleting) != test.deleting ||
				len(got.duplicates) != test.duplicates || got.lost != test.lost {
				t.Errorf("found %q, being deleted %q, %d duplicates, lost %t; want %q, %q, %d, %t",
					id(got.balancer), id(got.deleting), len(got.duplicates), got.lost, test.want,
					test.deleting, test.duplicates, test.lost)
			}
			if got.balancer != nil && got.role != test.role {
				t.Errorf("the Service's role is %q, want %q", got.role, test.role)
			}
		})
	}
}

func id(lb *octavia.LoadBalancer) string {
	if lb == nil {
		return ""
	}
	return lb.ID
}

func TestSharers_AreTheOthers(t *testing.T) {
	other := "kube_service_kubernetes_default_api"
	for name, test := range map[string]struct {
		lb   octavia.LoadBalancer
		want int
	}{
		"own":                       {of("a", ownName, ownName, whose.ServiceTag()), 0},
		"own, with a guest":         {of("a", ownName, ownName, whose.ServiceTag(), other, "fxccm-service=2"), 1},
		"another's":                 {of("a", other, other, "fxccm-service=2"), 1},
		"another's, joined already": {of("a", other, other, ownName, whose.ServiceTag()), 1},
		"another's, which has left": {of("a", other, ownName, whose.ServiceTag()), 0},
		"a user's":                  {of("a", "users", "mine"), 0},
	} {
		if got := sharers(whose, &test.lb); len(got) != test.want {
			t.Errorf("%s: shared by %q, want %d others", name, got, test.want)
		}
	}
}

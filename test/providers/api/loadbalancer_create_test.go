package api_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
	"github.com/fxccm/fxccm/test/internal/project"
)

// The attributes that Octavia shows of each kind.
var (
	loadBalancerKeys = []string{
		"additional_vips", "admin_state_up", "availability_zone", "created_at", "description",
		"flavor_id", "id", "listeners", "name",
		"operating_status", "pools", "project_id", "provider", "provisioning_status", "tags",
		"tenant_id", "updated_at", "vip_address",
		"vip_network_id", "vip_port_id", "vip_subnet_id",
	}
	// listenerKeys and poolKeys are without the references to what is above, which the answer to a
	// creation of all lacks.
	listenerKeys = []string{
		"admin_state_up", "allowed_cidrs",
		"connection_limit", "created_at", "default_pool_id", "default_tls_container_ref",
		"description", "id", "insert_headers", "l7policies",
		"name", "operating_status", "project_id", "protocol", "protocol_port",
		"provisioning_status", "sni_container_refs", "tags", "tenant_id",
		"timeout_client_data", "timeout_member_connect", "timeout_member_data",
		"timeout_tcp_inspect", "updated_at",
	}
	poolKeys = []string{
		"admin_state_up", "created_at", "description", "id", "lb_algorithm", "listeners",
		"members", "name", "operating_status", "project_id", "protocol", "provisioning_status",
		"session_persistence", "tags", "tenant_id",
		"updated_at",
	}
	memberKeys = []string{
		"address", "admin_state_up", "backup", "created_at", "id", "monitor_address",
		"monitor_port", "name", "operating_status", "project_id",
		"protocol_port", "provisioning_status", "subnet_id", "tags", "tenant_id", "updated_at",
		"weight",
	}
	monitorKeys = []string{
		"admin_state_up", "created_at", "delay", "domain_name", "expected_codes", "http_method",
		"http_version", "id", "max_retries", "max_retries_down",
		"name", "operating_status", "pools", "project_id", "provisioning_status", "tags",
		"tenant_id", "timeout", "type", "updated_at", "url_path",
	}
)

func plus(keys []string, more ...string) []string {
	return slices.Sorted(slices.Values(append(slices.Clone(keys), more...)))
}

// TestLoadBalancer_IsMadeWithAllBelowIt looks at one load balancer, from the answer to its creation
// to its deletion.
func TestLoadBalancer_IsMadeWithAllBelowIt(t *testing.T) {
	t.Parallel()
	o := openOctavia(t, project.OnSimulator(openstacktest.WithProvisioning(2*time.Second)))
	made := o.must(http.StatusCreated, http.MethodPost, "loadbalancers",
		project.Object{"loadbalancer": web(o.Subnets[4])}).Inner("loadbalancer")
	id := project.ID(made)
	ids := o.ids(id)
	t.Run("a change is refused while the work goes on",
		func(t *testing.T) { o.in(t).refusesWhilePending(id, ids) })
	t.Run("the answer has all but monitors", func(t *testing.T) { answerHasTheTree(t, made) })
	o.WaitBalancer(id)
	t.Run("each thing is shown with what belongs to it",
		func(t *testing.T) { o.in(t).showsTheTree(id, ids) })
	t.Run("the status tree is in part", func(t *testing.T) { o.in(t).showsStatuses(id) })
	t.Run("deletion", func(t *testing.T) { o.in(t).deletesAll(id, ids) })
}

func answerHasTheTree(t *testing.T, lb project.Object) {
	same(t, "attributes", keys(lb), loadBalancerKeys)
	same(t, "status", lb["provisioning_status"], "PENDING_CREATE")
	same(t, "updated_at", lb["updated_at"], nil)
	listeners, pools := objects(lb["listeners"]), objects(lb["pools"])
	if len(listeners) != 4 || len(pools) != 3 {
		t.Fatalf("%d listeners, %d pools: %v", len(listeners), len(pools), lb)
	}
	tcp, pool := named(listeners, "tcp"), named(pools, "tcp-pool")
	same(t, "attributes of a listener", keys(tcp), listenerKeys)
	// The key of a monitor is there, with nothing in it although there is one.
	same(t, "attributes of a pool", keys(pool), plus(poolKeys, "healthmonitor"))
	same(t, "the pool's monitor", pool["healthmonitor"], nil)
	same(t, "the listener's pool", tcp["default_pool_id"], pool["id"])
	same(t, "the pool's listeners", pool["listeners"], []any{map[string]any{"id": tcp["id"]}})
	same(t, "the pool that is named", named(listeners, "http")["default_pool_id"],
		named(pools, "http-pool")["id"])
	members := objects(pool["members"])
	if len(members) != 2 {
		t.Fatalf("members: %v", pool)
	}
	same(t, "attributes of a member", keys(members[0]), memberKeys)
}

// refusesWhilePending asks for several things at a time, because the work may be short.
func (o octavia) refusesWhilePending(id string, ids map[string]string) {
	o.t.Helper()
	pool := ids["tcp-pool"]
	member := project.ID(objects(o.get("pools/" + pool)["members"])[0])
	lb, listener, named := project.Object{"loadbalancer": project.Object{"name": "x"}},
		project.Object{"name": "x"}, project.Object{"name": "x"}
	immutable := func(what, id string) string {
		return what + " " + id + " is immutable and cannot be updated."
	}
	invalid := "Invalid state PENDING_CREATE of loadbalancer resource " + id
	refusals := []refusal{
		{"change the load balancer", http.MethodPut, "loadbalancers/" + id, lb, 409, invalid},
		{"delete the load balancer", http.MethodDelete, "loadbalancers/" + id + "?cascade=true", nil, 409, invalid},
		{"change a listener", http.MethodPut, "listeners/" + ids["tcp"], project.Object{"listener": listener}, 409, immutable("Load Balancer", id)},
		{"delete a listener", http.MethodDelete, "listeners/" + ids["tcp"], nil, 409, immutable("Load Balancer", id)},
		{
			"make a listener", http.MethodPost, "listeners",
			project.Object{"listener": project.Object{
				"loadbalancer_id": id, "protocol": "TCP",
				"protocol_port": 81,
			}},
			409, immutable("Load Balancer", id),
		},
		{
			"make a pool", http.MethodPost, "pools",
			project.Object{"pool": project.Object{
				"loadbalancer_id": id, "protocol": "TCP",
				"lb_algorithm": "ROUND_ROBIN",
			}},
			409, immutable("Load Balancer", id),
		},
		{"change a pool", http.MethodPut, "pools/" + pool, project.Object{"pool": named}, 409, immutable("Load Balancer", id)},
		{"delete a pool", http.MethodDelete, "pools/" + pool, nil, 409, immutable("Load Balancer", id)},
		// Members and monitors check the pool's status first.
		{
			"make a member", http.MethodPost, "pools/" + pool + "/members",
			project.Object{"member": project.Object{"address": "10.0.1.9", "protocol_port": 1}},
			409, immutable("Pool", pool),
		},
		{"set members", http.MethodPut, "pools/" + pool + "/members", project.Object{"members": []any{}}, 409, immutable("Pool", pool)},
		{"change a member", http.MethodPut, "pools/" + pool + "/members/" + member, project.Object{"member": named}, 409, immutable("Pool", pool)},
		{"delete a member", http.MethodDelete, "pools/" + pool + "/members/" + member, nil, 409, immutable("Pool", pool)},
		{"change a monitor", http.MethodPut, "healthmonitors/" + ids["monitor tcp-pool"], project.Object{"healthmonitor": named}, 409, immutable("Pool", pool)},
		{"delete a monitor", http.MethodDelete, "healthmonitors/" + ids["monitor tcp-pool"], nil, 409, immutable("Pool", pool)},
	}
	api := o.User().API()
	o.Together(len(refusals), 6, func(ctx context.Context, i int) error {
		r := refusals[i]
		answer, err := api.Do(ctx, r.method, project.LoadBalancer, "/lbaas/"+r.path, r.body,
			"Accept", "application/json")
		if err == nil && (answer.Status != r.status || said(answer) != r.text) {
			err = fmt.Errorf("%s: %s, want %d %s", r.name, answer, r.status, r.text)
		}
		return err
	})
}

func (o octavia) showsTheTree(id string, ids map[string]string) {
	t := o.t
	lb := o.get("loadbalancers/" + id)
	same(t, "attributes", keys(lb), loadBalancerKeys)
	same(t, "additional VIPs", lb["additional_vips"], []any{})
	for _, moment := range []string{"created_at", "updated_at"} {
		if _, err := time.Parse("2006-01-02T15:04:05", project.Text(lb, moment)); err != nil {
			t.Errorf("%s: %v", moment, err)
		}
	}
	same(t, "a listener below", len(objects(lb["listeners"])[0]), 1)
	tcp, bare := o.get("listeners/"+ids["tcp"]), o.get("listeners/"+ids["bare"])
	same(t, "attributes of a listener", keys(tcp), plus(listenerKeys, "loadbalancers"))
	same(t, "status", tcp["provisioning_status"], "ACTIVE")
	same(t, "its load balancer", tcp["loadbalancers"], []any{map[string]any{"id": id}})
	// CIDRs are networks, and each is there once; an address is a network of one.
	cidrs := slices.Sorted(strings.FieldsFuncSeq(fmt.Sprint(tcp["allowed_cidrs"]),
		func(r rune) bool { return strings.ContainsRune("[] ", r) }))
	same(t, "CIDRs", cidrs, []string{"10.0.0.0/8", "192.0.2.1/32"})
	for name, value := range map[string]any{
		"allowed_cidrs": nil, "connection_limit": -1, "insert_headers": map[string]any{},
		"timeout_client_data": 50000, "timeout_member_connect": 5000,
		"timeout_member_data": 50000, "timeout_tcp_inspect": 0, "tags": []any{},
		"default_pool_id": nil, "tls_versions": nil, "alpn_protocols": nil,
	} {
		same(t, "by default "+name, bare[name], value)
	}
	pool := o.get("pools/" + ids["tcp-pool"])
	same(t, "attributes of a pool", keys(pool), plus(poolKeys, "healthmonitor_id", "loadbalancers"))
	same(t, "persistence", pool["session_persistence"],
		map[string]any{
			"type": "SOURCE_IP", "cookie_name": nil, "persistence_timeout": nil,
			"persistence_granularity": nil,
		})
	members := objects(o.must(http.StatusOK, http.MethodGet, "pools/"+ids["tcp-pool"]+"/members",
		nil).Object()["members"])
	one, two := named(members, "one"), named(members, "two")
	same(t, "attributes of a member", keys(one), memberKeys)
	same(t, "a member",
		[]any{one["weight"], one["backup"], one["monitor_port"], one["subnet_id"], one["tags"]},
		[]any{1, false, 31000, o.Subnets[4], []any{"member"}})
	same(t, "another member",
		[]any{two["weight"], two["backup"], two["monitor_port"], two["subnet_id"], two["tags"]},
		[]any{0, true, nil, nil, []any{}})
	monitor := o.get("healthmonitors/" + ids["monitor http-pool"])
	same(t, "attributes of a monitor", keys(monitor), monitorKeys)
	same(t, "an HTTP monitor",
		[]any{
			monitor["http_method"], monitor["url_path"], monitor["expected_codes"],
			monitor["max_retries_down"],
		}, []any{"GET", "/", "200", 3})
	monitor = o.get("healthmonitors/" + ids["monitor tcp-pool"])
	same(t, "a TCP monitor",
		[]any{
			monitor["http_method"], monitor["url_path"], monitor["expected_codes"],
			monitor["tags"],
		}, []any{nil, nil, nil, []any{"monitor"}})
}

func (o octavia) showsStatuses(id string) {
	t := o.t
	lb, _ := o.get("loadbalancers/" + id + "/status")["loadbalancer"].(project.Object)
	common := []string{"id", "name", "operating_status", "provisioning_status"}
	same(t, "of a load balancer", keys(lb), plus(common, "listeners"))
	listeners := objects(lb["listeners"])
	same(t, "of a listener", keys(listeners[0]), plus(common, "pools"))
	same(t, "of a listener without a pool", named(listeners, "bare")["pools"], []any{})
	pool := objects(named(listeners, "tcp")["pools"])[0]
	// The monitor's key is another than that of a pool.
	same(t, "of a pool", keys(pool), plus(common, "health_monitor", "members"))
	monitor, _ := pool["health_monitor"].(project.Object)
	same(t, "of a monitor", keys(monitor), plus(common, "type"))
	same(t, "of a member", keys(objects(pool["members"])[0]),
		plus(common, "address", "protocol_port"))
}

func (o octavia) deletesAll(id string, ids map[string]string) {
	children := "Validation failure: Cannot delete Load Balancer " + id + " - it has children"
	o.refuses([]refusal{
		{"without cascade", http.MethodDelete, "loadbalancers/" + id, nil, 400, children},
		{"cascade false", http.MethodDelete, "loadbalancers/" + id + "?cascade=false", nil, 400, children},
	})
	o.must(http.StatusNoContent, http.MethodDelete, "loadbalancers/"+id+"?cascade=true", nil)
	o.refuses(
		[]refusal{{
			"twice", http.MethodDelete, "loadbalancers/" + id + "?cascade=true", nil, 409,
			"Invalid state PENDING_DELETE of loadbalancer resource " + id,
		}})
	o.WaitBalancer(id, true)
	o.refuses([]refusal{
		{"one that is gone", http.MethodDelete, "loadbalancers/" + id + "?cascade=true", nil, 404, "Load Balancer " + id + " not found."},
		{"one that is gone", http.MethodGet, "loadbalancers/" + id, nil, 404, "Load Balancer " + id + " not found."},
		{"its listener", http.MethodGet, "listeners/" + ids["tcp"], nil, 404, "Listener " + ids["tcp"] + " not found."},
		{"its pool", http.MethodGet, "pools/" + ids["tcp-pool"], nil, 404, "Pool " + ids["tcp-pool"] + " not found."},
		{"its monitor", http.MethodGet, "healthmonitors/" + ids["monitor tcp-pool"], nil, 404, "Health Monitor " + ids["monitor tcp-pool"] + " not found."},
	})
	same(o.t, "its listeners", o.names("listeners?loadbalancer_id="+id), []string{})
}

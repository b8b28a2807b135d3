package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/fxccm/fxccm/test/internal/project"
)

var errNotYet = errors.New("not yet")

// TestLoadBalancer_Changes changes all that can be changed. Each change moves the load balancer's
// updated_at, to the second.
func TestLoadBalancer_Changes(t *testing.T) {
	t.Parallel()
	o := openOctavia(t)
	subnet := o.Subnets[4]
	lb := o.create(project.Object{
		"name": "lb", "vip_subnet_id": subnet, "listeners": []project.Object{{
			"name": "l", "protocol": "TCP", "protocol_port": 80,
			"allowed_cidrs": []string{"10.0.0.0/8"}, "tags": []string{"a"},
			"default_pool": project.Object{
				"name": "p", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN",
				"members": []project.Object{
					{
						"name": "one", "address": "10.0.1.1", "protocol_port": 1,
						"subnet_id": subnet, "weight": 5, "backup": true, "monitor_port": 7,
						"monitor_address": "10.0.1.7", "tags": []string{"x"},
						"admin_state_up": false,
					},
					{"name": "two", "address": "10.0.1.2", "protocol_port": 1},
				},
				"healthmonitor": project.Object{
					"name": "h", "type": "TCP", "delay": 5,
					"timeout": 4, "max_retries": 2,
				},
			},
		}},
	})
	ids := o.ids(lb)
	listener, pool, monitor := "listeners/"+ids["l"], "pools/"+ids["p"],
		"healthmonitors/"+ids["monitor p"]
	type object = project.Object
	// updates makes a change a second after the previous one.
	updates := func(name, method, path string, body any) project.Answer {
		t.Helper()
		was := project.Text(o.get("loadbalancers/"+lb), "updated_at")
		o.Wait("the second of the change before is over", func() error {
			if time.Now().UTC().Format("2006-01-02T15:04:05") <= was {
				return errNotYet
			}
			return nil
		})
		answer := o.change(lb, method, path, body)
		if now := project.Text(o.get("loadbalancers/"+lb), "updated_at"); now <= was {
			t.Errorf("%s: updated_at was %s, is %s", name, was, now)
		}
		return answer
	}
	shows := func(name, path string, want object) {
		t.Helper()
		got := o.get(path)
		for key, value := range want {
			same(t, name+": "+key, got[key], value)
		}
	}

	updates("load balancer", http.MethodPut, "loadbalancers/"+lb,
		object{"loadbalancer": object{"tags": []string{"z", "y"}, "description": "d"}})
	tags, _ := o.get("loadbalancers/" + lb)["tags"].([]any)
	slices.SortFunc(tags, func(a, b any) int { return len(fmt.Sprint(a)) - len(fmt.Sprint(b)) })
	same(t, "tags", len(tags), 2)
	o.change(lb, http.MethodPut, "loadbalancers/"+lb,
		object{"loadbalancer": object{"tags": []string{}, "name": nil, "description": nil}})
	shows("null is empty", "loadbalancers/"+lb,
		object{"tags": []any{}, "name": "", "description": ""})

	updates("listener", http.MethodPut, listener, object{"listener": object{
		"name": "l2", "connection_limit": 5, "timeout_client_data": 1, "timeout_member_connect": 2,
		"timeout_member_data": 3, "timeout_tcp_inspect": 4, "tags": []string{"b"},
	}})
	shows("listener", listener,
		object{
			"name": "l2", "connection_limit": 5, "timeout_client_data": 1,
			"timeout_member_connect": 2, "timeout_member_data": 3, "timeout_tcp_inspect": 4,
			"tags": []any{"b"}, "allowed_cidrs": []any{"10.0.0.0/8"},
		})
	o.change(lb, http.MethodPut, listener, object{"listener": object{
		"connection_limit": nil, "timeout_client_data": nil, "timeout_member_connect": nil,
		"timeout_member_data": nil, "timeout_tcp_inspect": nil, "allowed_cidrs": []string{},
		"default_pool_id": nil,
	}})
	shows("null is the default", listener,
		object{
			"connection_limit": -1, "timeout_client_data": 50000, "timeout_member_connect": 5000,
			"timeout_member_data": 50000, "timeout_tcp_inspect": 0, "allowed_cidrs": nil,
			"default_pool_id": nil, "tags": []any{"b"},
		})
	o.change(lb, http.MethodPut, listener,
		object{"listener": object{"default_pool_id": ids["p"], "insert_headers": object{}}})
	shows("the pool again", listener, object{"default_pool_id": ids["p"]})

	updates("pool", http.MethodPut, pool,
		object{"pool": object{
			"name": "p2", "lb_algorithm": "SOURCE_IP",
			"session_persistence": object{"type": "SOURCE_IP"},
		}})
	shows("pool", pool,
		object{
			"name": "p2", "lb_algorithm": "SOURCE_IP",
			"session_persistence": object{
				"type": "SOURCE_IP", "cookie_name": nil,
				"persistence_granularity": nil, "persistence_timeout": nil,
			},
		})
	o.change(lb, http.MethodPut, pool, object{"pool": object{"session_persistence": nil}})
	shows("no persistence", pool, object{"session_persistence": nil})

	// The delay may be less than the timeout, whatever the API's reference says.
	updates("monitor", http.MethodPut, monitor,
		object{"healthmonitor": object{"delay": 2, "timeout": 9, "max_retries": 3, "name": "h2"}})
	shows("monitor", monitor,
		object{"delay": 2, "timeout": 9, "max_retries": 3, "max_retries_down": 3, "name": "h2"})

	t.Run("members", func(t *testing.T) { o.in(t).setsMembers(lb, pool, subnet) })
	updates("members", http.MethodPut, pool+"/members",
		object{"members": []object{{"name": "one", "address": "10.0.1.1", "protocol_port": 1}}})

	updates("deletion of a monitor", http.MethodDelete, monitor, nil)
	o.must(http.StatusNotFound, http.MethodDelete, monitor, nil)
	updates("creation of a monitor", http.MethodPost, "healthmonitors",
		object{"healthmonitor": object{
			"pool_id": ids["p"], "type": "HTTP", "delay": 5,
			"timeout": 4, "max_retries": 1, "url_path": "/healthz",
		}})
	t.Run("listeners and pools", func(t *testing.T) { o.in(t).changesPorts(lb, ids) })

	updates("deletion of a pool", http.MethodDelete, pool, nil)
	shows("the listener of a pool that is gone", listener, object{"default_pool_id": nil})
	same(t, "monitors of a pool that is gone", o.names("healthmonitors"), []string{})
	o.must(http.StatusNotFound, http.MethodDelete, pool, nil)
}

// setsMembers: a list of members says all of them. A value that it does not give is set
// back, but for name, subnet and tags.
func (o octavia) setsMembers(lb, pool, subnet string) {
	t := o.t
	type object = project.Object
	members := pool + "/members"
	list := func(name string, want ...string) {
		t.Helper()
		var got []string
		for _, m := range objects(o.must(http.StatusOK, http.MethodGet, members,
			nil).Object()["members"]) {
			got = append(got,
				fmt.Sprint(m["name"], " ", m["address"], " ", m["weight"], " ", m["backup"], " ",
					m["monitor_port"], " ", m["monitor_address"], " ", m["admin_state_up"], " ",
					m["tags"], " ", m["subnet_id"] == subnet))
		}
		slices.Sort(got)
		same(t, name, got, want)
	}
	list("as they were made", "one 10.0.1.1 5 true 7 10.0.1.7 false [x] true",
		"two 10.0.1.2 1 false <nil> <nil> true [] false")
	one := object{"address": "10.0.1.1", "protocol_port": 1}
	two := object{"address": "10.0.1.2", "protocol_port": 1}
	o.change(lb, http.MethodPut, members, object{"members": []object{one, two}})
	list("nothing said of them", "one 10.0.1.1 1 false <nil> <nil> true [x] true",
		"two 10.0.1.2 1 false <nil> <nil> true [] false")
	o.change(lb, http.MethodPut, members,
		object{"members": []object{
			with(one,
				object{"name": "eins", "weight": 2, "tags": []string{"y"}, "subnet_id": nil}),
			{"name": "three", "address": "10.0.1.3", "protocol_port": 1},
		}})
	list("one is gone, one is new", "eins 10.0.1.1 2 false <nil> <nil> true [y] false",
		"three 10.0.1.3 1 false <nil> <nil> true [] false")
	o.change(lb, http.MethodPut, members+"?additive_only=true",
		object{"members": []object{with(one, object{"monitor_port": 8})}})
	list("none is gone", "eins 10.0.1.1 1 false 8 <nil> true [y] false",
		"three 10.0.1.3 1 false <nil> <nil> true [] false")
	id := project.ID(
		named(objects(o.must(http.StatusOK, http.MethodGet, members, nil).Object()["members"]),
			"eins"))
	o.change(lb, http.MethodPut, members+"/"+id, object{"member": object{"weight": 7}})
	list("one alone", "eins 10.0.1.1 7 false 8 <nil> true [y] false",
		"three 10.0.1.3 1 false <nil> <nil> true [] false")
	made := o.change(lb, http.MethodPost, members,
		object{"member": object{
			"name": "four", "address": "10.0.1.4", "protocol_port": 1,
			"weight": 0,
		}}).Inner("member")
	o.change(lb, http.MethodDelete, members+"/"+project.ID(made), nil)
	o.must(http.StatusNotFound, http.MethodDelete, members+"/"+project.ID(made), nil)
	list("another one came and went", "eins 10.0.1.1 7 false 8 <nil> true [y] false",
		"three 10.0.1.3 1 false <nil> <nil> true [] false")
	o.failsBelow(lb, pool)
	o.change(lb, http.MethodPut, members, object{"members": []object{}})
	list("none")
}

// failsBelow: a change that Octavia accepts, and then cannot carry out, leaves in ERROR what was to
// be changed, and the load balancer ACTIVE.
func (o octavia) failsBelow(lb, pool string) {
	t := o.t
	t.Helper()
	type object = project.Object
	states := func() (all []string) {
		for _, path := range []string{"loadbalancers/" + lb, pool} {
			all = append(all, project.Text(o.get(path), "provisioning_status"))
		}
		for _, m := range objects(
			o.must(http.StatusOK, http.MethodGet, pool+"/members", nil).Object()["members"]) {
			all = append(all, project.Text(m, "provisioning_status"))
		}
		return all
	}
	batch := func(subnet any) {
		t.Helper()
		o.change(lb, http.MethodPut, pool+"/members", object{"members": []object{
			{"address": "10.0.1.1", "protocol_port": 1, "subnet_id": subnet}, {"address": "10.0.1.3", "protocol_port": 1},
		}})
	}
	batch(unknownID)
	same(t, "states after a batch with a subnet that does not exist", states(),
		[]string{"ACTIVE", "ACTIVE", "ERROR", "ERROR"})
	batch(nil)
	same(t, "states after the next batch", states(),
		[]string{"ACTIVE", "ACTIVE", "ACTIVE", "ACTIVE"})
}

// changesPorts makes listeners and pools one by one.
func (o octavia) changesPorts(lb string, ids map[string]string) {
	t := o.t
	type object = project.Object
	shared := o.change(lb, http.MethodPost, "listeners",
		object{"listener": object{
			"name": "shared", "loadbalancer_id": lb, "protocol": "TCP",
			"protocol_port": 81, "default_pool_id": ids["p"],
		}}).Inner("listener")
	same(t, "listeners of a pool", len(objects(o.get("pools/" + ids["p"])["listeners"])), 2)
	o.change(lb, http.MethodDelete, "listeners/"+project.ID(shared), nil)
	o.must(http.StatusNotFound, http.MethodDelete, "listeners/"+project.ID(shared), nil)
	same(t, "the pool of a listener that is gone", o.names("pools"), []string{"p2"})

	// The same port can be TCP's and UDP's.
	bare := o.change(lb, http.MethodPost, "listeners",
		object{"listener": object{
			"name": "bare", "loadbalancer_id": lb, "protocol": "UDP",
			"protocol_port": 80,
		}}).Inner("listener")
	answer := o.change(lb, http.MethodPost, "pools",
		object{"pool": object{
			"name": "new", "listener_id": project.ID(bare), "protocol": "UDP",
			"lb_algorithm": "ROUND_ROBIN",
		}})
	pool := answer.Inner("pool")
	same(t, "attributes of a new pool", keys(pool), plus(poolKeys, "loadbalancers"))
	same(t, "the pool of a listener", o.get("listeners/" + project.ID(bare))["default_pool_id"],
		pool["id"])
	// A pool shows no monitor as no key.
	same(t, "attributes of a pool without a monitor", keys(o.get("pools/"+project.ID(pool))),
		plus(poolKeys, "loadbalancers"))
	o.change(lb, http.MethodDelete, "pools/"+project.ID(pool), nil)
	same(t, "the pool of a listener", o.get("listeners/" + project.ID(bare))["default_pool_id"],
		nil)
	o.change(lb, http.MethodDelete, "listeners/"+project.ID(bare), nil)
}

package api_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/test/internal/project"
)

// unknownID belongs to no object.
const unknownID = "00000000-0000-4000-8000-000000000000"

// octavia sends requests to Octavia as a project's user, who asks for JSON, like gophercloud.
type octavia struct {
	*project.Project
	t *testing.T
}

func openOctavia(t *testing.T, opts ...project.Option) octavia {
	t.Helper()
	return octavia{project.New(t, opts...), t}
}

func (o octavia) ask(method, path string, body any) project.Answer {
	o.t.Helper()
	return o.User().Try(method, project.LoadBalancer, "/lbaas/"+path, body, "Accept",
		"application/json")
}

// in is octavia for a subtest.
func (o octavia) in(t *testing.T) octavia { return octavia{o.In(t), t} }

// must sends a request that must have the status.
func (o octavia) must(status int, method, path string, body any) project.Answer {
	o.t.Helper()
	answer := o.ask(method, path, body)
	if answer.Status != status {
		o.t.Fatalf("%s, want %d", answer, status)
	}
	return answer
}

// get reads one thing: get("pools/...") is what is in "pool".
func (o octavia) get(path string) project.Object {
	o.t.Helper()
	for _, inner := range o.must(http.StatusOK, http.MethodGet, path, nil).Object() {
		object, _ := inner.(project.Object)
		return object
	}
	return nil
}

// names are the names in a list, in its order, or the values of the given attribute.
func (o octavia) names(path string, attribute ...string) (names []string) {
	o.t.Helper()
	answer := o.must(http.StatusOK, http.MethodGet, path, nil)
	kind := path[strings.LastIndex(strings.SplitN(path, "?", 2)[0], "/")+1:]
	kind = strings.SplitN(kind, "?", 2)[0]
	items, is := answer.Object()[kind].([]any)
	if !is {
		o.t.Fatalf("%s: no list %q", answer, kind)
	}
	key := "name"
	for _, a := range attribute {
		key = a
	}
	for _, item := range items {
		object, _ := item.(project.Object)
		names = append(names, fmt.Sprint(object[key]))
	}
	return names
}

// create creates a load balancer and waits for it.
func (o octavia) create(attributes project.Object) (id string) {
	o.t.Helper()
	answer := o.must(http.StatusCreated, http.MethodPost, "loadbalancers",
		project.Object{"loadbalancer": attributes})
	id = project.ID(answer.Inner("loadbalancer"))
	o.WaitBalancer(id)
	return id
}

// change sends a request that must succeed, and waits until the load balancer is ACTIVE again.
func (o octavia) change(lb, method, path string, body any) project.Answer {
	o.t.Helper()
	answer := o.ask(method, path, body)
	if answer.Status/100 != 2 {
		o.t.Fatalf("%s", answer)
	}
	o.WaitBalancer(lb)
	return answer
}

// ids are those of the listeners and pools of a load balancer, by their names, and of the monitors,
// by their pools' names with "monitor " before.
func (o octavia) ids(lb string) map[string]string {
	o.t.Helper()
	ids := map[string]string{}
	for _, kind := range []string{"listeners", "pools"} {
		for _, item := range o.User().List(project.LoadBalancer,
			"/lbaas/"+kind+"?loadbalancer_id="+lb, kind) {
			ids[project.Text(item, "name")] = project.ID(item)
			if monitor := project.Text(item, "healthmonitor_id"); monitor != "" {
				ids["monitor "+project.Text(item, "name")] = monitor
			}
		}
	}
	return ids
}

// said is what an answer says against a request: the text of WSME's faults, or of what fails
// before.
func said(answer project.Answer) string {
	body := answer.Object()
	if body["faultstring"] != nil {
		return project.Text(body, "faultstring")
	}
	return project.Text(body, "description")
}

// refusal is a request that is refused. The text is a part of the answer, because releases differ
// in the rest.
type refusal struct {
	name, method, path string
	body               any
	status             int
	text               string
}

// refuses sends all requests, none of which may change anything.
func (o octavia) refuses(refusals []refusal) {
	o.t.Helper()
	for _, r := range refusals {
		if answer := o.ask(r.method, r.path, r.body); answer.Status != r.status ||
			!strings.Contains(said(answer), r.text) {
			o.t.Errorf("%s: %v\nanswers %s\nwant    %d %s", r.name, r.body, answer, r.status,
				r.text)
		}
	}
}

// with is the object with changed attributes. The value dropped removes one.
func with(base project.Object, changes ...project.Object) project.Object {
	object := maps.Clone(base)
	for _, more := range changes {
		maps.Copy(object, more)
	}
	maps.DeleteFunc(object, func(_ string, value any) bool { return value == dropped })
	return object
}

type absence struct{}

var dropped any = absence{}

// keys are the keys of an object, without the attributes that the simulator does not have, because
// no client of fxccm reads them. fxccm reads tls_versions of listeners; pools have it, too.
func keys(object project.Object) []string {
	unread := []string{
		"alpn_protocols", "ca_tls_container_ref", "client_authentication",
		"client_ca_tls_container_ref", "client_crl_container_ref", "crl_container_ref",
		"hsts_include_subdomains", "hsts_max_age", "hsts_preload", "tls_ciphers",
		"tls_container_ref", "tls_enabled", "tls_versions", "vip_qos_policy_id", "vip_sg_ids",
		"vip_vnic_type", "vnic_type",
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(object)),
		func(key string) bool { return slices.Contains(unread, key) })
}

// objects are those in a list.
func objects(value any) (list []project.Object) {
	items, _ := value.([]any)
	for _, item := range items {
		object, _ := item.(project.Object)
		list = append(list, object)
	}
	return list
}

// named finds one in a list.
func named(list []project.Object, name string) project.Object {
	for _, object := range list {
		if project.Text(object, "name") == name {
			return object
		}
	}
	return nil
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// web is a load balancer with many features: a TCP listener with a pool, members and a monitor, the
// same for UDP, an HTTP listener that names its pool, and a listener without a pool.
func web(subnet string) project.Object {
	return project.Object{
		"name": "web", "description": "of a test", "tags": []string{"a", "b"},
		"vip_subnet_id": subnet,
		"listeners": []project.Object{
			{
				"name": "tcp", "protocol": "TCP", "protocol_port": 80, "tags": []string{"listener"},
				"allowed_cidrs": []string{"10.0.0.5/8", "10.0.0.0/8", "192.0.2.1"},
				"default_pool": project.Object{
					"name": "tcp-pool", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN",
					"tags":                []string{"pool"},
					"session_persistence": project.Object{"type": "SOURCE_IP"},
					"members": []project.Object{
						{"name": "one", "address": "10.0.1.1", "protocol_port": 30080, "subnet_id": subnet, "tags": []string{"member"}, "monitor_port": 31000},
						{"name": "two", "address": "10.0.1.2", "protocol_port": 30080, "weight": 0, "backup": true},
					},
					"healthmonitor": project.Object{
						"name": "check", "type": "TCP", "delay": 5,
						"timeout": 4, "max_retries": 2, "tags": []string{"monitor"},
					},
				},
			},
			{
				"name": "udp", "protocol": "UDP", "protocol_port": 53,
				"default_pool": project.Object{
					"name": "udp-pool", "protocol": "UDP", "lb_algorithm": "ROUND_ROBIN",
					"members": []project.Object{{
						"name": "one", "address": "10.0.1.1",
						"protocol_port": 30053,
					}},
					"healthmonitor": project.Object{
						"type": "UDP-CONNECT", "delay": 5, "timeout": 4,
						"max_retries": 2,
					},
				},
			},
			{
				"name": "http", "protocol": "HTTP", "protocol_port": 8080, "connection_limit": 100,
				"insert_headers": project.Object{"X-Forwarded-For": "true"},
				"default_pool":   project.Object{"name": "http-pool"},
			},
			{"name": "bare", "protocol": "TCP", "protocol_port": 9000},
		},
		"pools": []project.Object{{
			"name": "http-pool", "protocol": "HTTP", "lb_algorithm": "LEAST_CONNECTIONS",
			"members": []project.Object{{
				"name": "one", "address": "10.0.1.1",
				"protocol_port": 30081,
			}},
			"healthmonitor": project.Object{
				"type": "HTTP", "delay": 5, "timeout": 4,
				"max_retries": 2,
			},
		}},
	}
}

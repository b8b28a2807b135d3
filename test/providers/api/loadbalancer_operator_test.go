package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/test/internal/project"
)

// TestLoadBalancer_Operator is about what operators have made, and what only they may do.
func TestLoadBalancer_Operator(t *testing.T) {
	t.Parallel()
	o := openOctavia(t)
	t.Run("versions", func(t *testing.T) { o.in(t).versions() })

	flavor, zone := o.AddBalancerFlavor("flavor"), o.AddBalancerZone("zone")
	lb := o.create(project.Object{
		"name": "lb", "vip_subnet_id": o.Subnets[4], "flavor_id": flavor,
		"availability_zone": zone,
	})
	shown := o.get("loadbalancers/" + lb)
	same(t, "a load balancer's",
		[]any{shown["flavor_id"], shown["availability_zone"], shown["provider"]},
		[]any{flavor, zone, "amphora"})
	t.Run("failover", func(t *testing.T) { o.in(t).failover(lb) })
	// Flavor and zone are deleted after the test only when nothing has them any more.
	o.must(http.StatusNoContent, http.MethodDelete, "loadbalancers/"+lb, nil)
	o.WaitBalancer(lb, true)
	same(t, "the limit of load balancers",
		o.User().Get(project.LoadBalancer, "/quotas/"+o.Credentials().ProjectID,
			"quota")["load_balancer"], -1.0)
	t.Run("another project's", func(t *testing.T) { o.in(t).foreign() })
}

// A quota of Octavia is told by a 403 that names the kind of object.
func TestLoadBalancerQuotas_AreReached_Answer403(t *testing.T) {
	t.Parallel()
	o := openOctavia(t)
	lb := o.create(project.Object{
		"name": "lb", "vip_subnet_id": o.Subnets[4],
		"listeners": []project.Object{{
			"name": "listener", "protocol": "TCP", "protocol_port": 80,
			"default_pool": project.Object{
				"name": "pool", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN",
			},
		}},
	})
	pool := o.ids(lb)["pool"]
	limits := project.Object{
		"load_balancer": 1, "listener": 1, "pool": 1, "member": 0, "health_monitor": 0,
	}
	path := "/quotas/" + o.Credentials().ProjectID
	if o.Simulator == nil {
		o.Admin().Must(http.MethodPut, project.LoadBalancer, "/lbaas"+path,
			project.Object{"quota": limits})
	} else {
		for resource, limit := range limits {
			o.Simulator.SetLoadBalancerQuota(strings.ReplaceAll(resource, "_", ""), limit.(int))
		}
	}
	same(t, "the limit of load balancers",
		o.User().Get(project.LoadBalancer, path, "quota")["load_balancer"], 1.0)
	const met = "Quota has been met for resources: "
	o.refuses([]refusal{
		{
			"another load balancer", http.MethodPost, "loadbalancers",
			project.Object{"loadbalancer": project.Object{
				"name": "more", "vip_subnet_id": o.Subnets[4],
			}},
			403, met + "Load Balancer",
		},
		{
			"another listener", http.MethodPost, "listeners",
			project.Object{"listener": project.Object{
				"loadbalancer_id": lb, "protocol": "TCP", "protocol_port": 81,
			}},
			403, met + "Listener",
		},
		{
			"another pool", http.MethodPost, "pools",
			project.Object{"pool": project.Object{
				"loadbalancer_id": lb, "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN",
			}},
			403, met + "Pool",
		},
		{
			"a member", http.MethodPost, "pools/" + pool + "/members",
			project.Object{"member": project.Object{"address": "10.0.1.9", "protocol_port": 1}},
			403, met + "Member",
		},
		{
			"a monitor", http.MethodPost, "healthmonitors",
			project.Object{"healthmonitor": project.Object{
				"pool_id": pool, "type": "TCP", "delay": 5, "timeout": 3, "max_retries": 1,
			}},
			403, met + "Health Monitor",
		},
	})
	same(t, "the status after that", o.get("loadbalancers/" + lb)["provisioning_status"], "ACTIVE")
}

// versions are listed at the root. Addresses of a version tell nothing.
func (o octavia) versions() {
	root := strings.TrimSuffix(o.User().Endpoint(project.LoadBalancer), "/v2.0")
	list := objects(
		o.User().Must(http.MethodGet, project.LoadBalancer, root+"/", nil).Object()["versions"])
	if len(list) < 27 {
		o.t.Fatalf("%d versions: %v", len(list), list)
	}
	for i, version := range list {
		status := "SUPPORTED"
		if i == len(list)-1 {
			status = "CURRENT"
		}
		same(o.t, "attributes of a version", keys(version),
			[]string{"id", "links", "status", "updated"})
		same(o.t, "status of "+project.ID(version), version["status"], status)
	}
	same(o.t, "first", list[0]["id"], "v2.0")
	same(o.t, "version 2.26", list[26]["id"], "v2.26")
	same(o.t, "an address of a version",
		string(o.User().Must(http.MethodGet, project.LoadBalancer, root+"/v2.0", nil).Body), `"v2"`)
}

func (o octavia) failover(lb string) {
	o.refuses(
		[]refusal{{
			"by a user", http.MethodPut, "loadbalancers/" + lb + "/failover", nil, 403,
			"Policy does not allow this request to be performed.",
		}})
	answer := o.Admin().Try(http.MethodPut, project.LoadBalancer,
		"/lbaas/loadbalancers/"+lb+"/failover", nil)
	same(o.t, "by an administrator", answer.Status, http.StatusAccepted)
	o.WaitBalancer(lb)
}

// foreign makes a load balancer of another project, which the user may not even see.
func (o octavia) foreign() {
	another := strings.ReplaceAll(unknownID, "-", "")
	made := o.Admin().Create(project.LoadBalancer, "/lbaas/loadbalancers", "loadbalancer",
		project.Object{
			"name": "foreign", "project_id": another, "vip_subnet_id": o.Subnets[4],
			"listeners": []project.Object{{
				"name": "foreign", "protocol": "TCP",
				"protocol_port": 80,
				"default_pool": project.Object{
					"name": "foreign", "protocol": "TCP",
					"lb_algorithm": "ROUND_ROBIN",
				},
			}},
		})
	lb, listener, pool := project.ID(made), project.ID(objects(made["listeners"])[0]),
		project.ID(objects(made["pools"])[0])
	const forbidden = "Policy does not allow this request to be performed."
	o.refuses([]refusal{
		{"get", http.MethodGet, "loadbalancers/" + lb, nil, 403, forbidden},
		{"status", http.MethodGet, "loadbalancers/" + lb + "/status", nil, 403, forbidden},
		{"change", http.MethodPut, "loadbalancers/" + lb, project.Object{"loadbalancer": project.Object{"name": "x"}}, 403, forbidden},
		{"delete", http.MethodDelete, "loadbalancers/" + lb + "?cascade=true", nil, 403, forbidden},
		{"listener", http.MethodGet, "listeners/" + listener, nil, 403, forbidden},
		{
			"new listener", http.MethodPost, "listeners",
			project.Object{"listener": project.Object{
				"loadbalancer_id": lb, "protocol": "TCP",
				"protocol_port": 81,
			}},
			403, forbidden,
		},
		{"pool", http.MethodGet, "pools/" + pool, nil, 403, forbidden},
		{"members", http.MethodGet, "pools/" + pool + "/members", nil, 403, forbidden},
		{"set members", http.MethodPut, "pools/" + pool + "/members", project.Object{"members": []any{}}, 403, forbidden},
	})
	same(o.t, "what the user sees", o.names("loadbalancers"), []string{})
	same(o.t, "what the user sees of it", o.names("listeners?loadbalancer_id="+lb), []string{})
	admin := o.Admin()
	done := func(gone bool) func() error {
		return func() error {
			answer := admin.Try(http.MethodGet, project.LoadBalancer, "/lbaas/loadbalancers/"+lb,
				nil)
			if gone && answer.Status == http.StatusNotFound || !gone &&
				answer.Inner("loadbalancer")["provisioning_status"] == "ACTIVE" {
				return nil
			}
			return errNotYet
		}
	}
	o.Wait("another project's load balancer is made", done(false))
	admin.Must(http.MethodDelete, project.LoadBalancer, "/lbaas/loadbalancers/"+lb+"?cascade=true",
		nil)
	o.Wait("another project's load balancer is gone", done(true))
}

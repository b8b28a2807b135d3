package takeover_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/test/internal/project"
)

// changed is a copy of an inventory in which something is otherwise.
func changed(
	t *testing.T, all project.Inventory, change func(project.Inventory),
) project.Inventory {
	t.Helper()
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	var other project.Inventory
	if err := json.Unmarshal(text, &other); err != nil {
		t.Fatal(err)
	}
	change(other)
	return other
}

// set changes an attribute of the object of a kind and a name.
func set(kind, name, attribute string, value any) func(project.Inventory) {
	return func(all project.Inventory) {
		for _, o := range all.Of(kind) {
			if project.Text(o, "name") == name {
				o[attribute] = value
			}
		}
	}
}

// drop takes away all objects of a kind that are such.
func drop(kind string, is func(project.Object) bool) func(project.Inventory) {
	return func(all project.Inventory) {
		maps.DeleteFunc(all, func(key string, o project.Object) bool {
			return strings.HasPrefix(key, kind+" ") && is(o)
		})
	}
}

func named(name string) func(project.Object) bool {
	return func(o project.Object) bool { return project.Text(o, "name") == name }
}

// That OCCM would do nothing tells something only if it would otherwise be seen. o is as
// takeover_test.go has left it.
func (o *occm) testLook(all project.Inventory) {
	name := func(kind, service string) string {
		lb := "kube_service_" + o.clusterName + "_default_" + service
		if kind == "" {
			return lb
		}
		return part(kind, 0, lb)
	}
	group := groupName(o.service("web"))
	node := o.nodes()[0]
	routes := func(list ...any) func(project.Inventory) {
		return func(all project.Inventory) { all["router "+o.Router]["routes"] = list }
	}
	onNode := func(attribute string) func(project.Inventory) {
		return func(all project.Inventory) {
			for _, port := range (&look{cloud: all}).portsOf(node) {
				port[attribute] = []any{}
			}
		}
	}
	for what, c := range map[string]struct {
		change func(project.Inventory)
		want   string
	}{
		"load balancer gone":    {drop("load balancer", named(name("", "web"))), "fail load balancer "},
		"of another cluster":    {set("load balancer", name("", "web"), "name", "kube_service_other_default_web"), "rewrite the name of load balancer "},
		"load balancer's tag":   {set("load balancer", name("", "web"), "tags", []any{}), "rewrite the tags [] of load balancer "},
		"load balancer at work": {set("load balancer", name("", "web"), "provisioning_status", "PENDING_UPDATE"), "fail load balancer "},
		"listener missing":      {set("listener", name("listener", "web"), "protocol_port", 81), "create listener TCP 80 "},
		"listener too many":     {set("listener", name("listener", "web"), "protocol_port", 81), "delete listener "},
		"listener another's":    {set("listener", name("listener", "web"), "tags", []any{"x"}), "fail listener TCP 80 "},
		"listener's timeout":    {set("listener", name("listener", "sticky"), "timeout_client_data", 50000), "rewrite timeout_client_data "},
		"listener's limit":      {set("listener", name("listener", "sticky"), "connection_limit", -1), "rewrite connection_limit "},
		"listener's clients":    {set("listener", name("listener", "kept"), "allowed_cidrs", nil), "rewrite allowed_cidrs "},
		"listener's headers":    {set("listener", name("listener", "owner"), "insert_headers", project.Object{}), "rewrite X-Forwarded-For "},
		"pool missing":          {set("pool", name("pool", "web"), "listeners", []any{}), "create the pool "},
		"pool's protocol":       {set("pool", name("pool", "kept"), "protocol", "TCP"), "delete the pool "},
		"pool's algorithm":      {set("pool", name("pool", "sticky"), "lb_algorithm", "ROUND_ROBIN"), "rewrite lb_algorithm "},
		"member's monitor port": {set("member", node.Name, "monitor_port", 1), "rewrite the members "},
		"member's address":      {set("member", node.Name, "address", "10.0.9.9"), "rewrite the members "},
		"member's name":         {set("member", node.Name, "name", "x"), "rewrite the members "},
		"monitor missing":       {set("pool", name("pool", "local"), "healthmonitor_id", nil), "create the health monitor "},
		"monitor too many": {set("pool", name("pool", "web"), "healthmonitor_id",
			project.ID(all.Of("health monitor")[0])), "delete the health monitor "},
		"monitor's type":          {set("health monitor", name("monitor", "local"), "type", "TCP"), "delete the health monitor "},
		"monitor's delay":         {set("health monitor", name("monitor", "local"), "delay", 5), "rewrite delay "},
		"monitor's name":          {set("health monitor", name("monitor", "guest"), "name", name("monitor", "owner")), "rewrite name "},
		"floating IP missing":     {drop("floating IP", func(project.Object) bool { return true }), "create a floating IP "},
		"security group missing":  {drop("security group", named(group)), "create security group "},
		"rules missing":           {drop("security group rule", func(project.Object) bool { return true }), "create rule "},
		"rule of another network": {set("security group rule", "", "remote_ip_prefix", "10.9.0.0/16"), "create rule "},
		"port without groups":     {onNode("security_groups"), "rewrite the security groups of node "},
		"port without pair":       {onNode("allowed_address_pairs"), "fail route "},
		"route missing":           {routes(), "create route "},
		"route too many":          {routes(project.Object{"destination": "10.244.9.0/24", "nexthop": "10.0.9.9"}), "delete route "},
		"server gone":             {drop("server", func(project.Object) bool { return true }), "fail node "},
	} {
		o.t.Run(what, func(t *testing.T) {
			deeds := o.look(changed(t, all, c.change), o.services(), o.nodes())
			for _, d := range deeds {
				if strings.HasPrefix(d.String(), c.want) {
					return
				}
			}
			t.Errorf("OCCM would %q, want that it would %s", deeds, c.want)
		})
	}
}

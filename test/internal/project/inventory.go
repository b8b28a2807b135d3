package project

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
)

// kinds are all that a project can have, each before what it stands on, which is the order of deletion.
var kinds = []struct {
	name, service, path, key string
}{
	{"load balancer", LoadBalancer, "/lbaas/loadbalancers", "loadbalancers"},
	{"listener", LoadBalancer, "/lbaas/listeners", "listeners"},
	{"pool", LoadBalancer, "/lbaas/pools", "pools"},
	{"health monitor", LoadBalancer, "/lbaas/healthmonitors", "healthmonitors"},
	{"floating IP", Network, "/floatingips", "floatingips"},
	{"server", Compute, "/servers/detail", "servers"},
	{"trunk", Network, "/trunks", "trunks"},
	{"port", Network, "/ports", "ports"},
	{"router", Network, "/routers", "routers"},
	{"subnet", Network, "/subnets", "subnets"},
	{"network", Network, "/networks", "networks"},
	{"security group rule", Network, "/security-group-rules", "security_group_rules"},
	{"security group", Network, "/security-groups", "security_groups"},
}

// Inventory is all that a project has: objects as the API shows them, by "kind id".
type Inventory map[string]Object

// Inventory lists all that the project has in Octavia, Nova and Neutron, members of pools, too.
func (p *Project) Inventory() Inventory {
	p.t.Helper()
	all, err := p.inventory(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

func (p *Project) inventory(ctx context.Context) (Inventory, error) {
	all := Inventory{}
	for _, k := range kinds {
		objects, err := p.user.list(ctx, k.service, k.path, k.key)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			// The external network, and its subnets, belong to somebody else.
			if owner := Text(o, "project_id"); owner != "" && owner != p.ID {
				continue
			}
			all[k.name+" "+ID(o)] = o
			if k.name != "pool" {
				continue
			}
			members, err := p.user.list(ctx, LoadBalancer, "/lbaas/pools/"+ID(o)+"/members", "members")
			if err != nil && !strings.Contains(err.Error(), " 404 ") {
				return nil, err
			}
			for _, m := range members {
				all["member "+ID(m)] = m
			}
		}
	}
	return all, nil
}

// Of are the objects of a kind.
func (i Inventory) Of(kind string) (objects []Object) {
	for _, key := range slices.Sorted(maps.Keys(i)) {
		if rest, is := strings.CutPrefix(key, kind+" "); is && !strings.Contains(rest, " ") {
			objects = append(objects, i[key])
		}
	}
	return objects
}

// Differences are what is otherwise in other, in lines: what was created, deleted, and changed, but for attributes that are named, and those
// that change by themselves: times, revisions and states.
func (i Inventory) Differences(other Inventory, except ...string) (lines []string) {
	except = append(except, "updated_at", "updated", "revision_number", "provisioning_status", "operating_status", "status")
	for _, key := range slices.Sorted(maps.Keys(i)) {
		now, there := other[key]
		if !there {
			lines = append(lines, fmt.Sprintf("- %s %q", key, Text(i[key], "name")))
			continue
		}
		attributes := maps.Clone(i[key])
		maps.Copy(attributes, now)
		for _, name := range slices.Sorted(maps.Keys(attributes)) {
			if !slices.Contains(except, name) && !reflect.DeepEqual(i[key][name], now[name]) {
				lines = append(lines, fmt.Sprintf("~ %s %q: %s was %v, is %v", key, Text(now, "name"), name, i[key][name], now[name]))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(other)) {
		if _, there := i[key]; !there {
			lines = append(lines, fmt.Sprintf("+ %s %q", key, Text(other[key], "name")))
		}
	}
	return lines
}

// close deletes all that the project has.
func (p *Project) close() {
	p.t.Helper()
	defer p.user.close()
	defer p.admin.close()
	if !p.Real() {
		p.Simulator.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	for {
		left, err := p.deleteAll(ctx)
		if err == nil && len(left) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			p.t.Errorf("the project cannot be emptied: %v; left: %v", err, left)
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// deleteAll asks for the deletion of all there is, and tells what there was. Much is refused until what stands on it is gone.
func (p *Project) deleteAll(ctx context.Context) (found []string, err error) {
	remove := func(service, path string) error {
		_, err := p.admin.Do(ctx, http.MethodDelete, service, path, nil)
		return err
	}
	for _, k := range kinds {
		objects, err := p.user.list(ctx, k.service, k.path, k.key)
		if err != nil {
			return found, err
		}
		for _, o := range objects {
			if owner := Text(o, "project_id"); owner != "" && owner != p.ID {
				continue
			}
			path := strings.TrimSuffix(k.path, "/detail") + "/" + ID(o)
			switch k.name {
			case "listener", "pool", "health monitor", "security group rule":
				continue
			case "load balancer":
				path += "?cascade=true"
			case "security group":
				// It comes anew with the next list of groups.
				if Text(o, "name") == "default" {
					continue
				}
			case "port":
				if Text(o, "device_owner") == "network:router_interface" {
					_, err := p.user.Do(ctx, http.MethodPut, Network, "/routers/"+Text(o, "device_id")+"/remove_router_interface", Object{"port_id": ID(o)})
					if err != nil {
						return found, err
					}
					found = append(found, k.name+" "+ID(o))
					continue
				}
			case "router":
				if _, err := p.user.Do(ctx, http.MethodPut, Network, path, Object{"router": Object{"routes": []Object{}}}); err != nil {
					return found, err
				}
			}
			found = append(found, k.name+" "+ID(o))
			if err := remove(k.service, path); err != nil {
				return found, err
			}
		}
	}
	return found, nil
}

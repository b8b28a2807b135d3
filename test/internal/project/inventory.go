package project

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// resourceKind is a kind of a project's resources: its name here, its service, and the path of its
// list.
type resourceKind struct{ name, service, path, key string }

// kinds are all kinds of a project's resources.
var kinds = []resourceKind{
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

// Inventory has all objects of a project in the API's form, by "kind id".
type Inventory map[string]Object

// Inventory lists all objects of the project in Octavia, Nova and Neutron, including members of
// pools.
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
		objects, err := p.user.List(ctx, k.service, k.path, k.key)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			// The external network, and its subnets, belong to another project.
			if owner := Text(o, "project_id"); owner == "" || owner == p.ID {
				all[k.name+" "+ID(o)] = o
			}
		}
	}
	members, err := p.members(ctx, all.Of("pool"))
	for _, m := range members {
		all["member "+ID(m)] = m
	}
	return all, err
}

// members are the members of pools, each of which has its own list.
func (p *Project) members(ctx context.Context, pools []Object) ([]Object, error) {
	lists, errs, slots := make([][]Object, len(pools)), make([]error, len(pools)),
		make(chan struct{}, 4)
	var reading sync.WaitGroup
	for i, pool := range pools {
		reading.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			lists[i], errs[i] = p.user.List(ctx, LoadBalancer, "/lbaas/pools/"+ID(pool)+"/members",
				"members")
			if errs[i] != nil && strings.Contains(errs[i].Error(), " 404 ") {
				errs[i] = nil
			}
		})
	}
	reading.Wait()
	return slices.Concat(lists...), errors.Join(errs...)
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

// Differences returns the differences from other as lines: created, deleted, and changed objects.
// It ignores the named attributes, and those that change by themselves: times, revisions and
// states.
func (i Inventory) Differences(other Inventory, except ...string) (lines []string) {
	except = append(except, "updated_at", "updated", "revision_number", "provisioning_status",
		"operating_status", "status")
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
				lines = append(lines,
					fmt.Sprintf("~ %s %q: %s was %v, is %v", key, Text(now, "name"), name,
						i[key][name], now[name]))
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

// close deletes all objects of the project.
func (p *Project) close() {
	p.t.Helper()
	defer p.user.close()
	defer p.admin.close()
	if !p.Real() {
		p.Simulator.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := p.empty(ctx); err != nil {
		p.t.Errorf("the project cannot be emptied: %v", err)
		return
	}
	p.emptied = true
}

// empty deletes the project's objects kind by kind, because many deletions are refused until
// dependent objects are deleted.
func (p *Project) empty(ctx context.Context) error {
	for _, together := range [][]string{
		{"load balancer", "server", "router's routes"},
		{"floating IP", "trunk"},
		{"port"},
		{"router"},
		{"network"},
		{"security group"},
	} {
		for {
			var left []string
			done := true
			for _, kind := range together {
				gone, err := p.deleteAll(ctx, kind)
				done, left = done && gone, append(left, fmt.Sprintf("%s: %v", kind, err))
			}
			if done {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%w; %s", ctx.Err(), strings.Join(left, ", "))
			case <-time.After(time.Second):
			}
		}
	}
	return nil
}

// deleteAll deletes all objects of one kind. It reports whether they are gone, or the reason why
// not.
func (p *Project) deleteAll(ctx context.Context, kind string) (gone bool, err error) {
	thing, _, routes := strings.Cut(kind, "'s ")
	k := kinds[slices.IndexFunc(kinds, func(k resourceKind) bool { return k.name == thing })]
	// A list by the project's own user would create the default group again.
	lister, query := p.user, ""
	if kind == "security group" {
		lister, query = p.operator, "?project_id="+p.ID
	}
	objects, err := lister.List(ctx, k.service, k.path+query, k.key)
	if err != nil {
		return false, err
	}
	gone = true
	var errs []error
	for _, o := range objects {
		if owner := Text(o, "project_id"); owner != "" && owner != p.ID {
			continue
		}
		path := strings.TrimSuffix(k.path, "/detail") + "/" + ID(o)
		method, body := http.MethodDelete, any(nil)
		switch owner := Text(o, "device_owner"); {
		case kind == "load balancer":
			path += "?cascade=true"
		case routes:
			method, body = http.MethodPut, Object{"router": Object{"routes": []Object{}}}
		case owner == "network:router_interface":
			method, path, body = http.MethodPut,
				"/routers/"+Text(o, "device_id")+"/remove_router_interface",
				Object{"port_id": ID(o)}
		case owner == "network:router_gateway":
			continue
		}
		answer, err := p.operator.Do(ctx, method, k.service, path, body)
		switch {
		case err != nil:
			return false, err
		case answer.Status == http.StatusNotFound:
		// Neutron has finished when it answers; Nova and Octavia only begin.
		case answer.Status/100 != 2 || k.service != Network:
			gone, errs = false, append(errs, errors.New(answer.String()))
		}
	}
	return gone, errors.Join(errs...)
}

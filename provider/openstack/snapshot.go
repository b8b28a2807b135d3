package openstack

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/client"
	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/pages"
)

// Snapshot holds the objects of a cluster in OpenStack by kind and ID, such as "listener 1234": the
// attributes as the API returns them, without tags, times, revisions and states.
type Snapshot map[string]map[string]any

// volatile are the attributes that change without a request, and the tags.
var volatile = []string{
	"tags", "updated_at", "revision_number", "provisioning_status", "operating_status", "status",
}

// Differences returns lines that describe what later adds, removes or changes.
func (s Snapshot) Differences(later Snapshot) []string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(s)) {
		now, exists := later[key]
		if !exists {
			lines = append(lines, fmt.Sprintf("%s (%v) is deleted", key, s[key]["name"]))
			continue
		}
		attributes := maps.Clone(s[key])
		maps.Copy(attributes, now)
		for _, name := range slices.Sorted(maps.Keys(attributes)) {
			if !reflect.DeepEqual(s[key][name], now[name]) {
				lines = append(lines, fmt.Sprintf("%s (%v): %s was %v and is %v", key, now["name"],
					name, s[key][name], now[name]))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(later)) {
		if _, existed := s[key]; !existed {
			lines = append(lines, fmt.Sprintf("%s (%v) is created", key, later[key]["name"]))
		}
	}
	return lines
}

// SnapshotScope defines the content of a [Snapshot].
type SnapshotScope struct {
	// Services are the Services whose security groups are read.
	Services []*v1.Service
	// LoadBalancers are IDs of load balancers whose names do not show the cluster.
	LoadBalancers []string
	// ExceptServices and ExceptLoadBalancers are left out, with their related objects.
	ExceptServices      []*v1.Service
	ExceptLoadBalancers []string
}

// Snapshot reads the load balancers whose names contain the cluster's, with their listeners, pools,
// members, health monitors and floating IPs, the security groups of the Services, and the
// configured router. With several regions, it reads only the default region. The error is a
// sentence about the first request that fails.
func (p *Previewer) Snapshot(ctx context.Context, scope SnapshotScope) (Snapshot, error) {
	r := &snapshotReader{clients: p.clients, found: Snapshot{}}
	project, err := p.clients.Project(ctx)
	if err != nil {
		return nil, events.ExplainOnce(err)
	}
	r.query = url.Values{"project_id": {project}}
	cluster := p.config.ClusterName
	except, groups := map[string]bool{}, map[string]bool{}
	for _, service := range scope.ExceptServices {
		identity := identify(cluster, service)
		except[identity.LoadBalancerName()] = true
		except[identity.FloatingIPDescription()] = true
	}
	for _, service := range scope.Services {
		groups[identify(cluster, service).SecurityGroupName()] = true
	}
	vips, exceptVIPs := map[string]bool{"": false}, map[string]bool{}
	r.lbaas(ctx, "load balancer", "loadbalancers", func(o map[string]any) bool {
		id, name, vip := text(o, "id"), text(o, "name"), text(o, "vip_port_id")
		if except[name] || slices.Contains(scope.ExceptLoadBalancers, id) {
			exceptVIPs[vip] = vip != ""
			return false
		}
		is := strings.HasPrefix(name, desired.ServicePrefix+cluster+"_") ||
			slices.Contains(scope.LoadBalancers, id)
		vips[vip] = is && vip != ""
		return is
	})
	within := func(kind, member string) func(map[string]any) bool {
		return func(o map[string]any) bool {
			owners, _ := o[member].([]any)
			return slices.ContainsFunc(owners, func(owner any) bool {
				of, _ := owner.(map[string]any)
				return r.found[kind+" "+text(of, "id")] != nil
			})
		}
	}
	r.lbaas(ctx, "listener", "listeners", within("load balancer", "loadbalancers"))
	r.lbaas(ctx, "pool", "pools", within("load balancer", "loadbalancers"))
	r.lbaas(ctx, "health monitor", "healthmonitors", within("pool", "pools"))
	for _, key := range slices.Sorted(maps.Keys(r.found)) {
		if id, isPool := strings.CutPrefix(key, "pool "); isPool {
			r.list(ctx, "member", p.clients.LoadBalancer,
				[]string{"lbaas", "pools", id, "members"}, "members", nil, all)
		}
	}
	r.list(ctx, "floating IP", p.clients.Network, []string{"floatingips"}, "floatingips", r.query,
		func(o map[string]any) bool {
			port, description := text(o, "port_id"), text(o, "description")
			return vips[port] || !exceptVIPs[port] && !except[description] &&
				strings.HasSuffix(description, " from cluster "+cluster)
		})
	r.list(ctx, "security group", p.clients.Network, []string{"security-groups"},
		"security_groups", r.query, func(o map[string]any) bool { return groups[text(o, "name")] })
	if router := p.config.Config.Route.RouterID; router != "" {
		r.list(ctx, "router", p.clients.Network, []string{"routers"}, "routers",
			url.Values{"id": {router}}, all)
	}
	if r.err != nil {
		return nil, events.ExplainOnce(r.err)
	}
	return r.found, nil
}

func identify(cluster string, s *v1.Service) desired.Identity {
	return desired.Identity{
		ClusterName: cluster, Namespace: s.Namespace, Name: s.Name, UID: string(s.UID),
	}
}

func all(map[string]any) bool { return true }

func text(o map[string]any, key string) string { s, _ := o[key].(string); return s }

// snapshotReader collects the objects of lists, until a request fails.
type snapshotReader struct {
	clients *client.Clients
	query   url.Values
	found   Snapshot
	err     error
}

func (r *snapshotReader) lbaas(
	ctx context.Context, kind, collection string, is func(map[string]any) bool,
) {
	query := url.Values{"limit": {pages.OctaviaLimit}}
	maps.Copy(query, r.query)
	r.list(ctx, kind, r.clients.LoadBalancer, []string{"lbaas", collection}, collection, query, is)
}

func (r *snapshotReader) list(
	ctx context.Context, kind string,
	service func(context.Context) (*gophercloud.ServiceClient, error),
	path []string, collection string, query url.Values, is func(map[string]any) bool,
) {
	if r.err != nil {
		return
	}
	objects, err := pages.All(ctx, collection, query,
		func(o *map[string]any) string { return text(*o, "id") }, pages.From(service, path...))
	if err != nil {
		r.err = fmt.Errorf("list %s: %w", strings.Join(path, "/"), err)
		return
	}
	for _, o := range objects {
		if is(o) {
			r.found[kind+" "+text(o, "id")], _ = stable(o).(map[string]any)
		}
	}
}

// stable returns a value without volatile attributes. Its lists are sorted, because the order in
// responses may differ.
func stable(value any) any {
	switch v := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, inner := range v {
			if !slices.Contains(volatile, key) {
				kept[key] = stable(inner)
			}
		}
		return kept
	case []any:
		kept := make([]any, 0, len(v))
		for _, inner := range v {
			kept = append(kept, stable(inner))
		}
		slices.SortFunc(kept, func(a, b any) int {
			return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) // fmt sorts maps by key
		})
		return kept
	}
	return value
}

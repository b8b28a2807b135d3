package api_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxccm/fxccm/test/internal/project"
)

// TestLoadBalancer_Lists asks for the lists of a project with two load balancers.
func TestLoadBalancer_Lists(t *testing.T) {
	t.Parallel()
	o := openOctavia(t)
	subnet := o.Subnets[4]
	first := o.create(web(subnet))
	// The order of a list is that of the creations, to the second. Within a second it is any.
	created := project.Text(o.get("loadbalancers/"+first), "created_at")
	o.Wait("the second is over", func() error {
		if time.Now().UTC().Format("2006-01-02T15:04:05") <= created {
			return errNotYet
		}
		return nil
	})
	second := o.create(
		project.Object{"name": "plain", "vip_subnet_id": subnet, "tags": []string{"a"}})
	ids := o.ids(first)
	t.Run("filters", func(t *testing.T) { o.in(t).filters(first, second, ids) })
	t.Run("fields", func(t *testing.T) { o.in(t).fields(first) })
	t.Run("pages", func(t *testing.T) { o.in(t).pages(first, second) })
}

func (o octavia) filters(first, second string, ids map[string]string) {
	t := o.t
	vip := o.get("loadbalancers/" + first)
	both, web, plain, none := []string{"web", "plain"}, []string{"web"}, []string{"plain"},
		[]string{}
	pool := "pools/" + ids["tcp-pool"] + "/members"
	for _, c := range []struct {
		path, query string
		want        []string
	}{
		{"loadbalancers", "", both},
		{"loadbalancers", "name=web", web},
		{"loadbalancers", "name=other", none},
		{"loadbalancers", "id=" + second, plain},
		// The id of a filter is compared as a text.
		{"loadbalancers", "id=" + strings.ReplaceAll(second, "-", ""), none},
		{"loadbalancers", "tags=a", both},
		{"loadbalancers", "tags=a,b", web},
		{"loadbalancers", "tags=a&tags=b", web},
		{"loadbalancers", "tags-any=b,c", web},
		{"loadbalancers", "not-tags=b", plain},
		{"loadbalancers", "not-tags=a,b", plain},
		{"loadbalancers", "not-tags-any=a", none},
		{"loadbalancers", "vip_port_id=" + project.Text(vip, "vip_port_id"), web},
		{"loadbalancers", "vip_address=" + project.Text(vip, "vip_address"), web},
		{"loadbalancers", "vip_subnet_id=" + o.Subnets[4], both},
		{"loadbalancers", "provisioning_status=ACTIVE", both},
		{"loadbalancers", "provisioning_status=ERROR", none},
		{"loadbalancers", "admin_state_up=false", none},
		{"loadbalancers", "description=" + url.QueryEscape("of a test"), web},
		{"loadbalancers", "project_id=" + o.ID, both},
		{"listeners", "loadbalancer_id=" + first, []string{"bare", "http", "tcp", "udp"}},
		{"listeners", "load_balancer_id=" + second, none},
		{"listeners", "protocol=TCP", []string{"bare", "tcp"}},
		{"listeners", "protocol_port=53", []string{"udp"}},
		{"listeners", "default_pool_id=" + ids["http-pool"], []string{"http"}},
		{"listeners", "tags=listener", []string{"tcp"}},
		{"pools", "loadbalancer_id=" + first, []string{"http-pool", "tcp-pool", "udp-pool"}},
		{"pools", "loadbalancer_id=" + second, none},
		{"pools", "healthmonitor_id=" + ids["monitor tcp-pool"], []string{"tcp-pool"}},
		{"pools", "lb_algorithm=LEAST_CONNECTIONS", []string{"http-pool"}},
		{"pools", "tags=pool", []string{"tcp-pool"}},
		{pool, "", []string{"one", "two"}},
		{pool, "address=10.0.1.2", []string{"two"}},
		{pool, "weight=0", []string{"two"}},
		{pool, "tags=member", []string{"one"}},
		{"healthmonitors", "name=check", []string{"check"}},
		{"healthmonitors", "pool_id=" + ids["tcp-pool"], []string{"check"}},
		{"healthmonitors", "type=PING", none},
	} {
		got := o.names(c.path + "?" + c.query)
		if c.path != "loadbalancers" {
			slices.Sort(got)
		}
		same(t, c.path+"?"+c.query, got, c.want)
	}
	const wrong = "One or more arguments are either duplicate or invalid"
	o.refuses([]refusal{
		{"filter", http.MethodGet, "loadbalancers?foo=1", nil, 400, wrong},
		{"filter", http.MethodGet, "loadbalancers?tenant_id=" + o.ID, nil, 400, wrong},
		{"filter", http.MethodGet, "pools?listener_id=" + ids["tcp"], nil, 400, wrong},
		{"filter", http.MethodGet, "healthmonitors?loadbalancer_id=" + first, nil, 400, wrong},
		{
			"another project", http.MethodGet,
			"loadbalancers?project_id=" + strings.ReplaceAll(unknownID, "-", ""), nil, 403,
			"Policy does not allow this request to be performed.",
		},
	})
}

func (o octavia) fields(first string) {
	for query, want := range map[string][]string{
		"fields=id": {"id"}, "fields=id&fields=name": {"id", "name"}, "fields=vip_address&fields=foo": {"vip_address"},
		// A list with commas is the name of nothing.
		"fields=id,name": {},
	} {
		same(o.t, query, keys(o.get("loadbalancers/"+first+"?"+query)), want)
		list := o.must(http.StatusOK, http.MethodGet, "loadbalancers?name=web&"+query,
			nil).Object()["loadbalancers"]
		same(o.t, "list with "+query, keys(objects(list)[0]), want)
	}
	same(o.t, "fields of a listener",
		keys(
			objects(
				o.must(http.StatusOK, http.MethodGet,
					"listeners?name=tcp&fields=loadbalancers&fields=insert_headers",
					nil).Object()["listeners"])[0]),
		[]string{"insert_headers", "loadbalancers"})
}

// pages: the links have the limit, and lose filters and fields.
func (o octavia) pages(first, second string) {
	t := o.t
	base := o.User().Endpoint(project.LoadBalancer) + "/lbaas/loadbalancers?"
	for _, c := range []struct {
		query string
		want  []string
		links []string
	}{
		{"limit=5", []string{"web", "plain"}, nil},
		// A full page has a next one, also if nothing is left for it.
		{"limit=2", []string{"web", "plain"}, []string{"next limit=2&marker=" + second}},
		{"limit=1&fields=name&project_id=" + o.ID, []string{"web"}, []string{"next limit=1&marker=" + first}},
		{"limit=1&marker=" + first, []string{"plain"}, []string{"next limit=1&marker=" + second}},
		{"limit=1&marker=" + second, nil, nil},
		{"marker=" + first, []string{"plain"}, nil},
		{"limit=5000", []string{"web", "plain"}, nil},
	} {
		same(t, c.query, o.names("loadbalancers?"+c.query), c.want)
		var links []string
		for _, link := range objects(o.must(http.StatusOK, http.MethodGet, "loadbalancers?"+c.query,
			nil).Object()["loadbalancers_links"]) {
			if link["rel"] != "next" {
				continue
			}
			links = append(links,
				project.Text(link, "rel")+" "+strings.TrimPrefix(project.Text(link, "href"), base))
		}
		same(t, "links of "+c.query, links, c.links)
	}
}

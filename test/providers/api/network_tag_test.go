package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/test/internal/project"
)

// TestNetworkTags_OfEachResource: tags are replaced, added and deleted by addresses of their own,
// and listed with the resource.
func TestNetworkTags_OfEachResource(t *testing.T) {
	t.Parallel()
	n := newNeutron(t)
	n.make("port", "ports", "port", `{"network_id":"$net"}`)
	n.make("group", "security-groups", "security_group", `{"name":"group"}`)
	n.make("fip", "floatingips", "floatingip", `{"floating_network_id":"$public"}`)
	n.make("trunk", "trunks", "trunk", `{"port_id":"$port"}`)
	for _, test := range []struct{ path, member string }{
		{"/networks/$net", "network"},
		{"/subnets/$subnet4", "subnet"},
		{"/ports/$port", "port"},
		{"/routers/$router", "router"},
		{"/security-groups/$group", "security_group"},
		{"/floatingips/$fip", "floatingip"},
		{"/trunks/$trunk", "trunk"},
	} {
		t.Run(test.member, func(t *testing.T) {
			n := n.in(t)
			tags := func(want ...string) {
				t.Helper()
				var got []string
				list, _ := n.get(test.path+"?fields=tags", test.member, "tags").([]any)
				for _, tag := range list {
					got = append(got, fmt.Sprint(tag))
				}
				slices.Sort(got)
				n.want("tags", got, want)
			}
			before := n.revision(test.path, test.member)
			n.expect(exchange{"PUT " + test.path + "/tags", `{"tags":["a","b"]}`, 200, "", ""})
			tags("a", "b")
			if n.revision(test.path, test.member) == before {
				t.Error("new tags are no new revision")
			}
			// An existing tag may be added; a missing one cannot be deleted.
			n.expect(
				exchange{"PUT " + test.path + "/tags/c", "", 201, "", ""},
				exchange{"PUT " + test.path + "/tags/c", "", 201, "", ""},
				exchange{"GET " + test.path + "/tags/c", "", 204, "", ""},
				exchange{
					"GET " + test.path + "/tags/d", "", 404, "TagNotFound",
					"Tag d could not be found.",
				},
				exchange{"DELETE " + test.path + "/tags/a", "", 204, "", ""},
				exchange{
					"DELETE " + test.path + "/tags/a", "", 404, "TagNotFound",
					"Tag a could not be found.",
				},
			)
			tags("b", "c")
			n.expect(
				exchange{"PUT " + test.path + "/tags", `{"tags":["c"]}`, 200, "", ""},
				exchange{"DELETE " + test.path + "/tags", "", 204, "", ""},
				exchange{"DELETE " + test.path + "/tags", "", 204, "", ""},
			)
			tags()
		})
	}
	// Rules of security groups have no tags, in the releases that the provider is for.
	n.expect(
		exchange{
			"PUT /networks/$unknown/tags", `{"tags":["a"]}`, 404, "TagResourceNotFound",
			"Resource networks $unknown could not be found.",
		},
		exchange{
			"PUT /floatingips/$unknown/tags", `{"tags":["a"]}`, 404, "TagResourceNotFound",
			"could not be found.",
		},
		exchange{
			"DELETE /security-groups/$unknown/tags", "", 404, "TagResourceNotFound",
			"could not be found.",
		},
	)
}

// TestNetworkTags_WhatATagMayBe: it is 255 characters at most, not empty, and each is given once.
// Almost any character will do, also those that a filter cannot ask for. (Tags that differ only in
// case, or by spaces at the end, are one to a usual database: a Neutron of Zed tries for minutes to
// save both.)
func TestNetworkTags_WhatATagMayBe(t *testing.T) {
	t.Parallel()
	n := newNeutron(t, project.WithoutNetwork())
	n.make("n", "networks", "network", `{"name":"n"}`)
	for _, tags := range []string{
		`["$longest"]`, `["a,b"]`, `["a b"]`, `["a/b"]`, `["é☃"]`, `["x:y=z@%"]`, `[" a"]`,
		`["kube_service_kubernetes_default_web"]`, `[]`,
	} {
		answer := n.ask("PUT /networks/$n/tags", `{"tags":`+tags+`}`)
		if now := n.get("/networks/$n?fields=tags", "network", "tags"); answer.Status != 200 ||
			fmt.Sprint(now) != fmt.Sprint(answer.Object()["tags"]) {
			t.Errorf("%s: the tags are %v", answer, now)
		}
	}
	const put = "PUT /networks/$n/tags"
	n.expect(
		exchange{
			put, `{"tags":["a","a"]}`, 400, "InvalidInput",
			"Duplicate items in the list: 'a'.",
		},
		exchange{
			put, `{"tags":["$toolong"]}`, 400, "InvalidInput",
			"exceeds maximum length of 255.",
		},
		exchange{put, `{"tags":[5]}`, 400, "InvalidInput", ""},
		exchange{put, `{"tags":"a"}`, 400, "InvalidInput", ""},
		exchange{put, `{"tags":null}`, 400, "InvalidInput", ""},
		exchange{put, `{}`, 400, "InvalidInput", "Invalid tags body"},
	)
	var many []string
	for i := range 60 {
		many = append(many, fmt.Sprintf(`"tag-%02d"`, i))
	}
	n.expect(
		exchange{put, `{"tags":[` + strings.Join(many[:50], ",") + `]}`, 200, "", ""},
		// The condition on a revision is for tags, too, wherever it is not ignored: the provider
		// sends none.
		exchange{put, `{"tags":["kube","x"]}`, 200, "", ""},
	)
	n.want("by tag", n.list("/networks?tags=kube&fields=id&project_id=$project", "networks", "id"),
		[]string{n.noted["n"]})
}

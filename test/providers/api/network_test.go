package api_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
	"github.com/fxccm/fxccm/test/internal/project"
)

// neutron sends requests to Neutron in a test. In requests, "$name" is replaced by the value noted
// under that name, such as an ID.
type neutron struct {
	*project.Project
	t     *testing.T
	noted map[string]string
}

func newNeutron(t *testing.T, opts ...project.Option) *neutron {
	t.Helper()
	p := project.New(t, opts...)
	return &neutron{Project: p, t: t, noted: map[string]string{
		"project": p.ID, "public": p.Public, "net": p.Network, "router": p.Router,
		"subnet4": p.Subnets[4], "subnet6": p.Subnets[6],
		"unknown": "00000000-0000-4000-8000-00000000dead", "longest": strings.Repeat("x", 255),
		"toolong": strings.Repeat("x", 256),
	}}
}

// onReleases runs a test of what differs between releases of OpenStack: on that of the lab, or on
// each that the simulator knows.
func onReleases(t *testing.T, test func(t *testing.T, n *neutron, release string)) {
	t.Helper()
	t.Parallel()
	if project.OnLab() {
		test(t, newNeutron(t), project.LabRelease(t))
		return
	}
	for _, release := range []string{"zed", "2025.1"} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			test(t, newNeutron(t, project.OnSimulator(openstacktest.WithRelease(release))), release)
		})
	}
}

// needs skips the test where Neutron lacks an extension.
func (n *neutron) needs(alias string) {
	n.t.Helper()
	if !slices.Contains(n.list("/extensions", "extensions", "alias"), alias) {
		n.t.Skipf("Neutron has no extension %s", alias)
	}
}

// in is neutron for a subtest.
func (n *neutron) in(t *testing.T) *neutron {
	return &neutron{Project: n.Project.In(t), t: t, noted: n.noted}
}

// fill replaces the names of noted values.
func (n *neutron) fill(text string) string {
	return os.Expand(text, func(name string) string {
		value, known := n.noted[name]
		if !known {
			n.t.Fatalf("nothing is noted by the name %s, in %s", name, text)
		}
		return value
	})
}

// exchange is a request and its expected answer.
type exchange struct {
	// request is method and path, of the project's user, or of an administrator: "admin GET
	// /networks".
	request, body string
	status        int
	// kind is the type of Neutron's error, says a part of its message. Empty: none, and any.
	kind, says string
}

// ask sends a request. headers are pairs.
func (n *neutron) ask(request, body string, headers ...string) project.Answer {
	n.t.Helper()
	who := n.User()
	request, admin := strings.CutPrefix(request, "admin ")
	if admin {
		request = strings.TrimPrefix(request, "admin ")
		who = n.Admin()
	}
	return n.askAs(who, request, body, headers...)
}

func (n *neutron) askAs(
	who project.Requests, request, body string, headers ...string,
) project.Answer {
	n.t.Helper()
	method, path, _ := strings.Cut(n.fill(request), " ")
	var sent any
	if body != "" {
		sent = n.fill(body)
	}
	for i := range headers {
		headers[i] = n.fill(headers[i])
	}
	return who.Try(method, project.Network, path, sent, headers...)
}

// make creates an object and notes its ID.
func (n *neutron) make(name, collection, member, attributes string) project.Object {
	n.t.Helper()
	return n.makeAs("", name, collection, member, attributes)
}

func (n *neutron) makeAs(who, name, collection, member, attributes string) project.Object {
	n.t.Helper()
	answer := n.ask(who+"POST /"+collection, `{"`+member+`":`+attributes+`}`)
	made := answer.Inner(member)
	if answer.Status != http.StatusCreated || project.ID(made) == "" {
		n.t.Fatalf("%s", answer)
	}
	n.noted[name] = project.ID(made)
	return made
}

// expect sends requests in order.
func (n *neutron) expect(exchanges ...exchange) {
	n.t.Helper()
	for _, e := range exchanges {
		answer := n.ask(e.request, e.body)
		if err := e.compare(answer, n.fill(e.says)); err != nil {
			n.t.Errorf("%s %s:\n%.1000s\n%v", e.request, shortened(e.body), answer, err)
		}
	}
}

// shortened is a body in a message.
func shortened(body string) string {
	const enough = 300
	if len(body) > enough {
		return body[:enough] + "…"
	}
	return body
}

func (e exchange) compare(answer project.Answer, says string) error {
	failure := answer.Inner("NeutronError")
	kind, message := project.Text(failure, "type"), project.Text(failure, "message")
	switch {
	case answer.Status != e.status:
		return fmt.Errorf("the status is %d, want %d", answer.Status, e.status)
	case kind != e.kind:
		return fmt.Errorf("the error is of type %q, want %q", kind, e.kind)
	case !strings.Contains(message, says):
		return fmt.Errorf("the error does not say %q", says)
	}
	return nil
}

// list is a list's attribute, sorted.
func (n *neutron) list(path, collection, attribute string) []string {
	n.t.Helper()
	values := []string{}
	for _, o := range n.User().List(project.Network, n.fill(path), collection) {
		values = append(values, fmt.Sprint(o[attribute]))
	}
	slices.Sort(values)
	return values
}

// get reads an attribute of something.
func (n *neutron) get(path, member, attribute string) any {
	n.t.Helper()
	return n.User().Get(project.Network, n.fill(path), member)[attribute]
}

// revision is the revision_number of something, as it is written.
func (n *neutron) revision(path, member string) string {
	n.t.Helper()
	return fmt.Sprint(n.get(path, member, "revision_number"))
}

func (n *neutron) want(what string, got, want any) {
	n.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		n.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

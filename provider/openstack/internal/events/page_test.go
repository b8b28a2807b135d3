package events

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/internal/events/catalog"
	"github.com/fxccm/fxccm/internal/pagetest"
)

//go:generate env UPDATE_DOCS=1 go test -count=1 -run ^TestPage .

const path = "../../../../docs/reference/events.md"

func TestPage_IsUpToDate(t *testing.T) {
	pagetest.Check(t, path, page())
}

// Each constant of type Reason has one row in the table.
func TestTable_HasEachReasonOnce(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "events.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[Reason]int{}
	for _, e := range slices.Concat(OfServices(), OfNodes(), OfStates()) {
		rows[e.Reason]++
		if !strings.HasSuffix(e.When, ".") || !strings.HasSuffix(e.Advice, ".") {
			t.Errorf("%s: want whole sentences", e.Reason)
		}
	}
	constants := 0
	ast.Inspect(file, func(n ast.Node) bool {
		value, ok := n.(*ast.ValueSpec)
		if !ok || len(value.Values) != 1 {
			return true
		}
		if kind, ok := value.Type.(*ast.Ident); !ok || kind.Name != "Reason" {
			return true
		}
		constants++
		text, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		if rows[Reason(text)] != 1 {
			t.Errorf("%s has %d rows, want 1", text, rows[Reason(text)])
		}
		return true
	})
	if constants == 0 || constants != len(rows) {
		t.Errorf("%d constants and %d rows", constants, len(rows))
	}
}

// The packages of the provider use only reasons of the table.
func TestReasons_AreWrittenFromTheTable(t *testing.T) {
	var files []string
	for _, dir := range []string{
		"../loadbalancer", "../loadbalancer/desired", "../loadbalancer/plan", "../instances",
	} {
		found, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(found) == 0 {
			t.Fatal(dir, err)
		}
		files = append(files, found...)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			kind, ok := call.Type.(*ast.Ident)
			if selector, is := call.Type.(*ast.SelectorExpr); is {
				kind, ok = selector.Sel, true
			}
			if !ok || kind.Name != "Notice" && kind.Name != "refusal" || len(call.Elts) == 0 {
				return true
			}
			first := call.Elts[0]
			if pair, is := first.(*ast.KeyValueExpr); is {
				first = pair.Value
			}
			if literal, is := first.(*ast.BasicLit); is {
				t.Errorf("%s: %s is not a constant of this package", name, literal.Value)
			}
			return true
		})
	}
}

const refusals = `
### When the cloud refuses a request

CAUSE is the service, the status and the first sentence of its answer, such as ` +
	"`Octavia: 400 Subnet 1234 not found`" + `. SETTING is the annotation, the field of the Service or the option
of cloud.conf that the answer is about, the objects that a quota counts, or the name that the
metrics give the request, such as ` + "`loadbalancer_create`" + `. The whole answer, with the URL, is in the log at ` + "`-v=4`" + `.
With RequestFailed, the event on the Service is SyncLoadBalancerFailed.

fxccm retries at once when the Service changes. Until then it pauses for 5 seconds to 5 minutes after RequestFailed, and for 1 to 5 minutes after the others, because they rarely end by themselves.

| when | service | reason | message |
|---|---|---|---|
`

const states = `
## In conditions and in the status, by the OpenStack provider

A Service that is not served has the condition ` + "`fxccm.dev/LoadBalancerReady`" + ` with the status False.
Its reason is that of an event on the Service, or one of the table below, and its message has the cause.
A Service that is served, but for a part of what it requests, has the condition with the status True: its reason is that of the gravest
warning on the Service, such as LoadBalancerSourceRangesIgnored, and its message has all of them.
fxccm removes the condition when the Service is served without a defect. It writes LoadBalancerWaiting and RequestFailed after 30 seconds, and
LoadBalancerWaiting after 3 seconds if OpenStack does not answer.

The status of the Manager has the same reasons. It also lists the nodes that wait for their initialization, and those that cannot be updated, looked up or deleted, with the reason.

| reason | when | what to do |
|---|---|---|
`

// page is the reference of all events.
func page() string {
	var out strings.Builder
	out.WriteString(`# Events

<!-- Generated from provider/openstack/internal/events and internal/events/catalog; change it there and run: go generate ./provider/openstack/internal/events -->

A message names the object, the cause, and the next step. An event is written again when its message changes, and on a node every 30 minutes while the cause lasts. Kubernetes drops events after an hour.

## On Services, by the OpenStack provider

| reason | when | what to do |
|---|---|---|
`)
	write := func(all []Event) {
		for _, e := range all {
			fmt.Fprintf(&out, "| `%s` | %s | %s |\n", e.Reason, e.When, e.Advice)
		}
	}
	write(OfServices())
	out.WriteString(refusals)
	for _, r := range OfRefusals() {
		fmt.Fprintf(&out, "| %s | %s | `%s` | `%s` |\n", r.When, r.Services, r.Reason,
			fmt.Sprintf(r.format+"%.0[1]s%.0[2]s", "CAUSE", "SETTING"))
	}
	out.WriteString(
		"\n## On Nodes, by the OpenStack provider\n\n| reason | when | what to do |\n|---|---|---|\n")
	write(OfNodes())
	out.WriteString(states)
	write(OfStates())
	out.WriteString("\n## By the controllers, the Manager and the fleet, with any provider\n\n" +
		"| object | type | reason | when | what to do |\n|---|---|---|---|---|\n")
	for _, e := range catalog.All() {
		fmt.Fprintf(&out, "| %s | %s | `%s` | %s | %s |\n", e.Object, e.Type, e.Reason, e.When,
			e.Advice)
	}
	return out.String()
}

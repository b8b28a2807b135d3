package events

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

//go:generate env UPDATE_DOCS=1 go test -count=1 -run ^TestPage .

const path = "../../../../docs/reference/events.md"

func TestPage_IsUpToDate(t *testing.T) {
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(path, []byte(page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != page() {
		t.Errorf("%s is out of date; run: go generate ./provider/openstack/internal/events", path)
	}
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

// Packages of the provider write no reason that is not in the table.
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

// row is an event of any part of fxccm.
type row struct{ object, kind, reason, when, advice string }

// others are the events that other packages and upstream's controllers write.
func others() []row {
	return []row{
		{
			"Service", "Normal", "EnsuringLoadBalancer",
			"The service controller begins to serve the Service.", nothing,
		},
		{
			"Service", "Normal", "EnsuredLoadBalancer", "The load balancer serves the Service.",
			nothing,
		},
		{
			"Service", "Normal", "UpdatedLoadBalancer", "The members follow a change of the nodes.",
			nothing,
		},
		{
			"Service", "Normal", "DeletingLoadBalancer",
			"The service controller begins to delete the load balancer.", nothing,
		},
		{"Service", "Normal", "DeletedLoadBalancer", "The load balancer is gone.", nothing},
		{
			"Service", "Warning", "SyncLoadBalancerFailed",
			"A call to the cloud failed; the service controller retries with a growing pause.",
			readAnswer,
		},
		{
			"Service", "Warning", "UpdateLoadBalancerFailed",
			"The members could not follow a change of the nodes; the service controller retries.",
			readAnswer,
		},
		{
			"Service", "Warning", "UnAvailableLoadBalancer",
			"The cluster has no node that can be a member.",
			"Check that nodes are ready and not excluded from load balancers by label.",
		},
		{"Node", "Normal", "Synced", "The node is initialised.", nothing},
		{
			"Node", "Normal", "DeletingNode",
			"The node is deleted because its server no longer exists.", nothing,
		},
		{
			"Node", "Warning", "DeletingNodeFailed",
			"The node of a deleted server could not be deleted; the lifecycle controller retries.",
			"Read the message: it has the API server's answer.",
		},
		{
			"Node", "Warning", "FailedToCreateRoute",
			"The route to the node's pods could not be created; the route controller retries.",
			readAnswer,
		},
		{
			"PersistentVolume", "Warning", "LabelingFailed",
			"The labels of the volume cannot be read from the cloud.", readAnswer,
		},
		{"Lease", "Normal", "LeaderElection", "A replica began or stopped to lead.", nothing},
		{
			"Lease", "Warning", "ProviderPanicked",
			"A call of the cloud provider panicked and failed.",
			"Report it to the provider's authors; the stack is in the log.",
		},
		{
			"Lease", "Warning", "ProviderStartTimeout",
			"The cloud provider did not start in time. The term ends, and another replica may lead.", "Check that the provider reaches its cloud.",
		},
	}
}

const states = `
## In conditions and in the status, by the OpenStack provider

A Service that is not served has the condition ` + "`fxccm.dev/LoadBalancerReady`" + ` with the status False.
Its reason is that of an event on the Service, or one of the table below, and its message has the cause.
fxccm removes the condition when the Service is served. It writes LoadBalancerWaiting and RequestFailed after 30 seconds.

The status of the Manager has the same reasons, and those of nodes that wait for their initialization.

| reason | when | what to do |
|---|---|---|
`

// page is the reference of all events.
func page() string {
	var out strings.Builder
	out.WriteString(`# Events

<!-- Generated from provider/openstack/internal/events; change it there and run: go generate ./provider/openstack/internal/events -->

A message names the object, the cause, and the next step. The same event is written once, and again when its message changes.

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
	out.WriteString(
		"\n## On Nodes, by the OpenStack provider\n\n| reason | when | what to do |\n|---|---|---|\n")
	write(OfNodes())
	out.WriteString(states)
	write(OfStates())
	out.WriteString("\n## By the controllers and the Manager, with any provider\n\n" +
		"| object | type | reason | when | what to do |\n|---|---|---|---|---|\n")
	for _, r := range others() {
		fmt.Fprintf(&out, "| %s | %s | `%s` | %s | %s |\n", r.object, r.kind, r.reason, r.when,
			r.advice)
	}
	return out.String()
}

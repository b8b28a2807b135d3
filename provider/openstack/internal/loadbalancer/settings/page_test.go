package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The page is written by `go generate ./provider/openstack/internal/loadbalancer/settings`.
func TestPage_IsUpToDate(t *testing.T) {
	path := filepath.Join("..", "..", "..", "..", "..", "docs", "reference",
		"service-annotations.md")
	want := page()
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf(
			"%s does not say what the code does; run: go generate ./provider/openstack/internal/loadbalancer/settings", path)
	}
}

const introduction = `# Annotations of Services

<!-- Generated from provider/openstack/internal/loadbalancer/settings; change it there and run: go generate ./provider/openstack/internal/loadbalancer/settings -->

What the OpenStack provider reads of a Service of type LoadBalancer. The annotations of openstack-cloud-controller-manager (OCCM) have their
names and their meaning, but for [the differences](#differences-from-occm). Those marked *new* are fxccm's own.

* What an annotation says beats what the class says, and that beats [LoadBalancer] of [cloud.conf](cloud-conf.md#loadbalancer); always.
* A name without a slash begins with ` + "`" + Prefix + "`" + `.
* An annotation with an empty value is the same as none, unless the table says what empty means.
* A value that is wrong is told by an event that names the annotation and the value, once and not on each pass. The default is used in its place. Where that
  would not be safe, the Service is *refused*: it stays as it is until the annotation is mended.
* An annotation that looks like one of these, and is unknown, also causes an event.
* What changes *with a new load balancer* has no effect on the one that there is. An event reports it; with ` + "`recreate`" + ` it is recreated. What changes *with a new floating
  IP* has no effect while the Service has one. Where listeners, pools or members are recreated, their connections break.
`

const differences = `
## Differences from OCCM

* The order of annotation, class and cloud.conf is the same for everything. With OCCM the class beats the annotations for floating IPs and, in external Services, for where a
  new load balancer is.
* ` + "`class`" + ` counts, and must exist, in internal Services, too.
* Values are checked. OCCM passes on numbers that are out of range and invalid ids, and OpenStack refuses them on each pass.
* UDP and SCTP ports never become HTTP, TERMINATED_HTTPS or PROXY.
* ` + "`health-monitor-timeout`" + ` must not be longer than ` + "`health-monitor-delay`" + `, as newer releases of Octavia demand.
* ` + "`hostname`" + ` must be a host name: the API server takes nothing else into a status.
`

func page() string {
	var p strings.Builder
	p.WriteString(introduction)
	for _, s := range sections() {
		fmt.Fprintf(&p,
			"\n## %s\n\n| | value | default | | can change later | if wrong |\n|---|---|---|---|---|---|\n", s.title)
		for _, row := range s.rows {
			e := row.about()
			fmt.Fprintf(&p, "| %s | %s | %s | %s | %s | %s |\n", nameCell(e), valueCell(e),
				defaultCell(e), meaningCell(e), e.later, wrongCell(e))
		}
	}
	p.WriteString(differences)
	return p.String()
}

func nameCell(e entry) string {
	name := "`" + strings.TrimPrefix(e.name, Prefix) + "`"
	if e.own {
		name += " *new*"
	}
	return name
}

func valueCell(e entry) string {
	switch {
	case e.limits == "":
		return e.typ
	case e.typ == "one of":
		return "one of `" + strings.ReplaceAll(e.limits, ", ", "`, `") + "`"
	}
	return e.typ + ", " + e.limits
}

func defaultCell(e entry) string {
	var sources []string
	if e.ofClass {
		sources = append(sources, "the class's")
	}
	if e.option != "" {
		sources = append(sources, "`[LoadBalancer] "+e.option+"`")
	}
	cell := strings.Join(sources, ", or ")
	switch {
	case e.preset == "":
		return cell
	case cell == "":
		return "`" + e.preset + "`"
	}
	return cell + ", which is `" + e.preset + "` if not given"
}

func meaningCell(e entry) string {
	meaning := e.meaning
	if e.empty != "" {
		meaning += " Empty: " + strings.ToLower(e.empty[:1]) + e.empty[1:]
	}
	return strings.ReplaceAll(meaning, "|", `\|`)
}

func wrongCell(e entry) string {
	switch {
	case e.fatal && e.later == newBalancer:
		return "refused, unless there is a load balancer"
	case e.fatal:
		return "refused"
	case e.later == notRead, e.typ == "":
		return ""
	}
	return "default"
}

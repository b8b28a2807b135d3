package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/internal/pagetest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// `go generate ./provider/openstack/internal/loadbalancer/settings` writes the page.
func TestPage_IsUpToDate(t *testing.T) {
	pagetest.Check(t, "../../../../../docs/reference/service-annotations.md", page())
}

// guardTests are the tests of what prevents the misuse of an annotation beside allowed-annotations.
// OpenStack's own rights prevent that of the others.
var guardTests = map[string]string{
	"port-id": "TestEnsure_PortOfAnother_IsRefusedAndNothingIsChanged, " +
		"TestChange_UnmarkedFloatingIPAtANamedPort_IsNotDetached",
	"address":          floatingIPTests,
	"floating-ip-id":   floatingIPTests,
	"load-balancer-ip": floatingIPTests,
	"floating-ip-tag":  "TestPool_FloatingIPOfAnother_IsNeverTaken",
	"load-balancer-id": "TestEnsure_SharingIsNotAllowed_IsRefusedAndTheGuestCanBeDeleted, " +
		"TestEnsure_NoAnnotationIsAllowed_LoadBalancerWithoutMarksIsNotJoined, " +
		"TestEnsure_UIDsOfAnotherCluster_ItsObjectsStay, " +
		"TestOCCMsOfAnotherCluster_LooksLikeTheServices_IsLeftAlone",
	"default-tls-container-ref": "TestCheckCertificate_HostOfTheReferenceIsNotAsked",
}

const (
	// allowedTest has each annotation that names an object.
	allowedTest     = "TestOf_ObjectOfTheCloudIsNotAllowed_ServiceIsRefusedAndTheDefaultStays"
	floatingIPTests = "TestFloatingIP_OfAnotherOwner_IsNeverTaken, " +
		"TestChange_AnothersMarkAppearsBeforeTheAttachment_IsSeen"
)

func testsCell(option string) string {
	if more := guardTests[option]; more != "" {
		return allowedTest + ", " + more
	}
	return allowedTest
}

func TestPage_TestsOfObjects_Exist(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../*_test.go", "../*/*_test.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	var all strings.Builder
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(code)
	}
	named := map[string]bool{}
	for _, row := range table(&Settings{}, cloudconf.Default().LoadBalancer) {
		e := row.about()
		if e.misuse == "" {
			continue
		}
		named[e.optionName()] = true
		for _, name := range strings.Split(testsCell(e.optionName()), ", ") {
			if !strings.Contains(all.String(), "\nfunc "+name+"(") {
				t.Errorf("%s: there is no test %s", e.name, name)
			}
		}
	}
	for option := range guardTests {
		if !named[option] {
			t.Errorf("%s is not in the table", option)
		}
	}
}

const introduction = `# Annotations of Services

<!-- Generated from provider/openstack/internal/loadbalancer/settings; change it there and run: go generate ./provider/openstack/internal/loadbalancer/settings -->

These annotations configure the load balancer of a Service of type LoadBalancer. Annotations of openstack-cloud-controller-manager (OCCM) keep
their names and meanings, except for [the differences](#differences-from-occm). Annotations marked *new* exist only in fxccm.

* An annotation overrides the class, and the class overrides [LoadBalancer] of [cloud.conf](cloud-conf.md#loadbalancer).
* A name without a slash begins with ` + "`" + Prefix + "`" + `.
* An empty value is the same as no annotation, unless the table gives it a meaning.
* An event names an annotation with an invalid value, once and not at each pass. The default applies instead. Where that would not be safe, the Service is
  *refused*: fxccm does not change its load balancer until the annotation is corrected.
* An unknown annotation with a similar name causes an event, too.
* A setting that changes *with a new load balancer* does not affect an existing one. An event reports that; ` + "`recreate`" + ` replaces the load balancer. A setting
  that changes *with a new floating IP* does not affect an existing floating IP. Recreating listeners, pools or members breaks their connections.
`

const differences = `
## Differences from OCCM

* Annotation, class and cloud.conf always have the same precedence. With OCCM the class overrides annotations for floating IPs and, in external Services, for the place of
  a new load balancer.
* ` + "`class`" + ` applies, and must exist, in internal Services, too.
* fxccm validates values. OCCM passes numbers out of range and invalid IDs on, and OpenStack refuses them at each pass.
* UDP and SCTP ports never become HTTP, TERMINATED_HTTPS or PROXY.
* An event warns of a ` + "`health-monitor-timeout`" + ` that is not shorter than ` + "`health-monitor-delay`" + `. Both are used, because Octavia accepts them.
* ` + "`hostname`" + ` must be a host name, because the API server accepts nothing else in a status.
`

func page() string {
	var p strings.Builder
	p.WriteString(introduction)
	for _, s := range sections(&Settings{}, cloudconf.Default().LoadBalancer) {
		fmt.Fprintf(&p,
			"\n## %s\n\n| | value | default | | can change later | if invalid |\n|---|---|---|---|---|---|\n", s.title)
		for _, row := range s.rows {
			e := row.about()
			fmt.Fprintf(&p, "| %s | %s | %s | %s | %s | %s |\n", nameCell(e), valueCell(e),
				defaultCell(e), meaningCell(e), e.later, wrongCell(e))
		}
	}
	p.WriteString(objects)
	for _, row := range table(&Settings{}, cloudconf.Default().LoadBalancer) {
		if e := row.about(); e.misuse != "" {
			fmt.Fprintf(&p, "| `%s` | `%s` | %s | %s | %s |\n", strings.TrimPrefix(e.name, Prefix),
				e.optionName(), e.misuse, e.guard, testsCell(e.optionName()))
		}
	}
	p.WriteString(differences)
	return p.String()
}

const objects = `
## Objects of the cloud

These annotations, and one field, name objects of the cloud. A user who may create Services can name objects of another owner in the same project.
` + "`allowed-annotations`" + ` of [cloud.conf](cloud-conf.md#loadbalancer) lists those that users may set. ` + "`allowed-annotations = none`" + ` turns all of them off; the
default is ` + "`all`" + `, as with OCCM. A Service with an annotation of the table that is not in the list gets the event InvalidAnnotation, or NotAllowed for ` + "`load-balancer-id`" + `. The load
balancer stays as it is. A class may have another list, and ` + "`namespaces`" + ` of a class lists the namespaces that may use it: so the operator grants an annotation to a namespace.

What prevents it in addition holds with every list. The tests are in provider/openstack/internal/loadbalancer and below.

| | in ` + "`allowed-annotations`" + ` | a hostile user could | what prevents it in addition | shown by |
|---|---|---|---|---|
`

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

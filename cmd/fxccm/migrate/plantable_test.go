package migrate

import (
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestWriteTable_ServiceWithoutChange_ShowsItsNoticesAlone(t *testing.T) {
	var out strings.Builder
	err := ServicePlans{
		{Service: "shop/plain", Outcome: NoChange},
		{
			Service: "shop/open", Outcome: NoChange,
			Notices: []string{"LoadBalancerSourceRangesIgnored: every client may connect"},
		},
		{Service: "shop/tags", Outcome: TagsOnly, Steps: []string{"set tags"}},
		{Service: "shop/more", Outcome: Changes, Steps: []string{"update member"}},
	}.WriteTable(&out)
	_, details, _ := strings.Cut(out.String(), "\n\n")
	const want = `shop/open: no change
  - LoadBalancerSourceRangesIgnored: every client may connect

shop/more: changes
  - update member

4 Services: 2 no change, 1 tags only, 1 changes.
`
	if err != nil || details != want {
		t.Errorf("below the table is %q, %v; want %q", details, err, want)
	}
}

func TestWriteTable_NoServices_IsOneLine(t *testing.T) {
	var out strings.Builder
	err := ServicePlans{}.WriteTable(&out)
	const want = "No Service of type LoadBalancer was compared with OpenStack.\n"
	if err != nil || out.String() != want {
		t.Errorf("it is %q, %v; want %q", &out, err, want)
	}
}

func TestWriteTable_TextOfTheCloud_ControlsNothing(t *testing.T) {
	var out strings.Builder
	err := ServicePlans{{
		Service: "shop/web", Outcome: Changes, Notices: []string{"a\x1b[2J"},
		Steps: []string{"delete listener \x1b[2J\nof \u202e"},
	}}.WriteTable(&out)
	if err != nil || strings.ContainsAny(out.String(), "\x1b\u202e") {
		t.Errorf("the text is %q, %v", &out, err)
	}
}

func TestReport_ServicesWereNotRead_ClaimsNothingAboutThem(t *testing.T) {
	var out strings.Builder
	err := Report{Blocked: true}.WriteTable(&out)
	if err != nil || strings.Contains(out.String(), "No Services") {
		t.Errorf("the text is %q, %v", &out, err)
	}
}

func TestPrintPlans_PlanThatBlocks_PrintsItAndExitsAsBlocked(t *testing.T) {
	for name, c := range map[string]struct {
		outcome      Outcome
		allowChanges bool
		code         int
	}{
		"tags only":        {TagsOnly, false, 0},
		"changes":          {Changes, false, ExitBlocked},
		"refused":          {Refused, false, ExitBlocked},
		"changes, allowed": {Changes, true, 0},
		"failed, allowed":  {Failed, true, ExitBlocked},
	} {
		var out strings.Builder
		m := &migration{
			line: &line{allowChanges: c.allowChanges}, out: &out,
			plans: ServicePlans{{Service: "shop/web", Outcome: c.outcome}},
		}
		m.checkServices()
		if err := m.printPlans(); codeOf(err) != c.code ||
			!strings.Contains(out.String(), "shop/web") {
			t.Errorf("%s: %v, want exit code %d, printed:\n%s", name, err, c.code, &out)
		}
	}
}

// A finding, and the error of apply, have the service, the status and the cause, and what to do.
func TestCheckServices_CloudFails_FindingIsOneSentence(t *testing.T) {
	for want, fault := range map[string]openstacktest.Fault{
		"; correct auth-url and the credentials in cloud.conf": {
			Service: openstacktest.ServiceIdentity, Status: http.StatusUnauthorized,
		},
		"Octavia: 503 Service Unavailable; run the command again later": {
			Service: openstacktest.ServiceLoadBalancer, Status: http.StatusServiceUnavailable,
		},
	} {
		cloud := openstacktest.NewCloud()
		t.Cleanup(cloud.Close)
		cloud.Inject(fault)
		loaded, err := cloudconf.Read(
			[]byte(cloud.CloudConf("password")+"[Client]\nmax-retries = 0\n"), cloudconf.Options{})
		if err != nil {
			t.Fatal(err)
		}
		service := &v1.Service{}
		service.Namespace, service.Name, service.UID = "shop", "web", "s1"
		service.Spec.Type = v1.ServiceTypeLoadBalancer
		service.Spec.Ports = []v1.ServicePort{{Protocol: v1.ProtocolTCP, Port: 80, NodePort: 30080}}
		m := &migration{
			line: &line{}, conf: &loaded.Config,
			world: World{UID: "c1", Services: []*v1.Service{service}},
		}
		m.plans, err = PlanServices(t.Context(), loaded.Config, ccm.Config{}, "", m.world)
		if err != nil {
			t.Fatal(err)
		}
		m.checkServices()
		found := ""
		for _, f := range m.findings {
			if f.Level == Blocks {
				found += f.Text
			}
		}
		_, failed := m.snapshot(t.Context(), nil)
		if failed == nil {
			t.Fatal("the cloud was read")
		}
		for prefix, text := range map[string]string{
			"no plan: ": found, "read OpenStack: ": failed.Error(),
		} {
			if !strings.HasPrefix(text, prefix) || !strings.HasSuffix(text, want) ||
				strings.Count(text, want) != 1 || strings.Contains(text, "://") {
				t.Errorf("the text is %q, want %s and one sentence with %q", text, prefix, want)
			}
		}
	}
}

package thirdparty_test

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/conformance"
	"github.com/fxccm/fxccm/hosting/process"
	"github.com/fxccm/fxccm/hosting/registered"
	"github.com/fxccm/fxccm/test/thirdparty/awsstub"
)

// examined is the stub of AWS behind the gate of the conformance kit.
type examined struct {
	conformance.Gate
	cloud *awsstub.Cloud
	file  string
}

func newExamined(t testing.TB) conformance.Cloud {
	t.Helper()
	c := &examined{file: t.TempDir() + "/cloud.conf"}
	c.cloud = awsstub.StartBehind(func(cloud http.Handler) http.Handler {
		return c.Handler(cloud, awsOperation)
	})
	t.Cleanup(c.cloud.Close)
	if err := os.WriteFile(c.file, []byte(c.cloud.Config(awsstub.ClusterID)), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

func awsOperation(r *http.Request) (operation string, mutating bool) {
	action := r.PostFormValue("Action")
	return action, !strings.HasPrefix(action, "Describe")
}

func (c *examined) ConfigFile() string { return c.file }

func (c *examined) AddInstance(node string) { c.cloud.Launch(instanceOf(node)) }

func (c *examined) RemoveInstance(node string) { c.cloud.Terminate(instanceOf(node).ID) }

// instanceOf returns the instance of a node of the kit, whose name ends with a number.
func instanceOf(node string) awsstub.Instance {
	number := node[strings.LastIndex(node, "-")+1:]
	return awsstub.Instance{
		ID: fmt.Sprintf("i-%017s", number), PrivateDNSName: node, PrivateIP: "10.0.0." + number,
		Type: "m5.large", Zone: awsstub.Region + "b",
	}
}

func TestConformance_OutcomesInProcessAndIsolated_AreThoseOfThePage(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a process of its own needs Linux")
	}
	signWith(t, "KEY")
	examine := func(name string, provider ccm.Provider) (report conformance.Report) {
		t.Run(name, func(t *testing.T) {
			report = conformance.Examine(t, conformance.Suite{
				Provider:  provider,
				NewCloud:  newExamined,
				BadConfig: "no configuration of AWS",
				Configure: func(cfg *ccm.Config) {
					cfg.ClusterName = awsstub.ClusterID
					// The stub writes no routes.
					cfg.Controllers = []string{"*", "-node-route-controller"}
				},
				Cluster: func(testing.TB) ccmtest.Cluster { return shared.ControlPlane },
			})
			t.Log(report)
		})
		return report
	}
	inProcess := examine("in-process", registered.Provider("aws"))
	isolated := examine("isolated", process.Provider(process.Options{Name: "aws"}))

	t.Run("page", func(t *testing.T) { // processes that run one check skip it
		leaks, _ := inProcess.Result("growth")
		const leak = "goroutines of k8s.io/cloud-provider-aws"
		if !strings.Contains(leaks.Detail, leak) {
			t.Errorf("in process, growth reports %q, want %q", leaks.Detail, leak)
		}
		if got := isolated.Verdict(); got != "safe in process" {
			t.Errorf("isolated, the verdict is %q", got)
		}
		var table strings.Builder
		for _, result := range inProcess.Results {
			other, _ := isolated.Result(result.Check)
			fmt.Fprintf(&table, "| %s | %s | %s |\n", result.Check, result.Outcome, other.Outcome)
		}
		page, err := os.ReadFile("../../docs/how-to/host-an-existing-provider.md")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "|---|---|---|\n"+table.String()+"\n") {
			t.Errorf("the page does not show these outcomes:\n%s", &table)
		}
	})
}

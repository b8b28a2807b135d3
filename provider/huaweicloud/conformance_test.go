package huaweicloud

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3/model"

	"github.com/fxccm/fxccm/ccm/ccmtest/conformance"
	"github.com/fxccm/fxccm/provider/huaweicloud/internal/stub"
)

func TestProvider_IsSafeInProcess(t *testing.T) {
	report := conformance.Run(t, conformance.Suite{
		Provider: Provider(), NewCloud: newConformanceCloud, BadConfig: "region: x",
		// Absences take ten seconds, and the check of a lost lease sends hundreds of requests.
		WaitLimit: time.Minute,
	})
	for _, result := range report.Results {
		want := conformance.Passed
		if result.Check == "endpoints" {
			want = conformance.Skipped
		}
		// The provider's own IDs have no prefix.
		if result.Outcome != want && result.Check != "provider-ids" {
			t.Errorf("%s %s: %s", result.Check, result.Outcome, result.Detail)
		}
	}
	if got := report.Verdict(); got != "safe in process" {
		t.Errorf("verdict %q", got)
	}
}

// conformanceCloud is the stub behind the gate of the kit.
type conformanceCloud struct {
	conformance.Gate
	stub *stub.Cloud
	file string
}

var (
	_ conformance.Adopter    = (*conformanceCloud)(nil)
	_ conformance.Identifier = (*conformanceCloud)(nil)
)

func newConformanceCloud(t testing.TB) conformance.Cloud {
	t.Helper()
	c := &conformanceCloud{stub: stub.New(t), file: filepath.Join(t.TempDir(), "cloud.yaml")}
	server := httptest.NewServer(c.Gate.Handler(c.stub.Handler, nil))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	text := fmt.Sprintf("{ecsEndpoint: %[1]s, elbEndpoint: %[1]s, eipEndpoint: %[1]s, "+
		"region: stub-1, projectID: %s, routerID: %s, subnetID: %s, accessKeyID: %s, "+
		"accessKeySecret: %s}", server.URL, stub.ProjectID, stub.VPC, stub.Subnet,
		stub.AccessKeyID, stub.AccessKeySecret)
	if err := os.WriteFile(c.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *conformanceCloud) ConfigFile() string { return c.file }

// number returns the number at the end of a node's name.
func number(node string) string { return node[strings.LastIndex(node, "-")+1:] }

func (c *conformanceCloud) ProviderID(node string) string {
	return fmt.Sprintf("%08s-bbbb-4000-8000-000000000000", number(node))
}

func (c *conformanceCloud) AddInstance(node string) {
	c.stub.AddServer(c.ProviderID(node), "192.168.1."+number(node), "")
}

func (c *conformanceCloud) RemoveInstance(node string) { c.stub.RemoveServer(c.ProviderID(node)) }

func (c *conformanceCloud) AddLoadBalancer() (id string, annotations map[string]string) {
	id = c.stub.AddBalancer("mine").Id
	return id, map[string]string{"kubernetes.io/elb.id": id}
}

func (c *conformanceCloud) HasLoadBalancer(id string) bool {
	return slices.ContainsFunc(c.stub.Balancers(),
		func(b model.LoadBalancer) bool { return b.Id == id })
}

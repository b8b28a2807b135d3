package clusterapi_test

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types/upstreamv1beta4"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/test/commandblocks"
)

// Cluster API has a copy of kubeadm's types. With it, each block of kubeadm has only known fields.
func TestKubeadm_BlockOfThePage_SetsTheFlagOfTheKubelet(t *testing.T) {
	const page = "../../docs/explanation/what-a-ccm-is.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for line, block := range commandblocks.Fenced(string(text), "yaml") {
		if !strings.Contains(block, "apiVersion: kubeadm.k8s.io/v1beta4\n") {
			continue
		}
		for document := range strings.SplitSeq(block, "\n---\n") {
			node, kind, err := nodeOf(document)
			if err != nil {
				t.Errorf("%s:%d: %v", page, line, err)
				continue
			}
			kinds[kind] = true
			if args := node.KubeletExtraArgs; len(args) != 1 ||
				args[0].Name != "cloud-provider" || args[0].Value != "external" {
				t.Errorf("%s:%d: %s gives the kubelet %v", page, line, kind, args)
			}
		}
	}
	if !kinds["InitConfiguration"] || !kinds["JoinConfiguration"] {
		t.Errorf("the page has %v", kinds)
	}
	if _, _, err := nodeOf("kind: JoinConfiguration\nnodeRegistrations: {}\n"); err == nil {
		t.Error("an unknown field is not an error")
	}
}

// nodeOf returns the node's settings in a document of kubeadm, and the document's kind.
func nodeOf(document string) (upstreamv1beta4.NodeRegistrationOptions, string, error) {
	if strings.Contains(document, "kind: InitConfiguration\n") {
		var init upstreamv1beta4.InitConfiguration
		err := yaml.UnmarshalStrict([]byte(document), &init)
		return init.NodeRegistration, init.Kind, err
	}
	var join upstreamv1beta4.JoinConfiguration
	err := yaml.UnmarshalStrict([]byte(document), &join)
	return join.NodeRegistration, join.Kind, err
}

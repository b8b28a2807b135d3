package docs_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/options"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/test/commandblocks"
)

// Each block of YAML is an object of Kubernetes with known fields, or a configuration of fxccm, or
// at least has no duplicate key. Each INI block is a cloud.conf. test/clusterapi reads the blocks
// of kubeadm.
func TestBlocks_OfConfiguration_AreValid(t *testing.T) {
	for language, check := range map[string]func(string) error{
		"yaml": checkYAML, "ini": checkCloudConf,
	} {
		found := 0
		for _, page := range pages(t) {
			for line, text := range commandblocks.Fenced(read(t, page), language) {
				found++
				if err := check(text); err != nil {
					t.Errorf("%s:%d: %v", page, line, err)
				}
			}
		}
		if found == 0 {
			t.Errorf("no page has a block of %s", language)
		}
	}
}

func checkYAML(text string) error {
	objects := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).
		UniversalDeserializer()
	for document := range strings.SplitSeq(text, "\n---\n") {
		var content map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &content); err != nil {
			return err
		}
		version, _ := content["apiVersion"].(string)
		group, _, _ := strings.Cut(version, "/")
		var err error
		switch {
		case group == "fxccm.dev":
			_, err = options.Decode([]byte(document))
		case content["kind"] != nil && group != "kubeadm.k8s.io":
			_, _, err = objects.Decode([]byte(document), nil, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkCloudConf requires a login unless the block only shows other sections.
func checkCloudConf(text string) error {
	strict := cloudconf.Options{Strict: true}
	if !strings.Contains(text, "[Global]") {
		_, warnings, err := cloudconf.Parse([]byte(text), strict)
		if err == nil && len(warnings) > 0 {
			err = errors.New(fmt.Sprint(warnings))
		}
		return err
	}
	loaded, err := cloudconf.Read([]byte(text), strict)
	if err == nil && len(loaded.Warnings) > 0 {
		err = errors.New(fmt.Sprint(loaded.Warnings))
	}
	return err
}

package chart

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/deploy"
)

// valueSchema is a JSON schema of the values.
type valueSchema struct {
	Ref               string                  `json:"$ref"`
	Type              string                  `json:"type"`
	Enum              []any                   `json:"enum"`
	Properties        map[string]*valueSchema `json:"properties"`
	PatternProperties map[string]*valueSchema `json:"patternProperties"`
	Items             *valueSchema            `json:"items"`
	AllOf             []*valueSchema          `json:"allOf"`
	Definitions       map[string]*valueSchema `json:"definitions"`
}

// texts calls yield for each value that may be a text, with a function that puts a text there.
func (s *valueSchema) texts(
	root *valueSchema, path string, put func(any), yield func(string, func(string)),
) {
	if s.Ref != "" {
		s = root.Definitions[filepath.Base(s.Ref)]
	}
	for _, part := range s.AllOf {
		part.texts(root, path, put, yield)
	}
	switch {
	case s.Type == "string" && len(s.Enum) == 0:
		yield(path, func(text string) { put(text) })
	case s.Type == "array" && s.Items != nil:
		s.Items.texts(root, path+"[]", func(v any) { put([]any{v}) }, yield)
	case slices.ContainsFunc(slices.Collect(maps.Values(s.PatternProperties)), isText):
		yield(path+" (key)", func(text string) { put(map[string]any{text: "x"}) })
		yield(path+" (value)", func(text string) { put(map[string]any{"example.com/x": text}) })
	}
	for name, property := range s.Properties {
		property.texts(root, strings.TrimPrefix(path+"."+name, "."), func(v any) {
			put(map[string]any{name: v})
		}, yield)
	}
}

func isText(s *valueSchema) bool { return s.Type == "string" }

// merge puts what is in from into the values. Lists are replaced.
func merge(into, from map[string]any) {
	for key, value := range from {
		inner, ok := into[key].(map[string]any)
		if more, isMap := value.(map[string]any); ok && isMap {
			merge(inner, more)
			continue
		}
		into[key] = value
	}
}

// everything switches on what uses values.
const everything = `
persistentVolumeLabel: {enabled: true}
clusterCIDR: 10.0.0.0/16
hostCertificates: /etc/ssl
hostNetwork: false
networkPolicy: {enabled: true}
metrics:
  service: {enabled: true}
  serviceMonitor: {enabled: true}
  prometheusRule: {enabled: true}
  dashboard: {enabled: true}
  reader: {namespace: monitoring, name: prometheus}
`

// hard are texts that YAML reads as something else, or that end a value.
var hard = []string{
	"", " ", "#", "prod #1", "a: b", "a:", "- a", "true", "null", "~", "1", "1e3", "0x1f", "0b1",
	"1_000", ".inf", "2020-01-01", "12:30:45", "'", `"`, `\`, "{}", "[a", "*a", "&a", "!a",
	"|", ">", "%a", "@a", "`a`", "{{ .Values }}", "a\nb",
	"a\n- b", "a\tb", "é", "\u2028", "yes", "n", "..",
	"a..b", "A", "a_b", "/etc/../x", "/", "/a: b", "/a #b", strings.Repeat("a b ", 40),
	strings.Repeat("a", 300),
}

func TestValues_AnyText_RendersWhatTheAPIServerAcceptsOrIsRefused(t *testing.T) {
	data, err := os.ReadFile("../../deploy/chart/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	root := &valueSchema{}
	if err := json.Unmarshal(data, root); err != nil {
		t.Fatal(err)
	}
	cp := controlplane.ForTest(t)
	installOperatorCRDs(t, cp)
	usual, err := render(t, "Helm", everything)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2)) // the same texts in each run
	alphabet := []rune("ab1-._/:# '\"{}[],&*!|>%@`~\n")
	rendered, refused := 0, 0
	var put map[string]any
	root.texts(root, "", func(v any) { put = v.(map[string]any) },
		func(path string, set func(string)) {
			all := append([]string{}, hard...)
			for range 3 {
				text := make([]rune, 1+random.IntN(12))
				for i := range text {
					text[i] = alphabet[random.IntN(len(alphabet))]
				}
				all = append(all, string(text))
			}
			for _, text := range all {
				set(text)
				given := values(t, everything)
				merge(given, put)
				written, err := yaml.Marshal(given)
				if err != nil {
					t.Fatal(err)
				}
				manifests, err := render(t, "Helm", string(written))
				if err != nil {
					refused++
					continue
				}
				rendered++
				for name, manifest := range manifests {
					if manifest == usual[name] {
						continue
					}
					for document := range strings.SplitSeq(manifest, "\n---\n") {
						if err := yaml.UnmarshalStrict([]byte(document),
							&map[string]any{}); err != nil {
							t.Errorf("%s = %q: %s: %v", path, text, name, err)
						}
					}
					// A namespace that does not exist is another mistake.
					if err := deploy.Create(t.Context(), cp.RESTConfig(),
						metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}},
						objects(t, manifest)...); err != nil && !apierrors.IsNotFound(err) {
						t.Errorf("%s = %q: %s: %v", path, text, name, err)
					}
				}
			}
		})
	if rendered < 200 || refused < 200 {
		t.Errorf("%d texts were rendered and %d refused, want 200 of each", rendered, refused)
	}
}

func TestClusterName_AnyText_IsTheArgument(t *testing.T) {
	for _, text := range hard {
		if text == "" {
			continue
		}
		given, err := yaml.Marshal(map[string]string{"clusterName": text})
		if err != nil {
			t.Fatal(err)
		}
		args := podTemplate(t, string(given)).Spec.Containers[0].Args
		if want := "--cluster-name=" + text; !slices.Contains(args, want) {
			t.Errorf("%q has no %q", args, want)
		}
	}
}

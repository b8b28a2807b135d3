package chart

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// leaves calls yield for each value that is no section, with its type and a function that puts
// something in its place.
func (s *valueSchema) leaves(
	root *valueSchema, path string, put func(any), yield func(path, kind string, set func(any)),
) {
	if s.Ref != "" {
		s = root.Definitions[filepath.Base(s.Ref)]
	}
	for _, part := range s.AllOf {
		part.leaves(root, path, put, yield)
	}
	switch {
	case len(s.Enum) > 0:
		yield(path, "enum", put)
	case s.Type == "array" && s.Items != nil:
		yield(path, s.Type, put)
		s.Items.leaves(root, path+"[]", func(v any) { put([]any{v}) }, yield)
	case slices.ContainsFunc(slices.Collect(maps.Values(s.PatternProperties)), isText):
		yield(path, s.Type, put)
		yield(path+" (key)", "string", func(v any) {
			if text, ok := v.(string); ok {
				put(map[string]any{text: "x"})
			}
		})
		yield(path+" (value)", "string", func(v any) { put(map[string]any{"example.com/x": v}) })
	case s.Type == "object" && len(s.Properties) == 0 && path != "":
		yield(path, "object of Kubernetes", put)
	case s.Type != "" && path != "":
		yield(path, s.Type, put)
	}
	for name, property := range s.Properties {
		property.leaves(root, strings.TrimPrefix(path+"."+name, "."), func(v any) {
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

// aFleet also switches the fleet on.
const aFleet = everything + `
fleet: {enabled: true, clustersNamespace: clusters}
`

// hard are texts that YAML reads as something else, or that end a value.
var hard = []string{
	"", " ", "#", "prod #1", "a: b", "a:", "- a", "true", "null", "~", "1", "1e3", "0x1f", "0b1",
	"1_000", ".inf", "2020-01-01", "12:30:45", "'", `"`, `\`, "{}", "[a", "*a", "&a", "!a",
	"|", ">", "%a", "@a", "`a`", "{{ .Values }}", "a\nb",
	"a\n- b", "a\tb", "é", "\u2028", "yes", "n", "..",
	"1.5m", "30s1m", "1m30s", "19", "4minutes", "0s", "0", "-1s", "1d", "9999999h",
	"1500ms", "999999h",
	"a..b", "A", "a_b", "/etc/../x", "/", "/a: b", "/a #b", strings.Repeat("a b ", 40),
	strings.Repeat("a", 300),
}

// odd are values of other types, and numbers that are written in several ways. nil stands for null,
// which removes the default.
var odd = []any{
	nil, true, false, -1, 0, 1, 1.5, 65536, 999999, 1000000, 1234567, 1 << 31, 1e10, 1e19, 1e300,
	"",
	"x", "1", "true",
	[]any{},
	[]any{"x"},
	[]any{nil},
	map[string]any{},
	map[string]any{"x": "y"},
}

func TestValues_Any_RendersWhatTheAPIServerAcceptsOrIsRefused(t *testing.T) {
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
	usual := map[string]map[string]string{}
	for _, base := range []string{everything, aFleet} {
		if usual[base], err = render(t, "Helm", base); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(1, 2)) // the same texts in each run
	alphabet := []rune("ab1-._/:# '\"{}[],&*!|>%@`~\n")
	rendered, refused := 0, 0
	var put map[string]any
	try := func(base, path string, value any) {
		given := values(t, base)
		merge(given, put)
		written, err := yaml.Marshal(given)
		if err != nil {
			t.Fatal(err)
		}
		manifests, err := render(t, "Helm", string(written))
		if err != nil {
			refused++
			return
		}
		rendered++
		for name, manifest := range manifests {
			if manifest == usual[base][name] {
				continue
			}
			for document := range strings.SplitSeq(manifest, "\n---\n") {
				if err := yaml.UnmarshalStrict([]byte(document), &map[string]any{}); err != nil {
					t.Errorf("%s = %#v: %s: %v", path, value, name, err)
				}
			}
			created := objects(t, manifest)
			for _, o := range created {
				wantFlags(t, fmt.Sprintf("%s = %#v", path, value), o)
			}
			// A namespace that does not exist is another mistake.
			if err := deploy.Create(t.Context(), cp.RESTConfig(),
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}},
				created...); err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("%s = %#v: %s: %v", path, value, name, err)
			}
		}
	}
	root.leaves(root, "", func(v any) { put, _ = v.(map[string]any) },
		func(path, kind string, set func(any)) {
			var all []any
			if kind == "string" {
				for _, text := range hard {
					all = append(all, text)
				}
				for range 3 {
					text := make([]rune, 1+random.IntN(12))
					for i := range text {
						text[i] = alphabet[random.IntN(len(alphabet))]
					}
					all = append(all, string(text))
				}
			}
			for _, value := range append(all, odd...) {
				if _, is := value.(map[string]any); is && kind == "object of Kubernetes" {
					continue // the API server checks the fields
				}
				set(value)
				try(everything, path, value)
				if strings.HasPrefix(path, "fleet.") {
					try(aFleet, path, value)
				}
			}
		})
	if rendered < 200 || refused < 200 {
		t.Errorf("%d values were rendered and %d refused, want 200 of each", rendered, refused)
	}
}

// durations are flags with a duration.
var durations = []string{
	"leader-elect-lease-duration", "leader-elect-renew-deadline", "leader-elect-retry-period",
	"cloud-list-max-age",
}

// wantFlags checks the arguments of an object's container: each flag has a value, numbers are
// whole, and the program accepts the durations.
func wantFlags(t *testing.T, given string, object *unstructured.Unstructured) {
	t.Helper()
	containers, _, _ := unstructured.NestedSlice(object.Object,
		"spec", "template", "spec", "containers")
	for _, container := range containers {
		args, _, _ := unstructured.NestedStringSlice(container.(map[string]any), "args")
		for _, arg := range args {
			name, value, hasValue := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
			isNumber := slices.Contains([]string{"secure-port", "v", "cloud-request-burst"}, name)
			_, err := strconv.Atoi(value)
			if slices.Contains(durations, name) {
				isNumber = true
				var d time.Duration
				if d, err = time.ParseDuration(value); d == 0 {
					err = errors.Join(err, errors.New("the program refuses 0"))
				}
				if name == "leader-elect-lease-duration" &&
					(d%time.Second != 0 || d > math.MaxInt32*time.Second) {
					err = errors.Join(err, errors.New("a lease has int32 seconds"))
				}
			}
			if hasValue && value == "" || isNumber && err != nil ||
				strings.Contains(value, "<nil>") {
				t.Errorf("%s: the program gets %q", given, arg)
			}
		}
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

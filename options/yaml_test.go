package options_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/fxccm/fxccm/options"
)

// equal treats an empty list and no list as equal.
func equal(a, b options.Configuration) bool { return equality.Semantic.DeepEqual(a, b) }

func TestDecode_SomeFields_OtherFieldsKeepTheirDefaults(t *testing.T) {
	t.Parallel()
	got, err := options.Decode([]byte(header + `
clusterName: blue
controllers: ["*", -route]
drainTimeout: 1m30s
leaderElection:
  leaderElect: false
clientConnection: {qps: 12.5, burst: 20}
serving:
  curvePreferences: [29]
  authentication:
    requestHeader:
      usernameHeaders: []
service:
node: ~
`))
	if err != nil {
		t.Fatal(err)
	}
	want := options.DefaultConfiguration()
	want.Config.ClusterName = "blue"
	want.Config.Controllers = []string{"*", "-route"}
	want.Config.DrainTimeout.Duration = 90 * time.Second
	want.Config.LeaderElection.LeaderElect = false
	want.Config.ClientConnection.QPS, want.Config.ClientConnection.Burst = 12.5, 20
	want.Serving.CurvePreferences = []int32{29}
	want.Serving.Authentication.RequestHeader.UsernameHeaders = nil
	if !equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestDecode_JSON_IsRead(t *testing.T) {
	t.Parallel()
	got, err := options.Decode(
		[]byte(
			`{"apiVersion":"fxccm.dev/v1alpha1","kind":"CloudControllerManagerConfiguration","clusterName":"blue"}`))
	if err != nil || got.Config.ClusterName != "blue" {
		t.Errorf("cluster name %q, %v", got.Config.ClusterName, err)
	}
}

func TestDecode_Anchors_AreFollowed(t *testing.T) {
	t.Parallel()
	got, err := options.Decode(
		[]byte(header + "node: {concurrentSyncs: &n 7}\nservice: {concurrentSyncs: *n}\n"))
	if err != nil || got.Config.Service.ConcurrentSyncs != 7 {
		t.Errorf("service syncs %d, %v", got.Config.Service.ConcurrentSyncs, err)
	}
}

func TestDecode_InvalidFile_ErrorNamesLineFieldAndExpectation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ yaml, want string }{
		"unknown field": {header + "clusterNam: x", `line 3: unknown field "clusterNam": known are apiVersion, kind, clusterName, `},
		"unknown nested field": {
			header + "node:\n  concurrentSync: 1",
			`line 4: unknown field "node.concurrentSync": known are concurrentSyncs, concurrentStatusUpdates, statusUpdateFrequency`,
		},
		"field in another case": {header + "clustername: x", `line 3: unknown field "clustername"`},
		"merge key":             {header + "node: {<<: {concurrentSyncs: 1}}", `line 3: unknown field "node.<<"`},
		"duplicate":             {header + "clusterName: a\nclusterName: b", "line 4: clusterName: given twice, first in line 3"},
		"nested duplicate":      {header + "node:\n  concurrentSyncs: 1\n  concurrentSyncs: 2", "line 5: node.concurrentSyncs: given twice, first in line 4"},
		"duplicate section":     {header + "node: {}\nnode: {}", "line 4: node: given twice, first in line 3"},
		"duplicate header":      {header + "kind: CloudControllerManagerConfiguration", "line 3: kind: given twice, first in line 2"},
		"string for number":     {header + "node: {concurrentSyncs: many}", `line 3: node.concurrentSyncs: want a whole number, got "many"`},
		"quoted number":         {header + `node: {concurrentSyncs: "5"}`, `line 3: node.concurrentSyncs: want a whole number, got "5"`},
		"fraction":              {header + "node: {concurrentSyncs: 1.5}", "line 3: node.concurrentSyncs: want a whole number, got 1.5"},
		"number out of range":   {header + "node: {concurrentSyncs: 3000000000}", "line 3: node.concurrentSyncs: want a whole number, got 3000000000"},
		"number beyond 64 bits": {
			header + "serving: {securePort: 99999999999999999999}",
			"line 3: serving.securePort: want a whole number, got 99999999999999999999",
		},
		"not a number":           {header + "clientConnection: {qps: .nan}", "line 3: clientConnection.qps: want a number, got .nan"},
		"infinite":               {header + "clientConnection: {qps: .inf}", "line 3: clientConnection.qps: want a number, got .inf"},
		"number for string":      {header + "clusterName: 5", "line 3: clusterName: want a string, got 5"},
		"date for string":        {header + "clusterName: 2026-01-01", "line 3: clusterName: want a string, got 2026-01-01"},
		"yes for true":           {header + "configureCloudRoutes: yes", `line 3: configureCloudRoutes: want true or false, got "yes"`},
		"number for duration":    {header + "drainTimeout: 8", "line 3: drainTimeout: want a duration like 1m30s, got 8"},
		"words for duration":     {header + "drainTimeout: 8 seconds", `line 3: drainTimeout: want a duration like 1m30s, got "8 seconds"`},
		"string for list":        {header + "controllers: route", `line 3: controllers: want a list, got "route"`},
		"number in list":         {header + "controllers:\n- route\n- 5", "line 5: controllers[1]: want a string, got 5"},
		"null in list":           {header + "controllers: [~]", "line 3: controllers[0]: want a string, got nothing"},
		"list for section":       {header + "node: [1]", "line 3: node: want a mapping, got a list"},
		"mapping for string":     {header + "clusterName: {}", "line 3: clusterName: want a string, got a mapping"},
		"anchor in itself":       {header + "controllers: &a [*a]", "line 3: controllers[0]: want a string, got a list"},
		"no header":              {"clusterName: x", `apiVersion is "" and kind is "": want fxccm.dev/v1alpha1 and CloudControllerManagerConfiguration`},
		"another version":        {strings.Replace(header, "v1alpha1", "v2", 1), `apiVersion is "fxccm.dev/v2"`},
		"another kind of file":   {"apiVersion: v1\nkind: Config\nusers: [{name: a, user: {token: s3cret}}]", `apiVersion is "v1" and kind is "Config": want`},
		"empty":                  {"", "empty: it must start with apiVersion: fxccm.dev/v1alpha1"},
		"only comments":          {"# nothing\n", "empty: it must start with"},
		"a scalar":               {"hello", "not a mapping: it must start with"},
		"not YAML":               {header + "\tnode: 1", "not YAML: yaml: line "},
		"two documents":          {header + "---\n" + header, "line 3: a second document starts: only one is allowed"},
		"broken second document": {header + "---\n{", "not YAML: yaml: line "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := options.Decode([]byte(c.yaml))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Fatalf("got  %v\nwant %s…", err, c.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one sentence for one mistake: %s", err)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error shows the content of the file: %s", err)
			}
		})
	}
}

func TestDecode_SeveralMistakes_AllAreReported(t *testing.T) {
	t.Parallel()
	_, err := options.Decode(
		[]byte(header + "clusterNam: x\ndrainTimeout: 8\nnode: {concurrentSyncs: a, b: 1}\n"))
	if err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("want four errors, got: %v", err)
	}
}

func TestLoadFile_MissingOrInvalid_ErrorNamesTheFile(t *testing.T) {
	t.Parallel()
	broken := writeFile(t, header+"clusterNam: x")
	if _, err := options.LoadFile(broken); err == nil ||
		!strings.HasPrefix(err.Error(), "configuration file "+broken+": line 3: ") {
		t.Errorf("a broken file: %v", err)
	}
	if _, err := options.LoadFile("/does/not/exist.yaml"); err == nil ||
		!strings.Contains(err.Error(), " /does/not/exist.yaml: no such file") {
		t.Errorf("a missing file: %v", err)
	}
	good := writeFile(t, header+"clusterName: blue")
	if cfg, err := options.LoadFile(good); err != nil || cfg.Config.ClusterName != "blue" {
		t.Errorf("a good file: cluster name %q, %v", cfg.Config.ClusterName, err)
	}
}

func TestDecode_EveryField_IsRead(t *testing.T) {
	t.Parallel()
	changed := options.DefaultConfiguration()
	fill(reflect.ValueOf(&changed).Elem(), new(int))
	for name, cfg := range map[string]options.Configuration{
		"default": options.DefaultConfiguration(), "zero": {}, "all changed": changed,
	} {
		data, err := options.Encode(cfg)
		if err != nil {
			t.Fatal(err)
		}
		got, err := options.Decode(data)
		if err != nil {
			t.Fatalf("%s: %v in\n%s", name, err, data)
		}
		if !equal(got, cfg) {
			t.Errorf("%s: got %+v\nwant %+v", name, got, cfg)
		}
	}
}

// fill gives every value of a struct another value.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.String:
		v.SetString(strings.Repeat("yes: #5 \n", *n%3) + "on")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Float32:
		v.SetFloat(0.1 * float64(*n))
	default:
		v.SetInt(int64(1000 + *n))
	}
}

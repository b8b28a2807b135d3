package cli_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: a, user: {token: t}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
`

func TestConnect_NoUsableKubeconfig_NamesItsSettingAndTheCause(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	dir := t.TempDir()
	for name, content := range map[string]string{
		"good.conf": kubeconfig, "cloud.conf": "[Global]\npassword = s3cret\n",
		"pod.yaml": "apiVersion: v1\nkind: Pod\n", "text": "s3cret\n", "empty": "",
		"unset": strings.ReplaceAll(kubeconfig, "current-context: a", "current-context: \"\""),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for name, test := range map[string]struct {
		variable string
		access   cli.Access
		want     string
	}{
		"a kubeconfig":        {"", cli.Access{Kubeconfig: "good.conf"}, ""},
		"the variable":        {"good.conf", cli.Access{Context: "a"}, ""},
		"one of two":          {"nope:good.conf", cli.Access{}, ""},
		"nothing":             {"", cli.Access{}, "no kubeconfig: set --kubeconfig or KUBECONFIG"},
		"a context alone":     {"", cli.Access{Context: "x"}, "no kubeconfig: set --kubeconfig or KUBECONFIG"},
		"no such variable":    {"nope", cli.Access{}, "read KUBECONFIG=nope: no such file"},
		"no such flag":        {"good.conf", cli.Access{Kubeconfig: "nope"}, "read --kubeconfig=nope: no such file"},
		"another flag":        {"", cli.Access{Kubeconfig: "nope", Flag: "--workload-kubeconfig"}, "read --workload-kubeconfig=nope: no such file"},
		"no such context":     {"good.conf", cli.Access{Context: "x"}, `read KUBECONFIG=good.conf: context "x" does not exist`},
		"a cloud.conf":        {"", cli.Access{Kubeconfig: "cloud.conf"}, "read --kubeconfig=cloud.conf: cloud.conf is not a kubeconfig"},
		"a cloud.conf of two": {"good.conf:cloud.conf", cli.Access{}, "cloud.conf is not a kubeconfig"},
		"a manifest":          {"", cli.Access{Kubeconfig: "pod.yaml"}, "read --kubeconfig=pod.yaml: pod.yaml is not a kubeconfig"},
		"text":                {"text", cli.Access{}, "read KUBECONFIG=text: text is not a kubeconfig"},
		"no current context":  {"unset", cli.Access{}, "read KUBECONFIG=unset: it has no current context; set --context to one of: a"},
		"its context":         {"unset", cli.Access{Context: "a"}, ""},
		"an empty file":       {"empty", cli.Access{}, "read KUBECONFIG=empty: it has no cluster"},
	} {
		t.Setenv("KUBECONFIG", test.variable)
		cluster, err := test.access.Connect()
		if err == nil && cluster.Config.Timeout <= 0 {
			t.Errorf("%s: requests have no timeout", name)
		}
		if got := errorText(err); (got == "") != (test.want == "") ||
			!strings.Contains(got, test.want) || strings.Contains(got, "s3cret") {
			t.Errorf("%s: the error is %q, want %q", name, got, test.want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestConnect_APIServerRedirects_NoRequestLeavesIt(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a request arrived at the other server, with %q", r.Header.Get("Authorization"))
	}))
	defer other.Close()
	api := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer api.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	content := strings.ReplaceAll(kubeconfig, "https://127.0.0.1:1", api.URL)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster, err := (&cli.Access{Kubeconfig: file}).Connect()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Discovery().ServerVersion(); err == nil ||
		!strings.Contains(err.Error(), "307") {
		t.Errorf("the error is %v, want one with the status", err)
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// escapes set the clipboard of a terminal, clear its screen, and change its color.
const escapes = "\x1b]52;c;cm0=\x07\x1b[2J\u009b31m"

func wantPrintable(t *testing.T, command, text string) {
	t.Helper()
	if i := strings.IndexFunc(text, func(r rune) bool {
		return r != '\n' && r != '\t' && unicode.IsControl(r)
	}); i >= 0 {
		t.Errorf("%s controls the terminal: %q", command, text)
	}
}

func TestCommands_APIServerSendsTerminalEscapes_PrintNone(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Reason: metav1.StatusReasonForbidden,
			Code: http.StatusForbidden, Message: "denied" + escapes,
		})
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig,
		&rest.Config{Host: server.URL}); err != nil {
		t.Fatal(err)
	}
	cloud := openstacktest.NewCloud()
	defer cloud.Close()
	conf := "--cloud-config=" + writeFile(t, "cloud.conf", cloud.CloudConf("password"))
	for _, args := range [][]string{
		{"status"},
		{"fleet", "status"},
		{"describe", "service/web"},
		{"plan", "default/web", conf},
		{"plan", "--all", conf},
		{"migrate", "check"},
		{"migrate", "apply", "--image=fxccm"},
	} {
		command := strings.Join(args, " ")
		code, stdout, stderr := runSubcommand(append(args, "--kubeconfig="+kubeconfig)...)
		if code != exitFailed || !strings.Contains(stderr, "denied") {
			t.Errorf("%s: exit code %d, %q, %q, want the error", command, code, stdout, stderr)
		}
		wantPrintable(t, command, stdout+stderr)
	}
}

func TestPlan_NameInTheCloudHasTerminalEscapes_PrintsNone(t *testing.T) {
	cloud := openstacktest.NewCloud()
	defer cloud.Close()
	network := cloud.AddNetwork(openstacktest.Network{Name: "nodes"})
	subnet := cloud.AddSubnet(openstacktest.Subnet{NetworkID: network, CIDR: "10.0.0.0/24"})
	server := cloud.AddServer(openstacktest.Server{Name: "a"})
	id := cloud.AddLoadBalancer(openstacktest.LoadBalancer{
		OctaviaResource: openstacktest.OctaviaResource{Name: "theirs" + escapes},
		VIPSubnetID:     subnet,
	})
	service := strings.ReplaceAll(aService, "uid:",
		`annotations: {loadbalancer.openstack.org/load-balancer-id: "`+id+`"}, uid:`)
	for _, format := range []string{"", "json", "yaml"} {
		code, stdout, stderr := planned(t, cloud, service, fmt.Sprintf(nodeList, server),
			"--output="+format)
		if code != exitClean || !strings.Contains(stdout, id) ||
			format == "" && !strings.Contains(stdout, "\nLoad balancer: theirs") {
			t.Errorf("%q: exit code %d, %q, %q", format, code, stdout, stderr)
		}
		wantPrintable(t, "plan --output="+format, stdout+stderr)
	}
}

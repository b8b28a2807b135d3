package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
)

// inPod is set in a process that has the files and the variables of a Pod.
const inPod = "FXCCM_TEST_IN_POD"

// enterPod runs the test again in a process that has the token of a ServiceAccount, in a mount
// namespace of its own. It returns false in the process that has started it.
func enterPod(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inPod) != "" {
		// The path is fixed in client-go, and /var/run may be a symbolic link.
		if err := syscall.Mount("tmpfs", "/var/run", "tmpfs", 0, ""); err != nil {
			t.Skipf("a process may not mount a file system here: %v", err)
		}
		dir := "/var/run/secrets/kubernetes.io/serviceaccount"
		err := os.MkdirAll(dir, 0o700)
		for name, content := range map[string]string{"token": "t", "namespace": "runners"} {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
		return true
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), inPod+"=1", "HOME="+t.TempDir(), "KUBECONFIG=",
		"KUBERNETES_SERVICE_HOST=192.0.2.1", "KUBERNETES_SERVICE_PORT=443")
	child.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := child.CombinedOutput()
	switch {
	case errors.Is(err, syscall.EPERM) || strings.Contains(string(out), "--- SKIP"):
		t.Skipf("a process gets no mount namespace here: %v\n%s", err, out)
	case err != nil:
		t.Fatalf("in a Pod: %v\n%s", err, out)
	}
	return false
}

func TestConnect_KubeconfigSelectsNoClusterInAPod_IsAnErrorAsElsewhere(t *testing.T) {
	if !enterPod(t) {
		return
	}
	dir := t.TempDir()
	for name, content := range map[string]string{
		"good": kubeconfig, "empty": "",
		"unset": strings.ReplaceAll(kubeconfig, "current-context: a", "current-context: \"\""),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	const noContext = "it has no current context; set --context to one of: a"
	check := func(name, variable string, access cli.Access, want, wantNamespace string) {
		t.Helper()
		t.Setenv("KUBECONFIG", variable)
		cluster, err := access.Connect()
		switch {
		case errorText(err) != want:
			t.Errorf("%s: the error is %q, want %q", name, errorText(err), want)
		case err == nil && cluster.Namespace != wantNamespace:
			t.Errorf("%s: it is %s with namespace %s, want %s", name, cluster, cluster.Namespace,
				wantNamespace)
		}
	}
	check("no kubeconfig", "", cli.Access{}, "", "runners")
	check("a kubeconfig", "", cli.Access{Kubeconfig: "good"}, "", "default")
	check("no current context", "", cli.Access{Kubeconfig: "unset"},
		"read --kubeconfig=unset: "+noContext, "")
	check("of the workload", "", cli.Access{Kubeconfig: "unset", Flag: "--workload-kubeconfig"},
		"read --workload-kubeconfig=unset: "+noContext, "")
	check("an empty file", "", cli.Access{Kubeconfig: "empty"},
		"read --kubeconfig=empty: it has no cluster", "")
	check("a variable", "unset", cli.Access{}, "read KUBECONFIG=unset: "+noContext, "")
	check("no such variable", "nope", cli.Access{}, "read KUBECONFIG=nope: no such file", "")
	check("its context", "unset", cli.Access{Context: "a"}, "", "default")

	home := clientcmd.RecommendedHomeFile
	if err := errors.Join(os.MkdirAll(filepath.Dir(home), 0o700),
		os.Rename("unset", home)); err != nil {
		t.Fatal(err)
	}
	check("in the home directory", "", cli.Access{}, "read "+home+": "+noContext, "")
}

package main

import (
	"os"
	"strings"
	"testing"
)

// A device has no end, or its opening has effects. os.DevNull stands for all of them.
func TestCommands_FileIsADevice_IsRefused(t *testing.T) {
	w := newWorld(t)
	admin := w.admin(t)
	cloud := writeFile(t, "cloud.conf", "[Global]\nauth-url=https://keystone.example/v3\ntoken=a\n")
	for _, line := range []string{
		"config check " + os.DevNull,
		"plan web --cloud-config=" + os.DevNull,
		"plan --cloud-config=" + cloud + " --service-file=" + os.DevNull,
		"plan --cloud-config=" + cloud + " web --node-file=" + os.DevNull,
		"status --kubeconfig=" + os.DevNull,
		"status --kubeconfig=" + admin + " --server=127.0.0.1:1 --server-ca=" + os.DevNull,
		"fleet status --kubeconfig=" + os.DevNull,
		"describe service/web --kubeconfig=" + os.DevNull,
		"migrate check --kubeconfig=" + admin + " --workload-kubeconfig=" + os.DevNull,
		"--config=" + os.DevNull,
	} {
		code, stdout, stderr := runSubcommand(strings.Fields(line)...)
		if code != exitFailed || stdout != "" ||
			!strings.Contains(stderr, "neither a regular file nor a pipe") {
			t.Errorf("%s: exit code %d, %q, %q", line, code, stdout, stderr)
		}
	}
	const server = "--cloud-provider=fake --bind-address=127.0.0.1 "
	for _, line := range []string{
		server + "--kubeconfig=" + os.DevNull,
		server + "--cloud-config=" + os.DevNull,
		server + "--authentication-kubeconfig=" + os.DevNull + " --kubeconfig=" + admin,
		server + "--client-ca-file=" + os.DevNull + " --kubeconfig=" + admin,
		server + "--tls-cert-file=" + os.DevNull + " --tls-private-key-file=" + os.DevNull +
			" --kubeconfig=" + admin,
		"fleet --cloud-provider=fake --kubeconfig=" + os.DevNull,
	} {
		r := execute(t, strings.Fields(line)...)
		if r.code != exitFailed ||
			!strings.Contains(r.stderr, "neither a regular file nor a pipe") {
			t.Errorf("%s: exit code %d, %q", line, r.code, r.stderr)
		}
	}
}

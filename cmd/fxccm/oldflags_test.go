package main

import (
	"bytes"
	"strings"
	"testing"
)

// A manifest of an older release starts, and each flag that has no effect is named.
func TestParse_FlagsOfOlderReleases_AreWarnings(t *testing.T) {
	args := []string{
		"--logtostderr", "--alsologtostderr=false", "--stderrthreshold=INFO",
		"--log-dir", "/var/log",
		"--log-file=/var/log/ccm.log", "--port=0", "--address=127.0.0.1",
		"--cloud-provider-gce-lb-src-cidrs=130.211.0.0/22", "--v=2",
	}
	var warnings, help bytes.Buffer
	cmd := newServerCommand(&warnings)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(warnings.String()), "\n")
	if len(lines) != 8 {
		t.Errorf("want one warning for each old flag, got:\n%s", &warnings)
	}
	for _, want := range []string{
		"--logtostderr", "--log-file", "use --secure-port", "on --bind-address", "use --v",
	} {
		if !strings.Contains(warnings.String(), want) {
			t.Errorf("the warnings lack %q:\n%s", want, &warnings)
		}
	}
	cmd.SetOut(&help)
	if err := cmd.Help(); err != nil {
		t.Fatal(err)
	}
	for _, old := range oldFlags() {
		if strings.Contains(help.String(), "--"+old.name+" ") {
			t.Errorf("the help has --%s", old.name)
		}
	}
}

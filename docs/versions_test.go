package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	goVersion         = regexp.MustCompile(`(?m)^go 1\.(\d+)`)
	kubernetesVersion = regexp.MustCompile(`k8s\.io/api v0\.(\d+)`)
	namedGo           = regexp.MustCompile(`\bGo 1\.(\d+)`)
	testedKubernetes  = regexp.MustCompile(`(?:Tested with|\|) Kubernetes 1\.(\d+)`)
)

// The versions of Go and Kubernetes that pages name as those of fxccm are the ones of go.mod.
func TestVersions_OnPages_AreThoseOfTheModule(t *testing.T) {
	module := read(t, "go.mod")
	for _, version := range []struct{ module, named *regexp.Regexp }{
		{goVersion, namedGo}, {kubernetesVersion, testedKubernetes},
	} {
		want, found := version.module.FindStringSubmatch(module)[1], 0
		for _, page := range append(pages(t), "CONTRIBUTING.md") {
			for _, named := range version.named.FindAllStringSubmatch(read(t, page), -1) {
				if found++; named[1] != want {
					t.Errorf("%s: %q, and go.mod has 1.%s", page, named[0], want)
				}
			}
		}
		if found < 2 {
			t.Errorf("only %d pages name a version like %s", found, version.named)
		}
	}
}

var (
	resultRow      = regexp.MustCompile(`(?m)^\| v1\.(\d+)\.\S+ \|.*$`)
	passedRow      = regexp.MustCompile(`(?m)^\| Kubernetes 1\.\d+ \| ([^|]*) \|.*\]\(\.\./evidence/kubernetes\.md\) passed`)
	namedMinor     = regexp.MustCompile(`1\.(\d+)`)
	readmeServers  = regexp.MustCompile(`\[API servers of (.*?)\]\(docs/evidence/kubernetes\.md\)`)
	minimumVersion = regexp.MustCompile(`(?m)^kubeVersion: ">= 1\.(\d+)\.0-0"`)
)

// Pages name the API servers on which all suites passed. The chart accepts the oldest of them.
func TestVersions_OfAPIServers_AreThoseOfTheResults(t *testing.T) {
	_, results, _ := strings.Cut(read(t, "docs/evidence/kubernetes.md"), "<!-- results -->")
	results, _, _ = strings.Cut(results, "\n\nThese tests did not pass:")
	var passed []string
	for _, row := range resultRow.FindAllStringSubmatch(results, -1) {
		if !strings.Contains(row[0], "failed") && !strings.Contains(row[0], "not run") &&
			!strings.Contains(row[0], "no test ran") {
			passed = append(passed, row[1])
		}
	}
	if len(passed) == 0 {
		t.Fatal("no API server passed all suites")
	}
	for page, line := range map[string]*regexp.Regexp{
		"docs/reference/versions.md": passedRow,
		"README.md":                  readmeServers,
	} {
		list := line.FindStringSubmatch(read(t, page))
		if list == nil {
			t.Errorf("%s does not name the API servers on which the suites passed", page)
			continue
		}
		for _, named := range namedMinor.FindAllStringSubmatch(list[1], -1) {
			if !slices.Contains(passed, named[1]) {
				t.Errorf("%s names 1.%s, and all suites passed on 1.%s", page, named[1],
					strings.Join(passed, ", 1."))
			}
		}
	}
	accepted := minimumVersion.FindStringSubmatch(read(t, "deploy/chart/Chart.yaml"))
	if accepted == nil || accepted[1] != passed[0] {
		t.Errorf("the chart accepts %q, want 1.%s and newer", accepted, passed[0])
	}
}

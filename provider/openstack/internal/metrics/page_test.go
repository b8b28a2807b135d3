package metrics_test

import (
	"os"
	"testing"

	manager "github.com/fxccm/fxccm/internal/metrics"
	"github.com/fxccm/fxccm/provider/openstack/internal/metrics"
)

//go:generate env UPDATE_DOCS=1 go test -count=1 -run ^TestPage .

func TestPage_IsUpToDate(t *testing.T) {
	const path = "../../../../docs/reference/metrics-openstack.md"
	want := `# Metrics of the OpenStack provider

<!-- Generated from provider/openstack/internal/metrics; change it there and run: go generate ./provider/openstack/internal/metrics -->

The provider registers these metrics with the registerer of [the Manager](metrics.md). The series exist while a term lasts.

` + manager.Page(metrics.Table())
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s does not say what the code does; run: go generate "+
			"./provider/openstack/internal/metrics", path)
	}
}

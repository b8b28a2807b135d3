package metrics_test

import (
	"testing"

	manager "github.com/fxccm/fxccm/internal/metrics"
	"github.com/fxccm/fxccm/internal/pagetest"
	"github.com/fxccm/fxccm/provider/openstack/internal/metrics"
)

//go:generate env UPDATE_DOCS=1 go test -count=1 -run ^TestPage .

func TestPage_IsUpToDate(t *testing.T) {
	pagetest.Check(t, "../../../../docs/reference/metrics-openstack.md", `# Metrics of the OpenStack provider

<!-- Generated from provider/openstack/internal/metrics; change it there and run: go generate ./provider/openstack/internal/metrics -->

The provider registers these metrics with the registerer of [the Manager](metrics.md). The series exist while a term lasts.

`+manager.Page(metrics.Table()))
}

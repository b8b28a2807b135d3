package ccm

import (
	"net/http"
	"testing"
)

func TestNameRequest_EachKindOfPath_IsMethodAndResource(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/nodes":                                    "PATCH nodes",
		"/api/v1/nodes/n1":                                 "PATCH nodes",
		"/api/v1/nodes/n1/status":                          "PATCH nodes/status",
		"/api/v1/namespaces/default":                       "PATCH namespaces",
		"/api/v1/namespaces/default/services/web":          "PATCH services",
		"/api/v1/namespaces/default/services/web/status":   "PATCH services/status",
		"/apis/coordination.k8s.io/v1/namespaces/a/leases": "PATCH leases",
		"/clusters/blue/api/v1/namespaces/a/services/web":  "PATCH services",
		"/apis/discovery.k8s.io/v1/endpointslices":         "PATCH endpointslices",
		"/healthz":                  "PATCH",
		"/api":                      "PATCH",
		"/apis/discovery.k8s.io/v1": "PATCH",
		"":                          "PATCH",
		"/api/v1/namespaces/default/serviceaccounts/x/token": "PATCH serviceaccounts/token",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch,
			"https://127.0.0.1:6443"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := nameRequest(req); got != want {
			t.Errorf("%q is named %q, want %q", path, got, want)
		}
	}
}

package endpoint

import (
	"net/http"
	"net/url"
	"testing"
)

func TestPart_RequestsStayWithinIt(t *testing.T) {
	for _, row := range [][2]string{
		{"GET /version", "/version"},
		{"GET /apis", "/apis"},
		{"GET /api/v1", "/api/v1"},
		{"GET /api/v1/nodes?resourceVersion=0", "/api/v1/nodes?labelSelector=endpoint.example.com%2Fpart%3Dblue&resourceVersion=0"},
		{"GET /api/v1/nodes?labelSelector=a%3Db", "/api/v1/nodes?labelSelector=endpoint.example.com%2Fpart%3Dblue%2Ca%3Db"},
		{"PUT /api/v1/nodes/blue-1", "/api/v1/nodes/blue-1"},
		{"PATCH /api/v1/nodes/blue-1/status", "/api/v1/nodes/blue-1/status"},
		{"GET /api/v1/services?watch=true", "/api/v1/namespaces/blue/services?watch=true"},
		{"PATCH /api/v1/namespaces/blue/services/a", "/api/v1/namespaces/blue/services/a"},
		{"POST /api/v1/namespaces/default/events", "/api/v1/namespaces/default/events"},
		{"POST /api/v1/namespaces/blue/events", "/api/v1/namespaces/blue/events"},
		{"PUT /apis/coordination.k8s.io/v1/namespaces/blue/leases/ccm", "/apis/coordination.k8s.io/v1/namespaces/blue/leases/ccm"},
		{"GET /api/v1/namespaces/kube-system/configmaps", "/api/v1/namespaces/kube-system/configmaps"},
		{"GET /api/v1/namespaces/kube-system", "/api/v1/namespaces/blue"},
		{"POST /apis/authorization.k8s.io/v1/subjectaccessreviews", "/apis/authorization.k8s.io/v1/subjectaccessreviews"},
	} {
		asked, want := row[0], row[1]
		method, u := parseRequest(t, asked)
		if err := part("blue").confine(method, u); err != nil {
			t.Errorf("%s is refused: %v", asked, err)
		} else if u.String() != want {
			t.Errorf("%s becomes %s, want %s", asked, u, want)
		}
	}
}

func TestPart_RequestsOfOtherParts_AreRefused(t *testing.T) {
	for _, asked := range []string{
		"POST /version",
		"GET /api/v1/nodes/green-1",
		"PUT /api/v1/nodes/blue",
		"PUT /api/v1/nodes/bluebell-1",
		"POST /api/v1/nodes",
		"DELETE /api/v1/nodes",
		"PATCH /api/v1/namespaces/green/services/a",
		"GET /api/v1/namespaces/green/services",
		"POST /api/v1/namespaces/green/events",
		"PUT /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/ccm",
		"GET /apis/coordination.k8s.io/v1/leases",
		"GET /api/v1/namespaces/blue/configmaps",
		"PUT /api/v1/namespaces/kube-system/configmaps/a",
		"GET /api/v1/pods",
		"GET /api/v1/namespaces/blue/secrets/a",
		"GET /api/v1/namespaces/blue",
		"PATCH /api/v1/namespaces/kube-system",
	} {
		method, u := parseRequest(t, asked)
		if err := part("blue").confine(method, u); err == nil {
			t.Errorf("%s is not refused, and becomes %s", asked, u)
		}
	}
}

func parseRequest(t *testing.T, text string) (method string, u *url.URL) {
	t.Helper()
	for _, method := range []string{
		http.MethodGet, http.MethodPost, http.MethodPut,
		http.MethodPatch, http.MethodDelete,
	} {
		if len(text) > len(method) && text[:len(method)] == method {
			u, err := url.Parse(text[len(method)+1:])
			if err != nil {
				t.Fatal(err)
			}
			return method, u
		}
	}
	t.Fatalf("%q begins with no method", text)
	return "", nil
}

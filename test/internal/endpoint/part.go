package endpoint

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PartLabel is the label of the Nodes of a part; its value is the part's name.
const PartLabel = "endpoint.example.com/part"

// routeRecord is the ConfigMap with the routes of the OpenStack provider. Each part has its own.
const routeRecord = "fxccm-routes"

// NodeName is the name of a Node that belongs to the part.
func NodeName(part, name string) string { return part + "-" + name }

// part is the name of a part of a cluster.
type part string

// A refusal says why a request is not for this part.
type refusal struct{ reason string }

func (r *refusal) Error() string { return r.reason }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// confine changes the URL so that the request stays within the part. The error is a *refusal.
func (p part) confine(method string, u *url.URL) error {
	r := parse(u.Path)
	if r.resource == "" {
		if method != http.MethodGet {
			return refuse("%s is no resource and can only be read", u.Path)
		}
		return nil
	}
	switch r.group + "/" + r.resource {
	case "/nodes":
		return p.confineNodes(method, u, r)
	case "/services":
		return p.confineServices(u, r)
	case "/namespaces":
		// Its UID identifies the cluster, and each part is a cluster.
		if method != http.MethodGet || r.name != metav1.NamespaceSystem {
			return refuse("of namespaces, %s can be read", metav1.NamespaceSystem)
		}
		u.Path, u.RawPath = "/api/v1/namespaces/"+string(p), ""
		return nil
	case "/events", "events.k8s.io/events":
		if r.namespace != string(p) && r.namespace != metav1.NamespaceDefault {
			return refuse("events of the namespace %q are not those of %s", r.namespace, p)
		}
		return nil
	case "coordination.k8s.io/leases":
		if r.namespace != string(p) {
			return refuse("leases of the namespace %q are not those of %s", r.namespace, p)
		}
		return nil
	case "/configmaps":
		if r.namespace == metav1.NamespaceSystem &&
			(r.name == routeRecord || method == http.MethodPost) {
			u.Path = strings.Replace(u.Path, "/"+r.namespace+"/", "/"+string(p)+"/", 1)
			u.RawPath = ""
			return nil
		}
		// The others hold the trusted CAs, which are the same for all.
		if method != http.MethodGet || r.namespace != metav1.NamespaceSystem {
			return refuse("of config maps, those in %s can be read", metav1.NamespaceSystem)
		}
		return nil
	case "authentication.k8s.io/tokenreviews", "authorization.k8s.io/subjectaccessreviews":
		return nil
	}
	return refuse("%s is not served here", u.Path)
}

func (p part) confineNodes(method string, u *url.URL, r resource) error {
	if r.name != "" {
		if !strings.HasPrefix(r.name, NodeName(string(p), "")) {
			return refuse("node %q is not one of %s", r.name, p)
		}
		return nil
	}
	if method != http.MethodGet {
		return refuse("nodes register by themselves, and are deleted one by one")
	}
	query := u.Query()
	selectors := []string{PartLabel + "=" + string(p)}
	if given := query.Get("labelSelector"); given != "" {
		selectors = append(selectors, given)
	}
	query.Set("labelSelector", strings.Join(selectors, ","))
	u.RawQuery = query.Encode()
	return nil
}

func (p part) confineServices(u *url.URL, r resource) error {
	switch r.namespace {
	case "":
		u.Path = "/api/v1/namespaces/" + string(p) + "/" + corev1.ResourceServices.String()
		u.RawPath = ""
		return nil
	case string(p):
		return nil
	}
	return refuse("services of the namespace %q are not those of %s", r.namespace, p)
}

// requestsToken reports whether a request creates a ServiceAccount in kube-system, or a token of
// one.
func requestsToken(r *http.Request) bool {
	asked := parse(r.URL.Path)
	return r.Method == http.MethodPost && asked.group == "" &&
		asked.resource == "serviceaccounts" && asked.namespace == metav1.NamespaceSystem
}

// resource is the resource of a request.
type resource struct {
	group, namespace, resource, name string
}

// parse parses a path like the API server. A path without a resource, such as /version and the
// discovery of groups, has none.
func parse(path string) (r resource) {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(segments) > 2 && segments[0] == "api":
		segments = segments[2:]
	case len(segments) > 3 && segments[0] == "apis":
		r.group, segments = segments[1], segments[3:]
	default:
		return resource{}
	}
	if len(segments) > 2 && segments[0] == "namespaces" {
		r.namespace, segments = segments[1], segments[2:]
	}
	r.resource = segments[0]
	if len(segments) > 1 {
		r.name = segments[1]
	}
	return r
}

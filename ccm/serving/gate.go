package serving

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/fxccm/fxccm/internal/printable"
)

// gate authenticates and authorizes requests. Like the API server, it answers refusals with a
// metav1.Status.
type gate struct {
	identities *identities
	open       openPaths
	next       http.Handler
	log        logr.Logger
}

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.open.has(r.URL.Path) {
		// A probe must not fail while the API server is down, so its credentials are not reviewed.
		g.pass(w, r, isAnonymous(r))
		return
	}
	if reason := g.identities.missing(); reason != "" {
		refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, reason)
		return
	}
	who, err := g.identities.authenticate(r)
	if err != nil {
		g.refuseUnauthenticated(w, r, err)
		return
	}
	verb := strings.ToLower(r.Method)
	allowed, err := g.identities.access.allowed(r.Context(), who, verb, r.URL.Path)
	if err != nil {
		g.log.V(1).Info("Cannot authorize a request", "user", inLog(who.GetName()),
			"path", inLog(r.URL.Path), "reason", inLog(err.Error()))
		refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
			"cannot authorize: "+plain(err))
		return
	}
	if !allowed {
		g.log.V(2).Info("Forbidden", "user", inLog(who.GetName()), "verb", verb,
			"path", inLog(r.URL.Path))
		closeAfter(w, r, who.GetName() == user.Anonymous)
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden,
			fmt.Sprintf("forbidden: User %q cannot %s path %q", who.GetName(), verb, r.URL.Path))
		return
	}
	g.pass(w, r, who.GetName() == user.Anonymous)
}

func (g *gate) refuseUnauthenticated(w http.ResponseWriter, r *http.Request, err error) {
	closeAfter(w, r, true)
	g.log.V(1).Info("Cannot authenticate a request", "path", inLog(r.URL.Path), "reason",
		inLog(err.Error()))
	if u := (*unavailable)(nil); errors.As(err, &u) {
		refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
			"cannot authenticate: "+plain(err))
		return
	}
	refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
}

// maxInLog limits a text of a client in the log, in characters.
const maxInLog = 1024

// inLog makes a text of a client, which may not be authenticated, printable: klog writes one with a
// line break as it is.
func inLog(text string) string { return printable.Text(text, maxInLog) }

// pass removes the client's credentials, because health checks of controllers see the request.
func (g *gate) pass(w http.ResponseWriter, r *http.Request, anonymous bool) {
	closeAfter(w, r, anonymous)
	r.Header.Del("Authorization")
	for name := range r.Header {
		if strings.HasPrefix(strings.ToLower(name), "x-remote-") {
			r.Header.Del(name)
		}
	}
	g.next.ServeHTTP(w, r)
}

// isAnonymous reports whether a request carries no credentials.
func isAnonymous(r *http.Request) bool {
	return r.Header.Get("Authorization") == "" && (r.TLS == nil || len(r.TLS.PeerCertificates) == 0)
}

// closeAfter closes HTTP/2 connections of anonymous clients after the response, because many
// streams of a connection are costly to serve (CVE-2023-44487). k8s.io/apiserver does the same.
func closeAfter(w http.ResponseWriter, r *http.Request, anonymous bool) {
	if anonymous && r.ProtoMajor == 2 {
		w.Header().Set("Connection", "close")
	}
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-cache, private")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // an error means that the client is gone
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Message:  message,
		Reason:   reason,
		Code:     int32(code),
	})
}

// plain explains a failed review without addresses, because the client is not authenticated. The
// log has the whole error.
func plain(err error) string {
	u := &unavailable{what: "review the request"}
	errors.As(err, &u)
	switch {
	case errors.Is(err, errTooManyReviews):
		return "too many requests wait for a review by the API server; try again later"
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("the cloud controller manager is not allowed by RBAC to %s: it needs %s",
			u.what, u.needs)
	case apierrors.IsUnauthorized(err):
		return "the API server does not accept the cloud controller manager's credentials"
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return "the API server refuses to " + u.what
	}
	return "the API server cannot be reached"
}

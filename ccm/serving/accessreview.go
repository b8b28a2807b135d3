package serving

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
)

const (
	// cachedReviews limits the number of cached results, and cachedReviewSize the length of a
	// cached request in bytes: the client chooses the path.
	cachedReviews    = 8192
	cachedReviewSize = 10_000
)

// accessReviews authorizes users by SubjectAccessReview.
type accessReviews struct {
	client            authorizationclient.SubjectAccessReviewInterface
	results           *cache.LRUExpireCache
	allowTTL, denyTTL time.Duration
}

func newAccessReviews(
	client authorizationclient.SubjectAccessReviewInterface, cfg servingconfig.Authorization,
) *accessReviews {
	return &accessReviews{
		client:   client,
		results:  cache.NewLRUExpireCache(cachedReviews),
		allowTTL: cfg.AuthorizedCacheTTL.Duration,
		denyTTL:  cfg.UnauthorizedCacheTTL.Duration,
	}
}

// allowed reports whether u may use verb on path. An error is an [unavailable].
func (a *accessReviews) allowed(ctx context.Context, u user.Info, verb, path string) (bool, error) {
	// The API server allows this group everything. Without a review, its members can send requests
	// while the API server is down.
	if slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) {
		return true, nil
	}
	spec := authorizationv1.SubjectAccessReviewSpec{
		User:                  u.GetName(),
		UID:                   u.GetUID(),
		Groups:                u.GetGroups(),
		Extra:                 map[string]authorizationv1.ExtraValue{},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb},
	}
	for key, values := range u.GetExtra() {
		spec.Extra[key] = values
	}
	request, err := json.Marshal(spec)
	if err != nil {
		return false, &unavailable{what: "encode a SubjectAccessReview", err: err}
	}
	if result, ok := a.results.Get(string(request)); ok {
		return result.(bool), nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review := &authorizationv1.SubjectAccessReview{Spec: spec}
	review, err = a.client.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, &unavailable{
			what:  "create subjectaccessreviews.authorization.k8s.io",
			needs: delegatorRole, err: err,
		}
	}
	allowed := review.Status.Allowed && !review.Status.Denied
	if len(request) <= cachedReviewSize {
		a.results.Add(string(request), allowed, a.ttl(allowed))
	}
	return allowed, nil
}

func (a *accessReviews) ttl(allowed bool) time.Duration {
	if allowed {
		return a.allowTTL
	}
	return a.denyTTL
}

// openPaths need no authorization: exact paths, and prefixes that end in *.
type openPaths struct {
	exact, prefixes []string
}

func (o *openPaths) add(text string) error {
	text = "/" + strings.TrimPrefix(text, "/")
	prefix, isPrefix := strings.CutSuffix(text, "*")
	switch {
	case strings.Contains(prefix, "*"):
		return fmt.Errorf("a * is allowed only at the end")
	case isPrefix:
		o.prefixes = append(o.prefixes, prefix)
	default:
		o.exact = append(o.exact, text)
	}
	return nil
}

func (o *openPaths) has(path string) bool {
	return slices.Contains(o.exact, path) ||
		slices.ContainsFunc(o.prefixes, func(prefix string) bool {
			return strings.HasPrefix(path, prefix)
		})
}

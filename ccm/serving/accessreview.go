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
	// cachedReviews is how many answers are kept, and cachedReviewSize how long a question may be: it is the caller who writes it.
	cachedReviews    = 8192
	cachedReviewSize = 10_000
)

// accessReviews asks the API server what a user may do, by SubjectAccessReview.
type accessReviews struct {
	client            authorizationclient.SubjectAccessReviewInterface
	answers           *cache.LRUExpireCache
	allowTTL, denyTTL time.Duration
}

func newAccessReviews(client authorizationclient.SubjectAccessReviewInterface, cfg servingconfig.Authorization) *accessReviews {
	return &accessReviews{
		client:   client,
		answers:  cache.NewLRUExpireCache(cachedReviews),
		allowTTL: cfg.AuthorizedCacheTTL.Duration,
		denyTTL:  cfg.UnauthorizedCacheTTL.Duration,
	}
}

// allowed tells whether u may do verb on path. The error is an [unavailable].
func (a *accessReviews) allowed(ctx context.Context, u user.Info, verb, path string) (bool, error) {
	// The API server allows this group everything before it looks at any rule; asking would only fail when it is away.
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
	question, err := json.Marshal(spec)
	if err != nil {
		return false, &unavailable{what: "encode a SubjectAccessReview", err: err}
	}
	if answer, ok := a.answers.Get(string(question)); ok {
		return answer.(bool), nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review, err := a.client.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, &unavailable{what: "create subjectaccessreviews.authorization.k8s.io", needs: delegatorRole, err: err}
	}
	allowed := review.Status.Allowed && !review.Status.Denied
	if len(question) <= cachedReviewSize {
		a.answers.Add(string(question), allowed, a.ttl(allowed))
	}
	return allowed, nil
}

func (a *accessReviews) ttl(allowed bool) time.Duration {
	if allowed {
		return a.allowTTL
	}
	return a.denyTTL
}

// openPaths are served to everybody: exact paths, and prefixes that end in *.
type openPaths struct {
	exact, prefixes []string
}

func (o *openPaths) add(text string) error {
	text = "/" + strings.TrimPrefix(text, "/")
	prefix, isPrefix := strings.CutSuffix(text, "*")
	switch {
	case strings.Contains(prefix, "*"):
		return fmt.Errorf("only the end may be a *")
	case isPrefix:
		o.prefixes = append(o.prefixes, prefix)
	default:
		o.exact = append(o.exact, text)
	}
	return nil
}

func (o *openPaths) has(path string) bool {
	return slices.Contains(o.exact, path) ||
		slices.ContainsFunc(o.prefixes, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

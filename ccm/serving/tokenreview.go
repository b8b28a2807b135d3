package serving

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
	"github.com/fxccm/fxccm/internal/inflight"
	"github.com/fxccm/fxccm/internal/requestlog"
)

// reviewTimeout limits a review, as in k8s.io/apiserver.
const reviewTimeout = 10 * time.Second

// tokenReviews is an authenticator of bearer tokens by TokenReview.
type tokenReviews struct {
	client authenticationclient.TokenReviewInterface

	// The cache of k8s.io/apiserver calls from goroutines that outlive the request, so the run
	// tracks and cancels them.
	tasks      *inflight.Set
	background context.Context
}

var _ authenticator.Token = (*tokenReviews)(nil)

// AuthenticateToken implements authenticator.Token.
func (t *tokenReviews) AuthenticateToken(
	ctx context.Context, token string,
) (*authenticator.Response, bool, error) {
	defer t.tasks.Begin(inflight.Activity{Name: "TokenReview"})()
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	defer context.AfterFunc(t.background, cancel)()

	review := &authenticationv1.TokenReview{}
	review.Spec.Token = token
	forPort := slices.Contains(claimedAudiences(token), servingconfig.TokenAudience)
	if forPort {
		review.Spec.Audiences = []string{servingconfig.TokenAudience}
	}
	answer, err := t.client.Create(requestlog.WithoutBodies(ctx), review, metav1.CreateOptions{})
	if err != nil {
		return nil, false, &unavailable{
			what: "create tokenreviews.authentication.k8s.io", needs: delegatorRole, err: err,
		}
	}
	if !answer.Status.Authenticated {
		if answer.Status.Error != "" {
			return nil, false, errors.New(answer.Status.Error)
		}
		return nil, false, nil
	}
	if forPort && !slices.Contains(answer.Status.Audiences, servingconfig.TokenAudience) {
		return nil, false, errors.New("the API server did not check the audience of the token")
	}
	u := answer.Status.User
	extra := make(map[string][]string, len(u.Extra))
	for key, values := range u.Extra {
		extra[key] = values
	}
	info := &user.DefaultInfo{Name: u.Username, UID: u.UID, Groups: u.Groups, Extra: extra}
	return &authenticator.Response{User: info}, true, nil
}

// claimedAudiences returns the audiences that an unverified JSON web token names. Without them the
// API server reviews a token for its own audiences only.
func claimedAudiences(token string) []string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil
	}
	var claims struct {
		Audiences []string `json:"aud"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return nil
	}
	return claims.Audiences
}

// delegatorRole allows the reviews of tokens and of access.
const delegatorRole = "the rules of ClusterRole system:auth-delegator"

// unavailable is a failed request to the API server, with the RBAC role that allows it.
type unavailable struct {
	what, needs string
	err         error
}

func (u *unavailable) Error() string { return fmt.Sprintf("%s: %s", u.what, u.err) }
func (u *unavailable) Unwrap() error { return u.err }

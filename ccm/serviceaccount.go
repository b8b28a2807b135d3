package ccm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/internal/inflight"
	"github.com/fxccm/fxccm/internal/requestlog"
)

const (
	// accountNamespace contains the ServiceAccounts of --use-service-account-credentials, as
	// upstream's.
	accountNamespace = metav1.NamespaceSystem

	// tokenLifetime is the lifetime that upstream requests. A token is renewed after four fifths of
	// it.
	tokenLifetime = time.Hour

	// tokenTimeout limits one token request, so that a request on a dead connection is retried.
	tokenTimeout = 30 * time.Second
)

// serviceAccounts gives the clients of one term the tokens of ServiceAccounts with the clients'
// names. Tokens come from the TokenRequest API and are renewed on use. Missing ServiceAccounts are
// created. The fence checks these requests, too. It is safe for concurrent use.
type serviceAccounts struct {
	// client returns the term's client with the Manager's identity.
	client func() (kubernetes.Interface, error)

	// term ends the token requests in flight, which belong to tasks.
	term  context.Context
	tasks *inflight.Set
}

// authenticate returns a wrapper for the transport of a client that adds the token of the account.
func (s *serviceAccounts) authenticate(account string) func(http.RoundTripper) http.RoundTripper {
	tokens := &accountTokens{accounts: s, name: account}
	return func(next http.RoundTripper) http.RoundTripper { return &tokenTransport{tokens, next} }
}

// tokenTransport adds tokens to requests. The OAuth library fetches tokens without the context of
// the request, so a request could not end while its token is fetched.
type tokenTransport struct {
	tokens *accountTokens
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *tokenTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := t.tokens.get(req.Context())
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	authenticated := req.Clone(req.Context())
	token.SetAuthHeader(authenticated)
	resp, err := t.next.RoundTrip(authenticated)
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		t.tokens.drop(token)
	}
	return resp, err
}

// WrappedRoundTripper gives client-go the wrapped transport.
func (t *tokenTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// accountTokens are the tokens of one ServiceAccount.
type accountTokens struct {
	accounts *serviceAccounts
	name     string
	fetches  singleflight.Group

	mu      sync.Mutex
	current *oauth2.Token
}

// get returns a valid token. Concurrent calls share one token request. Each call waits no longer
// than its own context.
func (t *accountTokens) get(ctx context.Context) (*oauth2.Token, error) {
	t.mu.Lock()
	current := t.current
	t.mu.Unlock()
	if current.Valid() {
		return current, nil
	}
	fetched := t.fetches.DoChan("", func() (any, error) { return t.fetch() })
	select {
	case result := <-fetched:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*oauth2.Token), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("token of ServiceAccount %s/%s: %w", accountNamespace, t.name,
			context.Cause(ctx))
	}
}

func (t *accountTokens) fetch() (*oauth2.Token, error) {
	defer t.accounts.tasks.Begin(inflight.Activity{Name: "fetch token of " + t.name})()
	ctx, cancel := context.WithTimeoutCause(t.accounts.term, tokenTimeout,
		errors.New("the API server did not issue a token in time"))
	defer cancel()
	ctx = requestlog.WithoutBodies(ctx)
	client, err := t.accounts.client()
	if err != nil {
		return nil, err
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To(int64(tokenLifetime / time.Second)),
	}}
	accounts := client.CoreV1().ServiceAccounts(accountNamespace)
	answer, err := accounts.CreateToken(ctx, t.name, request, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
			Namespace: accountNamespace,
			Name:      t.name,
		}}
		if _, err = accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil &&
			!apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("create ServiceAccount %s/%s: %w", accountNamespace, t.name, err)
		}
		answer, err = accounts.CreateToken(ctx, t.name, request, metav1.CreateOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("request a token of ServiceAccount %s/%s: %w", accountNamespace,
			t.name, err)
	}
	lifetime := time.Until(answer.Status.ExpirationTimestamp.Time)
	token := &oauth2.Token{
		AccessToken: answer.Status.Token,
		TokenType:   "Bearer",
		Expiry:      time.Now().Add(lifetime - lifetime/5),
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current = token
	return token, nil
}

// drop forgets a token that the API server has rejected.
func (t *accountTokens) drop(refused *oauth2.Token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current == refused {
		t.current = nil
	}
}

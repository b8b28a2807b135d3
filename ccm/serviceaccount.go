package ccm

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/oauth2"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// serviceAccountNamespace holds the ServiceAccounts of --use-service-account-credentials, as upstream's.
const serviceAccountNamespace = metav1.NamespaceSystem

// tokenLifetime is what upstream asks for; a fifth of it is kept as reserve.
const tokenLifetime = time.Hour

// serviceAccounts turns a client of the Manager's own identity into one of the ServiceAccount that
// has the client's name. Its tokens come from the TokenRequest API and are renewed as they are used. A ServiceAccount that does
// not exist is made.
func serviceAccounts(own kubernetes.Interface) func(*rest.Config, string) (*rest.Config, error) {
	return func(config *rest.Config, name string) (*rest.Config, error) {
		as := rest.AnonymousClientConfig(config)
		as.QPS, as.Burst, as.RateLimiter = config.QPS, config.Burst, config.RateLimiter
		tokens := transport.NewCachedTokenSource(&accountTokens{client: own, name: name})
		as.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return transport.ResettableTokenSourceWrapTransport(tokens)(next)
		})
		return as, nil
	}
}

type accountTokens struct {
	client kubernetes.Interface
	name   string
}

// Token implements oauth2.TokenSource. Its interface has no context, so a limit stands in for the term's.
func (s *accountTokens) Token() (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: seconds(tokenLifetime)}}
	accounts := s.client.CoreV1().ServiceAccounts(serviceAccountNamespace)
	answer, err := accounts.CreateToken(ctx, s.name, request, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: serviceAccountNamespace, Name: s.name}}
		if _, err = accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("create ServiceAccount %s/%s: %w", serviceAccountNamespace, s.name, err)
		}
		answer, err = accounts.CreateToken(ctx, s.name, request, metav1.CreateOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("request a token of ServiceAccount %s/%s: %w", serviceAccountNamespace, s.name, err)
	}
	lifetime := time.Until(answer.Status.ExpirationTimestamp.Time)
	return &oauth2.Token{
		AccessToken: answer.Status.Token,
		TokenType:   "Bearer",
		Expiry:      time.Now().Add(lifetime - lifetime/5),
	}, nil
}

func seconds(d time.Duration) *int64 {
	s := int64(d / time.Second)
	return &s
}

package controllers_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/serving"
	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
)

// The secure port delegates authentication and authorization of a caller to the API server, under
// the shipped rules.
func TestServing_ScraperWithATokenIsReviewedByTheAPIServer(t *testing.T) {
	t.Parallel()
	grantTo(t, "test-scraper",
		rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
		rbacv1.Subject{
			Kind: "ServiceAccount", Namespace: "kube-system",
			Name: "cloud-controller-manager",
		})
	cloud := newCloud(t, nil)
	r := run(t, cloud)
	address := serve(t, r.Manager)
	token, err := shared.Client(t).CoreV1().ServiceAccounts("kube-system").CreateToken(t.Context(),
		"cloud-controller-manager", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	expect(t, address+"/readyz", "", http.StatusOK)
	expect(t, address+"/metrics", "", http.StatusForbidden)
	expect(t, address+"/metrics", "forged", http.StatusUnauthorized)
	expect(t, address+"/metrics", token.Status.Token, http.StatusOK)
	expect(t, address+"/configz", token.Status.Token, http.StatusForbidden)
}

// serve opens a secure port of the Manager until the test ends.
func serve(t *testing.T, m *ccm.Manager) (address string) {
	t.Helper()
	server, err := serving.New(m, servingconfig.Default(),
		serving.WithListener(func(ctx context.Context) (net.Listener, error) {
			return (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-result; err != nil {
			t.Errorf("the server did not stop cleanly: %v", err)
		}
	})
	return ccmtest.Eventually(t, "the port is open", func(context.Context) (string, error) {
		if server.Addr() == nil {
			return "", errors.New("no address")
		}
		return "https://" + server.Addr().String(), nil
	})
}

// expect repeats the request until the answer has the status: at first the server does not know the
// trusted CAs.
func expect(t *testing.T, url, token string, status int) {
	t.Helper()
	// its certificate is self-signed
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	ccmtest.Eventually(t, fmt.Sprintf("GET %s is answered with %d", url, status),
		func(ctx context.Context) (int, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return 0, err
			}
			if token != "" {
				req.Header.Set("Authorization", "Bearer "+token)
			}
			resp, err := transport.RoundTrip(req)
			if err != nil {
				return 0, err
			}
			defer func() { _ = resp.Body.Close() }()
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != status {
				return resp.StatusCode, fmt.Errorf("%s: %.200s", resp.Status, body)
			}
			return status, nil
		})
}

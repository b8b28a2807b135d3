package serving_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
	"github.com/fxccm/fxccm/internal/netfault"
	"github.com/fxccm/fxccm/internal/waittest"
)

// cluster is a real control plane with the permissions of a CCM and of a scraper.
type cluster struct {
	*controlplane.ControlPlane
	t     *testing.T
	admin kubernetes.Interface
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	cp := controlplane.ForTest(t)
	admin, err := kubernetes.NewForConfig(cp.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{cp, t, admin}
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// ccm is the identity of a CCM: the account in kube-system.
func (c *cluster) ccm(account string) *rest.Config {
	c.t.Helper()
	config, err := c.ServiceAccountConfig(metav1.NamespaceSystem, account)
	c.must(err)
	return config
}

// user returns a client with the client certificate of a user of the cluster.
func (c *cluster) user(name string, groups ...string) *http.Client {
	c.t.Helper()
	config, err := c.UserConfig(name, groups...)
	c.must(err)
	return client(c.t, pair{config.CertData, config.KeyData}.presents(c.t))
}

// allowScraping lets the user, and the ServiceAccount default/prometheus, read /metrics.
func (c *cluster) allowScraping(ctx context.Context, user string) {
	c.t.Helper()
	_, err := c.admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "scraper"},
		Rules: []rbacv1.PolicyRule{{
			NonResourceURLs: []string{"/metrics"},
			Verbs:           []string{"get"},
		}},
	}, metav1.CreateOptions{})
	c.must(err)
	_, err = c.admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "scraper"},
		RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: "scraper",
		},
		Subjects: []rbacv1.Subject{
			{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user},
			{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: "prometheus"},
		},
	}, metav1.CreateOptions{})
	c.must(err)
}

// token creates a ServiceAccount and returns a bearer token of it.
func (c *cluster) token(ctx context.Context, name string) string {
	c.t.Helper()
	accounts := c.admin.CoreV1().ServiceAccounts(metav1.NamespaceDefault)
	_, err := accounts.Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	c.must(err)
	answer, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{},
		metav1.CreateOptions{})
	c.must(err)
	return answer.Status.Token
}

// eventuallyAnswers repeats a request until the response has the code and contains the text,
// because new permissions take effect with a delay.
func eventuallyAnswers(
	t *testing.T, c *http.Client, r *running, path string, code int, text string, headers ...string,
) {
	t.Helper()
	waittest.Until(t, "GET "+path+" is "+http.StatusText(code), func() bool {
		a, err := tryGet(c, r.Server, path, headers...)
		return err == nil && a.StatusCode == code && strings.Contains(a.body, text)
	})
}

// impatient disables the caches, so that new permissions take effect at once.
func impatient(c *servingconfig.Config) {
	c.Authentication.TokenCacheTTL = metav1.Duration{}
	c.Authorization.AuthorizedCacheTTL, c.Authorization.UnauthorizedCacheTTL = metav1.Duration{},
		metav1.Duration{}
}

func TestServing_RealAPIServer_DecidesWhichClientsAreServed(t *testing.T) {
	c := newCluster(t)
	c.allowScraping(t.Context(), "scraper")
	prometheus := bearer(c.token(t.Context(), "prometheus"))
	// The shipped RBAC rules suffice.
	ccmtest.ApplyRBAC(t, c.admin, "../../deploy/base/rbac.yaml")
	of := func(t *testing.T) *cluster { return &cluster{c.ControlPlane, t, c.admin} }
	t.Run("Delegation", func(t *testing.T) { testDelegation(t, of(t), prometheus) })
	t.Run("DownAtStart_OnlyProbesAreAnsweredUntilItIsBack",
		func(t *testing.T) { testOutage(t, of(t), prometheus) })
}

func testDelegation(t *testing.T, c *cluster, prometheus string) {
	t.Helper()
	ctx := t.Context()
	r := serveUnwatched(t, c.ccm("cloud-controller-manager"), impatient)
	anonymous := client(t, nil)

	get(t, anonymous, r.Server, "/healthz").wants(t, http.StatusOK, "ok")
	eventuallyAnswers(t, anonymous, r, "/metrics", http.StatusForbidden, "system:anonymous")

	t.Run("by client certificate", func(t *testing.T) {
		eventuallyAnswers(t, c.user("scraper"), r, "/metrics", http.StatusOK, "go_goroutines")
		get(t, c.user("scraper"), r.Server, "/configz").wants(t, http.StatusForbidden, "scraper")
		get(t, c.user("stranger"), r.Server, "/metrics").wants(t, http.StatusForbidden, "stranger")
		get(t, c.user("stranger", "system:masters"), r.Server, "/configz").wants(t, http.StatusOK,
			"fxccm.dev")
		stranger := newAuthority(t, "another cluster").client("scraper")
		get(t, client(t, insist(t, stranger)), r.Server, "/metrics").wants(t,
			http.StatusUnauthorized, "Unauthorized")
	})
	t.Run("by token", func(t *testing.T) {
		eventuallyAnswers(t, anonymous, r, "/metrics", http.StatusOK, "go_goroutines",
			prometheus)
		get(t, anonymous, r.Server, "/metrics", bearer(c.token(ctx, "another"))).wants(t,
			http.StatusForbidden, "system:serviceaccount:default:another")
		get(t, anonymous, r.Server, "/metrics", bearer("forged")).wants(t, http.StatusUnauthorized,
			"Unauthorized")
	})
	t.Run("by a CA that the cluster trusts since the start", func(t *testing.T) {
		ca := newAuthority(t, "second CA")
		c.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
			maps := c.admin.CoreV1().ConfigMaps(metav1.NamespaceSystem)
			cm, err := maps.Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
			if err != nil {
				return err
			}
			cm.Data["client-ca-file"] += "\n" + string(ca.PEM)
			_, err = maps.Update(ctx, cm, metav1.UpdateOptions{})
			return err
		}))
		waittest.Until(t, "a client of the new CA is authenticated", func() bool {
			// Each attempt needs a new connection, because the server requests the certificate
			// during the handshake.
			a, err := tryGet(client(t, insist(t, ca.client("scraper"))), r.Server, "/metrics")
			return err == nil && a.StatusCode == http.StatusOK
		})
		eventuallyAnswers(t, c.user("scraper"), r, "/metrics", http.StatusOK, "go_goroutines")
	})
}

func testOutage(t *testing.T, c *cluster, token string) {
	t.Helper()
	identity := c.ccm("cloud-controller-manager")
	proxy, err := netfault.Listen(strings.TrimPrefix(identity.Host, "https://"))
	c.must(err)
	t.Cleanup(func() { c.must(proxy.Close()) })
	identity.Host = "https://" + proxy.Addr()
	c.must(proxy.Set(netfault.Refuse()))

	r := serveUnwatched(t, identity, impatient)
	scraper, other := c.user("scraper"), client(t, nil)
	get(t, other, r.Server, "/healthz").wants(t, http.StatusOK, "ok")
	get(t, other, r.Server, "/healthz", token).wants(t, http.StatusOK, "ok")
	for _, headers := range [][]string{nil, {token}} {
		eventuallyAnswers(t, other, r, "/metrics", http.StatusServiceUnavailable,
			"the API server cannot be reached", headers...)
	}

	c.must(proxy.Set(netfault.Pass()))
	eventuallyAnswers(t, scraper, r, "/metrics", http.StatusOK, "go_goroutines")
	eventuallyAnswers(t, other, r, "/metrics", http.StatusOK, "go_goroutines", token)

	// After the ConfigMap has been read, the errors name the outage.
	c.must(proxy.Set(netfault.Refuse()))
	get(t, other, r.Server, "/metrics", token).wants(t, http.StatusServiceUnavailable,
		"cannot authenticate: the API server cannot be reached")
	get(t, scraper, r.Server, "/metrics").wants(t, http.StatusServiceUnavailable,
		"cannot authorize: the API server cannot be reached")
	get(t, c.user("root", "system:masters"), r.Server, "/statusz").wants(t, http.StatusOK,
		`"state"`)
	get(t, other, r.Server, "/livez").wants(t, http.StatusOK, "ok")
	c.must(proxy.Set(netfault.Pass()))
	eventuallyAnswers(t, scraper, r, "/metrics", http.StatusOK, "go_goroutines")
}

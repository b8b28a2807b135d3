package hostintegration_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// lines are the log lines of a host's logger. It is safe for concurrent use.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, prefix+": "+args)
	}, funcr.Options{Verbosity: 10})
}

func (l *lines) containing(parts ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.all), func(line string) bool {
		return slices.ContainsFunc(parts,
			func(part string) bool { return !strings.Contains(line, part) })
	})
}

// token matches a ServiceAccount token.
var token = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`)

// tokenWatch records the tokens that the API server issues.
type tokenWatch struct {
	mu   sync.Mutex
	seen []string
}

func (w *tokenWatch) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err != nil || !strings.HasSuffix(r.URL.Path, "/token") {
			return response, err
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return nil, err
		}
		_ = response.Body.Close()
		response.Body = io.NopCloser(bytes.NewReader(body))
		w.mu.Lock()
		defer w.mu.Unlock()
		w.seen = append(w.seen, token.FindAllString(string(body), -1)...)
		return response, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// tokenIdentity is an identity with a token, like a pod's.
func tokenIdentity(t *testing.T, namespace, name string) *rest.Config {
	t.Helper()
	request, err := shared.Admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := rest.AnonymousClientConfig(shared.RESTConfig())
	cfg.BearerToken, cfg.UserAgent = request.Status.Token, agent(t)
	return cfg
}

func TestLogger_OfTheHost_HasNamesAndTermsAndNoSecrets(t *testing.T) {
	t.Parallel()
	var (
		said   lines
		tokens tokenWatch
	)
	createConfigMap(t, objectName(t))
	elector, cloud := leading(), newCloud(t)
	p := params(t, cloud, elector)
	log := said.logger().WithValues("cluster", "blue")
	p.Name, p.Logger = "east", &log
	p.RESTConfig = tokenIdentity(t, "kube-system", "account-maker")
	p.RESTConfig.Wrap(tokens.wrap)
	p.Config.UseServiceAccountCredentials = true
	talks := controller("talks", func(term *ccm.Term) (ccm.RunnableFunc, error) {
		term.Logger().Info("A controller is built")
		return func(ctx context.Context) error {
			klog.FromContext(ctx).Info("A controller runs")
			return untilEnd(ctx)
		}, nil
	})
	p.Controllers = []ccm.Controller{
		talks,
		patchingConfigMap("patches", "my-controller", objectName(t)),
	}
	p.Config.Controllers = []string{"talks", "patches", "route"}
	p.Config.ClusterCIDR = ""
	p.Config.ConfigureCloudRoutes = false // it is skipped
	build := p.Providers[0].New
	p.Providers[0].New = func(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface,
		error,
	) {
		env.Logger.Info("A provider is built")
		return build(ctx, env)
	}
	m, stop := run(t, p)
	ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(m))
	waitRequests(t, 1, controlplane.ByUserAgent("/my-controller"), controlplane.ByVerb("patch"))
	lose(t, elector)
	elector.Lead()
	ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(m))
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	for _, term := range []string{`"term"=1`, `"term"=2`} {
		for _, message := range []string{
			"Term begins", "A provider is built", "A controller is built", "A controller runs",
			"Controller skipped", "Term is ready", "Term ends", "Term has drained",
		} {
			if got := said.containing(`"msg"="`+message+`"`, term); len(got) != 1 {
				t.Errorf("%q was logged %d times with %s, want once: %q", message, len(got), term,
					got)
			}
		}
	}
	for _, line := range said.containing() {
		if !strings.Contains(line, `"manager"="east"`) ||
			!strings.Contains(line, `"cluster"="blue"`) || !strings.HasPrefix(line, "ccm") {
			t.Errorf("a line lacks the names of the Manager and the host: %s", line)
		}
	}
	if len(tokens.seen) == 0 {
		t.Error("no token was requested")
	}
	for _, secret := range append(tokens.seen, p.RESTConfig.BearerToken) {
		if got := said.containing(secret); len(got) > 0 {
			t.Errorf("a token was logged: %q", got)
		}
	}
}

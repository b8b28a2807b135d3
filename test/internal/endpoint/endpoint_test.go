package endpoint_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/netfault"
	"github.com/fxccm/fxccm/test/internal/endpoint"
)

// backendToken is the endpoint's token for the API server.
const backendToken = "the-endpoints-own"

// startBackend starts a replacement for an API server: every list is empty, and a watch has no
// events and no end.
func startBackend(t *testing.T) *rest.Config {
	t.Helper()
	server := httptest.NewUnstartedServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+backendToken {
				http.Error(w, "who is that?", http.StatusUnauthorized)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Query().Get("watch") == "" {
				_, _ = io.WriteString(w,
					`{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`)
				return
			}
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &rest.Config{
		Host: server.URL, BearerToken: backendToken,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca},
	}
}

func start(
	t *testing.T, cluster *rest.Config, part string,
) (*endpoint.Endpoint, kubernetes.Interface) {
	t.Helper()
	e, err := endpoint.Start(cluster, part)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e, clientOf(t, e.RESTConfig())
}

func clientOf(t *testing.T, cfg *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// list lists nodes, with limit as its timeout.
func list(t *testing.T, client kubernetes.Interface, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	return err
}

// moment is long enough for the answer to an undisturbed request.
const moment = 300 * time.Millisecond

func TestEndpoint_EachHasATokenAndAnAuthorityOfItsOwn(t *testing.T) {
	cluster := startBackend(t)
	blue, client := start(t, cluster, "blue")
	green, _ := start(t, cluster, "green")
	if err := list(t, client, ccmtest.WaitLimit); err != nil {
		t.Fatalf("a client of the endpoint is refused: %v", err)
	}

	wrongToken := blue.RESTConfig()
	wrongToken.BearerToken = green.RESTConfig().BearerToken
	if err := list(t, clientOf(t, wrongToken), ccmtest.WaitLimit); !apierrors.IsUnauthorized(err) {
		t.Errorf("with the token of another endpoint the answer is %v, want unauthorized", err)
	}
	wrongAuthority := blue.RESTConfig()
	wrongAuthority.CAData = green.RESTConfig().CAData
	if err := list(t, clientOf(t, wrongAuthority), ccmtest.WaitLimit); !errors.As(err,
		&x509.UnknownAuthorityError{}) {
		t.Errorf("with the authority of another endpoint the error is %v, want that it is unknown",
			err)
	}
}

func TestEndpoint_RefusedRequests_AreForbiddenAndRecorded(t *testing.T) {
	e, client := start(t, startBackend(t), "blue")
	if _, err := client.CoreV1().Nodes().Get(t.Context(), "green-1",
		metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the answer to a request for another part is %v, want forbidden", err)
	}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{},
		metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the answer to the creation of a node is %v, want forbidden", err)
	}
	refused := e.Refused()
	if len(refused) != 2 || !strings.HasPrefix(refused[0], "GET /api/v1/nodes/green-1: ") ||
		!strings.HasPrefix(refused[1], "POST /api/v1/nodes: ") {
		t.Errorf("what was refused is %q", refused)
	}
}

func TestEndpoint_BreaksAndHealsAtTheSameAddress(t *testing.T) {
	cluster := startBackend(t)
	broken, client := start(t, cluster, "blue")
	_, other := start(t, cluster, "green")
	for _, test := range []struct {
		fault netfault.Fault
		is    func(error) bool
	}{
		{netfault.Refuse(), func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }},
		{netfault.Stall(), func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
		{netfault.WrongCertificate(), func(err error) bool { return errors.As(err, &x509.UnknownAuthorityError{}) }},
	} {
		t.Run(test.fault.String(), func(t *testing.T) {
			watch, err := client.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer watch.Stop()
			if err := broken.Set(test.fault); err != nil {
				t.Fatal(err)
			}
			if test.fault != netfault.Stall() {
				select {
				case <-watch.ResultChan():
				case <-time.After(ccmtest.WaitLimit):
					t.Error("the watch continues")
				}
			}
			ccmtest.Eventually(t, "the endpoint fails", func(context.Context) (struct{}, error) {
				// A request on a connection that was just closed may fail in another way.
				if err := list(t, client, moment); !test.is(err) {
					return struct{}{},
						errors.Join(errors.New("a request fails otherwise, or not at all"), err)
				}
				return struct{}{}, nil
			})
			if err := list(t, other, ccmtest.WaitLimit); err != nil {
				t.Errorf("another endpoint fails, too: %v", err)
			}
			if err := broken.Set(netfault.Pass()); err != nil {
				t.Fatal(err)
			}
			ccmtest.Eventually(t, "the endpoint is well again",
				func(context.Context) (struct{}, error) {
					return struct{}{}, list(t, client, ccmtest.WaitLimit)
				})
		})
	}
}

func TestEndpoint_Close_LeavesNothing(t *testing.T) {
	cluster := startBackend(t)
	before := ccmtest.IgnoringCurrent()
	for _, fault := range []netfault.Fault{
		netfault.Pass(), netfault.Refuse(), netfault.Stall(),
		netfault.WrongCertificate(),
	} {
		e, err := endpoint.Start(cluster, "blue")
		if err != nil {
			t.Fatal(err)
		}
		watch, err := clientOf(t, e.RESTConfig()).CoreV1().Nodes().Watch(t.Context(),
			metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if n, inFlight := e.Connections(), e.InFlight(); n != 1 || inFlight != 1 {
			t.Errorf("with one watch there are %d connections with %d requests, want one of each",
				n, inFlight)
		}
		if err := e.Set(fault); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Errorf("%s: %v", fault, err)
		}
		watch.Stop()
		if n, inFlight := e.Connections(), e.InFlight(); n != 0 || inFlight != 0 {
			t.Errorf("%s: %d connections and %d requests are left", fault, n, inFlight)
		}
	}
	ccmtest.VerifyNoLeaks(t, before)
}

package openstacktest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"go.uber.org/goleak"

	"github.com/fxccm/fxccm/internal/waittest"
)

// The paths of Nova and Octavia.
const (
	computePath      = "/compute/v2.1"
	loadBalancerPath = "/load-balancer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a cloud that ends with the test.
func start(t *testing.T, options ...Option) *Cloud {
	t.Helper()
	s := NewCloud(options...)
	t.Cleanup(s.Close)
	return s
}

var patiently = waittest.Context

// byPassword logs in with a user's password to the user's project.
func byPassword(c Credentials) gophercloud.AuthOptions {
	return gophercloud.AuthOptions{
		IdentityEndpoint: c.AuthURL, Username: c.Username, Password: c.Password,
		DomainName:  c.DomainName,
		Scope:       &gophercloud.AuthScope{ProjectName: c.ProjectName, DomainName: c.DomainName},
		AllowReauth: true,
	}
}

// login is a client of gophercloud with its own connections.
func login(t *testing.T, s *Cloud, options gophercloud.AuthOptions) *gophercloud.ProviderClient {
	t.Helper()
	client, err := tryLogin(t, options)
	if err != nil {
		t.Fatalf("log in: %v", err)
	}
	return client
}

func tryLogin(t *testing.T, options gophercloud.AuthOptions) (*gophercloud.ProviderClient, error) {
	t.Helper()
	client, err := openstack.NewClient(options.IdentityEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	client.HTTPClient = http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)
	return client, openstack.Authenticate(patiently(t), client, options)
}

func inRegion(s *Cloud) gophercloud.EndpointOpts {
	return gophercloud.EndpointOpts{Region: s.Credentials().Region}
}

// computeOf is a client of Nova for the default project.
func computeOf(t *testing.T, s *Cloud) *gophercloud.ServiceClient {
	t.Helper()
	client, err := openstack.NewComputeV2(login(t, s, byPassword(s.Credentials())), inRegion(s))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// exchange is a raw request and its answer.
type exchange struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
}

// ask sends a request with a new token of the default project. header has pairs of keys and values,
// which are set last.
func ask(t *testing.T, s *Cloud, method, path, body string, header ...string) exchange {
	t.Helper()
	return send(t, s, method, path, body,
		append([]string{"X-Auth-Token", s.Credentials().Token}, header...)...)
}

// send sends a request without a token.
func send(t *testing.T, s *Cloud, method, path, body string, header ...string) exchange {
	t.Helper()
	got, err := trySend(t, s, method, path, body, header...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return got
}

func trySend(
	t *testing.T, s *Cloud, method, path, body string, header ...string,
) (exchange, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(patiently(t), method, s.URL()+path,
		bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return exchange{}, err
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	return exchange{t: t, status: response.StatusCode, header: response.Header, body: got}, err
}

// into reads the body as JSON.
func (e exchange) into(v any) {
	e.t.Helper()
	if err := json.Unmarshal(e.body, v); err != nil {
		e.t.Fatalf("the body is not JSON: %v: %s", err, e.body)
	}
}

// is checks the status and the body, which is compared as JSON.
func (e exchange) is(status int, body string) {
	e.t.Helper()
	if e.status != status {
		e.t.Errorf("status %d, want %d: %s", e.status, status, e.body)
	}
	var got, want any
	e.into(&got)
	if err := json.Unmarshal([]byte(body), &want); err != nil {
		e.t.Fatal(err)
	}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if !bytes.Equal(a, b) {
		e.t.Errorf("body\n%s\nwant\n%s", a, b)
	}
}

// trusting is a transport that trusts the cloud's certificate.
func trusting(t *testing.T, s *Cloud) *http.Transport {
	t.Helper()
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM([]byte(s.CertificatePEM())) {
		t.Fatal("the certificate is not PEM")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

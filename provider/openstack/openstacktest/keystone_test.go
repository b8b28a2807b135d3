package openstacktest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	clocktesting "k8s.io/utils/clock/testing"
)

const refused = `{"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}}`

func TestToken_Expires_ByTheCloudsClock(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	s := start(t, WithClock(clock), WithTokenLife(10*time.Minute))
	token := s.Credentials().Token
	exchanged := send(t, s, "POST", "/identity/v3/auth/tokens", fmt.Sprintf(
		`{"auth": {"identity": {"methods": ["token"], "token": {"id": %q}}, "scope": {"project": {"name": "demo", "domain": {"id": "default"}}}}}`, token))
	var body struct {
		Token struct {
			Expires string `json:"expires_at"`
			Methods []string
		}
	}
	exchanged.into(&body)
	if body.Token.Expires != "2026-11-21T12:10:00.000000Z" ||
		!slices.Equal(body.Token.Methods, []string{"password", "token"}) {
		t.Errorf("a token of a token: %+v", body)
	}
	all := []string{token, exchanged.header.Get("X-Subject-Token")}
	for _, step := range []struct {
		pass   time.Duration
		status int
	}{
		{10*time.Minute - time.Nanosecond, http.StatusOK},
		{time.Nanosecond, http.StatusUnauthorized},
	} {
		clock.SetTime(clock.Now().Add(step.pass))
		for _, token := range all {
			if got := send(t, s, "GET", computePath+"/servers", "", "X-Auth-Token",
				token); got.status != step.status {
				t.Errorf("at %s: %d, want %d: %s", clock.Now(), got.status, step.status, got.body)
			}
		}
	}
}

func TestTokenCache_ServicesAcceptARevokedTokenThatTheyKnow(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	s := start(t, WithClock(clock), WithTokenLife(time.Hour), WithTokenCache(5*time.Minute))
	known, unknown := s.Credentials().Token, s.Credentials().Token
	status := func(token, path string) int {
		return send(t, s, "GET", path, "", "X-Auth-Token", token).status
	}
	const nova, neutron, keystone = computePath + "/servers", "/networking/v2.0/ports",
		"/identity/v3/auth/catalog"
	if got := status(known, nova); got != http.StatusOK {
		t.Fatal(got)
	}
	s.RevokeTokens()
	for _, test := range []struct {
		pass        time.Duration
		token, path string
		want        int
	}{
		{0, known, nova, 200},
		{0, known, neutron, 200},
		{0, known, keystone, 401},
		{0, unknown, nova, 401},
		{5*time.Minute - 1, known, neutron, 200},
		{1, known, nova, 401},
	} {
		clock.SetTime(clock.Now().Add(test.pass))
		if got := status(test.token, test.path); got != test.want {
			t.Errorf("%s, known %t, %s: %d, want %d", clock.Now(), test.token == known, test.path,
				got, test.want)
		}
	}
}

func TestProjects_ServersOfOthers_AreHidden(t *testing.T) {
	s := start(t)
	other := s.AddProject(Project{Name: "other", Domain: "corp"})
	admin := s.AddProject(Project{Name: "operators", Admin: true})
	id := s.AddServer(Server{Name: "theirs", ProjectID: other.ProjectID})
	for _, test := range []struct {
		name, token, path string
		status            int
		holds             bool
	}{
		{"the owner", other.Token, "/servers/" + id, 200, true},
		{"the owner's list", other.Token, "/servers", 200, true},
		{"a stranger", s.Credentials().Token, "/servers/" + id, 404, false},
		{"a stranger's list", s.Credentials().Token, "/servers", 200, false},
		{"a stranger for all", s.Credentials().Token, "/servers?all_tenants=1", 403, false},
		{"an administrator", admin.Token, "/servers/" + id, 200, true},
		{"an administrator's list", admin.Token, "/servers", 200, false},
		{"an administrator for all", admin.Token, "/servers?all_tenants=1", 200, true},
		{"an administrator for one project", admin.Token, "/servers?all_tenants=1&project_id=" + other.ProjectID, 200, true},
		{"an administrator for another", admin.Token, "/servers?all_tenants=1&project_id=" + admin.ProjectID, 200, false},
	} {
		got := send(t, s, "GET", computePath+test.path, "", "X-Auth-Token", test.token)
		if got.status != test.status || strings.Contains(string(got.body), "theirs") != test.holds {
			t.Errorf("%s gets %d %s", test.name, got.status, got.body)
		}
	}
}

func TestCatalog_EachInterface_LeadsToTheSameCloud(t *testing.T) {
	s := start(t)
	s.AddServer(Server{Name: "a"})
	s.AddServer(Server{Name: "b"})
	s.SetPageSize(1)
	client := login(t, s, byPassword(s.Credentials()))
	for _, kind := range []string{"public", "internal", "admin"} {
		s.ForgetCalls()
		compute, err := openstack.NewComputeV2(client,
			gophercloud.EndpointOpts{
				Region:       "RegionOne",
				Availability: gophercloud.Availability(kind),
			})
		if err != nil {
			t.Fatal(err)
		}
		pages, err := servers.List(compute, nil).AllPages(patiently(t))
		if err != nil {
			t.Fatal(err)
		}
		all, err := servers.ExtractServers(pages)
		if err != nil || len(all) != 2 {
			t.Errorf("%s: %d servers, %v", kind, len(all), err)
		}
		for _, call := range s.Calls() {
			if call.Interface != kind || call.Path != computePath+"/servers/detail" {
				t.Errorf("a call at the interface %s is %+v", kind, call)
			}
		}
	}
}

func TestCalls_HoldNoSecret(t *testing.T) {
	s := start(t)
	c := s.Credentials()
	login(t, s, byPassword(c))
	login(t, s, gophercloud.AuthOptions{
		IdentityEndpoint: c.AuthURL, ApplicationCredentialID: c.ApplicationCredentialID,
		ApplicationCredentialSecret: c.ApplicationCredentialSecret,
	})
	client := login(t, s, gophercloud.AuthOptions{
		IdentityEndpoint: c.AuthURL, TokenID: c.Token,
		Scope: &gophercloud.AuthScope{ProjectID: c.ProjectID},
	})
	compute, err := openstack.NewComputeV2(client, inRegion(s))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := servers.List(compute, nil).AllPages(patiently(t)); err != nil {
		t.Fatal(err)
	}
	ask(t, s, "POST", computePath+"/servers",
		`{"server": {"name": "x", "flavorRef": "1", "adminPass": "root-secret"}}`)
	if len(s.Calls()) != 5 {
		t.Fatalf("%d calls", len(s.Calls()))
	}
	record, err := json.Marshal(s.Calls())
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{
		c.Password, c.ApplicationCredentialSecret, c.Token,
		client.Token(), "root-secret",
	} {
		if secret == "" || strings.Contains(string(record), secret) {
			t.Errorf("the record holds the secret %q", secret)
		}
	}
}

func TestTwoClouds_ShareNoToken(t *testing.T) {
	one, two := start(t), start(t)
	send(t, two, "GET", computePath+"/servers", "", "X-Auth-Token",
		one.Credentials().Token).is(http.StatusUnauthorized, refused)
}

func TestTLS_IsTrustedByItsCertificate(t *testing.T) {
	s := start(t, WithTLS())
	if !strings.HasPrefix(s.URL(), "https://") ||
		!strings.HasPrefix(s.CertificatePEM(), "-----BEGIN CERTIFICATE") {
		t.Fatalf("%s, %q", s.URL(), s.CertificatePEM())
	}
	options := byPassword(s.Credentials())
	if _, err := tryLogin(t, options); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a client that does not know the authority: %v", err)
	}
	client, err := openstack.NewClient(options.IdentityEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	transport := trusting(t, s)
	client.HTTPClient = http.Client{Transport: transport}
	if err := openstack.Authenticate(patiently(t), client, options); err != nil {
		t.Error(err)
	}
	if start(t).CertificatePEM() != "" {
		t.Error("a cloud without TLS has a certificate")
	}
}

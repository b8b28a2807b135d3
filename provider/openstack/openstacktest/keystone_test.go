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
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	clocktesting "k8s.io/utils/clock/testing"
)

const refused = `{"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}}`

func TestLogin_EachMethod_GivesAProjectsToken(t *testing.T) {
	s := start(t)
	c := s.Credentials()
	scope := &gophercloud.AuthScope{ProjectID: c.ProjectID}
	for name, options := range map[string]gophercloud.AuthOptions{
		"user by name":           byPassword(c),
		"user by id":             {UserID: c.UserID, Password: c.Password, Scope: scope},
		"domain by id":           {Username: c.Username, DomainID: c.DomainID, Password: c.Password, Scope: scope},
		"token":                  {TokenID: c.Token, Scope: scope},
		"application credential": {ApplicationCredentialID: c.ApplicationCredentialID, ApplicationCredentialSecret: c.ApplicationCredentialSecret},
		"application credential's name": {
			ApplicationCredentialName: c.ApplicationCredentialName,
			Username:                  c.Username, DomainName: c.DomainName,
			ApplicationCredentialSecret: c.ApplicationCredentialSecret,
		},
	} {
		t.Run(name, func(t *testing.T) {
			options.IdentityEndpoint = c.AuthURL
			client, err := tryLogin(t, options)
			if err != nil {
				t.Fatal(err)
			}
			result, is := client.GetAuthResult().(tokens.CreateResult)
			if !is {
				t.Fatalf("the login gave a %T", client.GetAuthResult())
			}
			project, err := result.ExtractProject()
			if err != nil || project.ID != c.ProjectID || project.Domain.Name != "Default" {
				t.Errorf("the token is for %+v, %v", project, err)
			}
			user, err := result.ExtractUser()
			if err != nil || user.ID != c.UserID {
				t.Errorf("the token is of %+v, %v; want %s", user, err, c.UserID)
			}
		})
	}
}

func TestLogin_Trust_ActsAsTheTrustor(t *testing.T) {
	s := start(t)
	c := s.Credentials()
	client := login(t, s, gophercloud.AuthOptions{
		IdentityEndpoint: c.AuthURL, UserID: c.TrusteeID, Password: c.TrusteePassword,
		Scope: &gophercloud.AuthScope{TrustID: c.TrustID},
	})
	result := client.GetAuthResult().(tokens.CreateResult)
	user, err := result.ExtractUser()
	if err != nil || user.ID != c.UserID {
		t.Errorf("the token is of %+v, %v; want the trustor %s", user, err, c.UserID)
	}
	project, err := result.ExtractProject()
	if err != nil || project.ID != c.ProjectID {
		t.Errorf("the token is for %+v, %v", project, err)
	}
}

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

func TestToken_Revoked_EachServiceRefusesInKeystonesForm(t *testing.T) {
	s := start(t)
	token := s.Credentials().Token
	s.RevokeTokens()
	for _, path := range []string{
		computePath + "/servers", "/networking/v2.0/ports",
		"/identity/v3/auth/catalog",
	} {
		send(t, s, "GET", path, "", "X-Auth-Token", token).is(http.StatusUnauthorized, refused)
		send(t, s, "GET", path, "").is(http.StatusUnauthorized, refused)
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

func TestReauthentication_AfterRevocation_IsOneLogin(t *testing.T) {
	s := start(t)
	client := computeOf(t, s)
	s.RevokeTokens()
	s.ForgetCalls()
	if _, err := servers.List(client, servers.ListOpts{}).AllPages(patiently(t)); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.Counts()); got != "map[server_list:2 token_create:1]" {
		t.Errorf("the calls are %s", got)
	}
}

func TestChangedPassword_OldPasswordAndItsTokens_AreInvalid(t *testing.T) {
	s := start(t)
	before := s.Credentials()
	if err := s.ChangePassword(before.UserID, "another"); err != nil {
		t.Fatal(err)
	}
	if _, err := tryLogin(t, byPassword(before)); !gophercloud.ResponseCodeIs(err,
		http.StatusUnauthorized) {
		t.Errorf("the old password: %v", err)
	}
	send(t, s, "GET", computePath+"/servers", "", "X-Auth-Token",
		before.Token).is(http.StatusUnauthorized, refused)
	if _, err := tryLogin(t, byPassword(s.Credentials())); err != nil {
		t.Errorf("the new password: %v", err)
	}
	if err := s.ChangePassword("unknown", "x"); err == nil {
		t.Error("the password of an unknown user was changed")
	}
}

func TestApplicationCredential_Deleted_CannotLogIn(t *testing.T) {
	s := start(t)
	c := s.Credentials()
	options := gophercloud.AuthOptions{
		IdentityEndpoint: c.AuthURL, ApplicationCredentialID: c.ApplicationCredentialID,
		ApplicationCredentialSecret: c.ApplicationCredentialSecret,
	}
	token := login(t, s, options).Token()
	path := "/identity/v3/users/" + c.UserID + "/application_credentials/" +
		c.ApplicationCredentialID
	deleted := send(t, s, "DELETE", path, "", "X-Auth-Token", c.Token)
	if deleted.status != http.StatusNoContent {
		t.Fatalf("the deletion is answered with %d", deleted.status)
	}
	send(t, s, "GET", computePath+"/servers", "", "X-Auth-Token", token).is(http.StatusUnauthorized,
		refused)
	if _, err := tryLogin(t, options); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("the deleted one: %v", err)
	}
	again := send(t, s, "DELETE", path, "", "X-Auth-Token", c.Token)
	if again.status != http.StatusNotFound {
		t.Errorf("the second deletion is answered with %d", again.status)
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

func TestCatalog_OtherRegionsAndMissingServices(t *testing.T) {
	s := start(t, WithRegion("here"), func(s *settings) {
		s.keystone.OtherRegions = []string{"there"}
		s.keystone.Absent = []string{ServiceLoadBalancer}
		s.keystone.VersionedNetwork = true
	})
	client := login(t, s, byPassword(s.Credentials()))
	if _, err := openstack.NewLoadBalancerV2(client, inRegion(s)); err == nil {
		t.Error("a service that was left out is in the catalog")
	}
	network, err := openstack.NewNetworkV2(client, inRegion(s))
	if err != nil || network.Endpoint != s.URL()+"/networking/v2.0/" {
		t.Errorf("Neutron is at %v, %v", network, err)
	}
	// A client that ignores the region uses the first endpoint.
	elsewhere, err := openstack.NewComputeV2(client, gophercloud.EndpointOpts{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := servers.List(elsewhere,
		nil).AllPages(patiently(t)); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("the other region answers %v", err)
	}
	last := s.Calls()[len(s.Calls())-1]
	if last.Operation != "unknown" || last.Service != ServiceCompute {
		t.Errorf("the call is %+v", last)
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

func TestDiscovery_Keystone(t *testing.T) {
	s := start(t)
	for path, status := range map[string]int{
		"/identity": 300, "/identity/": 300,
		"/identity/v3": 200, "/identity/v3/": 200,
	} {
		if got := send(t, s, "GET", path, ""); got.status != status ||
			!strings.Contains(string(got.body), s.AuthURL()) {
			t.Errorf("%s answers %d %s", path, got.status, got.body)
		}
	}
	// Without a version in the address, gophercloud has to discover it.
	options := byPassword(s.Credentials())
	options.IdentityEndpoint = s.URL() + "/identity"
	if _, err := tryLogin(t, options); err != nil {
		t.Error(err)
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

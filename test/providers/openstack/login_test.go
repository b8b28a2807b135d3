package openstack_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
	"github.com/fxccm/fxccm/test/internal/project"
)

// nodeWithID is a node that the cloud has initialized.
func nodeWithID(name, providerID string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1.NodeSpec{ProviderID: providerID},
	}
}

// openConf opens the provider with a cloud.conf.
func openConf(t *testing.T, p *project.Project, text string) (c *project.Cloud, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "cloud.conf")
	writeConf(t, file, text)
	return p.OpenWith(t, nil, func(env *ccm.ProviderEnv) { env.ConfigFile = file }), file
}

func writeConf(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// askNova has the provider ask Nova for a server that does not exist, another one each time, so
// that the answer is not from memory: that is a login, and a denial of Nova's. A first denial is
// not believed, which is an error.
func askNova(t *testing.T, c cloudprovider.Interface) error {
	t.Helper()
	instances, supported := c.InstancesV2()
	if !supported {
		t.Fatal("there are no instances")
	}
	exists, err := instances.InstanceExists(t.Context(),
		nodeWithID("absent", "openstack:///"+string(uuid.NewUUID())))
	if exists {
		t.Fatal("a server exists that was never created")
	}
	return err
}

// novaAnswered tells that Nova denied the server. Else the error is the login's.
func novaAnswered(err error) bool {
	return err == nil ||
		strings.Contains(err.Error(), "the instance is missing; waiting for confirmation")
}

// traffic is what was on the wire: method, the end of the path, status.
func traffic(calls []project.Call) (lines []string) {
	for _, c := range calls {
		segments := strings.Split(c.Route, "/")
		lines = append(lines,
			fmt.Sprintf("%s %s %d", c.Method, strings.Join(segments[max(0, len(segments)-2):], "/"),
				c.Status))
	}
	return lines
}

const (
	loggedIn  = "POST auth/tokens 201"
	denied    = "GET servers/{id} 404"
	tokenRead = "GET auth/tokens 200"
)

func TestLogin_EachMethod_SucceedsOrSaysWhy(t *testing.T) {
	t.Parallel()
	p := project.New(t, project.WithoutNetwork())
	c := p.Credentials()
	t.Run("ByEachMethod", func(t *testing.T) { testLoginByEachMethod(t, p.In(t), c) })
	t.Run("Refused", func(t *testing.T) { testLoginRefused(t, p.In(t), c) })
}

// global is the section of a cloud.conf.
func global(c openstacktest.Credentials, lines ...string) string {
	return fmt.Sprintf("[Global]\nauth-url = %q\nregion = %q\n%s\n", c.AuthURL, c.Region,
		strings.Join(lines, "\n"))
}

// testLoginByEachMethod: a login is one request, and finds Nova without another.
func testLoginByEachMethod(t *testing.T, p *project.Project, c openstacktest.Credentials) {
	for name, test := range map[string]struct{ conf, login string }{
		"password by names": {c.CloudConf("password"), loggedIn},
		"password by ids":   {global(c, "user-id = "+c.UserID, "password = "+c.Password, "tenant-id = "+c.ProjectID), loggedIn},
		"domain ids": {global(c, "username = "+c.Username,
			"user-domain-id = "+c.DomainID, "password = "+c.Password,
			"tenant-name = "+c.ProjectName, "tenant-domain-id = "+c.DomainID), loggedIn},
		"token":                        {c.CloudConf("token"), tokenRead},
		"token, scoped":                {c.CloudConf("token") + "tenant-id = " + c.ProjectID + "\n", loggedIn},
		"application credential by id": {c.CloudConf("application-credential"), loggedIn},
		"application credential by name": {global(c,
			"application-credential-name = "+c.ApplicationCredentialName,
			"application-credential-secret = "+c.ApplicationCredentialSecret,
			"username = "+c.Username, "domain-name = "+c.DomainName), loggedIn},
		"trust":               {c.CloudConf("trust"), loggedIn},
		"trust by trustee-id": {global(c, "trust-id = "+c.TrustID, "trustee-id = "+c.TrusteeID, "trustee-password = "+c.TrusteePassword), loggedIn},
	} {
		mark := p.Wire.Mark()
		cloud, _ := openConf(t, p, test.conf)
		if calls := p.Wire.Since(mark, nil); len(calls) != 0 {
			t.Errorf("%s: before the first request there were %q", name, traffic(calls))
		}
		if err := askNova(t, cloud); !novaAnswered(err) {
			t.Errorf("%s: %v", name, err)
		}
		if got, want := traffic(p.Wire.Since(mark, nil)),
			[]string{test.login, denied}; !slices.Equal(got, want) {
			t.Errorf("%s: the requests are %q, want %q", name, got, want)
		}
	}
}

// testLoginRefused: what Keystone says is told, whichever way it refuses, and none of that is taken
// for a server that is gone. For a while it is not asked again.
func testLoginRefused(t *testing.T, p *project.Project, c openstacktest.Credentials) {
	const unauthorized = "Keystone: 401 The request you have made requires authentication"
	for name, test := range map[string]struct{ conf, says, login string }{
		"wrong password": {global(c, "user-id = "+c.UserID, "password = guess", "tenant-id = "+c.ProjectID), unauthorized, "POST auth/tokens 401"},
		"unknown project": {
			global(c, "user-id = "+c.UserID, "password = "+c.Password,
				"tenant-id = 00000000000000000000000000000000"), unauthorized,
			"POST auth/tokens 401",
		},
		"wrong secret": {
			global(c, "application-credential-id = "+c.ApplicationCredentialID,
				"application-credential-secret = guess"), unauthorized, "POST auth/tokens 401",
		},
		"unknown credential": {
			global(c, "application-credential-id = none", "application-credential-secret = guess"),
			"Keystone: 404 Could not find Application Credential: none", "POST auth/tokens 404",
		},
		"unknown token": {global(c, "token = nonsense"), unauthorized, "GET auth/tokens 401"},
		"unknown token, scoped": {
			global(c, "token = nonsense", "tenant-id = "+c.ProjectID),
			"Keystone: 404 Could not recognize Fernet token", "POST auth/tokens 404",
		},
	} {
		mark := p.Wire.Mark()
		cloud, _ := openConf(t, p, test.conf)
		if err := askNova(t, cloud); novaAnswered(err) ||
			!strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "guess") ||
			strings.Contains(err.Error(), "nonsense") {
			t.Errorf("%s: %v; want %q, and no secret", name, err, test.says)
		}
		if got := traffic(p.Wire.Since(mark, nil)); !slices.Equal(got, []string{test.login}) {
			t.Errorf("%s: the requests are %q, want one, %s", name, got, test.login)
		}
	}
}

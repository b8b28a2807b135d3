package openstack_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// logins are the tokens that were issued.
func (s *site) logins(m mark) int {
	return len(s.since(m, func(c openstacktest.Call) bool {
		return c.Operation == "token_create" && c.Status == http.StatusCreated
	}))
}

// unhurried does not take a slow machine for a Keystone that gives no answer, by a clock that runs
// so fast.
func unhurried(c *cloudconf.Config) { c.Metadata.RequestTimeout = time.Hour }

func TestKeystone_DownAtTheStart_IsWaitedForAndTold(t *testing.T) {
	t.Parallel()
	const patience = time.Minute
	for name, test := range map[string]struct {
		fault openstacktest.Fault
		tells string
	}{
		"refusing":    {openstacktest.Fault{Drop: true}, "EOF"},
		"unavailable": {openstacktest.Fault{Status: http.StatusServiceUnavailable}, "503"},
		"misled":      {openstacktest.Fault{Status: http.StatusNotFound, Body: "<html>nothing here</html>"}, "the response is not from Keystone"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			m := s.addServer("keystone-" + name)
			test.fault.Service = openstacktest.ServiceIdentity
			s.Inject(test.fault)
			r := ready(t, s, haste(60), configured(unhurried))
			began := r.clock.Now()
			tainted(t, m.name)
			s.waitCalls(0, 4, func(c openstacktest.Call) bool {
				return c.Service == openstacktest.ServiceIdentity
			}, "Keystone is asked")
			// The login is told as what it is, by the Manager's log and by upstream's controller.
			ccmtest.Eventually(t, "the log tells of the login",
				func(context.Context) (bool, error) {
					if lines := r.log.linesWith("Login to OpenStack failed", "log in to Keystone",
						s.AuthURL(), s.Credentials().Username, test.tells); len(lines) > 0 {
						return true, nil
					}
					return false, fmt.Errorf("%q", r.log.linesWith("ogin"))
				})
			ccmtest.Eventually(t, "a minute is over", func(context.Context) (bool, error) {
				if passed := r.clock.Since(began); passed < patience {
					return false, fmt.Errorf("%s of it are", passed)
				}
				return true, nil
			})
			if !isNew(getNode(t, m.name)) {
				t.Fatal("the node was initialised without a cloud")
			}
			r.unbroken()
			if asked := len(s.Calls()); asked > 60 {
				t.Errorf("Keystone, in trouble, was asked %d times in a minute", asked)
			}

			s.RemoveFaults()
			initialised(t, m.name)
			r.unbroken()
			if n := s.logins(0); n != 1 {
				t.Errorf("%d logins, want 1", n)
			}
		})
	}
}

func TestKeystone_RefusingThePassword_IsToldUntilItIsRight(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	m := s.addServer("refused-1")
	right := s.Credentials()
	s.must(s.ChangePassword(right.UserID, "another-password"))
	s.secrets.add("another-password")
	r := ready(t, s, configured(func(c *cloudconf.Config) {
		c.Global.Password = cloudconf.Secret(right.Password)
	}))
	tainted(t, m.name)
	s.waitCalls(0, 3, operations("token_create"), "a login is tried")
	ccmtest.Eventually(t, "the log tells why", func(context.Context) (bool, error) {
		if lines := r.log.linesWith("Login to OpenStack failed", right.Username, "401 Unauthorized",
			"requires authentication"); len(lines) > 0 {
			return true, nil
		}
		return false, fmt.Errorf("%q", r.log.linesWith("ogin"))
	})
	s.must(s.ChangePassword(right.UserID, right.Password))
	initialised(t, m.name)
	r.unbroken()
}

func TestToken_RevokedWhileInUse_IsReplacedByOneLogin(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := ready(t, s)
	first := s.addServer("token-0")
	tainted(t, first.name)
	initialised(t, first.name)
	if n := s.logins(0); n != 1 {
		t.Fatalf("%d logins for the first node, want 1", n)
	}
	for round := range 2 {
		before := s.mark()
		s.RevokeTokens()
		var names []string
		for i := range 8 {
			m := s.addServer(fmt.Sprintf("token-%d-%d", round+1, i))
			names = append(names, m.name)
			tainted(t, m.name)
		}
		for _, name := range names {
			initialised(t, name)
		}
		if n := s.logins(before); n != 1 {
			t.Errorf("%d logins after the tokens were revoked, want 1", n)
		}
	}
	r.unbroken()
}

func TestToken_Expired_IsReplaced(t *testing.T) {
	t.Parallel()
	s := newSite(t, openstacktest.WithTokenLife(300*time.Millisecond))
	r := ready(t, s)
	notReady(t, s.addServer("expired-0"))
	// Each pass asks for the node.
	ccmtest.Eventually(t, "there were four logins", func(context.Context) (bool, error) {
		if n := s.logins(0); n < 4 {
			return false, fmt.Errorf("%d", n)
		}
		return true, nil
	})
	m := s.addServer("expired-1")
	tainted(t, m.name)
	initialised(t, m.name)
	r.unbroken()
}

func TestCredentials_ReplacedInTheFile_AreUsedWithoutARestart(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]func(*testing.T) confFile{
		"rewritten": newPlainFile,
		"mounted":   newMountedSecret,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			conf := file(t)
			conf.write(s.CloudConf(openstacktest.PasswordAuth) + quick)
			r := ready(t, s, fromFile(conf.path), haste(20))
			first := s.addServer("credentials-" + name)
			tainted(t, first.name)
			initialised(t, first.name)

			// The new password comes to the file before it comes to Keystone: the old one goes on,
			// and the new one is not given up.
			const password = `new "password" \ # with ; signs`
			s.secrets.add(password)
			old := s.Credentials()
			next := old
			next.Password = password
			before := s.mark()
			conf.write(next.CloudConf(openstacktest.PasswordAuth) + quick)
			s.waitCalls(before, 1, func(c openstacktest.Call) bool {
				return c.Operation == "token_create" && c.Status == http.StatusUnauthorized
			},
				"the new password is tried")
			ccmtest.Eventually(t, "the log tells of it", func(context.Context) (bool, error) {
				if lines := r.log.linesWith("Reload of the configuration of OpenStack failed",
					"401"); len(lines) > 0 {
					return true, nil
				}
				return false, fmt.Errorf("%q", r.log.linesWith("configuration"))
			})
			second := s.addServer("credentials-between-" + name)
			tainted(t, second.name)
			initialised(t, second.name)

			s.must(s.ChangePassword(old.UserID, password))
			third := s.addServer("credentials-new-" + name)
			tainted(t, third.name)
			initialised(t, third.name)
			ccmtest.Eventually(t, "the log tells that it is in use",
				func(context.Context) (bool, error) {
					if lines := r.log.linesWith("Reloaded the configuration of OpenStack"); len(
						lines) > 0 {
						return true, nil
					}
					return false, fmt.Errorf("%q", r.log.linesWith("configuration"))
				})
			r.unbroken()

			// A file that cannot be read changes nothing.
			conf.write("[Global\n")
			ccmtest.Eventually(t, "the log tells of the broken file",
				func(context.Context) (bool, error) {
					if lines := r.log.linesWith("Reload of the configuration of OpenStack failed",
						"line 1"); len(lines) > 0 {
						return true, nil
					}
					return false, fmt.Errorf("%q", r.log.linesWith("configuration"))
				})
			s.RevokeTokens()
			fourth := s.addServer("credentials-kept-" + name)
			tainted(t, fourth.name)
			initialised(t, fourth.name)
			r.unbroken()
		})
	}
}

// confFile is a cloud.conf that is written again and again.
type confFile struct {
	path  string
	write func(content string)
}

func newPlainFile(t *testing.T) confFile {
	path := filepath.Join(t.TempDir(), "cloud.conf")
	return confFile{path, func(content string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}}
}

// newMountedSecret is as a kubelet mounts a Secret: the file is a link into a folder, which is a
// link that is replaced.
func newMountedSecret(t *testing.T) confFile {
	dir := t.TempDir()
	data, path, writes := filepath.Join(dir, "..data"), filepath.Join(dir, "cloud.conf"), 0
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Symlink(filepath.Join("..data", "cloud.conf"), path))
	return confFile{path, func(content string) {
		t.Helper()
		writes++
		version := fmt.Sprintf("..%d", writes)
		must(os.Mkdir(filepath.Join(dir, version), 0o700))
		must(os.WriteFile(filepath.Join(dir, version, "cloud.conf"), []byte(content), 0o600))
		must(os.Symlink(version, data+"_tmp"))
		must(os.Rename(data+"_tmp", data))
		must(os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..%d", writes-1))))
	}}
}

package openstack_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// logins is the number of issued tokens.
func (s *site) logins(m mark) int {
	return len(s.since(m, func(c openstacktest.Call) bool {
		return c.Operation == "token_create" && c.Status == http.StatusCreated
	}))
}

// unhurried prevents that a slow machine looks like a Keystone without an answer, because the clock
// runs so fast.
func unhurried(c *cloudconf.Config) { c.Metadata.RequestTimeout = time.Hour }

func TestKeystone_DownAtTheStart_IsReportedAndRetried(t *testing.T) {
	t.Parallel()
	const patience = time.Minute
	s := newSite(t)
	m := s.addServer("keystone")
	s.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceIdentity, Status: http.StatusServiceUnavailable,
	})
	r := ready(t, s, haste(60), configured(unhurried))
	began := r.clock.Now()
	tainted(t, m.name)
	s.waitCalls(0, 4, func(c openstacktest.Call) bool {
		return c.Service == openstacktest.ServiceIdentity
	}, "Keystone is asked")
	// Both the Manager's log and upstream's controller report the failure as a login.
	waittest.Until(t, "the log reports the login", func() error {
		if lines := r.log.linesWith("Login to OpenStack failed", "Keystone: ",
			s.Credentials().Username, "503"); len(lines) > 0 {
			return nil
		}
		return fmt.Errorf("%q", r.log.linesWith("ogin"))
	})
	waittest.Until(t, "a minute is over", func() error {
		if passed := r.clock.Since(began); passed < patience {
			return fmt.Errorf("%s of it are", passed)
		}
		return nil
	})
	if !isNew(getNode(t, m.name)) {
		t.Fatal("the node was initialized without a cloud")
	}
	r.unbroken()
	if asked := len(s.Calls()); asked > 60 {
		t.Errorf("the failing Keystone got %d requests in a minute", asked)
	}

	s.RemoveFaults()
	initialized(t, m.name)
	r.unbroken()
	if n := s.logins(0); n != 1 {
		t.Errorf("%d logins, want 1", n)
	}
}

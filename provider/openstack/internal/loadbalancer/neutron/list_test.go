package neutron

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestList_AllPagesAreRead_WithTheFilters(t *testing.T) {
	s := newSite(t, openstacktest.WithPageSize(3))
	foreign := s.AddProject(openstacktest.Project{Name: "other"})
	for range 10 {
		s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.external})
		s.AddFloatingIP(
			openstacktest.FloatingIP{NetworkID: s.external, ProjectID: foreign.ProjectID})
	}
	s.ForgetCalls()
	all, err := s.FloatingIPs(t.Context())
	s.must(err)
	if len(all) != 10 || !slices.IsSorted(ids(all)) {
		t.Errorf("found %d, want 10: %v", len(all), ids(all))
	}
	s.wantCalls(map[string]int{"floating_ip_list": 4})
	for _, c := range s.Calls() {
		if !strings.Contains(c.Query, "project_id="+s.Credentials().ProjectID) {
			t.Errorf("a page was requested without the project: %s", c.Query)
		}
	}
}

func TestList_MarkerDeletedMeanwhile_IsNotNotFound(t *testing.T) {
	s := newSite(t, openstacktest.WithPageSize(1))
	other := s.AddSubnet(openstacktest.Subnet{NetworkID: s.internal, CIDR: "10.9.0.0/24"})
	s.Inject(openstacktest.Fault{Operation: "subnet_list", Skip: 1, Status: http.StatusNotFound})
	subnets, err := s.Subnets(t.Context(), s.internal)
	if err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("subnets %v, error %v, want an error other than %q", subnets, err, ErrNotFound)
	}
	s.RemoveFaults()
	if _, err := s.Subnet(t.Context(), other); err != nil {
		t.Error(err)
	}
}

func TestClose_CallsInFlight_AreCanceled(t *testing.T) {
	s := newSite(t)
	s.Inject(openstacktest.Fault{Operation: "floating_ip_list", Hang: true})
	failed := make(chan error, 1)
	go func() {
		_, err := s.FloatingIPs(t.Context())
		failed <- err
	}()
	if _, err := s.WaitForCall(t.Context(),
		func(c openstacktest.Call) bool { return c.Operation == "floating_ip_list" }); err != nil {
		t.Fatal(err)
	}
	s.API.Close()
	if err := <-failed; err == nil {
		t.Error("a canceled list succeeded")
	}
	for name, ask := range map[string]func() error{
		"list": func() error { _, err := s.FloatingIPs(t.Context()); return err },
		"edit": func() error { return s.AddGroup(t.Context(), portSeen("p", 1), "g") },
	} {
		if err := ask(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: error %v, want %q", name, err, ErrClosed)
		}
	}
}

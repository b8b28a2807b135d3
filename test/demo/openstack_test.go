package main

import (
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newOpenStack(t *testing.T) *openStack {
	t.Helper()
	o, err := serveOpenStack()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.server.Close)
	return o
}

func TestCloudConf_IsReadableForTheProvider(t *testing.T) {
	o := newOpenStack(t)
	path := filepath.Join(t.TempDir(), "cloud.conf")
	if err := o.writeCloudConf(path); err != nil {
		t.Fatal(err)
	}
	loaded, err := cloudconf.Load(path, cloudconf.Options{Strict: true})
	if err != nil || len(loaded.Warnings) > 0 {
		t.Fatal(err, loaded.Warnings)
	}
	if got := loaded.Config; got.Route.RouterID != o.router ||
		got.Instances.AbsenceConfirmation != absenceConfirmation ||
		got.Instances.StatusMaxAge != statusMaxAge {
		t.Errorf("it says %+v and %+v", got.Route, got.Instances)
	}
	if got := loaded.Config.LoadBalancer.FloatingNetworkID; got != o.outside {
		t.Errorf("floating IPs are to be from network %s, want %s", got, o.outside)
	}
}

func TestMachines_AreSpreadOverZonesWithAnAddressEach(t *testing.T) {
	o := newOpenStack(t)
	seen := map[string]string{}
	for i, zone := range []string{"eu-a", "eu-b", "eu-c", "eu-a"} {
		o.addMachine(nodeName(i + 1))
		m, err := o.machine(nodeName(i + 1))
		if err != nil {
			t.Fatal(err)
		}
		if m.zone != zone || m.kind != machineType || m.region != region {
			t.Errorf("machine %d is %+v, want it in %s", i+1, m, zone)
		}
		if other, taken := seen[m.address]; m.address == "" || taken {
			t.Errorf("machine %d has the address %q, and so has %q", i+1, m.address, other)
		}
		seen[m.address] = nodeName(i + 1)
	}
	if _, err := o.machine("node-9"); err == nil {
		t.Error("an unknown machine is not an error")
	}
}

func TestMovedMachines_AreAnotherProjects(t *testing.T) {
	o := newOpenStack(t)
	o.addMachine("node-1")
	for _, project := range []string{o.elsewhere, o.server.Credentials().ProjectID} {
		if err := o.moveMachines(project); err != nil {
			t.Fatal(err)
		}
		if got := o.server.Servers()[0].ProjectID; got != project {
			t.Errorf("the machine is in the project %s, want %s", got, project)
		}
	}
}

func TestTally_CountsCallsSince(t *testing.T) {
	before := tally{"server_list": 2, "token_create": 1}
	after := tally{"server_list": 3, "token_create": 1, "port_list": 1, "server_get": 4}
	got := after.since(before)
	if want := "4 server_get, 1 port_list, 1 server_list"; got.String() != want {
		t.Errorf("it is %q, want %q", got, want)
	}
	if some := got.only("server_get", "server_list", "router_get"); some.total() != 5 ||
		some.String() != "4 server_get, 1 server_list" {
		t.Errorf("%d calls: %s", some.total(), some)
	}
}

func TestTurns_AreThoseOfReplicasAlone(t *testing.T) {
	o := newOpenStack(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, agent := range []string{
		"replica-a fxccm/1", "replica-a fxccm/1", "replica-b fxccm/1",
		"curl/8", "replica-b fxccm/1", "replica-a fxccm/1",
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, o.server.AuthURL(),
			nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("User-Agent", agent)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	got := o.turns([]*replica{{name: "replica-a"}, {name: "replica-b"}})
	if want := []string{"replica-a", "replica-b", "replica-a"}; !slices.Equal(got, want) {
		t.Errorf("the turns are %v, want %v", got, want)
	}
}

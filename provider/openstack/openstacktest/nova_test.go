package openstacktest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/attachinterfaces"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/availabilityzones"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/utils"
	"github.com/gophercloud/gophercloud/v2/pagination"
	clocktesting "k8s.io/utils/clock/testing"
)

// listNames are the names of the servers that a client is given.
func listNames(t *testing.T, client *gophercloud.ServiceClient, options servers.ListOpts) []string {
	t.Helper()
	pages, err := servers.List(client, options).AllPages(patiently(t))
	if err != nil {
		t.Fatalf("list servers: %v", err)
	}
	all, err := servers.ExtractServers(pages)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names
}

// mustGet is the server as a client sees it.
func mustGet(t *testing.T, client *gophercloud.ServiceClient, id string) *servers.Server {
	t.Helper()
	got, err := servers.Get(patiently(t), client, id).Extract()
	if err != nil {
		t.Fatalf("get server %s: %v", id, err)
	}
	return got
}

func TestServer_ShowsWhatItWasGiven(t *testing.T) {
	s := start(t)
	id := s.AddServer(Server{
		Name: "node-1", AvailabilityZone: "az-1", Metadata: map[string]string{"hostname": "h"},
		Tags:       []string{"blue"},
		AccessIPv4: "192.0.2.9", AccessIPv6: "2001:db8::9",
		Addresses: []Address{
			{Network: "private", Address: "10.0.0.5", MAC: "fa:16:3e:00:00:01"},
			{Network: "private", Address: "203.0.113.5", MAC: "fa:16:3e:00:00:01", Floating: true},
			{Network: "private", Address: "2001:db8::5", MAC: "fa:16:3e:00:00:01"},
		},
	})
	client := computeOf(t, s)
	client.Microversion = "2.79"
	got := mustGet(t, client, id)
	if got.Name != "node-1" || got.Status != "ACTIVE" || got.AvailabilityZone != "az-1" ||
		got.Metadata["hostname"] != "h" ||
		got.AccessIPv4 != "192.0.2.9" || got.AccessIPv6 != "2001:db8::9" ||
		got.TenantID != s.Credentials().ProjectID ||
		!slices.Equal(*got.Tags, []string{"blue"}) || got.VmState != "active" ||
		got.PowerState != servers.RUNNING || got.TaskState != "" {
		t.Errorf("the server is %+v", got)
	}
	want := "[map[OS-EXT-IPS-MAC:mac_addr:fa:16:3e:00:00:01 OS-EXT-IPS:type:fixed addr:10.0.0.5 version:4] " +
		"map[OS-EXT-IPS-MAC:mac_addr:fa:16:3e:00:00:01 OS-EXT-IPS:type:fixed addr:2001:db8::5 version:6] " +
		"map[OS-EXT-IPS-MAC:mac_addr:fa:16:3e:00:00:01 OS-EXT-IPS:type:floating addr:203.0.113.5 version:4]]"
	if addresses := fmt.Sprint(got.Addresses["private"]); addresses != want {
		t.Errorf("its addresses are\n%s, want\n%s", addresses, want)
	}
}

func TestServer_Missing_IsNovas404(t *testing.T) {
	s := start(t)
	for _, id := range []string{"0a0a0a0a-0000-4000-8000-000000000001", "no-uuid"} {
		ask(t, s, "GET", computePath+"/servers/"+id, "").
			is(404,
				`{"itemNotFound": {"code": 404, "message": "Instance `+id+` could not be found."}}`)
	}
	if s.DeleteServer("x") == nil || s.SetServerStatus("x", "ERROR") == nil {
		t.Error("a server that is not there was changed")
	}
}

func TestServerList_Filters(t *testing.T) {
	s := start(t)
	address := func(a string) []Address { return []Address{{Network: "n", Address: a}} }
	s.AddServer(Server{Name: "node-1", Addresses: address("10.0.0.1")})
	s.AddServer(Server{Name: "node-10", Status: "SHUTOFF", Addresses: address("10.0.0.10")})
	s.AddServer(Server{
		Name: "NODE-1", Status: "ERROR", AvailabilityZone: "az-2",
		Addresses: address("2001:db8::1"),
	})
	third := s.AddServer(Server{Name: "a.b", Tags: []string{"blue"}})
	s.AddServer(Server{Name: "axb", Tags: []string{"blue", "green"}})
	s.AddServer(Server{Name: "theirs", ProjectID: s.AddProject(Project{Name: "other"}).ProjectID})
	client := computeOf(t, s)
	client.Microversion = "2.60"
	for _, test := range []struct {
		query string
		want  string
	}{
		{"", "axb a.b NODE-1 node-10 node-1"},
		{"name=node-1", "NODE-1 node-10 node-1"},
		{"name=^node-1$", "NODE-1 node-1"},
		{"name=a.b", "axb a.b"},
		{`name=^a\.b$`, "a.b"},
		{"name=none", ""},
		{"status=SHUTOFF", "node-10"},
		{"status=error", "NODE-1"},
		{"status=ERROR&status=SHUTOFF", "NODE-1 node-10"},
		{"status=NONSENSE&status=ERROR", "NODE-1"},
		{"name=none&name=a.b", "axb a.b"},
		{"ip=10.0.0.1", "node-10 node-1"},
		{"ip6=2001", "NODE-1"},
		{"availability_zone=az-2", "axb a.b NODE-1 node-10 node-1"},
		{"uuid=" + third, "axb a.b NODE-1 node-10 node-1"},
		{"vm_state=stopped", "axb a.b NODE-1 node-10 node-1"},
		{"flavor=1&name=node", "NODE-1 node-10 node-1"},
		{"flavor=2", ""},
		{"tags=blue", "axb a.b"},
		{"tags=blue,green", "axb"},
		{"tags-any=blue,green", "axb a.b"},
		{"not-tags=blue", "NODE-1 node-10 node-1"},
		{"not-tags=blue,green", "a.b NODE-1 node-10 node-1"},
		{"not-tags-any=blue,green", "NODE-1 node-10 node-1"},
		{"changes-since=2000-01-01T00:00:00Z", "axb a.b NODE-1 node-10 node-1"},
		{"changes-since=2100-01-01T00:00:00Z", ""},
		{"nonsense=1", "axb a.b NODE-1 node-10 node-1"},
	} {
		query, err := url.ParseQuery(test.query)
		if err != nil {
			t.Fatal(err)
		}
		var body struct{ Servers []struct{ Name string } }
		got := ask(t, s, "GET", computePath+"/servers/detail?"+query.Encode(), "",
			"OpenStack-API-Version", "compute 2.60")
		got.into(&body)
		names := []string{}
		for _, s := range body.Servers {
			names = append(names, s.Name)
		}
		if strings.Join(names, " ") != test.want || got.status != http.StatusOK {
			t.Errorf("%s: %d %q, want %q", test.query, got.status, names, test.want)
		}
	}
}

func TestServerList_BadQueries_AreRefused(t *testing.T) {
	s := start(t)
	for query, version := range map[string]string{
		"name=*": "2.1", "name=": "2.1", "ip=(": "2.1", "limit=-1": "2.1", "limit=x": "2.1",
		"limit=": "2.1", "marker=none": "2.1",
		"changes-since=x": "2.1", "changes-before=x": "2.66", "nonsense=1": "2.75",
		"status=NONSENSE": "2.38",
	} {
		got := ask(t, s, "GET", computePath+"/servers/detail?"+url.PathEscape(query), "",
			"OpenStack-API-Version", "compute "+version)
		var body struct{ BadRequest struct{ Message string } }
		got.into(&body)
		if got.status != http.StatusBadRequest || body.BadRequest.Message == "" {
			t.Errorf("%s at %s: %d %s", query, version, got.status, got.body)
		}
	}
	if got := ask(t, s, "GET", computePath+"/servers?status=deleted",
		""); got.status != http.StatusForbidden {
		t.Errorf("deleted ones: %d %s", got.status, got.body)
	}
	s.AddServer(Server{Name: "n"})
	ask(t, s, "GET", computePath+"/servers?limit=0", "").is(http.StatusOK, `{"servers": []}`)
}

func TestServerList_FiltersOfAdministratorsAndOfNewerVersions(t *testing.T) {
	s := start(t)
	admin := s.AddProject(Project{Name: "operators", Admin: true})
	first := s.AddServer(
		Server{Name: "first", AvailabilityZone: "az-1", ProjectID: admin.ProjectID})
	s.AddServer(Server{Name: "second", ProjectID: admin.ProjectID, Locked: true})
	for _, test := range []struct{ token, version, query, want string }{
		{"admin", "2.1", "uuid=" + first, "first"},
		{"admin", "2.1", "availability_zone=az-1", "first"},
		{"member", "2.83", "availability_zone=az-1", "mine"},
		{"member", "2.82", "availability_zone=az-1", "yours mine"},
		{"member", "2.73", "locked=true", "yours"},
		{"member", "2.72", "locked=true", "yours mine"},
	} {
		token := admin.Token
		if test.token == "member" {
			token = s.Credentials().Token
		}
		if len(s.Servers()) == 2 && test.token == "member" {
			s.AddServer(Server{Name: "mine", AvailabilityZone: "az-1"})
			s.AddServer(Server{Name: "yours", Locked: true})
		}
		var body struct{ Servers []struct{ Name string } }
		send(t, s, "GET", computePath+"/servers?"+test.query, "", "X-Auth-Token", token,
			"OpenStack-API-Version", "compute "+test.version).into(&body)
		var names []string
		for _, server := range body.Servers {
			names = append(names, server.Name)
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("%s at %s, %s: %q, want %q", test.token, test.version, test.query, got,
				test.want)
		}
	}
}

func TestDeletedServers_AreShownToThoseWhoAskForChanges(t *testing.T) {
	s := start(t)
	admin := s.AddProject(Project{Name: "operators", Admin: true})
	s.AddServer(Server{Name: "old"})
	id := s.AddServer(Server{Name: "gone"})
	s.AddServer(Server{Name: "new"})
	if err := s.DeleteServer(id); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ query, want string }{
		{"", "new ACTIVE, old ACTIVE"},
		{"?changes-since=2000-01-01T00:00:00Z", "new ACTIVE, gone DELETED, old ACTIVE"},
		{"?marker=" + id, "old ACTIVE"},
		{"?deleted=true", "new ACTIVE, old ACTIVE"},
	} {
		var body struct {
			Servers []struct{ Name, Status string }
		}
		ask(t, s, "GET", computePath+"/servers/detail"+test.query, "").into(&body)
		var got []string
		for _, server := range body.Servers {
			got = append(got, server.Name+" "+server.Status)
		}
		if strings.Join(got, ", ") != test.want {
			t.Errorf("%s: %q, want %q", test.query, got, test.want)
		}
	}
	got := send(t, s, "GET", computePath+"/servers?all_tenants=1&status=DELETED", "",
		"X-Auth-Token", admin.Token)
	if got.status != http.StatusOK || !strings.Contains(string(got.body), id) {
		t.Errorf("an administrator: %d %s", got.status, got.body)
	}
	if got := ask(t, s, "GET", computePath+"/servers/"+id, ""); got.status != http.StatusNotFound {
		t.Errorf("the server itself: %d %s", got.status, got.body)
	}
}

func TestServerList_Pages(t *testing.T) {
	s := start(t, WithPageSize(3))
	want := []string{}
	for i := range 7 {
		name := fmt.Sprintf("n%d", i)
		s.AddServer(Server{Name: name})
		want = append([]string{name}, want...)
	}
	client := computeOf(t, s)
	for _, test := range []struct{ limit, items, requests int }{
		{0, 3, 3}, {2, 2, 4}, {3, 3, 3}, {100, 3, 3}, {1, 1, 8},
	} {
		s.ForgetCalls()
		var sizes []int
		var names []string
		err := servers.List(client,
			servers.ListOpts{Limit: test.limit, Name: "n"}).EachPage(patiently(t),
			func(_ context.Context, page pagination.Page) (bool, error) {
				all, err := servers.ExtractServers(page)
				sizes = append(sizes, len(all))
				for _, s := range all {
					names = append(names, s.Name)
				}
				return true, err
			})
		if err != nil || !slices.Equal(names, want) || sizes[0] != test.items ||
			s.Counts()["server_list"] != test.requests {
			t.Errorf("limit %d: %v in pages of %v by %d requests, %v", test.limit, names, sizes,
				s.Counts()["server_list"], err)
		}
		for _, call := range s.Calls() {
			if !strings.Contains(call.Query, "name=n") {
				t.Errorf("a link to the next page forgets the filter: %s", call.Query)
			}
		}
	}
}

func TestServerList_MarkerThatIsFilteredOut_IsAPlaceAllTheSame(t *testing.T) {
	s := start(t)
	for _, name := range []string{"a", "b", "c"} {
		s.AddServer(Server{ID: "id-" + name, Name: name})
	}
	if err := s.SetServerStatus("id-b", "ERROR"); err != nil {
		t.Fatal(err)
	}
	s.AddServer(Server{ID: "theirs", ProjectID: "other"})
	got := ask(t, s, "GET", computePath+"/servers?status=ACTIVE&marker=id-b", "")
	if got.status != 200 || !strings.Contains(string(got.body), "id-a") ||
		strings.Contains(string(got.body), "id-c") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := ask(t, s, "GET", computePath+"/servers?marker=theirs",
		""); got.status != http.StatusBadRequest {
		t.Errorf("another project's server as the marker: %d %s", got.status, got.body)
	}
}

func TestServerList_PageSizeZero_IsAll(t *testing.T) {
	s := start(t, WithPageSize(0))
	for range 1200 {
		s.AddServer(Server{Name: "n"})
	}
	got := ask(t, s, "GET", computePath+"/servers", "")
	var body struct {
		Servers []any
		Links   []any `json:"servers_links"`
	}
	got.into(&body)
	if len(body.Servers) != 1200 || body.Links != nil {
		t.Errorf("%d servers and the links %v", len(body.Servers), body.Links)
	}
}

func TestServerStates_ShowWhatGoesWithThem(t *testing.T) {
	s := start(t)
	id := s.AddServer(Server{Name: "n"})
	client := computeOf(t, s)
	for status, want := range map[string]string{
		"ACTIVE": "active//1", "SHUTOFF": "stopped//4", "PAUSED": "paused//3",
		"SUSPENDED": "suspended//4", "SHELVED": "shelved//4",
		"SHELVED_OFFLOADED": "shelved_offloaded//4", "SOFT_DELETED": "soft-delete//4",
		"ERROR": "error//1", "DELETED": "deleted//0",
		"BUILD": "building/spawning/0", "REBOOT": "active/rebooting/1",
		"HARD_REBOOT": "active/rebooting_hard/1",
		"RESIZE":      "active/resize_migrating/4", "VERIFY_RESIZE": "resized//1",
		"REVERT_RESIZE": "resized/resize_reverting/4",
		"MIGRATING":     "active/migrating/1", "PASSWORD": "active/updating_password/1",
		"REBUILD": "active/rebuilding/4",
		"RESCUE":  "rescued//1", "UNKNOWN": "active//1",
	} {
		if err := s.SetServerStatus(id, status); err != nil {
			t.Fatal(err)
		}
		got := mustGet(t, client, id)
		if state := fmt.Sprintf("%s/%s/%d", got.VmState, got.TaskState,
			got.PowerState); got.Status != status || state != want {
			t.Errorf("%s is shown as %s %s, want %s", status, got.Status, state, want)
		}
	}
}

func TestServer_PowerStateOfItsOwn(t *testing.T) {
	s := start(t)
	id := s.AddServer(Server{Name: "n", Status: "ERROR", PowerState: 4})
	client := computeOf(t, s)
	got := mustGet(t, client, id)
	if got.PowerState != servers.SHUTDOWN || got.Fault.Message == "" {
		t.Errorf("the server is %+v", got)
	}
	if err := s.SetServerStatus(id, "ACTIVE"); err != nil {
		t.Fatal(err)
	}
	if got := mustGet(t, client, id); got.PowerState != servers.RUNNING {
		t.Errorf("after its status was set its power state is %v", got.PowerState)
	}
}

func TestUpdateServer_ChangesWhatClientsSee(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	s := start(t, WithClock(clock))
	s.AddFlavor(Flavor{Name: "big", VCPUs: 8})
	id := s.AddServer(Server{Name: "n"})
	clock.SetTime(clock.Now().Add(time.Minute))
	err := s.UpdateServer(id, func(i *Server) {
		i.ID, i.Name, i.Flavor, i.AvailabilityZone = "ignored", "renamed", "big", ""
		i.Addresses = append(i.Addresses, Address{Network: "late", Address: "10.0.0.1"})
	})
	if err != nil {
		t.Fatal(err)
	}
	client := computeOf(t, s)
	client.Microversion = "2.47"
	got := mustGet(t, client, id)
	if got.Name != "renamed" || got.Flavor["original_name"] != "big" ||
		got.AvailabilityZone != "" || got.Addresses["late"] == nil ||
		got.Updated.Sub(got.Created) != time.Minute {
		t.Errorf("the server is %+v", got)
	}
	name, address := "again", "192.0.2.7"
	if _, err := servers.Update(patiently(t), client, id,
		servers.UpdateOpts{Name: name, AccessIPv4: address}).Extract(); err != nil {
		t.Fatal(err)
	}
	if got := s.Servers()[0]; got.Name != name || got.AccessIPv4 != address {
		t.Errorf("after a client's change it is %+v", got)
	}
}

func TestSnapshots_AreCopies(t *testing.T) {
	s := start(t)
	given := Server{Name: "n", Metadata: map[string]string{"k": "v"}}
	s.AddServer(given)
	given.Metadata["k"] = "changed"
	s.Servers()[0].Metadata["k"] = "changed"
	if got := s.Servers()[0].Metadata["k"]; got != "v" {
		t.Errorf("the cloud's server was changed from outside: %s", got)
	}
}

func TestFlavor_EmbeddedSince247_WhateverBecameOfIt(t *testing.T) {
	s := start(t)
	id := s.AddFlavor(Flavor{
		Name: "c1.large", VCPUs: 4, RAM: 8192, Disk: 40,
		ExtraSpecs: map[string]string{"hw:cpu_policy": "dedicated"},
	})
	secret := s.AddFlavor(Flavor{Name: "c1.secret", Private: true})
	server := s.AddServer(Server{Name: "a", Flavor: "c1.large"})
	hidden := s.AddServer(Server{Name: "b", Flavor: secret})
	old, modern := computeOf(t, s), computeOf(t, s)
	modern.Microversion = "2.47"

	if got := mustGet(t, old, server); got.Flavor["id"] != id ||
		got.Flavor["original_name"] != nil {
		t.Errorf("before 2.47 the flavor is %v", got.Flavor)
	}
	if got, err := flavors.Get(patiently(t), old, id).Extract(); err != nil ||
		got.Name != "c1.large" || got.VCPUs != 4 || got.RAM != 8192 || got.Disk != 40 {
		t.Errorf("the flavor is %+v, %v", got, err)
	}
	if err := s.DeleteFlavor("c1.large"); err != nil {
		t.Fatal(err)
	}
	if s.DeleteFlavor(id) == nil {
		t.Error("it was deleted twice")
	}
	for _, gone := range []string{id, secret} {
		ask(t, s, "GET", computePath+"/flavors/"+gone, "").
			is(404,
				`{"itemNotFound": {"code": 404, "message": "Flavor `+gone+` could not be found."}}`)
	}
	if got := mustGet(t, modern, server); got.Flavor["original_name"] != "c1.large" ||
		got.Flavor["vcpus"] != 4.0 || got.Flavor["id"] != nil {
		t.Errorf("since 2.47 the flavor is %v", got.Flavor)
	}
	if got := mustGet(t, modern, hidden); got.Flavor["original_name"] != "c1.secret" {
		t.Errorf("the private flavor is %v", got.Flavor)
	}
	pages, err := flavors.ListDetail(old, nil).AllPages(patiently(t))
	if err != nil {
		t.Fatal(err)
	}
	all, err := flavors.ExtractFlavors(pages)
	if err != nil || len(all) != 1 || all[0].Name != DefaultFlavor {
		t.Errorf("the flavors are %+v, %v", all, err)
	}
	admin := s.AddProject(Project{Name: "operators", Admin: true})
	if got := send(t, s, "GET", computePath+"/flavors/"+secret, "", "X-Auth-Token",
		admin.Token); got.status != http.StatusOK {
		t.Errorf("an administrator gets %d %s", got.status, got.body)
	}
}

func TestMicroversion_DecidesWhatIsShown(t *testing.T) {
	s := start(t)
	id := s.AddServer(Server{Name: "n", Metadata: map[string]string{"k": "v"}})
	since := map[string]int{
		"locked": 9, "description": 19, "tags": 26,
		"trusted_image_certificates": 63, "server_groups": 71, "locked_reason": 73,
	}
	for _, minor := range []int{1, 9, 19, 26, 63, 71, 73, 96} {
		var body struct{ Server map[string]any }
		ask(t, s, "GET", computePath+"/servers/"+id, "", "OpenStack-API-Version",
			fmt.Sprintf("compute 2.%d", minor)).into(&body)
		for field, first := range since {
			if _, shown := body.Server[field]; shown != (minor >= first) {
				t.Errorf("at 2.%d %s is shown: %t", minor, field, shown)
			}
		}
	}
	var body struct{ Flavor map[string]any }
	ask(t, s, "GET", computePath+"/flavors/1", "", "OpenStack-API-Version",
		"compute 2.75").into(&body)
	if body.Flavor["extra_specs"] == nil || body.Flavor["swap"] != 0.0 {
		t.Errorf("the flavor is %v", body.Flavor)
	}
	ask(t, s, "GET", computePath+"/servers/"+id+"/metadata", "").is(200, `{"metadata": {"k": "v"}}`)
}

func TestFlavorList_Pages(t *testing.T) {
	s := start(t, WithPageSize(1))
	s.AddFlavor(Flavor{ID: "2", Name: "other"})
	pages, err := flavors.ListDetail(computeOf(t, s), nil).AllPages(patiently(t))
	if err != nil {
		t.Fatal(err)
	}
	if all, err := flavors.ExtractFlavors(pages); err != nil || len(all) != 2 {
		t.Errorf("the flavors are %+v, %v", all, err)
	}
}

func TestMicroversion_Negotiation(t *testing.T) {
	s := start(t, WithComputeMicroversion(60))
	for _, test := range []struct {
		name    string
		header  []string
		status  int
		version string
	}{
		{"none", nil, 200, "2.1"},
		{"the modern header", []string{"OpenStack-API-Version", "compute 2.47"}, 200, "2.47"},
		{"several services", []string{"OpenStack-API-Version", "volume 3.50, compute 2.30"}, 200, "2.30"},
		{"another service only", []string{"OpenStack-API-Version", "volume 3.50"}, 200, "2.1"},
		{"Nova's own header", []string{"X-OpenStack-Nova-API-Version", "2.10"}, 200, "2.10"},
		{"both", []string{"X-OpenStack-Nova-API-Version", "2.10", "OpenStack-API-Version", "compute 2.60"}, 200, "2.60"},
		{"latest", []string{"OpenStack-API-Version", "compute latest"}, 200, "2.60"},
		{"too high", []string{"OpenStack-API-Version", "compute 2.61"}, 406, "2.61"},
		{"too low", []string{"OpenStack-API-Version", "compute 2.0"}, 406, "2.0"},
		{"another major", []string{"OpenStack-API-Version", "compute 3.1"}, 406, "3.1"},
		{"malformed", []string{"OpenStack-API-Version", "compute two"}, 400, ""},
	} {
		got := ask(t, s, "GET", computePath+"/servers", "", test.header...)
		want := ""
		if test.version != "" {
			want = "compute " + test.version
		}
		if got.status != test.status || got.header.Get("OpenStack-API-Version") != want ||
			got.header.Get("X-OpenStack-Nova-API-Version") != test.version {
			t.Errorf("%s: %d, %v; want %d, %s", test.name, got.status, got.header, test.status,
				test.version)
		}
	}
	ask(t, s, "GET", computePath+"/servers", "", "OpenStack-API-Version", "compute 2.99").
		is(406,
			`{"computeFault": {"code": 406, "message": "Version 2.99 is not supported by the API. Minimum is 2.1 and maximum is 2.60."}}`)
	if last := s.Calls()[len(s.Calls())-1]; last.Microversion != "2.99" {
		t.Errorf("the call is %+v", last)
	}
}

func TestMicroversion_Discovery(t *testing.T) {
	s := start(t, WithComputeMicroversion(60))
	got, err := utils.GetSupportedMicroversions(patiently(t), computeOf(t, s))
	if err != nil || got.MaxMinor != 60 || got.MinMinor != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, path := range []string{"/compute", "/compute/", "/compute/v2.1", "/compute/v2.1/"} {
		if got := send(t, s, "GET", path, ""); got.status != http.StatusOK ||
			!strings.Contains(string(got.body), `"2.60"`) {
			t.Errorf("%s answers %d %s", path, got.status, got.body)
		}
	}
}

func TestZones_AreThoseOfServersAndMore(t *testing.T) {
	s := start(t)
	s.AddServer(Server{Name: "n", AvailabilityZone: "az-1"})
	s.AddZone("az-0")
	pages, err := availabilityzones.List(computeOf(t, s)).AllPages(patiently(t))
	if err != nil {
		t.Fatal(err)
	}
	zones, err := availabilityzones.ExtractAvailabilityZones(pages)
	names := []string{}
	for _, zone := range zones {
		names = append(names, zone.ZoneName)
	}
	if err != nil || !slices.Equal(names, []string{"az-0", "az-1", DefaultZone}) {
		t.Errorf("the zones are %v, %v", names, err)
	}
}

func TestActions_LeadFromStatusToStatus(t *testing.T) {
	s := start(t)
	id := s.AddServer(Server{Name: "n"})
	for _, step := range []struct {
		action string
		status int
		want   string
	}{
		{"os-start", 409, "ACTIVE"},
		{"os-stop", 202, "SHUTOFF"},
		{"os-stop", 409, "SHUTOFF"},
		{"os-start", 202, "ACTIVE"},
		{"pause", 202, "PAUSED"},
		{"unpause", 202, "ACTIVE"},
		{"suspend", 202, "SUSPENDED"},
		{"resume", 202, "ACTIVE"},
		{"shelve", 202, "SHELVED_OFFLOADED"},
		{"shelveOffload", 403, "SHELVED_OFFLOADED"},
		{"unshelve", 202, "ACTIVE"},
		{"rescue", 200, "RESCUE"},
		{"unrescue", 202, "ACTIVE"},
		{"reboot", 400, "ACTIVE"},
		{"os-resetState", 403, "ACTIVE"},
		{"lock", 202, "ACTIVE"},
		{"os-stop", 409, "ACTIVE"},
		{"unlock", 202, "ACTIVE"},
		{"nonsense", 400, "ACTIVE"},
	} {
		got := ask(t, s, "POST", computePath+"/servers/"+id+"/action", `{"`+step.action+`": null}`)
		if got.status != step.status || s.Servers()[0].Status != step.want {
			t.Errorf("%s: %d %s, and the server is %s", step.action, got.status, got.body,
				s.Servers()[0].Status)
		}
	}
	ask(t, s, "POST", computePath+"/servers/"+id+"/action", `{"os-start": null}`).
		is(409,
			`{"conflictingRequest": {"code": 409, "message": "Cannot 'start' instance `+id+
				` while it is in vm_state active"}}`)
	if got := ask(t, s, "POST", computePath+"/servers/"+id+"/action",
		`{"reboot": {"type": "HARD"}}`); got.status != 202 {
		t.Errorf("reboot: %d, %s", got.status, got.body)
	}
	if got := ask(t, s, "POST", computePath+"/servers/"+id+"/action",
		`{"forceDelete": null}`); got.status != 202 || len(s.Servers()) != 0 {
		t.Errorf("forceDelete: %d, %v", got.status, s.Servers())
	}
}

func TestResetState_ByAnAdministrator_LeavesThePowerState(t *testing.T) {
	s := start(t)
	admin := s.AddProject(Project{Name: "operators", Admin: true})
	id := s.AddServer(Server{Name: "n", Status: "SHUTOFF"})
	reset := func(state string) exchange {
		return send(t, s, "POST", computePath+"/servers/"+id+"/action",
			`{"os-resetState": {"state": "`+state+`"}}`, "X-Auth-Token", admin.Token)
	}
	if got := reset("error"); got.status != http.StatusAccepted {
		t.Fatalf("%d %s", got.status, got.body)
	}
	got := mustGet(t, computeOf(t, s), id)
	if got.Status != "ERROR" || got.PowerState != servers.SHUTDOWN || got.Fault.Message != "" {
		t.Errorf("the server is %+v", got)
	}
	if got := reset("shutoff"); got.status != http.StatusBadRequest {
		t.Errorf("an unknown state: %d %s", got.status, got.body)
	}
}

func TestShelvedServer_HasNeitherHostNorZone(t *testing.T) {
	s := start(t)
	id := s.AddServer(Server{Name: "n", AvailabilityZone: "az-1"})
	ask(t, s, "POST", computePath+"/servers/"+id+"/action", `{"shelve": null}`)
	client := computeOf(t, s)
	if got := mustGet(t, client, id); got.Status != "SHELVED_OFFLOADED" ||
		got.AvailabilityZone != "" || got.HostID != "" {
		t.Errorf("shelved it is %+v", got)
	}
	ask(t, s, "POST", computePath+"/servers/"+id+"/action", `{"unshelve": null}`)
	if got := mustGet(t, client, id); got.AvailabilityZone != "az-1" || got.HostID == "" {
		t.Errorf("unshelved it is %+v", got)
	}
}

func TestInterfaces_AreAttachedAndDetached(t *testing.T) {
	s := start(t)
	network := s.AddNetwork(Network{Name: "private"})
	s.AddSubnet(Subnet{NetworkID: network, CIDR: "10.0.0.0/24"})
	// Its id is the first of all, its place in the server the last.
	lent := s.AddPort(Port{
		ID: "00000000-0000-4000-8000-000000000000", NetworkID: network,
		FixedIPs: []FixedIP{{Address: "10.0.0.9"}},
	})
	made := ask(t, s, "POST", computePath+"/servers",
		`{"server": {"name": "n", "flavorRef": "1", "networks": [{"uuid": "`+network+
			`", "fixed_ip": "10.0.0.5"}]}}`).made("server")
	path := computePath + "/servers/" + made["id"].(string)
	ask(t, s, "POST", path+"/os-interface",
		`{"interfaceAttachment": {"net_id": "`+network+
			`", "fixed_ips": [{"ip_address": "10.0.0.7"}]}}`).made("interfaceAttachment")
	ask(t, s, "POST", path+"/os-interface",
		`{"interfaceAttachment": {"port_id": "`+lent+`"}}`).made("interfaceAttachment")
	if got := ask(t, s, "POST", path+"/os-interface",
		`{"interfaceAttachment": {"port_id": "`+lent+`"}}`); got.status != http.StatusConflict {
		t.Errorf("a port in use: %d %s", got.status, got.body)
	}
	ask(t, s, "GET", path+"/ips", "").
		is(200,
			`{"addresses": {"private": [{"addr": "10.0.0.5", "version": 4}, {"addr": "10.0.0.7", "version": 4}, {"addr": "10.0.0.9", "version": 4}]}}`)
	if got := ask(t, s, "GET", path+"/os-interface/"+lent,
		"").made("interfaceAttachment"); got["port_id"] != lent {
		t.Errorf("the interface is %v", got)
	}
	for _, port := range s.Ports() {
		if got := ask(t, s, "DELETE", path+"/os-interface/"+port.ID,
			""); got.status != http.StatusAccepted {
			t.Errorf("detach %+v: %d %s", port, got.status, got.body)
		}
	}
	if ports := s.Ports(); len(ports) != 1 || ports[0].ID != lent || ports[0].DeviceID != "" {
		t.Errorf("the ports left are %+v", ports)
	}
}

func TestFlavors_AreAnAdministrators(t *testing.T) {
	s := start(t)
	admin := s.AddProject(Project{Name: "operators", Admin: true})
	const flavor = `{"flavor": {"name": "late", "vcpus": 2, "ram": 512, "disk": 1}}`
	if got := ask(t, s, "POST", computePath+"/flavors",
		flavor); got.status != http.StatusForbidden {
		t.Errorf("a member: %d %s", got.status, got.body)
	}
	made := send(t, s, "POST", computePath+"/flavors", flavor, "X-Auth-Token",
		admin.Token).made("flavor")
	if got := send(t, s, "POST", computePath+"/flavors", flavor, "X-Auth-Token",
		admin.Token); got.status != http.StatusConflict {
		t.Errorf("the same name again: %d %s", got.status, got.body)
	}
	path := computePath + "/flavors/" + made["id"].(string)
	for _, want := range []int{http.StatusAccepted, http.StatusNotFound} {
		if got := send(t, s, "DELETE", path, "", "X-Auth-Token", admin.Token); got.status != want {
			t.Errorf("delete: %d %s, want %d", got.status, got.body, want)
		}
	}
}

func TestProvisioning_BuildsUntilTheClockSays(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	s := start(t, WithClock(clock), WithProvisioning(time.Minute))
	network := s.AddNetwork(Network{Name: "private"})
	s.AddSubnet(Subnet{NetworkID: network, CIDR: "10.0.0.0/24"})
	client := computeOf(t, s)
	made, err := servers.Create(patiently(t), client,
		servers.CreateOpts{Name: "n", FlavorRef: "1", Networks: []servers.Network{{UUID: network}}},
		nil).Extract()
	if err != nil {
		t.Fatal(err)
	}
	if got := mustGet(t, client, made.ID); got.Status != "BUILD" || len(got.Addresses) != 0 {
		t.Errorf("at first it is %s with %v", got.Status, got.Addresses)
	}
	clock.SetTime(clock.Now().Add(time.Minute - 1))
	if got := mustGet(t, client, made.ID); got.Status != "BUILD" {
		t.Errorf("a moment too early it is %s", got.Status)
	}
	clock.SetTime(clock.Now().Add(1))
	if got := mustGet(t, client, made.ID); got.Status != "ACTIVE" ||
		len(got.Addresses["private"].([]any)) != 1 {
		t.Errorf("in the end it is %s with %v", got.Status, got.Addresses)
	}
}

func TestCreateServer_TakesAndGivesBackPorts(t *testing.T) {
	s := start(t)
	s.AddZone("az-1")
	network := s.AddNetwork(Network{Name: "private"})
	s.AddSubnet(Subnet{NetworkID: network, CIDR: "10.0.0.0/24"})
	lent := s.AddPort(Port{NetworkID: network})
	client := computeOf(t, s)
	made, err := servers.Create(patiently(t), client, servers.CreateOpts{
		Name: "n", FlavorRef: "1", AvailabilityZone: "az-1",
		Networks: []servers.Network{{UUID: network, FixedIP: "10.0.0.77"}, {Port: lent}},
	}, nil).Extract()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := attachinterfaces.List(client, made.ID).AllPages(patiently(t))
	if err != nil {
		t.Fatal(err)
	}
	attached, err := attachinterfaces.ExtractInterfaces(pages)
	if err != nil || len(attached) != 2 {
		t.Fatalf("the interfaces are %+v, %v", attached, err)
	}
	for _, port := range s.Ports() {
		if port.DeviceID != made.ID || port.DeviceOwner != "compute:az-1" {
			t.Errorf("the port is %+v", port)
		}
	}
	if !strings.Contains(fmt.Sprint(mustGet(t, client, made.ID).Addresses), "addr:10.0.0.77") {
		t.Errorf("the addresses are %v", mustGet(t, client, made.ID).Addresses)
	}
	if err := servers.Delete(patiently(t), client, made.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	if ports := s.Ports(); len(ports) != 1 || ports[0].ID != lent || ports[0].DeviceID != "" {
		t.Errorf("after the server's end the ports are %+v", ports)
	}
}

func TestCreateServer_Refused_LeavesNothing(t *testing.T) {
	s := start(t)
	network := s.AddNetwork(Network{Name: "private"})
	s.AddSubnet(Subnet{NetworkID: network, CIDR: "10.0.0.0/24"})
	used := s.AddPort(Port{NetworkID: network, DeviceID: "something"})
	for name, test := range map[string]struct {
		body   string
		status int
	}{
		"no name":            {`{"flavorRef": "1"}`, 400},
		"no flavor":          {`{"name": "n"}`, 400},
		"an unknown zone":    {`{"name": "n", "flavorRef": "1", "availability_zone": "none"}`, 400},
		"tags too early":     {`{"name": "n", "flavorRef": "1", "tags": ["t"]}`, 400},
		"no address":         {`{"name": "n", "flavorRef": "1", "accessIPv4": "x"}`, 400},
		"an unknown flavor":  {`{"name": "n", "flavorRef": "77"}`, 400},
		"an unknown network": {`{"name": "n", "flavorRef": "1", "networks": [{"uuid": "none"}]}`, 400},
		"an unknown port":    {`{"name": "n", "flavorRef": "1", "networks": [{"uuid": "` + network + `"}, {"port": "none"}]}`, 400},
		"a port in use":      {`{"name": "n", "flavorRef": "1", "networks": [{"port": "` + used + `"}]}`, 409},
	} {
		if got := ask(t, s, "POST", computePath+"/servers",
			`{"server": `+test.body+`}`); got.status != test.status {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		if len(s.Servers()) != 0 || len(s.Ports()) != 1 {
			t.Errorf("%s: it left %v, %v", name, s.Servers(), s.Ports())
		}
	}
	s.AddNetwork(Network{Name: "second"})
	if got := ask(t, s, "POST", computePath+"/servers",
		`{"server": {"name": "n", "flavorRef": "1"}}`); got.status != http.StatusConflict {
		t.Errorf("no network named, and two there: %d %s", got.status, got.body)
	}
}

func TestAddresses_OfPortsAndFloatingIPs(t *testing.T) {
	s := start(t)
	public := s.AddNetwork(Network{Name: "public", External: true})
	s.AddSubnet(Subnet{NetworkID: public, CIDR: "203.0.113.0/24"})
	private := s.AddNetwork(Network{Name: "private"})
	subnet := s.AddSubnet(Subnet{NetworkID: private, CIDR: "10.0.0.0/24"})
	s.AddRouter(Router{Name: "r", ExternalNetworkID: public, Subnets: []string{subnet}})
	id := s.AddServer(Server{Name: "n"})
	port := s.AddPort(Port{
		NetworkID: private, DeviceID: id,
		FixedIPs: []FixedIP{{Address: "10.0.0.5"}}, MACAddress: "fa:16:3e:aa:bb:cc",
	})
	floating := s.AddFloatingIP(FloatingIP{NetworkID: public, PortID: port})
	client := computeOf(t, s)
	external := s.FloatingIPs()[0].Address
	want := "map[private:[map[OS-EXT-IPS-MAC:mac_addr:fa:16:3e:aa:bb:cc OS-EXT-IPS:type:fixed addr:10.0.0.5 version:4] " +
		"map[OS-EXT-IPS-MAC:mac_addr:fa:16:3e:aa:bb:cc OS-EXT-IPS:type:floating addr:" + external +
		" version:4]]]"
	if got := fmt.Sprint(mustGet(t, client, id).Addresses); got != want {
		t.Errorf("the addresses are\n%s, want\n%s", got, want)
	}
	ask(t, s, "GET", computePath+"/servers/"+id+"/ips", "").
		is(200,
			`{"addresses": {"private": [{"addr": "10.0.0.5", "version": 4}, {"addr": "`+external+
				`", "version": 4}]}}`)
	if err := s.DeleteFloatingIP(floating); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(mustGet(t, client, id).Addresses); strings.Contains(got, "floating") {
		t.Errorf("without the floating IP the addresses are %s", got)
	}
	if err := s.DeleteServer(id); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.Ports() {
		if p.ID == port {
			t.Error("the server's port outlives it")
		}
	}
}

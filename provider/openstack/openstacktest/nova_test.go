package openstacktest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/availabilityzones"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	clocktesting "k8s.io/utils/clock/testing"
)

// listNames are the names of the servers that a client sees.
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

// mustGet returns the server as a client sees it.
func mustGet(t *testing.T, client *gophercloud.ServiceClient, id string) *servers.Server {
	t.Helper()
	got, err := servers.Get(patiently(t), client, id).Extract()
	if err != nil {
		t.Fatalf("get server %s: %v", id, err)
	}
	return got
}

func TestServer_Created_ShowsItsAttributes(t *testing.T) {
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

func TestServerStates_FollowTheStatus(t *testing.T) {
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

func TestUpdateServer_ClientsSeeTheChange(t *testing.T) {
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

func TestFlavor_EmbeddedSince247_IsShownAfterItsDeletion(t *testing.T) {
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
	admin := s.AddProject(Project{Name: "operators", Admin: true})
	if got := send(t, s, "GET", computePath+"/flavors/"+secret, "", "X-Auth-Token",
		admin.Token); got.status != http.StatusOK {
		t.Errorf("an administrator gets %d %s", got.status, got.body)
	}
}

func TestZones_OfServersAndAddedOnes_AreListed(t *testing.T) {
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
	if err != nil || !slices.Equal(names, []string{"az-0", "az-1", "nova"}) {
		t.Errorf("the zones are %v, %v", names, err)
	}
}

func TestProvisioning_ServerIsInBuildForTheDuration(t *testing.T) {
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

package openstacktest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
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

package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/test/internal/project"
)

// It changes servers, each subtest its own.
func TestServers_StateChanges_IsShown(t *testing.T) {
	t.Parallel()
	p := project.New(t, project.WithIPv6())
	servers := p.AddServers([]string{"states", "ports", "deleted", "older"})
	for name, test := range map[string]func(*testing.T, *project.Project, project.Server){
		"States": testStates, "Ports": testPorts, "Deleted": testDeleted,
	} {
		at := slices.IndexFunc(servers,
			func(s project.Server) bool { return s.Name == strings.ToLower(name) })
		t.Run(name, func(t *testing.T) { test(t, p.In(t), servers[at]) })
	}
}

// settled waits until the server has a status, no task goes on, and it has a host unless it was
// offloaded from it: Nova writes the status of one that is, and then that it has none.
func settled(p *project.Project, id, status string) (server object) {
	p.Wait("server "+id+" is "+status, func() error {
		server = p.User().Get(project.Compute, "/servers/"+id, "server")
		if server["status"] != status || server["OS-EXT-STS:task_state"] != nil {
			return fmt.Errorf("it is %v, %v", server["status"], server["OS-EXT-STS:task_state"])
		}
		if (server["hostId"] == "") != (status == "SHELVED_OFFLOADED") {
			return fmt.Errorf("its host is %q", server["hostId"])
		}
		return nil
	})
	return server
}

// testStates goes through the states that the fake hypervisor knows. Power states are the
// hypervisor's, but for those of the two that are looked at here: libvirt, for instance, reports a
// paused server that it is.
func testStates(t *testing.T, p *project.Project, s project.Server) {
	const running, off = 1.0, 4.0
	because := func(action, vmState string) string {
		return "Cannot '" + action + "' instance " + s.ID + " while it is in vm_state " + vmState
	}
	for _, step := range []struct {
		action string
		body   any
		admin  bool
		status int
		// says is in the refusal; then is the status afterwards, with the vm_state.
		says, then, vm string
	}{
		{"os-stop", nil, false, 202, "", "SHUTOFF", "stopped"},
		{"os-stop", nil, false, 409, because("stop", "stopped"), "SHUTOFF", "stopped"},
		{"pause", nil, false, 409, because("pause", "stopped"), "SHUTOFF", "stopped"},
		{"os-start", nil, false, 202, "", "ACTIVE", "active"},
		{"os-start", nil, false, 409, because("start", "active"), "ACTIVE", "active"},
		{"pause", nil, false, 202, "", "PAUSED", "paused"},
		{"os-stop", nil, false, 409, because("stop", "paused"), "PAUSED", "paused"},
		{"unpause", nil, false, 202, "", "ACTIVE", "active"},
		{"suspend", nil, false, 202, "", "SUSPENDED", "suspended"},
		{"resume", nil, false, 202, "", "ACTIVE", "active"},
		{"rescue", nil, false, 200, "", "RESCUE", "rescued"},
		{"unrescue", nil, false, 202, "", "ACTIVE", "active"},
		{"reboot", object{"type": "HARD"}, false, 202, "", "ACTIVE", "active"},
		{"reboot", nil, false, 400, "is not of type 'object'", "ACTIVE", "active"},
		{"restore", nil, false, 409, because("restore", "active"), "ACTIVE", "active"},
		{"nonsense", nil, false, 400, "There is no such action: nonsense", "ACTIVE", "active"},
		{"shelve", nil, false, 202, "", "SHELVED_OFFLOADED", "shelved_offloaded"},
		{"shelveOffload", nil, false, 403, "os_compute_api:os-shelve:shelve_offload", "SHELVED_OFFLOADED", "shelved_offloaded"},
		{"unshelve", nil, false, 202, "", "ACTIVE", "active"},
		{"os-resetState", object{"state": "error"}, false, 403, "os_compute_api:os-admin-actions:reset_state", "ACTIVE", "active"},
		{"os-resetState", object{"state": "error"}, true, 202, "", "ERROR", "error"},
		{"os-start", nil, false, 409, because("start", "error"), "ERROR", "error"},
		{"os-stop", nil, false, 202, "", "SHUTOFF", "stopped"},
		{"os-resetState", object{"state": "error"}, true, 202, "", "ERROR", "error"},
		{"reboot", object{"type": "HARD"}, false, 202, "", "ACTIVE", "active"},
		{"lock", nil, false, 202, "", "ACTIVE", "active"},
		{"os-stop", nil, false, 409, "Instance " + s.ID + " is locked", "ACTIVE", "active"},
		{"os-stop", nil, true, 202, "", "SHUTOFF", "stopped"},
		{"unlock", nil, false, 202, "", "SHUTOFF", "stopped"},
	} {
		who, before := p.User(), serverNow(p, s.ID)
		if step.admin {
			who = p.Admin()
		}
		answer := who.Try(http.MethodPost, project.Compute, "/servers/"+s.ID+"/action",
			object{step.action: step.body})
		if answer.Status != step.status || !strings.Contains(string(answer.Body), step.says) {
			t.Fatalf("%s: %s; want %d %q", step.action, answer, step.status, step.says)
		}
		got := settled(p, s.ID, step.then)
		if got["OS-EXT-STS:vm_state"] != step.vm {
			t.Errorf("after %s: %v", step.action, got)
		}
		power := got["OS-EXT-STS:power_state"]
		switch {
		case step.then == "ACTIVE" && power != running, step.then == "SHUTOFF" && power != off:
			t.Errorf("after %s the power state is %v", step.action, power)
		case step.then == "ERROR" &&
			(power != before["OS-EXT-STS:power_state"] || got["fault"] != nil):
			t.Errorf("after a reset of its state: %v", got)
		case (got["OS-EXT-AZ:availability_zone"] == "") != (got["hostId"] == ""):
			t.Errorf("after %s the host is %q in the zone %q", step.action, got["hostId"],
				got["OS-EXT-AZ:availability_zone"])
		}
	}
	for _, body := range []object{{}, {"pause": nil, "os-stop": nil}} {
		answer := p.User().Try(http.MethodPost, project.Compute, "/servers/"+s.ID+"/action", body)
		if answer.Status != http.StatusBadRequest ||
			novas(answer, "badRequest") != "Malformed request body" {
			t.Errorf("%s", answer)
		}
	}
	if answer := p.User().Try(http.MethodPost, project.Compute, "/servers/"+nothing+"/action",
		object{"os-stop": nil}); answer.Status != http.StatusNotFound ||
		novas(answer, "itemNotFound") == "" {
		t.Errorf("%s", answer)
	}
}

func serverNow(p *project.Project, id string) object {
	return p.User().Get(project.Compute, "/servers/"+id, "server")
}

// waitAddresses waits until the server has these addresses in the network: "fixed 10.0.0.1".
// Neutron gives those of a port in no order.
func waitAddresses(p *project.Project, id, network string, want ...string) {
	p.Wait(fmt.Sprintf("server %s has the addresses %q in %s", id, want, network), func() error {
		var got []string
		for _, text := range addressesOf(p.User().Get(project.Compute, "/servers/"+id, "server"),
			network) {
			fields := strings.Fields(text)
			got = append(got, fields[0]+" "+fields[2])
		}
		if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			return fmt.Errorf("they are %q", got)
		}
		return nil
	})
}

// testPorts: a network's addresses come in the order in which the server got its ports, all fixed
// ones before all floating ones.
func testPorts(t *testing.T, p *project.Project, s project.Server) {
	user, path := p.User(), "/servers/"+s.ID+"/os-interface"
	four, six := "fixed "+s.Addresses[4], "fixed "+s.Addresses[6]
	made := user.Create(project.Network, "/floatingips", "floatingip",
		object{
			"floating_network_id": p.Public, "port_id": s.Port,
			"fixed_ip_address": s.Addresses[4],
		})
	floating := "floating " + project.Text(made, "floating_ip_address")
	waitAddresses(p, s.ID, p.NetworkName, four, six, floating)

	aux := p.AddNetwork("aux")
	p.AddSubnet(aux, "10.9.0.0/24")
	attach := func(what object) project.Answer {
		return user.Try(http.MethodPost, project.Compute, path, object{"interfaceAttachment": what})
	}
	attached := attach(object{"net_id": aux, "fixed_ips": []object{{"ip_address": "10.9.0.7"}}})
	auxPort := project.Text(attached.Inner("interfaceAttachment"), "port_id")
	if attached.Status != http.StatusOK || auxPort == "" ||
		project.Text(attached.Inner("interfaceAttachment"), "port_state") != "ACTIVE" {
		t.Fatalf("%s", attached)
	}
	waitAddresses(p, s.ID, "aux", "fixed 10.9.0.7")

	lent := project.ID(user.Create(project.Network, "/ports", "port", object{
		"network_id": p.Network, "name": "lent",
		"fixed_ips": []object{{"subnet_id": p.Subnets[4], "ip_address": "10.0.200.7"}},
	}))
	if answer := attach(object{"port_id": lent}); answer.Status != http.StatusOK {
		t.Fatalf("%s", answer)
	}
	waitAddresses(p, s.ID, p.NetworkName, four, six, "fixed 10.0.200.7", floating)
	if again := attach(object{"port_id": lent}); again.Status != http.StatusConflict ||
		novas(again, "conflictingRequest") != "Port "+lent+" is still in use." {
		t.Errorf("a port that is in use: %s", again)
	}
	if answer := attach(object{}); answer.Status != http.StatusBadRequest ||
		novas(answer, "badRequest") == "" {
		t.Errorf("one of two networks: %s", answer)
	}
	// An address more in Neutron is one more in Nova, next to the port's others.
	user.Update(project.Network, "/ports/"+lent, "port", object{"fixed_ips": []object{
		{"subnet_id": p.Subnets[4], "ip_address": "10.0.200.7"}, {"subnet_id": p.Subnets[4], "ip_address": "10.0.200.8"},
	}})
	waitAddresses(p, s.ID, p.NetworkName, four, six, "fixed 10.0.200.7", "fixed 10.0.200.8",
		floating)

	if detached := user.Try(http.MethodDelete, project.Compute, path+"/"+auxPort,
		nil); detached.Status != http.StatusAccepted {
		t.Fatalf("%s", detached)
	}
	waitAddresses(p, s.ID, "aux")
	if gone := user.Try(http.MethodGet, project.Network, "/ports/"+auxPort,
		nil); gone.Status != http.StatusNotFound {
		t.Errorf("a port of Nova's that is detached: %s", gone)
	}
	// With the server go its own ports; one that was lent stays, and so does the floating IP.
	user.Delete(project.Compute, "/servers/"+s.ID)
	p.WaitServer(s.ID, "")
	if own := user.Try(http.MethodGet, project.Network, "/ports/"+s.Port,
		nil); own.Status != http.StatusNotFound {
		t.Errorf("the port of a deleted server: %s", own)
	}
	if left := user.Get(project.Network, "/ports/"+lent, "port"); left["device_id"] != "" ||
		left["device_owner"] != "" || left["status"] != "DOWN" {
		t.Errorf("the lent port is %v", left)
	}
	if left := user.Get(project.Network, "/floatingips/"+project.ID(made),
		"floatingip"); left["port_id"] != nil {
		t.Errorf("the floating IP is %v", left)
	}
}

// testDeleted: a deleted server is not found, and not in a list, but still a marker.
func testDeleted(t *testing.T, p *project.Project, s project.Server) {
	user, path := p.User(), "/servers/"+s.ID
	if answer := user.Try(http.MethodDelete, project.Compute, path,
		nil); answer.Status != http.StatusNoContent {
		t.Fatalf("%s", answer)
	}
	p.WaitServer(s.ID, "")
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		answer := user.Try(method, project.Compute, path, nil)
		if answer.Status != http.StatusNotFound ||
			novas(answer, "itemNotFound") != "Instance "+s.ID+" could not be found." {
			t.Errorf("%s", answer)
		}
	}
	has := func(query string) (found object) {
		for _, server := range user.List(project.Compute, "/servers/detail"+query, "servers") {
			if project.ID(server) == s.ID {
				found = server
			}
		}
		return found
	}
	if has("") != nil {
		t.Error("it is in the list")
	}
	answer := user.Try(http.MethodGet, project.Compute, "/servers?limit=1&marker="+s.ID, nil)
	if answer.Status != http.StatusOK || strings.Contains(string(answer.Body), s.ID) {
		t.Errorf("as a marker: %s", answer)
	}
}

package api_test

import (
	"testing"

	"github.com/fxccm/fxccm/test/internal/project"
)

// TestTrunks_PortDetails_ShowTrunk: the port of a server lists the subports of its trunk.
//
// No API shows when a subport's device_owner becomes trunk:subport: the agent sets it once the
// server has the port.
func TestTrunks_PortDetails_ShowTrunk(t *testing.T) {
	t.Parallel()
	n := newNeutron(t)
	for _, name := range []string{"parent", "one", "two", "three"} {
		n.make(name, "ports", "port", `{"network_id":"$net","name":"`+name+`"}`)
	}
	if details := n.get("/ports/$parent", "port", "trunk_details"); details != nil {
		t.Errorf("details of no trunk: %v", details)
	}
	n.make("trunk", "trunks", "trunk", `{"port_id":"$parent","sub_ports":[
		{"port_id":"$one","segmentation_type":"vlan","segmentation_id":101},
		{"port_id":"$two","segmentation_type":"vlan","segmentation_id":102}]}`)
	n.expect(
		exchange{"POST /trunks", `{"trunk":{"port_id":"$unknown"}}`, 404, "PortNotFound", ""},
		exchange{"GET /trunks/$unknown", "", 404, "TrunkNotFound", "$unknown"},
	)
	details, _ := n.get("/ports/$parent?fields=trunk_details", "port",
		"trunk_details").(project.Object)
	subports, _ := details["sub_ports"].([]any)
	if details["trunk_id"] != n.noted["trunk"] || len(subports) != 2 {
		t.Errorf("details of the trunk: %v", details)
	}
	// In a list of ports, too: that is where the provider reads them.
	for _, port := range n.User().List(project.Network,
		n.fill("/ports?network_id=$net&name=parent&name=three&fields=name&fields=trunk_details"),
		"ports") {
		details, has := port["trunk_details"].(project.Object)
		if has != (port["name"] == "parent") {
			t.Errorf("in a list, of port %v: %v", port["name"], details)
		}
	}
	n.want("trunks", n.list("/trunks?port_id=$parent&fields=id", "trunks", "id"),
		[]string{n.noted["trunk"]})
}

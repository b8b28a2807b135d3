package api_test

import (
	"testing"

	"github.com/fxccm/fxccm/test/internal/project"
)

// TestTrunks: the port of a server lists the subports of its trunk, and neither is deleted from
// under it.
//
// That a subport's device_owner becomes trunk:subport is the agent's doing, once the server has the
// port: no API shows it by itself.
func TestTrunks(t *testing.T) {
	t.Parallel()
	n := newNeutron(t)
	for _, name := range []string{"parent", "one", "two", "three"} {
		n.make(name, "ports", "port", `{"network_id":"$net","name":"`+name+`"}`)
	}
	if details := n.get("/ports/$parent", "port", "trunk_details"); details != nil {
		t.Errorf("details of no trunk: %v", details)
	}
	n.make("trunk", "trunks", "trunk",
		`{"port_id":"$parent","sub_ports":[{"port_id":"$one","segmentation_type":"vlan","segmentation_id":101}]}`)
	const add, remove = "PUT /trunks/$trunk/add_subports", "PUT /trunks/$trunk/remove_subports"
	two := `{"sub_ports":[{"port_id":"$two","segmentation_type":"vlan","segmentation_id":102}]}`
	three := func(rest string) string { return `{"sub_ports":[{"port_id":"$three"` + rest + `}]}` }
	n.expect(
		exchange{add, two, 200, "", ""},
		exchange{add, two, 409, "TrunkPortInUse", "Port $two is in use by another trunk."},
		exchange{
			add, three(`,"segmentation_type":"vlan","segmentation_id":102`), 409,
			"DuplicateSubPort", "already in use on trunk $trunk.",
		},
		exchange{
			add, three(`,"segmentation_type":"nonsense","segmentation_id":103`), 400,
			"InvalidInput", "Unknown segmentation_type 'nonsense'.",
		},
		exchange{
			add, three(`,"segmentation_type":"vlan","segmentation_id":5000`), 400,
			"InvalidInput", "Segmentation ID '5000' is not in range.",
		},
		exchange{add, three(``), 400, "InvalidInput", "missing segmentation information"},
		exchange{
			add,
			`{"sub_ports":[{"port_id":"$unknown","segmentation_type":"vlan","segmentation_id":103}]}`, 404, "PortNotFound", "Port $unknown could not be found.",
		},
		exchange{
			add,
			`{"sub_ports":[{"port_id":"$parent","segmentation_type":"vlan","segmentation_id":103}]}`, 409, "ParentPortInUse", "",
		},
		exchange{
			remove, three(``), 404, "SubPortNotFound",
			"SubPort $three on trunk $trunk could not be found.",
		},
		exchange{"POST /trunks", `{"trunk":{"port_id":"$parent"}}`, 409, "ParentPortInUse", ""},
		exchange{"POST /trunks", `{"trunk":{"port_id":"$one"}}`, 409, "TrunkPortInUse", ""},
		exchange{"POST /trunks", `{"trunk":{"port_id":"$unknown"}}`, 404, "PortNotFound", ""},
		exchange{
			"DELETE /ports/$one", "", 409, "PortInUseAsSubPort",
			"Port $one is currently a subport for trunk $trunk.",
		},
		exchange{
			"DELETE /ports/$parent", "", 409, "PortInUseAsTrunkParent",
			"Port $parent is currently a parent port for trunk $trunk.",
		},
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
	n.expect(
		exchange{remove, `{"sub_ports":[{"port_id":"$two"}]}`, 200, "", ""},
		exchange{"DELETE /ports/$two", "", 204, "", ""},
		exchange{"PUT /trunks/$trunk", `{"trunk":{"admin_state_up":false}}`, 200, "", ""},
		exchange{
			"DELETE /trunks/$trunk", "", 409, "TrunkDisabled",
			"Trunk $trunk is currently disabled.",
		},
		exchange{"PUT /trunks/$trunk", `{"trunk":{"admin_state_up":true}}`, 200, "", ""},
		exchange{"DELETE /trunks/$trunk", "", 204, "", ""},
		exchange{"DELETE /trunks/$trunk", "", 404, "TrunkNotFound", ""},
		exchange{"DELETE /ports/$parent", "", 204, "", ""},
	)
}

package openstacktest

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/attributestags"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/trunk_details"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/trunks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
)

func TestTrunk_SubportsAreDetailsOfTheParent(t *testing.T) {
	s := start(t)
	at := newSite(s)
	client := networkOf(t, s, s.Credentials())
	parent, child, second := s.AddPort(Port{NetworkID: at.internal, DeviceID: "server"}),
		s.AddPort(Port{NetworkID: at.internal}), s.AddPort(Port{NetworkID: at.internal})
	id := s.AddTrunk(Trunk{PortID: parent, Subports: []Subport{{PortID: child, SegmentationID: 7}}})
	trunk, err := trunks.AddSubports(t.Context(), client, id, trunks.AddSubportsOpts{
		Subports: []trunks.Subport{{PortID: second, SegmentationType: "vlan", SegmentationID: 8}},
	}).Extract()
	if err != nil || len(trunk.Subports) != 2 {
		t.Fatalf("%+v, %v", trunk, err)
	}
	details := func(id string) string {
		var port struct {
			ports.Port
			trunk_details.TrunkDetailsExt
		}
		if err := ports.Get(t.Context(), client, id).ExtractInto(&port); err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, subport := range port.SubPorts {
			text += fmt.Sprint(subport.PortID, subport.SegmentationType, subport.SegmentationID,
				subport.MACAddress, " ")
		}
		return text
	}
	macs := map[string]string{}
	for _, port := range s.Ports() {
		macs[port.ID] = port.MACAddress
		if port.ID == child && port.DeviceOwner != OwnerSubport {
			t.Errorf("owner of a subport: %q", port.DeviceOwner)
		}
	}
	if got, want := details(parent),
		fmt.Sprint(child, "vlan", 7, macs[child], " ", second, "vlan", 8, macs[second],
			" "); got != want {
		t.Errorf("details %q, want %q", got, want)
	}
	if got := details(child); got != "" {
		t.Errorf("details %q of a subport", got)
	}
	if got, err := trunks.GetSubports(t.Context(), client, id).Extract(); err != nil ||
		len(got) != 2 {
		t.Errorf("subports %v, %v", got, err)
	}

	askNeutron(t, s, http.MethodDelete, "ports/"+parent, "").refuses(409, "PortInUseAsTrunkParent",
		parent)
	askNeutron(t, s, http.MethodDelete, "ports/"+child, "").refuses(409, "PortInUseAsSubPort",
		child)
	askNeutron(t, s, http.MethodPost, "trunks", `{"trunk":{"port_id":"`+parent+`"}}`).refuses(409,
		"ParentPortInUse", parent)
	askNeutron(t, s, http.MethodPut, "trunks/"+id+"/add_subports",
		`{"sub_ports":[{"port_id":"`+at.router+`"}]}`).refuses(404, "PortNotFound", "")
	third := s.AddPort(Port{NetworkID: at.internal})
	askNeutron(t, s, http.MethodPut, "trunks/"+id+"/add_subports",
		`{"sub_ports":[{"port_id":"`+third+`","segmentation_type":"vlan","segmentation_id":8}]}`).
		refuses(409, "DuplicateSubPort", "already in use on trunk")
	askNeutron(t, s, http.MethodPost, "trunks",
		`{"trunk":{"port_id":"`+third+`","sub_ports":[{"port_id":"`+child+
			`","segmentation_id":1}]}}`).
		refuses(409, "TrunkPortInUse", child)

	if _, err := trunks.RemoveSubports(t.Context(), client, id,
		trunks.RemoveSubportsOpts{
			Subports: []trunks.RemoveSubport{{PortID: child}},
		}).Extract(); err != nil {
		t.Fatal(err)
	}
	askNeutron(t, s, http.MethodDelete, "ports/"+child, "").succeeds(204, "")
	askNeutron(t, s, http.MethodDelete, "trunks/"+id, "").succeeds(204, "")
	askNeutron(t, s, http.MethodDelete, "ports/"+parent, "").succeeds(204, "")
}

func TestTags_OfEachKind(t *testing.T) {
	s := start(t)
	at := newSite(s)
	client := networkOf(t, s, s.Credentials())
	port := s.AddPort(Port{NetworkID: at.internal})
	for collection, id := range map[string]string{
		"networks": at.internal, "subnets": at.subnet, "ports": port, "routers": at.router,
		"floatingips":     s.AddFloatingIP(FloatingIP{NetworkID: at.external}),
		"security-groups": s.AddSecurityGroup(SecurityGroup{Name: "g"}),
		"trunks":          s.AddTrunk(Trunk{PortID: port}),
	} {
		t.Run(collection, func(t *testing.T) {
			list := func() string {
				tags, err := attributestags.List(t.Context(), client, collection, id).Extract()
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint(tags)
			}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(attributestags.Add(t.Context(), client, collection, id, "a").ExtractErr())
			must(attributestags.Add(t.Context(), client, collection, id, "a").ExtractErr())
			must(attributestags.Add(t.Context(), client, collection, id, "b c").ExtractErr())
			if got := list(); got != "[a b c]" {
				t.Errorf("tags %s after two were added", got)
			}
			if there, err := attributestags.Confirm(t.Context(), client, collection, id,
				"a").Extract(); err != nil || !there {
				t.Errorf("tag a: %v %v", there, err)
			}
			if there, err := attributestags.Confirm(t.Context(), client, collection, id,
				"z").Extract(); err != nil || there {
				t.Errorf("tag z: %v %v", there, err)
			}
			must(attributestags.Delete(t.Context(), client, collection, id, "a").ExtractErr())
			if got := list(); got != "[b c]" {
				t.Errorf("tags %s after one was deleted", got)
			}
			if _, err := attributestags.ReplaceAll(t.Context(), client, collection, id,
				attributestags.ReplaceAllOpts{Tags: []string{"x", "y"}}).Extract(); err != nil {
				t.Fatal(err)
			}
			if got := list(); got != "[x y]" {
				t.Errorf("tags %s after all were replaced", got)
			}
			must(attributestags.DeleteAll(t.Context(), client, collection, id).ExtractErr())
			if got := list(); got != "[]" {
				t.Errorf("tags %s after all were deleted", got)
			}
			path := collection + "/" + id + "/tags"
			askNeutron(t, s, http.MethodDelete, path+"/z", "").refuses(404, "TagNotFound",
				"Tag z could not be found.")
			askNeutron(t, s, http.MethodPut, collection+"/none/tags/z", "").refuses(404,
				"TagResourceNotFound", "none could not be found")
			askNeutron(t, s, http.MethodPut, path, `{"tags":["a","a"]}`).refuses(400,
				"InvalidInput", "'a'")
			askNeutron(t, s, http.MethodPut, path, `{"x":1}`).refuses(400, "InvalidInput",
				"Invalid tags body")
		})
	}
	_ = s.SetExtension("standard-attr-tag", false)
	askNeutron(t, s, http.MethodGet, "ports/"+port+"/tags", "").refuses(404, "HTTPNotFound", "")
}

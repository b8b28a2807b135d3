package nova

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

func computeTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// view is the server in the API's form for this microversion.
func (i *instance) view(r *request) object {
	s := i.state()
	view := object{
		"id": i.ID, "name": i.Name, "status": i.Status, "tenant_id": i.ProjectID,
		"user_id":  r.nova.ownerOf(i.ProjectID),
		"metadata": mapped(i.Metadata),
		"image":    object{"id": "image", "links": r.computeLinks("images", "image")},
		"flavor":   i.flavorView(r), "created": computeTime(i.Created),
		"updated":   computeTime(i.Updated),
		"addresses": r.nova.addressViews(i), "accessIPv4": i.AccessIPv4,
		"accessIPv6": i.AccessIPv6,
		"links":      r.computeLinks("servers", i.ID), "hostId": i.hostID(), "key_name": nil,
		"config_drive":      "",
		"OS-DCF:diskConfig": "MANUAL", "OS-EXT-AZ:availability_zone": i.zone(),
		"security_groups":     i.securityGroups(),
		"OS-EXT-STS:vm_state": s.vm, "OS-EXT-STS:task_state": s.task,
		"OS-EXT-STS:power_state": s.power,
		"OS-SRV-USG:launched_at": i.launched(), "OS-SRV-USG:terminated_at": i.terminated(),
		"os-extended-volumes:volumes_attached": []object{},
	}
	if i.Status == "ACTIVE" || i.Status == "BUILD" {
		view["progress"] = 0
	}
	if i.Status == "ERROR" && !i.faultless {
		view["fault"] = object{
			"code":    http.StatusInternalServerError,
			"created": computeTime(i.Updated), "message": "No valid host was found.",
		}
	}
	if r.Version.AtLeast(26) {
		view["tags"] = api.NonNil(i.Tags)
	}
	if r.IsAdmin() {
		i.showHost(view)
	}
	return view
}

// showHost adds the server's host, which only administrators see.
func (i *instance) showHost(view object) {
	var host any
	if i.hosted() {
		host = "compute-of-" + i.AvailabilityZone
	}
	view["OS-EXT-SRV-ATTR:host"], view["OS-EXT-SRV-ATTR:hypervisor_hostname"] = host, host
	view["OS-EXT-SRV-ATTR:instance_name"] = fmt.Sprintf("instance-%08x", i.number)
}

// zone is the zone of the host. An offloaded server has none until it is unshelved.
func (i *instance) zone() string {
	if i.Status == "SHELVED_OFFLOADED" {
		return ""
	}
	return i.AvailabilityZone
}

// securityGroups are the names for each port, so "default" appears once per port.
func (i *instance) securityGroups() []object {
	groups := []object{}
	for range max(1, len(i.plugged)) {
		groups = append(groups, object{"name": "default"})
	}
	return groups
}

func (i *instance) terminated() any {
	if i.Status != "DELETED" {
		return nil
	}
	return i.Updated.UTC().Format("2006-01-02T15:04:05.000000")
}

// brief is the server in a list without details.
func (i *instance) brief(r *request) object {
	return object{"id": i.ID, "name": i.Name, "links": r.computeLinks("servers", i.ID)}
}

// hostID distinguishes the hosts of one project, without their names.
func (i *instance) hostID() string {
	if !i.hosted() {
		return ""
	}
	sum := sha256.Sum224([]byte(i.ProjectID + "compute-of-" + i.AvailabilityZone))
	return hex.EncodeToString(sum[:])
}

func (i *instance) launched() any {
	if i.Status == "BUILD" {
		return nil
	}
	return i.Created.UTC().Format("2006-01-02T15:04:05.000000")
}

func mapped(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// computeLinks use the interface of the caller.
func (r *request) computeLinks(kind, id string) []object {
	base := r.nova.URL + r.InterfacePrefix()
	return []object{
		{"rel": "self", "href": base + root + "/v2.1/" + kind + "/" + id},
		{"rel": "bookmark", "href": base + root + "/" + kind + "/" + id},
	}
}

// addressViews are the server's addresses by network. A server in BUILD has none yet, because Nova
// shows its cache.
func (s *Service) addressViews(i *instance) map[string][]object {
	views := map[string][]object{}
	if i.Status == "BUILD" {
		return views
	}
	all := slices.Concat(s.portAddresses(i), i.Addresses)
	floating := slices.DeleteFunc(slices.Clone(all), func(a Address) bool { return !a.Floating })
	fixed := slices.DeleteFunc(all, func(a Address) bool { return a.Floating })
	// A network's floating addresses come after all its fixed ones (nova/api/openstack/common.py,
	// get_networks_for_instance_from_nw_info).
	for _, a := range slices.Concat(fixed, floating) {
		kind := "fixed"
		if a.Floating {
			kind = "floating"
		}
		views[a.Network] = append(views[a.Network], object{
			"addr": a.Address, "version": a.version(), "OS-EXT-IPS:type": kind,
			"OS-EXT-IPS-MAC:mac_addr": a.MAC,
		})
	}
	return views
}

func getServer(r *request, i *instance) (answer, error) {
	return api.OK(object{"server": i.view(r)}), nil
}

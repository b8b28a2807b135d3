package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// Hash is equal for two desired states that want the same, and only for them, in this version of
// fxccm. It ignores IDs and statuses, and where a floating IP would be created, because that is not
// looked up for an existing one.
func Hash(d State) string {
	d = plain(d)
	hash := sha256.New()
	// Plain values; neither their encoding nor the hash fails. Maps are encoded in the order of
	// their keys.
	_ = json.NewEncoder(hash).Encode(d)
	return hex.EncodeToString(hash.Sum(nil))
}

// plain is a copy of what counts.
func plain(d State) State {
	lb := d.LoadBalancer
	d.LoadBalancer = octavia.LoadBalancer{
		Name: lb.Name, Description: lb.Description, Tags: lb.Tags,
		Provider: lb.Provider, FlavorID: lb.FlavorID, AvailabilityZone: lb.AvailabilityZone,
		VIP: lb.VIP, AdditionalVIPs: lb.AdditionalVIPs,
	}
	ports := make([]octavia.Port, 0, len(d.Ports))
	for _, port := range d.Ports {
		ports = append(ports, plainPort(port))
	}
	d.Ports = ports
	if wanted := d.FloatingIP; wanted != nil {
		d.FloatingIP = &neutron.WantedFloatingIP{
			Address: wanted.Address, Description: wanted.Description, Tags: wanted.Tags,
			Present: wanted.Present || wanted.NetworkID != "",
		}
	}
	if group := d.SecurityGroup; group != nil {
		rules := make([]neutron.Rule, 0, len(group.Rules))
		for _, rule := range group.Rules {
			rule.ID = ""
			rules = append(rules, rule)
		}
		d.SecurityGroup = &neutron.SecurityGroup{
			Name: group.Name, Description: group.Description,
			Tags: group.Tags, Rules: rules,
		}
	}
	return d
}

func plainPort(port octavia.Port) octavia.Port {
	port.Listener.ID, port.Listener.PoolID, port.Listener.Status = "", "", ""
	port.Pool.ID, port.Pool.Status = "", ""
	members := make([]octavia.Member, 0, len(port.Pool.Members))
	for _, member := range port.Pool.Members {
		member.ID, member.Status = "", ""
		members = append(members, member)
	}
	port.Pool.Members = members
	if port.Pool.Monitor != nil {
		monitor := *port.Pool.Monitor
		monitor.ID, monitor.Status = "", ""
		port.Pool.Monitor = &monitor
	}
	return port
}

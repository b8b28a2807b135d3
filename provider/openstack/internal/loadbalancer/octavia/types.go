package octavia

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// The types of this file are desired and observed objects, and the bodies of requests: a field that
// a request may leave out is omitted if it is empty. The tags of a field drive its comparison,
// update, text and prediction; see [Fields].

// LoadBalancer is Octavia's load balancer, without its parts.
type LoadBalancer struct {
	// ID is empty in a desired load balancer.
	ID          string   `json:"id,omitempty" octavia:"create"`
	Name        string   `json:"name,omitempty" octavia:"create"`
	Description string   `json:"description,omitempty" octavia:"create"`
	Tags        []string `json:"tags,omitempty" octavia:"kept,since=5"`

	// Provider is Octavia's provider. Desired, empty means the cloud's default.
	Provider         string `json:"provider,omitempty" octavia:"create,chosen"`
	FlavorID         string `json:"flavor_id,omitempty" octavia:"create,chosen,since=6"`
	AvailabilityZone string `json:"availability_zone,omitempty" octavia:"create,chosen,since=14"`

	VIP
	// AdditionalVIPs are addresses beside the first, in the same network.
	AdditionalVIPs []VIP `json:"-"`

	// Parts are the IDs of its listeners and pools, sorted; nil if Octavia does not show them.
	Parts []string `json:"-"`
	// Made holds the IDs of the listeners, pools and monitors that were created with it, by their
	// names, and of members, by [MadeMember]. It is set only in the response to its creation.
	Made map[string]string `json:"-"`

	Status Status `json:"provisioning_status,omitempty" octavia:"create"`
	// Operating is Octavia's operating status: whether the members answer. It is only reported.
	Operating string    `json:"operating_status,omitempty" octavia:"create"`
	CreatedAt time.Time `json:"-"`
	// UpdatedAt is when the load balancer, or any of its parts, last changed, to the second: each
	// change of a listener, pool, member or monitor changes the load balancer's status. Zero:
	// never.
	UpdatedAt time.Time `json:"-"`
}

// VIP is the place of a load balancer's address. Octavia chooses the fields that are empty in a
// desired VIP.
type VIP struct {
	Address   string `json:"vip_address,omitempty" octavia:"create,chosen"`
	PortID    string `json:"vip_port_id,omitempty" octavia:"create,chosen"`
	SubnetID  string `json:"vip_subnet_id,omitempty" octavia:"create,chosen"`
	NetworkID string `json:"vip_network_id,omitempty" octavia:"create,chosen"`
}

// Status is Octavia's provisioning status.
type Status string

// The provisioning statuses. A PENDING load balancer cannot be changed; one in ERROR can only be
// deleted or failed over.
const (
	Active        Status = "ACTIVE"
	InError       Status = "ERROR"
	Deleted       Status = "DELETED"
	PendingCreate Status = "PENDING_CREATE"
	PendingUpdate Status = "PENDING_UPDATE"
	PendingDelete Status = "PENDING_DELETE"
)

// Pending reports whether Octavia is at work on the load balancer.
func (s Status) Pending() bool {
	return s == PendingCreate || s == PendingUpdate || s == PendingDelete
}

// Gone reports whether the load balancer no longer exists, or is being deleted.
func (s Status) Gone() bool { return s == Deleted || s == PendingDelete }

// The protocols of listeners and pools.
const (
	TCP             = "TCP"
	UDP             = "UDP"
	SCTP            = "SCTP"
	HTTP            = "HTTP"
	HTTPS           = "HTTPS"
	TerminatedHTTPS = "TERMINATED_HTTPS"
	Proxy           = "PROXY"
	ProxyV2         = "PROXYV2"
)

// Transport returns the protocol below: TCP, UDP or SCTP. Two listeners of a load balancer cannot
// have the same transport and port.
func Transport(protocol string) string {
	if protocol == UDP || protocol == SCTP {
		return protocol
	}
	return TCP
}

// Listener is a port that a load balancer listens on.
type Listener struct {
	ID       string   `json:"id,omitempty" octavia:"create"`
	Name     string   `json:"name,omitempty" octavia:"kept"`
	Tags     []string `json:"tags,omitzero" octavia:"kept,since=5"`
	Protocol string   `json:"protocol,omitempty" octavia:"create"`
	Port     int      `json:"protocol_port,omitempty" octavia:"create"`
	// PoolID is the default pool, which gets the connections. It is empty in a desired listener.
	PoolID string `json:"default_pool_id,omitempty" octavia:"kept"`
	// ConnectionLimit is the most concurrent connections, -1 for no limit.
	ConnectionLimit int `json:"connection_limit"`
	// Timeouts is nil if the cloud does not support it.
	*Timeouts
	InsertHeaders map[string]string `json:"insert_headers,omitzero"`
	// AllowedCIDRs are the clients that may connect, sorted. Observed, nil means no restriction.
	// Desired, nil means that the cloud does not support it, and it is not compared. Desired
	// without a restriction, it is 0.0.0.0/0, ::/0 or both, by the families of the VIPs, as OCCM
	// sends it and Octavia returns it.
	AllowedCIDRs []string `json:"allowed_cidrs,omitzero" octavia:"optional,since=12"`
	TLSContainer string   `json:"default_tls_container_ref,omitempty" octavia:"optional,chosen"`

	// TLSVersions are those that a TERMINATED_HTTPS listener accepts. Desired, nil means that an
	// existing listener keeps its versions, and that a new one gets Octavia's default.
	TLSVersions []string `json:"tls_versions,omitempty" octavia:"optional,chosen,since=17"`

	Status Status `json:"provisioning_status,omitempty" octavia:"create"`
}

// Key identifies a listener within its load balancer.
func (l *Listener) Key() ListenerKey { return ListenerKey{Transport(l.Protocol), l.Port} }

// ListenerKey is unique among the listeners of a load balancer.
type ListenerKey struct {
	Transport string
	Port      int
}

// Timeouts of a listener, in milliseconds.
type Timeouts struct {
	ClientData    int `json:"timeout_client_data" octavia:"since=1"`
	MemberConnect int `json:"timeout_member_connect" octavia:"since=1"`
	MemberData    int `json:"timeout_member_data" octavia:"since=1"`
	TCPInspect    int `json:"timeout_tcp_inspect" octavia:"since=1"`
}

// Pool is a set of members to which a listener distributes connections.
type Pool struct {
	ID   string `json:"id,omitempty" octavia:"create"`
	Name string `json:"name,omitempty" octavia:"kept"`
	// Tags are set on pools that were created in an existing load balancer. OCCM's pools have none,
	// because their listener identifies the owner; but a pool that is to replace another has no
	// listener at first. Desired, nil means that existing tags stay.
	Tags        []string    `json:"tags,omitzero" octavia:"kept,since=5"`
	Protocol    string      `json:"protocol,omitempty" octavia:"create"`
	Algorithm   string      `json:"lb_algorithm,omitempty" octavia:"chosen"`
	Persistence Persistence `json:"session_persistence,omitzero" octavia:"null"`
	Members     []Member    `json:"members,omitempty" octavia:"create"`
	// MembersInPart: only ID, Name, Address and Port of Members are known.
	MembersInPart bool `json:",omitempty"`
	// Monitor is nil for none.
	Monitor *Monitor `json:"healthmonitor,omitempty" octavia:"create"`
	// MonitorInPart: only ID, Name and Type of Monitor are known.
	MonitorInPart bool `json:",omitempty"`

	Status Status `json:"provisioning_status,omitempty" octavia:"create"`
}

// Persistence keeps a client at a member: "" or SOURCE_IP.
type Persistence string

// MarshalJSON implements json.Marshaler.
func (p Persistence) MarshalJSON() ([]byte, error) {
	if p == "" {
		return []byte("null"), nil
	}
	return json.Marshal(map[string]string{"type": string(p)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Persistence) UnmarshalJSON(raw []byte) error {
	var shown struct {
		Type string `json:"type"`
	}
	err := json.Unmarshal(raw, &shown)
	*p = Persistence(shown.Type)
	return err
}

// Member is a node's port in a pool. Two members of a pool cannot have the same address and port.
type Member struct {
	ID      string `json:"id,omitempty" octavia:"create"`
	Name    string `json:"name,omitempty"`
	Address string `json:"address,omitempty" octavia:"create"`
	Port    int    `json:"protocol_port" octavia:"create"`
	// SubnetID is the subnet of the address. Observed, empty means the subnet of the VIP. Desired,
	// empty is not compared. So OCCM, which always names the subnet, and fxccm accept each other's
	// members.
	//
	// A request omits the subnet of the VIP, unless the existing member has another one or the
	// provider is ovn: Octavia reads each named subnet from Neutron, one by one
	// (octavia/api/v2/controllers/member.py, subnet_exists), and keeps the subnet of an existing
	// member. A replacement of all members can change the subnet; an update of one member cannot.
	SubnetID string `json:"subnet_id,omitempty" octavia:"create,chosen"`
	// Weight is 0 for a member that gets no new connections, else 1.
	Weight int `json:"weight"`
	// MonitorPort is the port that the monitor checks; 0 for Port.
	MonitorPort int `json:"monitor_port,omitempty" octavia:"null"`
	// Backup: the member gets connections only when the others do not work. It is never desired.
	Backup bool `json:"backup,omitempty" octavia:"since=1"`

	Status Status `json:"provisioning_status,omitempty" octavia:"create"`
}

// Key identifies a member within its pool.
func (m *Member) Key() MemberKey { return MemberKey{m.Address, m.Port} }

// MadeMember is the key of a member of the named pool in [LoadBalancer.Made]: other pools have
// members of the same name.
func MadeMember(pool string, member MemberKey) string {
	return fmt.Sprintf("%s %s %d", pool, member.Address, member.Port)
}

// MemberKey is unique among the members of a pool.
type MemberKey struct {
	Address string
	Port    int
}

// Monitor checks a pool's members.
type Monitor struct {
	ID   string `json:"id,omitempty" octavia:"create"`
	Name string `json:"name,omitempty" octavia:"kept"`
	Type string `json:"type,omitempty" octavia:"create"`
	// Delay and Timeout are in seconds.
	Delay          int `json:"delay"`
	Timeout        int `json:"timeout"`
	MaxRetries     int `json:"max_retries"`
	MaxRetriesDown int `json:"max_retries_down"`
	// HTTPMethod, URLPath and ExpectedCodes are for the type HTTP.
	HTTPMethod    string `json:"http_method,omitempty" octavia:"optional"`
	URLPath       string `json:"url_path,omitempty" octavia:"optional"`
	ExpectedCodes string `json:"expected_codes,omitempty" octavia:"optional"`

	Status Status `json:"provisioning_status,omitempty" octavia:"create"`
}

// The types of monitors.
const (
	MonitorTCP        = "TCP"
	MonitorUDPConnect = "UDP-CONNECT"
	MonitorSCTP       = "SCTP"
	MonitorHTTP       = "HTTP"
)

// Port holds the objects for a port of the Service.
type Port struct {
	// Name identifies the port for people, such as "443/TCP".
	Name     string
	Listener Listener
	// Pool has its members, and its monitor.
	Pool Pool
}

// Contents are the listeners and pools of a load balancer, whoever created them.
type Contents struct {
	Listeners []Listener
	Pools     []Pool
}

// Are reports whether the contents are exactly the listeners and pools that Octavia shows in a load
// balancer. It is false for nil.
func (c *Contents) Are(of *LoadBalancer) bool {
	if c == nil || of.Parts == nil {
		return false
	}
	var ids []string
	for _, l := range c.Listeners {
		ids = append(ids, l.ID)
	}
	for _, p := range c.Pools {
		ids = append(ids, p.ID)
	}
	slices.Sort(ids)
	return slices.Equal(ids, of.Parts)
}

// Unfinished returns a listener, pool, monitor or member on which Octavia is still at work; "" for
// none.
func (c *Contents) Unfinished() string {
	for _, l := range c.Listeners {
		if l.Status.Pending() {
			return fmt.Sprintf("listener %s is %s", l.ID, l.Status)
		}
	}
	for _, p := range c.Pools {
		if p.Status.Pending() {
			return fmt.Sprintf("pool %s is %s", p.ID, p.Status)
		}
		if m := p.Monitor; m != nil && m.Status.Pending() {
			return fmt.Sprintf("health monitor %s is %s", m.ID, m.Status)
		}
		for _, m := range p.Members {
			if m.Status.Pending() {
				return fmt.Sprintf("member %s is %s", m.ID, m.Status)
			}
		}
	}
	return ""
}

// ReportsEarly reports whether the provider reports a load balancer as ACTIVE before its parts are
// ready, and again with each part, even while the load balancer is being deleted.
func (lb *LoadBalancer) ReportsEarly() bool { return lb.Provider == ProviderOVN }

// ProviderOVN is the provider of Octavia that forwards packets in Open vSwitch.
const ProviderOVN = "ovn"

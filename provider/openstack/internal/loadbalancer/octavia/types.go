package octavia

import (
	"fmt"
	"slices"
	"time"
)

// LoadBalancer is Octavia's load balancer, without what is below it.
type LoadBalancer struct {
	// ID is empty in one that should be.
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`

	// Provider is Octavia's provider. Empty in one that should be: the cloud's default.
	Provider         string `json:"provider"`
	FlavorID         string `json:"flavor_id"`
	AvailabilityZone string `json:"availability_zone"`

	VIP
	// AdditionalVIPs are addresses beside the first, in the same network.
	AdditionalVIPs []VIP `json:"-"`

	// Parts are the ids of its listeners and pools, sorted; nil if Octavia does not show them.
	Parts []string `json:"-"`
	// Made are the ids of the listeners, pools and monitors that were made with it, by their names,
	// and those of members, by [MadeMember]. Nil but in the answer to its creation.
	Made map[string]string `json:"-"`

	Status Status `json:"provisioning_status"`
	// Operating is Octavia's operating status: whether the members answer. It is only reported.
	Operating string    `json:"operating_status"`
	CreatedAt time.Time `json:"-"`
	// UpdatedAt is when the load balancer, or anything below it, last changed, to the second: each
	// change of a listener, pool, member or monitor changes the load balancer's status. Zero:
	// never.
	UpdatedAt time.Time `json:"-"`
}

// VIP is where a load balancer is reached. In one that should be, what is empty is left to Octavia.
type VIP struct {
	Address   string `json:"vip_address"`
	PortID    string `json:"vip_port_id"`
	SubnetID  string `json:"vip_subnet_id"`
	NetworkID string `json:"vip_network_id"`
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

// Pending tells whether Octavia is at work on it.
func (s Status) Pending() bool {
	return s == PendingCreate || s == PendingUpdate || s == PendingDelete
}

// Gone tells whether it no longer exists, or soon will not.
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

// Transport is the protocol below: TCP, UDP or SCTP. Two listeners of a load balancer have not both
// it and the port in common.
func Transport(protocol string) string {
	if protocol == UDP || protocol == SCTP {
		return protocol
	}
	return TCP
}

// Listener is a port that a load balancer listens on.
type Listener struct {
	ID       string
	Name     string
	Tags     []string
	Protocol string
	Port     int
	// PoolID is the default pool: where the connections go. Empty in one that should be.
	PoolID string
	// ConnectionLimit is the most connections at a time, -1 for any number.
	ConnectionLimit int
	// Timeouts is nil if the cloud knows none.
	Timeouts      *Timeouts
	InsertHeaders map[string]string
	// AllowedCIDRs are the clients that may connect, sorted. Observed, nil means no restriction.
	// Desired, nil means that the cloud does not support it, and it is not compared; no restriction
	// is 0.0.0.0/0, ::/0 or both, by the families of the VIPs, as OCCM sends it and Octavia returns
	// it.
	AllowedCIDRs []string
	TLSContainer string

	Status Status
}

// Key identifies a listener within its load balancer.
func (l *Listener) Key() ListenerKey { return ListenerKey{Transport(l.Protocol), l.Port} }

// ListenerKey is what no two listeners of a load balancer have in common.
type ListenerKey struct {
	Transport string
	Port      int
}

// Timeouts of a listener, in milliseconds.
type Timeouts struct {
	ClientData, MemberConnect, MemberData, TCPInspect int
}

// Pool is a set of members that a listener distributes to.
type Pool struct {
	ID   string
	Name string
	// Tags are of pools that were made in an existing load balancer. OCCM's have none, and whose a
	// pool is its listener tells; but one that is to take another's place has no listener at first.
	// Nil in one that should be: they are left as they are.
	Tags      []string
	Protocol  string
	Algorithm string
	// Persistence is how a client is kept at a member: "" or SOURCE_IP.
	Persistence string
	Members     []Member
	// MembersInPart: of Members only ID, Name, Address and Port are known.
	MembersInPart bool
	// Monitor is nil for none.
	Monitor *Monitor
	// MonitorInPart: of Monitor only ID, Name and Type are known.
	MonitorInPart bool

	Status Status
}

// Member is a node's port, behind a pool. Two members of a pool have not both address and port in
// common.
type Member struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Address string `json:"address"`
	Port    int    `json:"protocol_port"`
	// SubnetID is where the address is reached. Observed, empty means the subnet of the VIP.
	// Desired, empty is not compared. So OCCM, which always names the subnet, and fxccm agree on
	// each other's members.
	//
	// A request omits the subnet of the VIP, unless the existing member has another one: Octavia
	// asks Neutron for each named subnet, one by one (octavia/api/v2/controllers/member.py,
	// subnet_exists), and keeps that of an existing member. A replacement of all members can change
	// it, the PUT of one cannot.
	SubnetID string `json:"subnet_id"`
	// Weight is 0 for a member that gets no new connections, and 1 else.
	Weight int `json:"weight"`
	// MonitorPort is where it is checked; 0: at Port.
	MonitorPort int `json:"monitor_port"`
	// Backup: it gets connections only when the others do not work. Never wanted.
	Backup bool `json:"backup"`

	Status Status `json:"provisioning_status"`
}

// Key identifies a member within its pool.
func (m *Member) Key() MemberKey { return MemberKey{m.Address, m.Port} }

// MadeMember is what a member of the pool of that name is called in [LoadBalancer.Made]: its own
// name is in other pools, too.
func MadeMember(pool string, member MemberKey) string {
	return fmt.Sprintf("%s %s %d", pool, member.Address, member.Port)
}

// MemberKey is what no two members of a pool have in common.
type MemberKey struct {
	Address string
	Port    int
}

// Monitor is how a pool's members are checked.
type Monitor struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Type string `json:"type"`
	// Delay and Timeout are in seconds.
	Delay          int `json:"delay"`
	Timeout        int `json:"timeout"`
	MaxRetries     int `json:"max_retries"`
	MaxRetriesDown int `json:"max_retries_down"`
	// HTTPMethod, URLPath and ExpectedCodes are of the type HTTP.
	HTTPMethod    string `json:"http_method"`
	URLPath       string `json:"url_path"`
	ExpectedCodes string `json:"expected_codes"`

	Status Status `json:"provisioning_status"`
}

// The types of monitors.
const (
	MonitorTCP        = "TCP"
	MonitorUDPConnect = "UDP-CONNECT"
	MonitorSCTP       = "SCTP"
	MonitorHTTP       = "HTTP"
)

// Port is what a port of the Service becomes.
type Port struct {
	// Name tells people which one it is, such as "443/TCP".
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

// Are tells whether they are exactly the listeners and pools that Octavia shows in a load balancer.
// Nil are not.
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

// ProviderOVN is Octavia's provider that forwards packets in Open vSwitch.
const ProviderOVN = "ovn"

package octavia

import (
	"maps"
	"slices"
	"time"
)

// The states of Octavia's resources that are settled or under way.
const (
	StatusActive        = "ACTIVE"
	StatusError         = "ERROR"
	StatusPendingCreate = "PENDING_CREATE"
	StatusPendingUpdate = "PENDING_UPDATE"
	StatusPendingDelete = "PENDING_DELETE"
)

// The operating statuses of Octavia's resources.
const (
	statusOnline    = "ONLINE"
	statusOffline   = "OFFLINE"
	statusNoMonitor = "NO_MONITOR"
	statusDraining  = "DRAINING"
)

// OctaviaResource is what a load balancer and all below it have.
type OctaviaResource struct {
	// ID is made if it is empty.
	ID string
	// ProjectID is the owner. A resource below a load balancer always belongs to the load
	// balancer's owner.
	ProjectID string
	Name      string
	// Down is the contrary of admin_state_up.
	Down bool
	// ProvisioningStatus is StatusActive, StatusError or a StatusPending....
	ProvisioningStatus string
	OperatingStatus    string
	Tags               []string
	CreatedAt          time.Time
	// UpdatedAt is zero until the first change, and each change of a status is one.
	UpdatedAt time.Time
}

// LoadBalancer is one of Octavia's load balancers, with all that is below it.
type LoadBalancer struct {
	OctaviaResource
	Description string

	// One of VIPSubnetID, VIPNetworkID and VIPPortID is needed; the others, and VIPAddress, are
	// found.
	VIPSubnetID    string
	VIPNetworkID   string
	VIPPortID      string
	VIPAddress     string
	VIPQoSPolicyID string
	AdditionalVIPs []AdditionalVIP

	// Provider is "amphora" if it is empty.
	Provider         string
	FlavorID         string
	AvailabilityZone string

	Listeners []Listener
	Pools     []Pool
}

// AdditionalVIP is an address of a load balancer beside its first. The subnet is of the same
// network.
type AdditionalVIP struct {
	SubnetID string
	Address  string
}

// Listener is a port of a load balancer's.
type Listener struct {
	OctaviaResource
	Description  string
	Protocol     string
	ProtocolPort int
	// DefaultPoolID is a pool of the same load balancer; "" for none.
	DefaultPoolID string
	// ConnectionLimit is the most connections at a time; -1 for any number.
	ConnectionLimit int
	InsertHeaders   map[string]string
	// AllowedCIDRs may connect; nil for all.
	AllowedCIDRs []string

	DefaultTLSContainerRef string
	SNIContainerRefs       []string
	TLSCiphers             string
	TLSVersions            []string
	ALPNProtocols          []string
	ClientAuthentication   string
	ClientCATLSContainer   string
	ClientCRLContainer     string
	HSTSMaxAge             int
	HSTSIncludeSubdomains  bool
	HSTSPreload            bool

	// The timeouts are in milliseconds.
	TimeoutClientData    int
	TimeoutMemberConnect int
	TimeoutMemberData    int
	TimeoutTCPInspect    int
}

// Pool is a set of members that a listener distributes to.
type Pool struct {
	OctaviaResource
	Description string
	Protocol    string
	LBAlgorithm string
	// SessionPersistence is nil for none.
	SessionPersistence *SessionPersistence

	TLSEnabled      bool
	TLSContainerRef string
	CATLSContainer  string
	CRLContainer    string
	TLSCiphers      string
	TLSVersions     []string
	ALPNProtocols   []string

	Members []Member
	// Monitor is nil for none.
	Monitor *HealthMonitor
}

// SessionPersistence keeps a client at a member.
type SessionPersistence struct {
	// Type is SOURCE_IP, HTTP_COOKIE or APP_COOKIE.
	Type string
	// CookieName is for APP_COOKIE.
	CookieName string
	// TimeoutSeconds and Granularity (a netmask) are for UDP and SCTP; zero: not given.
	TimeoutSeconds int
	Granularity    string
}

// Member is an address and port of a pool's. Two members of a pool have not both in common.
type Member struct {
	OctaviaResource
	Address      string
	ProtocolPort int
	SubnetID     string
	Weight       int
	Backup       bool
	// MonitorAddress and MonitorPort are checked instead of the above; zero: not given.
	MonitorAddress string
	MonitorPort    int
}

// HealthMonitor is how a pool's members are checked.
type HealthMonitor struct {
	OctaviaResource
	Type string
	// Delay and Timeout are in seconds.
	Delay          int
	Timeout        int
	MaxRetries     int
	MaxRetriesDown int
	HTTPMethod     string
	URLPath        string
	ExpectedCodes  string
	// HTTPVersion is 1.0 or 1.1; 0: not given.
	HTTPVersion float64
	DomainName  string
}

// clone copies the listener so that nothing is shared.
func (l *Listener) clone() Listener {
	c := *l
	c.Tags, c.AllowedCIDRs, c.SNIContainerRefs = slices.Clone(l.Tags), slices.Clone(l.AllowedCIDRs),
		slices.Clone(l.SNIContainerRefs)
	c.TLSVersions, c.ALPNProtocols = slices.Clone(l.TLSVersions), slices.Clone(l.ALPNProtocols)
	c.InsertHeaders = maps.Clone(l.InsertHeaders)
	return c
}

// clone copies the pool, but not its members and its monitor.
func (p *Pool) clone() Pool {
	c := *p
	c.Tags, c.TLSVersions, c.ALPNProtocols = slices.Clone(p.Tags), slices.Clone(p.TLSVersions),
		slices.Clone(p.ALPNProtocols)
	if p.SessionPersistence != nil {
		persistence := *p.SessionPersistence
		c.SessionPersistence = &persistence
	}
	return c
}

package octavia

import "time"

// The provisioning statuses of Octavia's resources.
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

// OctaviaResource has the attributes of a load balancer and of each resource below it.
type OctaviaResource struct {
	// ID is generated if it is empty.
	ID string `api:"id,ro"`
	// ProjectID is the owner. A resource below a load balancer has the owner of the load balancer.
	ProjectID string `api:"project_id|tenant_id,ro"`
	Name      string `api:"name"`
	// Down is the negation of admin_state_up.
	Down bool `api:"admin_state_up,not"`
	// ProvisioningStatus is StatusActive, StatusError or a StatusPending....
	ProvisioningStatus string    `api:"provisioning_status,ro"`
	OperatingStatus    string    `api:"operating_status,ro"`
	Tags               []string  `api:"tags,since=5"`
	CreatedAt          time.Time `api:"created_at,ro,null,format=2006-01-02T15:04:05"`
	// UpdatedAt is zero until the first change; each change of a status counts.
	UpdatedAt time.Time `api:"updated_at,ro,null,format=2006-01-02T15:04:05"`
}

// LoadBalancer is a load balancer of Octavia with all resources below it.
type LoadBalancer struct {
	OctaviaResource
	Description string `api:"description"`

	// One of VIPSubnetID, VIPNetworkID and VIPPortID is required. Octavia finds the others and
	// VIPAddress.
	VIPSubnetID    string `api:"vip_subnet_id,create,null,uuid"`
	VIPNetworkID   string `api:"vip_network_id,create,null,uuid"`
	VIPPortID      string `api:"vip_port_id,create,null,uuid"`
	VIPAddress     string `api:"vip_address,create,null,ip"`
	AdditionalVIPs []AdditionalVIP

	// Provider is "amphora" if it is empty.
	Provider         string `api:"provider,create,null"`
	FlavorID         string `api:"flavor_id,create,null,uuid,since=6"`
	AvailabilityZone string `api:"availability_zone,create,null,since=14"`

	Listeners []Listener
	Pools     []Pool
}

// AdditionalVIP is a second address of a load balancer, in another subnet of the same network.
type AdditionalVIP struct {
	SubnetID string `json:"subnet_id" api:"subnet_id,required,uuid"`
	Address  string `json:"ip_address" api:"ip_address,ip"`
}

// Listener is a port of a load balancer.
type Listener struct {
	OctaviaResource
	Description  string `api:"description"`
	Protocol     string `api:"protocol,create,required,oneof=TCP|HTTPS|HTTP|TERMINATED_HTTPS|UDP|SCTP|PROMETHEUS"`
	ProtocolPort int    `api:"protocol_port,create,required,min=1,max=65535"`
	// DefaultPoolID is a pool of the same load balancer; "" means none.
	DefaultPoolID string `api:"default_pool_id,null,uuid"`
	// ConnectionLimit is the maximum of concurrent connections; -1 means no limit.
	ConnectionLimit int               `api:"connection_limit,min=-1,default=-1"`
	InsertHeaders   map[string]string `api:"insert_headers,nofilter"`
	// AllowedCIDRs may connect; nil means all.
	AllowedCIDRs []string `api:"allowed_cidrs,null,nofilter,cidr,since=12"`

	DefaultTLSContainerRef string   `api:"default_tls_container_ref,null"`
	SNIContainerRefs       []string `api:"sni_container_refs,nofilter"`
	TLSVersions            []string `api:"tls_versions,null,nofilter,oneof=SSLv3|TLSv1|TLSv1.1|TLSv1.2|TLSv1.3,since=17"`

	// The timeouts are in milliseconds, at most 24 days (octavia/common/constants.py).
	TimeoutClientData    int `api:"timeout_client_data,min=0,max=2073600000,default=50000,since=1"`
	TimeoutMemberConnect int `api:"timeout_member_connect,min=0,max=2073600000,default=5000,since=1"`
	TimeoutMemberData    int `api:"timeout_member_data,min=0,max=2073600000,default=50000,since=1"`
	TimeoutTCPInspect    int `api:"timeout_tcp_inspect,min=0,max=2073600000,since=1"`
}

// Pool is a set of members to which a listener distributes.
type Pool struct {
	OctaviaResource
	Description string `api:"description"`
	Protocol    string `api:"protocol,create,required,oneof=TCP|HTTPS|HTTP|PROXY|PROXYV2|UDP|SCTP"`
	LBAlgorithm string `api:"lb_algorithm,required,oneof=LEAST_CONNECTIONS|ROUND_ROBIN|SOURCE_IP|SOURCE_IP_PORT"`
	// SessionPersistence may be nil.
	SessionPersistence *SessionPersistence

	Members []Member
	// Monitor may be nil.
	Monitor *HealthMonitor
}

// SessionPersistence binds a client to a member.
type SessionPersistence struct {
	Type string `api:"type,null,oneof=SOURCE_IP|HTTP_COOKIE|APP_COOKIE"`
	// CookieName is for APP_COOKIE.
	CookieName string `api:"cookie_name,null"`
	// TimeoutSeconds and Granularity (a netmask) are for UDP and SCTP; zero: not set.
	TimeoutSeconds int    `api:"persistence_timeout,null"`
	Granularity    string `api:"persistence_granularity,null"`
}

// Member is an address and a port, which are unique in the pool.
type Member struct {
	OctaviaResource
	Address      string `api:"address,create,required,ip"`
	ProtocolPort int    `api:"protocol_port,create,required,min=1,max=65535"`
	SubnetID     string `api:"subnet_id,create,null,uuid"`
	Weight       int    `api:"weight,min=0,max=256,default=1"`
	Backup       bool   `api:"backup,since=1"`
	// The monitor checks MonitorAddress and MonitorPort instead of the above; zero: not set.
	MonitorAddress string `api:"monitor_address,null,ip"`
	MonitorPort    int    `api:"monitor_port,null,min=1,max=65535"`
}

// HealthMonitor is the health check of a pool's members.
type HealthMonitor struct {
	OctaviaResource
	Type string `api:"type,create,required,oneof=HTTP|HTTPS|PING|TCP|TLS-HELLO|UDP-CONNECT|SCTP"`
	// Delay and Timeout are in seconds.
	Delay          int    `api:"delay,required,min=0"`
	Timeout        int    `api:"timeout,required,min=0"`
	MaxRetries     int    `api:"max_retries,required,min=1,max=10"`
	MaxRetriesDown int    `api:"max_retries_down,min=1,max=10,default=3"`
	HTTPMethod     string `api:"http_method,null,oneof=GET|HEAD|POST|PUT|DELETE|TRACE|OPTIONS|CONNECT|PATCH"`
	URLPath        string `api:"url_path,null"`
	ExpectedCodes  string `api:"expected_codes,null"`
	// HTTPVersion is 1.0 or 1.1; 0: not set. gophercloud sends it as a text.
	HTTPVersion float64 `api:"http_version,null,loose,oneof=1.0|1.1,since=10"`
	DomainName  string  `api:"domain_name,null,since=10"`
}

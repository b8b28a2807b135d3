// Package cloudconf is the configuration of the OpenStack provider: plain data that a host fills in, or that is read from
// cloud.conf, the file of openstack-cloud-controller-manager (OCCM), and from clouds.yaml.
package cloudconf

import "time"

// Config is all that the provider is told. Start from [Default]: the zero value of a field is a value, not its default.
type Config struct {
	Global       Global
	Networking   Networking
	LoadBalancer LoadBalancer
	// LoadBalancerClasses are the sections [LoadBalancerClass "name"], by name.
	LoadBalancerClasses map[string]LoadBalancerClass
	Route               Route
	Metadata            Metadata

	// Client and Instances are fxccm's own. OCCM takes no notice of their sections.
	Client    Client
	Instances Instances
}

// Global tells where the cloud is, and who logs in.
type Global struct {
	AuthURL string

	// A user, by id, or by name and domain, with a password.
	UserID   string
	Username string
	Password Secret

	// The project, by id, or by name and domain.
	TenantID   string
	TenantName string

	// A trust, which takes the place of the project, and the user to whom it was given, if that is not the user above.
	TrustID         string
	TrusteeID       string
	TrusteePassword Secret

	// The domain of user and project, and those of each if they differ.
	DomainID         string
	DomainName       string
	TenantDomainID   string
	TenantDomainName string
	UserDomainID     string
	UserDomainName   string

	// An application credential, by id, or by name and user.
	ApplicationCredentialID     string
	ApplicationCredentialName   string
	ApplicationCredentialSecret Secret

	// Token is one that Keystone has issued. It cannot be renewed.
	Token Secret

	Region string
	// EndpointType is public, internal or admin. Empty is public.
	EndpointType string

	// The authorities that the cloud's certificates are checked against, as a file or as PEM. Empty: the system's.
	CAFile         string
	CAFileContents string
	// TLSInsecure leaves the cloud's certificates unchecked.
	TLSInsecure bool
	// The certificate that the client shows, and its key.
	CertFile string
	KeyFile  string

	// UseClouds takes from clouds.yaml what is not set here.
	UseClouds  bool
	CloudsFile string
	Cloud      string
}

// Networking tells which addresses of an instance become addresses of its node.
type Networking struct {
	IPv6SupportDisabled  bool
	PublicNetworkNames   []string
	InternalNetworkNames []string
	// AddressSortOrder holds CIDRs; addresses in the first one come first.
	AddressSortOrder []string
}

// LoadBalancer holds the defaults of Services of type LoadBalancer.
type LoadBalancer struct {
	Enabled                        bool
	LBVersion                      string
	SubnetID                       string
	MemberSubnetID                 string
	NetworkID                      string
	FloatingNetworkID              string
	FloatingSubnetID               string
	FloatingSubnet                 string
	FloatingSubnetTags             string
	LBMethod                       string
	LBProvider                     string
	CreateMonitor                  bool
	MonitorDelay                   time.Duration
	MonitorTimeout                 time.Duration
	MonitorMaxRetries              int
	MonitorMaxRetriesDown          int
	ManageSecurityGroups           bool
	InternalLB                     bool
	NodeSelector                   string
	CascadeDelete                  bool
	FlavorID                       string
	AvailabilityZone               string
	EnableIngressHostname          bool
	IngressHostnameSuffix          string
	MaxSharedLB                    int
	ContainerStore                 string
	ProviderRequiresSerialAPICalls bool
	DefaultTLSContainerRef         string

	// DriftPeriod is how often load balancers are compared with what they should be, without anything having changed in the cluster.
	// 0: never. OCCM has no such thing.
	DriftPeriod time.Duration
}

// LoadBalancerClass replaces some defaults of the Services that name it.
type LoadBalancerClass struct {
	FloatingNetworkID  string
	FloatingSubnetID   string
	FloatingSubnet     string
	FloatingSubnetTags string
	NetworkID          string
	SubnetID           string
	MemberSubnetID     string
}

// Route names the router whose routes lead to the pods.
type Route struct {
	// RouterID is the router. Empty: the provider serves no routes.
	RouterID string
}

// Metadata holds what OCCM keeps in a section of that name.
type Metadata struct {
	// SearchOrder is checked and has no other effect, as in OCCM.
	SearchOrder string
	// RequestTimeout bounds one attempt of one request to OpenStack. Default 60 s.
	RequestTimeout time.Duration
}

// Client tells how requests are made.
type Client struct {
	// RequestRate is how many requests are begun a second, over time, and RequestBurst how many at once.
	RequestRate  float64
	RequestBurst int
	// MaxRetries is how often a request is made again that was refused for the moment.
	MaxRetries int
}

// Instances tells how servers are looked up.
type Instances struct {
	// Regional writes provider IDs with the region: openstack://region/id.
	Regional bool
	// MetadataMaxAge bounds the age of what a node's metadata (addresses, type, zone) is taken from.
	MetadataMaxAge time.Duration
	// StatusMaxAge bounds the age of what answers whether an instance exists or is shut down.
	StatusMaxAge time.Duration
	// AbsenceConfirmation is how far apart the two answers must be that an instance does not exist before it is believed.
	AbsenceConfirmation time.Duration
	// VanishedNumber and VanishedShare: if at least so many known instances, and more than such a share of them (0 to 1), are
	// absent, none of them is reported as deleted.
	VanishedNumber int
	VanishedShare  float64
}

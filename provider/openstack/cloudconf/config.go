// Package cloudconf is the configuration of the OpenStack provider. A host fills in a [Config], or
// the package reads it from cloud.conf, the file of openstack-cloud-controller-manager (OCCM), and
// from clouds.yaml.
package cloudconf

import "time"

// Config is the configuration of the provider. Start from [Default], because the zero value of a
// field is a value and not its default.
type Config struct {
	Global       Global
	Networking   Networking
	LoadBalancer LoadBalancer
	// LoadBalancerClasses are the sections [LoadBalancerClass "name"], by name.
	LoadBalancerClasses map[string]LoadBalancerClass
	Route               Route
	Metadata            Metadata

	// Regions are further regions or projects, by name: the sections [Global "name"], [Networking
	// "name"], [LoadBalancer "name"] and [Route "name"]. The fields above are the default region.
	// Metadata, Client and Instances apply to all regions. OCCM has no such sections.
	Regions map[string]Region

	// Client and Instances exist only in fxccm. OCCM ignores these sections.
	Client    Client
	Instances Instances
}

// Global is the address of the cloud and the login.
type Global struct {
	AuthURL string

	// These fields are the user, by ID, or by name and domain, with a password.
	UserID   string
	Username string
	Password Secret

	// These fields are the project, by ID, or by name and domain.
	TenantID   string
	TenantName string

	// These fields are a trust, which replaces the project, and the trustee if it is not the user
	// above.
	TrustID         string
	TrusteeID       string
	TrusteePassword Secret

	// These fields are the common domain of user and project, and the domain of each if they
	// differ.
	DomainID         string
	DomainName       string
	TenantDomainID   string
	TenantDomainName string
	UserDomainID     string
	UserDomainName   string

	// These fields are an application credential, by ID, or by name and user.
	ApplicationCredentialID     string
	ApplicationCredentialName   string
	ApplicationCredentialSecret Secret

	// Token was issued by Keystone. It cannot be renewed.
	Token Secret

	Region string
	// EndpointType is public, internal or admin. Empty is public.
	EndpointType string
	// These fields replace the addresses in Keystone's catalog, with or without the version of the
	// API. OCCM has no such options.
	ComputeEndpoint      string
	NetworkEndpoint      string
	LoadBalancerEndpoint string
	KeyManagerEndpoint   string

	// CAFile and the next field are the authorities that sign the certificates of the cloud, as a
	// file or as PEM. Empty: the authorities of the system.
	CAFile         string
	CAFileContents string
	// TLSInsecure disables the verification of the cloud's certificates.
	TLSInsecure bool
	// CertFile and KeyFile are the client certificate and its key.
	CertFile string
	KeyFile  string

	// UseClouds fills empty options from clouds.yaml.
	UseClouds  bool
	CloudsFile string
	Cloud      string
}

// Networking selects the addresses of an instance that become addresses of its node.
type Networking struct {
	IPv6SupportDisabled  bool
	PublicNetworkNames   []string
	InternalNetworkNames []string
	// AddressSortOrder lists CIDRs; addresses in the first one come first.
	AddressSortOrder []string
}

// LoadBalancer has the defaults of Services of type LoadBalancer.
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

	// AllowedAnnotations lists the annotations that name objects of the cloud and that users may
	// set, without their prefix: "all", "none", or names with commas between them.
	AllowedAnnotations string
	// MaxSharedListeners limits the listeners of a load balancer that Services share by the
	// name of share-as. OCCM has no such option.
	MaxSharedListeners int
	// ShareAs is the name by which the Services of a namespace share load balancers if their
	// annotation share-as names no other. OCCM has no such option.
	ShareAs string
	// DriftPeriod is the interval at which load balancers are checked for drift without a change in
	// the cluster. 0 disables the check. OCCM has no such option.
	DriftPeriod time.Duration
	// MemberTarget says what load balancers forward to: "node", "pod", or "auto", which is "pod" if
	// the pods can be reached. OCCM has no such option.
	MemberTarget string
	// PodRanges are the CIDRs of pod addresses that the router of the load balancers' subnet leads
	// to. Empty: those to which fxccm writes routes, if any. OCCM has no such option.
	PodRanges []string
	// ProviderNeedsNoNodePorts: the provider forwards to nodes at the port of the Service, so nodes
	// are members at that port if it has no node port. OCCM has no such option.
	ProviderNeedsNoNodePorts bool
}

// LoadBalancerClass overrides some defaults for the Services that name the class.
type LoadBalancerClass struct {
	FloatingNetworkID  string
	FloatingSubnetID   string
	FloatingSubnet     string
	FloatingSubnetTags string
	NetworkID          string
	SubnetID           string
	MemberSubnetID     string
	// MemberTarget replaces that of [LoadBalancer]; "": it does not.
	MemberTarget string
	// AllowedAnnotations replaces that of [LoadBalancer]; "": it does not.
	AllowedAnnotations string
	// Namespaces may use the class. Empty: all namespaces.
	Namespaces []string
	// ShareAs replaces that of [LoadBalancer]; "": it does not.
	ShareAs string
	// ShareAcrossNamespaces: Services of several namespaces may share a load balancer by the
	// name of share-as.
	ShareAcrossNamespaces bool
}

// Route names the router that gets the routes to the pods.
type Route struct {
	// RouterID is the ID of the router. Empty: the provider serves no routes.
	RouterID string
}

// Metadata is OCCM's section of that name.
type Metadata struct {
	// SearchOrder is validated and has no other effect, as in OCCM.
	SearchOrder string
	// RequestTimeout limits one attempt of one request to OpenStack. The default is 60 s.
	RequestTimeout time.Duration
}

// Client limits requests to OpenStack.
type Client struct {
	// RequestRate is the average number of requests per second, and RequestBurst the number of
	// requests at once.
	RequestRate  float64
	RequestBurst int
	// MaxRetries limits the retries of a request after a transient failure.
	MaxRetries int
}

// Instances controls how servers are looked up.
type Instances struct {
	// Regional writes provider IDs with the region: openstack://region/id.
	Regional bool
	// MetadataMaxAge limits the age of cached data for node metadata (addresses, type, zone).
	MetadataMaxAge time.Duration
	// StatusMaxAge limits the age of cached data that says whether an instance exists or is shut
	// down.
	StatusMaxAge time.Duration
	// AbsenceConfirmation is the minimum time between the two responses that confirm that an
	// instance does not exist.
	AbsenceConfirmation time.Duration
	// VanishedNumber and VanishedShare configure the mass deletion guard. If at least
	// VanishedNumber known instances are absent, and more than VanishedShare of them (0 to 1), none
	// of them is reported as deleted.
	VanishedNumber int
	VanishedShare  float64
	// RemovalTaints are keys of taints that announce the removal of a node, besides those of the
	// cluster autoscaler and Karpenter. The mass deletion guard does not count such nodes, and load
	// balancers send them no new connections.
	RemovalTaints []string
}

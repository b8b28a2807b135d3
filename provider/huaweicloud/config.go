package huaweicloud

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/internal/redact"
)

// Secret is a text that fmt, JSON, YAML and loggers never print. Convert it to a string to use it.
type Secret = redact.Secret

// Config is the configuration of the provider: a YAML file with these keys, or the environment
// variables in the comments. An empty field is unset.
type Config struct {
	// IdentityEndpoint is the URL of IAM. The endpoints of the other services follow from its
	// domain: https://iam.example.com gives https://ecs.REGION.example.com. The provider sends no
	// request to IAM, because each request is signed. IDENTITY_ENDPOINT.
	IdentityEndpoint string `json:"identityEndpoint,omitempty"`
	// ProjectID is the project of the cluster's resources. Required. PROJECT_ID.
	ProjectID string `json:"projectID,omitempty"`
	// DomainID is the account. It is accepted so that one set of variables serves several programs;
	// requests in a project do not contain it. DOMAIN_ID.
	DomainID string `json:"domainID,omitempty"`
	// AccessKeyID and AccessKeySecret sign the requests. Required. ACCESS_KEY_ID and
	// ACCESS_KEY_SECRET.
	AccessKeyID     string `json:"accessKeyID,omitempty"`
	AccessKeySecret Secret `json:"accessKeySecret,omitempty"`
	// RouterID is the VPC of the cluster. Required. ROUTER_ID.
	RouterID string `json:"routerID,omitempty"`
	// Region is the region, such as cn-north-4. Required. REGION.
	Region string `json:"region,omitempty"`
	// SubnetID is the IPv4 subnet (neutron_subnet_id) of the nodes and of the load balancers'
	// private addresses. Required. SUBNET_ID.
	SubnetID string `json:"subnetID,omitempty"`

	// ECSEndpoint, ELBEndpoint and EIPEndpoint override the URLs that follow from IdentityEndpoint.
	ECSEndpoint string `json:"ecsEndpoint,omitempty"`
	ELBEndpoint string `json:"elbEndpoint,omitempty"`
	EIPEndpoint string `json:"eipEndpoint,omitempty"`

	// RemovalTaints are further keys of taints that mark a node for removal: the guard against mass
	// deletion does not count it, and it is no member of load balancers. The taints of the cluster
	// autoscaler and Karpenter always mark a node.
	RemovalTaints []string `json:"removalTaints,omitempty"`

	LoadBalancer LoadBalancerConfig `json:"loadBalancer,omitempty"`
}

// LoadBalancerConfig applies to the load balancers that the provider creates.
type LoadBalancerConfig struct {
	// AvailabilityZones are the zones of new load balancers. Default: all in which ELB sells them.
	AvailabilityZones []string `json:"availabilityZones,omitempty"`
	// L4FlavorID and L7FlavorID are the flavors of new load balancers. Without both, ELB chooses.
	L4FlavorID string `json:"l4FlavorID,omitempty"`
	L7FlavorID string `json:"l7FlavorID,omitempty"`
	// MemberSubnets are the IPv4 subnets (neutron_subnet_id) of nodes by their CIDR. Default, also
	// for nodes in none of them: SubnetID.
	MemberSubnets map[string]string `json:"memberSubnets,omitempty"`
}

// subnets returns the parsed MemberSubnets and the problems of the values.
func (c LoadBalancerConfig) subnets() (map[netip.Prefix]string, []string) {
	subnets, problems := map[netip.Prefix]string{}, []string(nil)
	for _, text := range slices.Sorted(maps.Keys(c.MemberSubnets)) {
		id := c.MemberSubnets[text]
		prefix, err := netip.ParsePrefix(text)
		switch {
		case err != nil || !prefix.Addr().Is4() || prefix != prefix.Masked():
			problems = append(problems, fmt.Sprintf("loadBalancer.memberSubnets: %q is not the "+
				"IPv4 CIDR of a subnet, such as 192.168.1.0/24", text))
		case !isPlain(id):
			problems = append(problems, fmt.Sprintf("loadBalancer.memberSubnets: %s needs the ID "+
				"of its subnet", text))
		default:
			subnets[prefix] = id
		}
	}
	return subnets, problems
}

// variable is an environment variable with the key that it stands for.
type variable struct {
	name, key  string
	field      *string
	isRequired bool
}

func (c *Config) variables() []variable {
	return []variable{
		{"IDENTITY_ENDPOINT", "identityEndpoint", &c.IdentityEndpoint, false},
		{"PROJECT_ID", "projectID", &c.ProjectID, true},
		{"DOMAIN_ID", "domainID", &c.DomainID, false},
		{"ACCESS_KEY_ID", "accessKeyID", &c.AccessKeyID, true},
		{"ACCESS_KEY_SECRET", "accessKeySecret", (*string)(&c.AccessKeySecret), true},
		{"ROUTER_ID", "routerID", &c.RouterID, true},
		{"REGION", "region", &c.Region, true},
		{"SUBNET_ID", "subnetID", &c.SubnetID, true},
	}
}

func fromEnvironment(getenv func(string) string) Config {
	var c Config
	for _, v := range c.variables() {
		*v.field = strings.TrimSpace(getenv(v.name))
	}
	return c
}

// fromFile reads a YAML file. Unless strict, unknown keys are warnings.
func fromFile(path string, strict bool) (c Config, warnings []string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, nil, fmt.Errorf("read the cloud configuration: %w", err)
	}
	strictErr := yaml.UnmarshalStrict(text, &c)
	if strictErr == nil {
		return c, nil, nil
	}
	c = Config{}
	if err := yaml.Unmarshal(text, &c); err != nil {
		return Config{}, nil, fmt.Errorf("%s is not valid YAML with the keys of the cloud "+
			"configuration: %s", path, withoutValues(err))
	}
	problem := fmt.Sprintf("%s: %s", path, withoutValues(strictErr))
	if strict {
		return Config{}, nil, errors.New(problem)
	}
	return c, []string{problem}, nil
}

// withoutValues shortens an error of the decoder, which may quote a value of the file.
func withoutValues(err error) string {
	text := err.Error()
	if _, key, ok := strings.Cut(text, `unknown field "`); ok {
		return "unknown key " + upTo(key, `"`)
	}
	if before, _, ok := strings.Cut(text, `" already set in map`); ok {
		return "key " + before[strings.LastIndex(before, `"`)+1:] + " is given twice"
	}
	if _, name, ok := strings.Cut(text, "Go struct field "); ok {
		_, key, _ := strings.Cut(upTo(name, " "), ".")
		return "key " + key + " has a value of the wrong type"
	}
	return "the text cannot be parsed"
}

func upTo(text, end string) string {
	before, _, _ := strings.Cut(text, end)
	return before
}

// problems returns what is invalid, without secrets.
func (c Config) problems() []string {
	var problems []string
	for _, v := range c.variables() {
		switch {
		case !v.isRequired:
		case *v.field == "":
			problems = append(problems, fmt.Sprintf("%s (%s) is required", v.key, v.name))
		case v.key != "accessKeySecret" && !isPlain(*v.field):
			problems = append(problems, fmt.Sprintf("%s (%s) may contain only letters, digits, "+
				"'-', '_' and '.'", v.key, v.name))
		}
	}
	for _, endpoint := range []struct{ key, value string }{
		{"identityEndpoint", c.IdentityEndpoint},
		{"ecsEndpoint", c.ECSEndpoint},
		{"elbEndpoint", c.ELBEndpoint},
		{"eipEndpoint", c.EIPEndpoint},
	} {
		if err := checkEndpoint(endpoint.value); endpoint.value != "" && err != nil {
			problems = append(problems, fmt.Sprintf("%s: %s", endpoint.key, err))
		}
	}
	for _, key := range c.RemovalTaints {
		if len(validation.IsQualifiedName(key)) > 0 {
			problems = append(problems, fmt.Sprintf("removalTaints: %q is no key of a taint", key))
		}
	}
	_, invalid := c.LoadBalancer.subnets()
	problems = append(problems, invalid...)
	if _, err := c.endpoints(); err != nil && len(problems) == 0 {
		problems = append(problems, err.Error())
	}
	return problems
}

// plain are the characters that may be part of a URL's path or host.
const plain = "-._0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

func isPlain(value string) bool { return value != "" && strings.Trim(value, plain) == "" }

func checkEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("it must be a URL such as https://iam.cn-north-4.myhuaweicloud.com")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("it must not contain credentials, a query or a fragment")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return errors.New("http is allowed for this machine only; use https")
	}
	return nil
}

func isLoopback(host string) bool {
	ip, _ := netip.ParseAddr(host)
	return host == "localhost" || ip.IsLoopback()
}

// endpoints are the URLs of the services.
type endpoints struct{ ecs, elb, eip string }

func (c Config) endpoints() (endpoints, error) {
	result := endpoints{c.ECSEndpoint, c.ELBEndpoint, c.EIPEndpoint}
	for service, endpoint := range map[string]*string{
		"ecs": &result.ecs, "elb": &result.elb,
		"vpc": &result.eip, // EIPs are part of the VPC service
	} {
		if *endpoint != "" {
			*endpoint = strings.TrimSuffix(*endpoint, "/")
			continue
		}
		if c.IdentityEndpoint == "" {
			return endpoints{}, errors.New("identityEndpoint (IDENTITY_ENDPOINT) is required " +
				"unless ecsEndpoint, elbEndpoint and eipEndpoint are set")
		}
		u, err := url.Parse(c.IdentityEndpoint)
		if err != nil {
			return endpoints{}, errors.New("identityEndpoint is not a URL")
		}
		domain, isIAM := strings.CutPrefix(u.Host, "iam.")
		if !isIAM {
			return endpoints{}, fmt.Errorf("identityEndpoint: the host %s does not begin with "+
				"iam., so the other endpoints are unknown: set ecsEndpoint, elbEndpoint and "+
				"eipEndpoint", u.Host)
		}
		domain = strings.TrimPrefix(domain, c.Region+".")
		*endpoint = fmt.Sprintf("%s://%s.%s.%s", u.Scheme, service, c.Region, domain)
	}
	return result, nil
}

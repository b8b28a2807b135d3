package awsstub

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
)

// The names in the stub's answers.
const (
	Region    = "us-east-1"
	VPC       = "vpc-1"
	Subnet    = "subnet-1"
	ClusterID = "thirdparty"
	// securityGroup is shared by all load balancers, so that the stub needs no API for groups.
	securityGroup = "sg-1"
)

// Zones are the availability zones and their IDs.
var zones = map[string]string{"us-east-1a": "use1-az4", "us-east-1b": "use1-az6"}

// An Instance is a machine, which belongs to the cluster.
type Instance struct {
	// ID has the form i-0123456789abcdef0.
	ID string
	// PrivateDNSName is the name by which the provider finds a new node.
	PrivateDNSName      string
	Type, Zone          string
	PrivateIP, PublicIP string
}

// A Balancer is a classic load balancer.
type Balancer struct {
	Name, DNSName string
	Listeners     []Listener
	Subnets       []string
	// Members are instance IDs, sorted.
	Members []string
	// Service is the tag kubernetes.io/service-name.
	Service string

	securityGroups []string
	health         healthCheck
	attributes     attributes
}

// A Listener forwards a port.
type Listener struct {
	Protocol         string
	Port, TargetPort int
}

// A Cloud is the state of one stub. It is safe for concurrent use.
type Cloud struct {
	server *httptest.Server

	mu        sync.Mutex
	instances map[string]Instance
	balancers map[string]*Balancer
	requests  []*Request
	holds     map[string]*hold
	// changed is closed and replaced when a request arrives or ends.
	changed chan struct{}
}

// Start serves an empty cloud. The caller must Close it.
func Start() *Cloud {
	return StartBehind(func(cloud http.Handler) http.Handler { return cloud })
}

// StartBehind is [Start] with a handler that gets the requests first.
func StartBehind(first func(cloud http.Handler) http.Handler) *Cloud {
	c := &Cloud{
		instances: map[string]Instance{},
		balancers: map[string]*Balancer{},
		holds:     map[string]*hold{},
		changed:   make(chan struct{}),
	}
	c.server = httptest.NewServer(first(c))
	return c
}

// Close ends the server and the held requests.
func (c *Cloud) Close() {
	c.server.CloseClientConnections()
	c.server.Close()
}

// Config is the provider's configuration file for a cluster on this cloud. It names region, network
// and cluster, because the stub has no metadata service.
func (c *Cloud) Config(clusterID string) string {
	config := fmt.Sprintf(
		"[Global]\nRegion = %s\nVPC = %s\nSubnetID = %s\nKubernetesClusterID = %s\nElbSecurityGroup = %s\nDisableSecurityGroupIngress = true\n",
		Region, VPC, Subnet, clusterID, securityGroup)
	for service, signing := range map[string]string{
		"EC2":                    "ec2",
		"Elastic Load Balancing": "elasticloadbalancing",
	} {
		config += fmt.Sprintf(
			"\n[ServiceOverride %q]\nService = %s\nRegion = %s\nURL = %s\nSigningRegion = %s\nSigningName = %s\n",
			signing, service, Region, c.server.URL, Region, signing)
	}
	return config
}

// Launch adds instances.
func (c *Cloud) Launch(instances ...Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range instances {
		c.instances[i.ID] = i
	}
}

// Terminate removes an instance, like EC2 some time after its termination.
func (c *Cloud) Terminate(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.instances, id)
}

// Balancers returns the load balancers by the name of their Service.
func (c *Cloud) Balancers() map[string]Balancer {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := make(map[string]Balancer, len(c.balancers))
	for _, b := range c.balancers {
		found[b.Service] = *b
	}
	return found
}

// sortedInstances is called with the lock held.
func (c *Cloud) sortedInstances() []Instance {
	var sorted []Instance
	for _, id := range slices.Sorted(maps.Keys(c.instances)) {
		sorted = append(sorted, c.instances[id])
	}
	return sorted
}

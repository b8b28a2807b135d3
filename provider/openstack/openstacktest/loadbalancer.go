package openstacktest

import "github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/octavia"

type (
	// OctaviaResource has the attributes of a load balancer and of each resource below it.
	OctaviaResource = octavia.OctaviaResource
	// LoadBalancer is a load balancer of Octavia with all resources below it.
	LoadBalancer = octavia.LoadBalancer
	// AdditionalVIP is a second address of a load balancer, in another subnet of the same network.
	AdditionalVIP = octavia.AdditionalVIP
	// Listener is a port of a load balancer.
	Listener = octavia.Listener
	// Pool is a set of members to which a listener distributes.
	Pool = octavia.Pool
	// SessionPersistence binds a client to a member.
	SessionPersistence = octavia.SessionPersistence
	// Member is an address and a port, which are unique in the pool.
	Member = octavia.Member
	// HealthMonitor is the health check of a pool's members.
	HealthMonitor = octavia.HealthMonitor
	// LoadBalancerFlavor is a flavor of load balancers.
	LoadBalancerFlavor = octavia.LoadBalancerFlavor
	// ProvisioningRule changes duration and result of Octavia's work on load balancers: creations,
	// updates and deletions of a load balancer and of all resources below it. Without a rule, work
	// takes as long as [WithProvisioning] says, and succeeds.
	ProvisioningRule = octavia.ProvisioningRule
)

// Provisioning statuses of Octavia's resources.
const (
	StatusActive        = octavia.StatusActive
	StatusError         = octavia.StatusError
	StatusPendingCreate = octavia.StatusPendingCreate
	StatusPendingUpdate = octavia.StatusPendingUpdate
	StatusPendingDelete = octavia.StatusPendingDelete
)

// Resources of [Cloud.SetLoadBalancerQuota].
const (
	QuotaLoadBalancer = octavia.QuotaLoadBalancer
	QuotaListener     = octavia.QuotaListener
)

// WithLoadBalancerVersion sets the newest version of Octavia's API, 2.minor. Anything newer is
// refused as unknown, and is not shown. Default 27, as in 2024.1.
func WithLoadBalancerVersion(minor int) Option {
	return func(s *settings) { s.octavia.Minor = minor }
}

// WithFailoverByOwners lets projects fail over their own load balancers, as the policy of some
// clouds does. Without it only administrators may.
func WithFailoverByOwners() Option {
	return func(s *settings) { s.octavia.OwnersFailOver = true }
}

// LoadBalancers are the load balancers of all projects, oldest first. They are copies.
func (s *Cloud) LoadBalancers() []LoadBalancer { return s.loadBalancer.LoadBalancers() }

// LoadBalancer finds a load balancer by its ID or by its name, if the name is unique.
func (s *Cloud) LoadBalancer(idOrName string) (LoadBalancer, error) {
	return s.loadBalancer.LoadBalancer(idOrName)
}

// AddLoadBalancer adds an ACTIVE load balancer with all resources below it, by the rules of the
// API, and returns its ID. A listener names its pool by an ID that this call gives to the pool; the
// cloud generates empty IDs. It panics if the cloud would refuse it.
//
// Zero values have the meaning of the API: a listener without ConnectionLimit has no limit, a
// listener without timeouts has the defaults, and a member without Weight has 1; change it later to
// 0.
func (s *Cloud) AddLoadBalancer(lb LoadBalancer) string {
	return s.loadBalancer.AddLoadBalancer(lb)
}

// ChangeLoadBalancer changes a load balancer and the resources below it at once, bypassing all
// rules, like an operator in the database. Listeners, pools and members that are missing after the
// change are deleted; new ones without an ID get one.
func (s *Cloud) ChangeLoadBalancer(id string, change func(*LoadBalancer)) error {
	return s.loadBalancer.ChangeLoadBalancer(id, change)
}

// DeleteLoadBalancer deletes a load balancer and all resources below it at once, whatever its
// state, like another client.
func (s *Cloud) DeleteLoadBalancer(id string) error { return s.loadBalancer.DeleteLoadBalancer(id) }

// AddLoadBalancerFlavor adds a flavor of load balancers and returns its ID.
func (s *Cloud) AddLoadBalancerFlavor(f LoadBalancerFlavor) string {
	return s.loadBalancer.AddLoadBalancerFlavor(f)
}

// AddLoadBalancerZone adds an availability zone of Octavia.
func (s *Cloud) AddLoadBalancerZone(name string) { s.loadBalancer.AddLoadBalancerZone(name) }

// Provision applies a rule to all work that begins from now on. Of several rules for a load
// balancer, the first is used.
func (s *Cloud) Provision(rule ProvisioningRule) (remove func()) {
	return s.loadBalancer.Provision(rule)
}

// SetProvisioningStatus sets the status of a load balancer, listener, pool, member or health
// monitor. It ends the work on the load balancer: a PENDING status stays until the next call.
func (s *Cloud) SetProvisioningStatus(id, status string) error {
	return s.loadBalancer.SetProvisioningStatus(id, status)
}

// SetLoadBalancerQuota limits the number of a resource in each project: [QuotaLoadBalancer],
// [QuotaListener], "pool", "member" or "healthmonitor"; -1, the default, means no limit.
func (s *Cloud) SetLoadBalancerQuota(resource string, limit int) {
	s.loadBalancer.SetLoadBalancerQuota(resource, limit)
}

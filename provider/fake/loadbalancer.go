package fake

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// A Balancer is a load balancer in the cloud.
type Balancer struct {
	// Name is cloudprovider.DefaultLoadBalancerName of the Service.
	Name    string `json:"name"`
	Cluster string `json:"cluster"`
	// Service is the namespace/name of the Service, UID its UID.
	Service string    `json:"service"`
	UID     types.UID `json:"uid"`
	// Ingress holds one address for each IP family, in the order of the Service's ipFamilies (IPv4
	// if it has none). IPv4 addresses come from 192.0.2.0/24, then 198.51.100.0/24, 203.0.113.0/24
	// and 198.18.0.0/15; IPv6 addresses from 2001:db8::/64.
	Ingress []string `json:"ingress"`
	// Members are the names of the nodes, sorted.
	Members []string `json:"members"`
	// Ports and Annotations are from the Service when the load balancer was last ensured.
	Ports       []v1.ServicePort  `json:"ports"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func (b Balancer) copy() Balancer {
	b.Ingress = slices.Clone(b.Ingress)
	b.Members = slices.Clone(b.Members)
	b.Ports = slices.Clone(b.Ports)
	b.Annotations = maps.Clone(b.Annotations)
	return b
}

type balancerKey struct{ cluster, name string }

// LoadBalancers returns all load balancers, sorted by cluster, Service and UID.
func (c *Cloud) LoadBalancers() []Balancer {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Balancer, 0, len(c.balancers))
	for _, b := range c.balancers {
		all = append(all, b.copy())
	}
	slices.SortFunc(all, func(a, b Balancer) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Service, b.Service),
			cmp.Compare(a.UID, b.UID))
	})
	return all
}

// LoadBalancer returns the load balancer of the Service with that namespace/name.
func (c *Cloud) LoadBalancer(service string) (Balancer, bool) {
	for _, b := range c.LoadBalancers() {
		if b.Service == service {
			return b, true
		}
	}
	return Balancer{}, false
}

// serviceRef is the part of a Service that the cloud uses.
type serviceRef struct {
	Namespace   string            `json:"namespace,omitempty"`
	Name        string            `json:"name,omitempty"`
	UID         types.UID         `json:"uid,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Ports       []v1.ServicePort  `json:"ports,omitempty"`
	IPFamilies  []v1.IPFamily     `json:"ipFamilies,omitempty"`
}

// identify returns the fields of a Service that identify its load balancer.
func identify(s *v1.Service) serviceRef {
	if s == nil {
		return serviceRef{}
	}
	return serviceRef{Namespace: s.Namespace, Name: s.Name, UID: s.UID}
}

// describe returns the fields of a Service that define its load balancer.
func describe(s *v1.Service) serviceRef {
	ref := identify(s)
	if s != nil {
		ref.Annotations, ref.Ports, ref.IPFamilies = s.Annotations, s.Spec.Ports, s.Spec.IPFamilies
	}
	return ref
}

func (s serviceRef) key() string { return s.Namespace + "/" + s.Name }

func (s serviceRef) balancerName() string {
	var service v1.Service
	service.UID = s.UID
	return cloudprovider.DefaultLoadBalancerName(&service)
}

func keyOf(a arguments) balancerKey { return balancerKey{a.Cluster, a.Service.balancerName()} }

func (c *Cloud) getLoadBalancerName(a arguments) (results, error) {
	return results{Text: a.Service.balancerName()}, nil
}

func (c *Cloud) getLoadBalancer(a arguments) (results, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.balancers[keyOf(a)]
	if !ok {
		return results{}, nil
	}
	return results{Yes: true, Ingress: slices.Clone(b.Ingress)}, nil
}

func (c *Cloud) ensureLoadBalancer(a arguments) (results, error) {
	defer c.changes.notify()
	c.mu.Lock()
	defer c.mu.Unlock()
	key := keyOf(a)
	b := Balancer{
		Name: key.name, Cluster: key.cluster, Service: a.Service.key(),
		UID: a.Service.UID,
	}
	if existing, ok := c.balancers[key]; ok {
		b.Ingress = existing.Ingress
	}
	ingress, err := c.addressFamilies(b.Ingress, a.Service.IPFamilies)
	if err != nil {
		return results{}, fmt.Errorf("load balancer %s of service %s: %w", b.Name, b.Service, err)
	}
	b.Ingress = ingress
	b.Members = slices.Sorted(slices.Values(a.Nodes))
	b.Ports = a.Service.Ports
	b.Annotations = a.Service.Annotations
	b = b.copy()
	c.balancers[key] = &b
	return results{Ingress: slices.Clone(ingress)}, nil
}

// addressFamilies returns one address of each family: the one in before, or a new one. Addresses of
// other families are released.
func (c *Cloud) addressFamilies(before []string, families []v1.IPFamily) ([]string, error) {
	if len(families) == 0 {
		families = []v1.IPFamily{v1.IPv4Protocol}
	}
	var addresses, taken []string
	for _, family := range families {
		from, err := c.ingressPool(family)
		if err != nil {
			c.giveBack(taken)
			return nil, err
		}
		if kept := slices.IndexFunc(before, from.covers); kept >= 0 {
			addresses = append(addresses, before[kept])
			continue
		}
		address, err := from.take()
		if err != nil {
			c.giveBack(taken)
			return nil, err
		}
		addresses, taken = append(addresses, address), append(taken, address)
	}
	c.giveBack(slices.DeleteFunc(slices.Clone(before),
		func(a string) bool { return slices.Contains(addresses, a) }))
	return addresses, nil
}

func (c *Cloud) giveBack(addresses []string) {
	for _, a := range addresses {
		c.ingressIPv4.giveBack(a)
		c.ingressIPv6.giveBack(a)
	}
}

func (c *Cloud) ingressPool(family v1.IPFamily) (*pool, error) {
	switch family {
	case v1.IPv4Protocol:
		return c.ingressIPv4, nil
	case v1.IPv6Protocol:
		return c.ingressIPv6, nil
	default:
		return nil, fmt.Errorf("IP family %q is neither IPv4 nor IPv6", family)
	}
}

func (c *Cloud) updateLoadBalancer(a arguments) (results, error) {
	defer c.changes.notify()
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.balancers[keyOf(a)]
	if !ok {
		return results{}, fmt.Errorf("load balancer %s of service %s does not exist",
			a.Service.balancerName(), a.Service.key())
	}
	b.Members = slices.Sorted(slices.Values(a.Nodes))
	return results{}, nil
}

func (c *Cloud) ensureLoadBalancerDeleted(a arguments) (results, error) {
	defer c.changes.notify()
	c.mu.Lock()
	defer c.mu.Unlock()
	key := keyOf(a)
	if b, ok := c.balancers[key]; ok {
		c.giveBack(b.Ingress)
		delete(c.balancers, key)
	}
	return results{}, nil
}

// LoadBalancer implements cloudprovider.Interface.
func (p *provider) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return offer[cloudprovider.LoadBalancer](p, "LoadBalancer", p)
}

// GetLoadBalancer implements cloudprovider.LoadBalancer.
func (p *provider) GetLoadBalancer(
	ctx context.Context, clusterName string, service *v1.Service,
) (*v1.LoadBalancerStatus, bool, error) {
	r, err := p.call(ctx, "GetLoadBalancer",
		arguments{Cluster: clusterName, Service: identify(service)})
	return r.status(), r.Yes, err
}

// GetLoadBalancerName implements cloudprovider.LoadBalancer. It cannot report an error; after one,
// it returns the default name.
func (p *provider) GetLoadBalancerName(
	ctx context.Context, clusterName string, service *v1.Service,
) string {
	ref := identify(service)
	r, err := p.call(ctx, "GetLoadBalancerName", arguments{Cluster: clusterName, Service: ref})
	if err != nil {
		return ref.balancerName()
	}
	return r.Text
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (p *provider) EnsureLoadBalancer(
	ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node,
) (*v1.LoadBalancerStatus, error) {
	r, err := p.call(ctx, "EnsureLoadBalancer",
		arguments{Cluster: clusterName, Service: describe(service), Nodes: namesOf(nodes)})
	return r.status(), err
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer.
func (p *provider) UpdateLoadBalancer(
	ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node,
) error {
	_, err := p.call(ctx, "UpdateLoadBalancer",
		arguments{Cluster: clusterName, Service: identify(service), Nodes: namesOf(nodes)})
	return err
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer.
func (p *provider) EnsureLoadBalancerDeleted(
	ctx context.Context, clusterName string, service *v1.Service,
) error {
	_, err := p.call(ctx, "EnsureLoadBalancerDeleted",
		arguments{Cluster: clusterName, Service: identify(service)})
	return err
}

// status returns the load balancer's status; nil without a load balancer or after ReturnZero.
func (r results) status() *v1.LoadBalancerStatus {
	if r.Ingress == nil {
		return nil
	}
	status := &v1.LoadBalancerStatus{}
	for _, address := range r.Ingress {
		status.Ingress = append(status.Ingress, v1.LoadBalancerIngress{IP: address})
	}
	return status
}

func namesOf(nodes []*v1.Node) []string {
	names := make([]string, 0, len(nodes))
	for _, node := range nodes {
		if node != nil {
			names = append(names, node.Name)
		}
	}
	return names
}

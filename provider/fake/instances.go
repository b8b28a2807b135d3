package fake

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	cloudprovider "k8s.io/cloud-provider"
)

// An Instance is a machine in the cloud. Only Name must be set.
type Instance struct {
	// Name is the name of the instance and of its node, a DNS subdomain as node names are.
	Name string `json:"name"`
	// ProviderID has the form <provider>://<region>/<name>, with the cloud's provider name; region
	// and name consist of letters, digits, '.', '_' and '-'. The default has Region and Name.
	ProviderID string `json:"providerID,omitempty"`
	// Type is the instance type. The default is "standard".
	Type string `json:"type,omitempty"`
	// Zone and Region default to the cloud's; see [WithRegion].
	Zone   string `json:"zone,omitempty"`
	Region string `json:"region,omitempty"`
	// Addresses are, if nil, the name as Hostname and an InternalIP of 10.240.0.0/16. An instance
	// that replaces another inherits the addresses of that one. An empty slice means no addresses.
	Addresses []v1.NodeAddress `json:"addresses"`
	// AdditionalLabels are put on the node when it is initialized.
	AdditionalLabels map[string]string `json:"additionalLabels,omitempty"`
	// PodCIDRs are the pod ranges that the cloud has assigned to the instance.
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	// Shutdown: the instance exists but does not run.
	Shutdown bool `json:"shutdown,omitempty"`
}

func (i Instance) copy() Instance {
	i.Addresses = slices.Clone(i.Addresses)
	i.AdditionalLabels = maps.Clone(i.AdditionalLabels)
	i.PodCIDRs = slices.Clone(i.PodCIDRs)
	return i
}

// AddInstances adds instances. Each replaces an existing one of the same name. If one of them is
// invalid none is added, and the error names it and the reason.
func (c *Cloud) AddInstances(instances ...Instance) error {
	defer c.changes.notify()
	c.mu.Lock()
	defer c.mu.Unlock()
	added := make([]Instance, 0, len(instances))
	for _, i := range instances {
		i = c.withDefaults(i.copy())
		if err := c.validate(i, added); err != nil {
			return fmt.Errorf("add instance %q: %w", i.Name, err)
		}
		added = append(added, i)
	}
	for n := range added {
		if err := c.address(&added[n]); err != nil {
			return fmt.Errorf("add instance %q: %w", added[n].Name, err)
		}
	}
	for _, i := range added {
		delete(c.instanceByID, c.instances[i.Name].ProviderID)
		c.instances[i.Name] = i
		c.instanceByID[i.ProviderID] = i.Name
	}
	return nil
}

func (c *Cloud) withDefaults(i Instance) Instance {
	i.Type = cmp.Or(i.Type, "standard")
	i.Zone = cmp.Or(i.Zone, c.zone)
	i.Region = cmp.Or(i.Region, c.region)
	i.ProviderID = cmp.Or(i.ProviderID,
		providerID{c.name, i.Region, i.Name}.String())
	return i
}

func (c *Cloud) validate(i Instance, added []Instance) error {
	if problems := validation.IsDNS1123Subdomain(i.Name); len(problems) > 0 {
		return fmt.Errorf("the name cannot be a node's: %s", strings.Join(problems, ", "))
	}
	if err := c.isOwn(i.ProviderID); err != nil {
		return err
	}
	if other, taken := c.instanceByID[i.ProviderID]; taken && other != i.Name {
		return fmt.Errorf("provider ID %s belongs to instance %q", i.ProviderID, other)
	}
	for _, other := range added {
		if other.Name == i.Name || other.ProviderID == i.ProviderID {
			return fmt.Errorf("instance %q, added with it, has the same name or provider ID",
				other.Name)
		}
	}
	return nil
}

// address sets the default addresses of i, unless it has its own.
func (c *Cloud) address(i *Instance) error {
	if i.Addresses != nil {
		return nil
	}
	if replaced, ok := c.instances[i.Name]; ok {
		i.Addresses = replaced.Addresses
		return nil
	}
	ip, err := c.hosts.take()
	if err != nil {
		return err
	}
	i.Addresses = []v1.NodeAddress{
		{Type: v1.NodeHostName, Address: i.Name},
		{Type: v1.NodeInternalIP, Address: ip},
	}
	return nil
}

// RemoveInstance removes the instance; routes to it become blackholes. An unknown name is an error.
func (c *Cloud) RemoveInstance(name string) error {
	return c.changeInstance(name, func(i Instance) {
		delete(c.instances, name)
		delete(c.instanceByID, i.ProviderID)
		for _, address := range i.Addresses {
			c.hosts.giveBack(address.Address)
		}
	})
}

// StopInstance shuts the instance down: it exists, but does not run. An unknown name is an error.
func (c *Cloud) StopInstance(name string) error { return c.setShutdown(name, true) }

// StartInstance undoes [Cloud.StopInstance].
func (c *Cloud) StartInstance(name string) error { return c.setShutdown(name, false) }

func (c *Cloud) setShutdown(name string, shutdown bool) error {
	return c.changeInstance(name, func(i Instance) {
		i.Shutdown = shutdown
		c.instances[name] = i
	})
}

func (c *Cloud) changeInstance(name string, change func(Instance)) error {
	defer c.changes.notify()
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok := c.instances[name]
	if !ok {
		return fmt.Errorf("the cloud has no instance %q", name)
	}
	change(i)
	return nil
}

// Instance returns the instance of that name.
func (c *Cloud) Instance(name string) (Instance, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok := c.instances[name]
	return i.copy(), ok
}

// Instances returns all instances, sorted by name.
func (c *Cloud) Instances() []Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Instance, 0, len(c.instances))
	for _, name := range slices.Sorted(maps.Keys(c.instances)) {
		all = append(all, c.instances[name].copy())
	}
	return all
}

// nodeRef names a node. Once a node has a provider ID, only that identifies its instance: another
// node may have the name by now.
type nodeRef struct {
	Name       string `json:"name,omitempty"`
	ProviderID string `json:"providerID,omitempty"`
}

func refTo(node *v1.Node) nodeRef {
	if node == nil {
		return nodeRef{}
	}
	return nodeRef{Name: node.Name, ProviderID: node.Spec.ProviderID}
}

// find returns the instance of a node. A provider ID of another cloud is an error, not an absence,
// because a node is deleted when its instance is absent.
func (c *Cloud) find(ref nodeRef) (Instance, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := ref.Name
	if ref.ProviderID != "" {
		if err := c.isOwn(ref.ProviderID); err != nil {
			return Instance{}, false, err
		}
		name = c.instanceByID[ref.ProviderID]
	}
	i, ok := c.instances[name]
	return i.copy(), ok, nil
}

func (c *Cloud) isOwn(text string) error {
	id, err := parseProviderID(text)
	if err != nil {
		return err
	}
	if id.provider != c.name {
		return fmt.Errorf("provider ID %q is not of this cloud, whose IDs begin with %s://",
			text, c.name)
	}
	return nil
}

// nameOf returns the name of a node for the record, even if the call gave a provider ID.
func (c *Cloud) nameOf(ref nodeRef) string {
	if ref.Name != "" {
		return ref.Name
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if name, ok := c.instanceByID[ref.ProviderID]; ok {
		return name
	}
	if id, err := parseProviderID(ref.ProviderID); err == nil {
		return id.name
	}
	return ref.ProviderID
}

func (c *Cloud) instanceExists(a arguments) (results, error) {
	_, ok, err := c.find(a.Node)
	return results{Yes: ok}, err
}

// describeInstance serves every method that returns one property of an instance.
func (c *Cloud) describeInstance(a arguments) (results, error) {
	i, ok, err := c.find(a.Node)
	if err != nil {
		return results{}, err
	}
	if !ok {
		return results{}, cloudprovider.InstanceNotFound
	}
	return results{Instance: &i}, nil
}

func (c *Cloud) addSSHKey(arguments) (results, error) {
	return results{}, cloudprovider.NotImplemented
}

func (c *Cloud) currentNodeName(a arguments) (results, error) { return results{Text: a.Name}, nil }

// instance returns the instance of the answer, or an empty one after ReturnZero.
func (r results) instance() Instance {
	if r.Instance == nil {
		return Instance{}
	}
	return *r.Instance
}

// InstancesV2 implements cloudprovider.Interface.
func (p *provider) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return offer[cloudprovider.InstancesV2](p, "InstancesV2", p)
}

// Instances implements cloudprovider.Interface.
func (p *provider) Instances() (cloudprovider.Instances, bool) {
	return offer[cloudprovider.Instances](p, "Instances", p)
}

// InstanceExists implements cloudprovider.InstancesV2.
func (p *provider) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	r, err := p.call(ctx, "InstanceExists", arguments{Node: refTo(node)})
	return r.Yes, err
}

// InstanceShutdown implements cloudprovider.InstancesV2.
func (p *provider) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	r, err := p.call(ctx, "InstanceShutdown", arguments{Node: refTo(node)})
	return r.instance().Shutdown, err
}

// InstanceMetadata implements cloudprovider.InstancesV2.
func (p *provider) InstanceMetadata(
	ctx context.Context, node *v1.Node,
) (*cloudprovider.InstanceMetadata, error) {
	r, err := p.call(ctx, "InstanceMetadata", arguments{Node: refTo(node)})
	if err != nil || r.Instance == nil {
		return nil, err
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID:       r.Instance.ProviderID,
		InstanceType:     r.Instance.Type,
		NodeAddresses:    r.Instance.Addresses,
		Zone:             r.Instance.Zone,
		Region:           r.Instance.Region,
		AdditionalLabels: r.Instance.AdditionalLabels,
	}, nil
}

// PodCIDRs implements nodeipam.PodCIDRReporter.
func (p *provider) PodCIDRs(ctx context.Context, node *v1.Node) ([]string, error) {
	r, err := p.call(ctx, "PodCIDRs", arguments{Node: refTo(node)})
	return r.instance().PodCIDRs, err
}

// NodeAddresses implements cloudprovider.Instances.
func (p *provider) NodeAddresses(
	ctx context.Context, name types.NodeName,
) ([]v1.NodeAddress, error) {
	r, err := p.call(ctx, "NodeAddresses", named(name))
	return r.instance().Addresses, err
}

// NodeAddressesByProviderID implements cloudprovider.Instances.
func (p *provider) NodeAddressesByProviderID(
	ctx context.Context, providerID string,
) ([]v1.NodeAddress, error) {
	r, err := p.call(ctx, "NodeAddressesByProviderID", identified(providerID))
	return r.instance().Addresses, err
}

// InstanceID implements cloudprovider.Instances. It returns the provider ID without <provider>://,
// because upstream adds that prefix (cloudprovider.GetInstanceProviderID).
func (p *provider) InstanceID(ctx context.Context, nodeName types.NodeName) (string, error) {
	r, err := p.call(ctx, "InstanceID", named(nodeName))
	return strings.TrimPrefix(r.instance().ProviderID, p.info.ProviderName+"://"), err
}

// InstanceType implements cloudprovider.Instances.
func (p *provider) InstanceType(ctx context.Context, name types.NodeName) (string, error) {
	r, err := p.call(ctx, "InstanceType", named(name))
	return r.instance().Type, err
}

// InstanceTypeByProviderID implements cloudprovider.Instances.
func (p *provider) InstanceTypeByProviderID(
	ctx context.Context, providerID string,
) (string, error) {
	r, err := p.call(ctx, "InstanceTypeByProviderID", identified(providerID))
	return r.instance().Type, err
}

// AddSSHKeyToAllInstances implements cloudprovider.Instances. It returns
// cloudprovider.NotImplemented, as most clouds do. The key is dropped.
func (p *provider) AddSSHKeyToAllInstances(ctx context.Context, user string, _ []byte) error {
	_, err := p.call(ctx, "AddSSHKeyToAllInstances", arguments{Name: user})
	return err
}

// CurrentNodeName implements cloudprovider.Instances. It returns the hostname.
func (p *provider) CurrentNodeName(ctx context.Context, hostname string) (types.NodeName, error) {
	r, err := p.call(ctx, "CurrentNodeName", arguments{Name: hostname})
	return types.NodeName(r.Text), err
}

// InstanceExistsByProviderID implements cloudprovider.Instances.
func (p *provider) InstanceExistsByProviderID(
	ctx context.Context, providerID string,
) (bool, error) {
	r, err := p.call(ctx, "InstanceExistsByProviderID", identified(providerID))
	return r.Yes, err
}

// InstanceShutdownByProviderID implements cloudprovider.Instances.
func (p *provider) InstanceShutdownByProviderID(
	ctx context.Context, providerID string,
) (bool, error) {
	r, err := p.call(ctx, "InstanceShutdownByProviderID", identified(providerID))
	return r.instance().Shutdown, err
}

func named(name types.NodeName) arguments { return arguments{Node: nodeRef{Name: string(name)}} }

func identified(providerID string) arguments {
	return arguments{Node: nodeRef{ProviderID: providerID}}
}

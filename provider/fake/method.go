package fake

import (
	"errors"
	"fmt"
)

// An Interface names one of the interfaces of k8s.io/cloud-provider. All are served unless
// [Without] takes them away.
type Interface string

// The interfaces, named as in k8s.io/cloud-provider.
const (
	// Core is cloudprovider.Interface itself. It cannot be taken away.
	Core         Interface = "Interface"
	InformerUser Interface = "InformerUser"
	InstancesV2  Interface = "InstancesV2"
	Instances    Interface = "Instances"
	Zones        Interface = "Zones"
	LoadBalancer Interface = "LoadBalancer"
	Routes       Interface = "Routes"
	Clusters     Interface = "Clusters"
	PVLabeler    Interface = "PVLabeler"
)

// optional are the interfaces a cloud may lack.
func optional() []Interface {
	return []Interface{
		InformerUser, InstancesV2, Instances, Zones, LoadBalancer, Routes, Clusters,
		PVLabeler,
	}
}

// A Method names a method of one of the interfaces; a method's name belongs to one interface only.
type Method string

// The methods that are recorded and can be scripted. The questions that have no context and no
// error, such as HasClusterID and the ones for the interfaces themselves, are not among them.
const (
	Initialize Method = "Initialize"

	SetInformers Method = "SetInformers"

	InstanceExists   Method = "InstanceExists"
	InstanceShutdown Method = "InstanceShutdown"
	InstanceMetadata Method = "InstanceMetadata"
	// PodCIDRs is what nodeipam.PodCIDRReporter adds to InstancesV2.
	PodCIDRs Method = "PodCIDRs"

	NodeAddresses                Method = "NodeAddresses"
	NodeAddressesByProviderID    Method = "NodeAddressesByProviderID"
	InstanceID                   Method = "InstanceID"
	InstanceType                 Method = "InstanceType"
	InstanceTypeByProviderID     Method = "InstanceTypeByProviderID"
	AddSSHKeyToAllInstances      Method = "AddSSHKeyToAllInstances"
	CurrentNodeName              Method = "CurrentNodeName"
	InstanceExistsByProviderID   Method = "InstanceExistsByProviderID"
	InstanceShutdownByProviderID Method = "InstanceShutdownByProviderID"

	GetZone             Method = "GetZone"
	GetZoneByProviderID Method = "GetZoneByProviderID"
	GetZoneByNodeName   Method = "GetZoneByNodeName"

	GetLoadBalancer           Method = "GetLoadBalancer"
	GetLoadBalancerName       Method = "GetLoadBalancerName"
	EnsureLoadBalancer        Method = "EnsureLoadBalancer"
	UpdateLoadBalancer        Method = "UpdateLoadBalancer"
	EnsureLoadBalancerDeleted Method = "EnsureLoadBalancerDeleted"

	ListRoutes  Method = "ListRoutes"
	CreateRoute Method = "CreateRoute"
	DeleteRoute Method = "DeleteRoute"

	ListClusters Method = "ListClusters"
	Master       Method = "Master"

	GetLabelsForVolume Method = "GetLabelsForVolume"
)

// Interface is the interface that m belongs to, or "" if there is no such method.
func (m Method) Interface() Interface { return operations[m].of }

// Mutating tells whether m changes something in the cloud.
func (m Method) Mutating() bool { return operations[m].mutating }

// operation is everything that sets one method apart from the others.
type operation struct {
	of       Interface
	mutating bool
	// local methods are answered by a real provider without asking its cloud; the cloud's latency
	// does not apply.
	local bool
	// check refuses arguments with which the method makes no sense; nil accepts all.
	check func(arguments) error
	// object is what the method is about, as shown in the record.
	object func(*Cloud, arguments) string
	serve  func(*Cloud, arguments) (results, error)
}

// operations is the one list of methods: the record, the faults, the server and the semantics
// all go by it. It is never written.
var operations = map[Method]operation{
	Initialize:   {of: Core, local: true, object: noObject, serve: nothing},
	SetInformers: {of: InformerUser, local: true, object: noObject, serve: nothing},

	InstanceExists: {
		of: InstancesV2, check: needsNode, object: nodeObject,
		serve: (*Cloud).instanceExists,
	},
	InstanceShutdown: {
		of: InstancesV2, check: needsNode, object: nodeObject,
		serve: (*Cloud).describeInstance,
	},
	InstanceMetadata: {
		of: InstancesV2, check: needsNode, object: nodeObject,
		serve: (*Cloud).describeInstance,
	},
	PodCIDRs: {
		of: InstancesV2, check: needsNode, object: nodeObject,
		serve: (*Cloud).describeInstance,
	},

	NodeAddresses: {
		of: Instances, check: needsNode, object: nodeObject,
		serve: (*Cloud).describeInstance,
	},
	NodeAddressesByProviderID: {
		of: Instances, check: needsProviderID, object: nodeObject,
		serve: (*Cloud).describeInstance,
	},
	InstanceID: {
		of: Instances, check: needsNode, object: nodeObject,
		serve: (*Cloud).describeInstance,
	},
	InstanceType: {
		of: Instances, check: needsNode, object: nodeObject,
		serve: (*Cloud).describeInstance,
	},
	InstanceTypeByProviderID: {
		of: Instances, check: needsProviderID, object: nodeObject,
		serve: (*Cloud).describeInstance,
	},
	AddSSHKeyToAllInstances: {
		of: Instances, mutating: true, object: nameObject,
		serve: (*Cloud).addSSHKey,
	},
	CurrentNodeName: {
		of: Instances, local: true, object: nameObject,
		serve: (*Cloud).currentNodeName,
	},
	InstanceExistsByProviderID: {
		of: Instances, check: needsProviderID, object: nodeObject,
		serve: (*Cloud).instanceExists,
	},
	InstanceShutdownByProviderID: {
		of: Instances, check: needsProviderID, object: nodeObject,
		serve: (*Cloud).describeInstance,
	},

	GetZone: {of: Zones, object: noObject, serve: (*Cloud).ownZone},
	GetZoneByProviderID: {
		of: Zones, check: needsProviderID, object: nodeObject,
		serve: (*Cloud).describeInstance,
	},
	GetZoneByNodeName: {
		of: Zones, check: needsNode, object: nodeObject,
		serve: (*Cloud).describeInstance,
	},

	GetLoadBalancer: {
		of: LoadBalancer, check: needsService, object: serviceObject,
		serve: (*Cloud).getLoadBalancer,
	},
	GetLoadBalancerName: {
		of: LoadBalancer, local: true, check: needsService,
		object: serviceObject, serve: (*Cloud).getLoadBalancerName,
	},
	EnsureLoadBalancer: {
		of: LoadBalancer, mutating: true, check: needsService,
		object: serviceObject, serve: (*Cloud).ensureLoadBalancer,
	},
	UpdateLoadBalancer: {
		of: LoadBalancer, mutating: true, check: needsService,
		object: serviceObject, serve: (*Cloud).updateLoadBalancer,
	},
	EnsureLoadBalancerDeleted: {
		of: LoadBalancer, mutating: true, check: needsService,
		object: serviceObject, serve: (*Cloud).ensureLoadBalancerDeleted,
	},

	ListRoutes: {of: Routes, object: noObject, serve: (*Cloud).listRoutes},
	CreateRoute: {
		of: Routes, mutating: true, check: needsTarget, object: targetObject,
		serve: (*Cloud).createRoute,
	},
	DeleteRoute: {
		of: Routes, mutating: true, check: needsDestination, object: targetObject,
		serve: (*Cloud).deleteRoute,
	},

	ListClusters: {of: Clusters, object: noObject, serve: (*Cloud).listClusters},
	Master:       {of: Clusters, object: clusterObject, serve: (*Cloud).master},

	GetLabelsForVolume: {
		of: PVLabeler, check: needsName, object: nameObject,
		serve: (*Cloud).labelsForVolume,
	},
}

// operationFor looks m up and checks its arguments, so that whatever comes later can trust them.
func operationFor(m Method, args arguments) (operation, error) {
	op, ok := operations[m]
	if !ok {
		return op, fmt.Errorf("there is no method %q", m)
	}
	if op.check != nil {
		if err := op.check(args); err != nil {
			return op, fmt.Errorf("%s: %w", m, err)
		}
	}
	return op, nil
}

// arguments are what a method is told. They hold what the cloud makes use of, and little else, so
// that they travel cheaply.
type arguments struct {
	Cluster string `json:"cluster,omitempty"`
	// Node is a node by name, by provider ID, or both.
	Node nodeRef `json:"node,omitzero"`
	// Nodes are the names of a load balancer's nodes.
	Nodes    []string   `json:"nodes,omitempty"`
	Service  serviceRef `json:"service,omitzero"`
	Route    Route      `json:"route,omitzero"`
	NameHint string     `json:"nameHint,omitempty"`
	// Name is a host, a user or a volume.
	Name string `json:"name,omitempty"`
}

// results are what a method answers, the error aside.
type results struct {
	// Yes answers "does it exist?".
	Yes      bool              `json:"yes,omitempty"`
	Text     string            `json:"text,omitempty"`
	Names    []string          `json:"names,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Instance *Instance         `json:"instance,omitempty"`
	// Ingress are a load balancer's addresses; it always has one.
	Ingress []string `json:"ingress,omitempty"`
	Routes  []Route  `json:"routes,omitempty"`
}

func nothing(*Cloud, arguments) (results, error) { return results{}, nil }

func noObject(*Cloud, arguments) string          { return "" }
func nodeObject(c *Cloud, a arguments) string    { return c.nameOf(a.Node) }
func serviceObject(_ *Cloud, a arguments) string { return a.Service.key() }
func targetObject(_ *Cloud, a arguments) string  { return a.Route.TargetNode }
func clusterObject(_ *Cloud, a arguments) string { return a.Cluster }
func nameObject(_ *Cloud, a arguments) string    { return a.Name }

func needsNode(a arguments) error {
	if a.Node == (nodeRef{}) {
		return errors.New("neither a node name nor a provider ID was given")
	}
	return nil
}

func needsProviderID(a arguments) error {
	if a.Node.ProviderID == "" {
		return errors.New("no provider ID was given")
	}
	return nil
}

func needsService(a arguments) error {
	if a.Service.UID == "" {
		return fmt.Errorf("service %q has no UID, which its load balancer is named after",
			a.Service.key())
	}
	return nil
}

func needsName(a arguments) error {
	if a.Name == "" {
		return errors.New("no name was given")
	}
	return nil
}

package fake

import (
	"errors"
	"fmt"
)

// An Interface is the name of one of the interfaces of k8s.io/cloud-provider: InformerUser,
// InstancesV2, Instances, Zones, LoadBalancer, Routes, Clusters, PVLabeler, or Interface, which
// cannot be removed. All others are served unless [Without] removes them.
type Interface string

// optional are the interfaces a cloud may lack.
func optional() []Interface {
	return []Interface{
		"InformerUser", "InstancesV2", "Instances", "Zones", "LoadBalancer", "Routes", "Clusters",
		"PVLabeler",
	}
}

// A Method is the name of a method of one of the interfaces, such as EnsureLoadBalancer, or
// PodCIDRs, which nodeipam.PodCIDRReporter adds to InstancesV2. Methods without a context and an
// error, such as HasClusterID and the getters of the interfaces, are not recorded and accept no
// faults.
type Method string

// operation defines one method.
type operation struct {
	of       Interface
	mutating bool
	// local: a real provider answers the method without a request to its cloud, so the cloud's
	// latency does not apply.
	local bool
	about subject
	serve func(*Cloud, arguments) (results, error)
}

// subject is the object of a call.
type subject struct {
	// check returns an error for arguments that do not name the subject; nil accepts all.
	check func(arguments) error
	// name returns the subject's name in the record.
	name func(*Cloud, arguments) string
}

// These are the subjects of methods. They are read-only.
var (
	noSubject    = subject{nil, func(*Cloud, arguments) string { return "" }}
	aNode        = subject{needsNode, nodeName}
	anInstance   = subject{needsProviderID, nodeName}
	aService     = subject{needsService, serviceName}
	aRoute       = subject{needsDestination, targetName}
	aRouteToNode = subject{needsTarget, targetName}
	aCluster     = subject{nil, func(_ *Cloud, a arguments) string { return a.Cluster }}
	aHostOrUser  = subject{nil, givenName}
	aVolume      = subject{needsName, givenName}
)

// operations is the only list of methods: the record, the faults, the server and the semantics all
// use it. It is read-only.
var operations = map[Method]operation{
	"Initialize":   {of: "Interface", local: true, about: noSubject, serve: nothing},
	"SetInformers": {of: "InformerUser", local: true, about: noSubject, serve: nothing},

	"InstanceExists":   {of: "InstancesV2", about: aNode, serve: (*Cloud).instanceExists},
	"InstanceShutdown": {of: "InstancesV2", about: aNode, serve: (*Cloud).describeInstance},
	"InstanceMetadata": {of: "InstancesV2", about: aNode, serve: (*Cloud).describeInstance},
	"PodCIDRs":         {of: "InstancesV2", about: aNode, serve: (*Cloud).describeInstance},

	"NodeAddresses": {of: "Instances", about: aNode, serve: (*Cloud).describeInstance},
	"NodeAddressesByProviderID": {
		of: "Instances", about: anInstance, serve: (*Cloud).describeInstance,
	},
	"InstanceID":   {of: "Instances", about: aNode, serve: (*Cloud).describeInstance},
	"InstanceType": {of: "Instances", about: aNode, serve: (*Cloud).describeInstance},
	"InstanceTypeByProviderID": {
		of: "Instances", about: anInstance, serve: (*Cloud).describeInstance,
	},
	"AddSSHKeyToAllInstances": {
		of: "Instances", mutating: true, about: aHostOrUser, serve: (*Cloud).addSSHKey,
	},
	"CurrentNodeName": {
		of: "Instances", local: true, about: aHostOrUser, serve: (*Cloud).currentNodeName,
	},
	"InstanceExistsByProviderID": {
		of: "Instances", about: anInstance, serve: (*Cloud).instanceExists,
	},
	"InstanceShutdownByProviderID": {
		of: "Instances", about: anInstance, serve: (*Cloud).describeInstance,
	},

	"GetZone":             {of: "Zones", about: noSubject, serve: (*Cloud).ownZone},
	"GetZoneByProviderID": {of: "Zones", about: anInstance, serve: (*Cloud).describeInstance},
	"GetZoneByNodeName":   {of: "Zones", about: aNode, serve: (*Cloud).describeInstance},

	"GetLoadBalancer": {of: "LoadBalancer", about: aService, serve: (*Cloud).getLoadBalancer},
	"GetLoadBalancerName": {
		of: "LoadBalancer", local: true, about: aService, serve: (*Cloud).getLoadBalancerName,
	},
	"EnsureLoadBalancer": {
		of: "LoadBalancer", mutating: true, about: aService, serve: (*Cloud).ensureLoadBalancer,
	},
	"UpdateLoadBalancer": {
		of: "LoadBalancer", mutating: true, about: aService, serve: (*Cloud).updateLoadBalancer,
	},
	"EnsureLoadBalancerDeleted": {
		of: "LoadBalancer", mutating: true, about: aService,
		serve: (*Cloud).ensureLoadBalancerDeleted,
	},

	"ListRoutes":  {of: "Routes", about: noSubject, serve: (*Cloud).listRoutes},
	"CreateRoute": {of: "Routes", mutating: true, about: aRouteToNode, serve: (*Cloud).createRoute},
	"DeleteRoute": {of: "Routes", mutating: true, about: aRoute, serve: (*Cloud).deleteRoute},

	"ListClusters": {of: "Clusters", about: noSubject, serve: (*Cloud).listClusters},
	"Master":       {of: "Clusters", about: aCluster, serve: (*Cloud).master},

	"GetLabelsForVolume": {of: "PVLabeler", about: aVolume, serve: (*Cloud).labelsForVolume},
}

// mustExist panics for a name that is no method, which a test has misspelled.
func mustExist(m Method) {
	if _, ok := operations[m]; !ok {
		panic(fmt.Sprintf("fake: there is no method %q", m))
	}
}

// operationFor returns the operation of m after checking its arguments, so that later code can
// trust them.
func operationFor(m Method, args arguments) (operation, error) {
	op, ok := operations[m]
	if !ok {
		return op, fmt.Errorf("there is no method %q", m)
	}
	if op.about.check != nil {
		if err := op.about.check(args); err != nil {
			return op, fmt.Errorf("%s: %w", m, err)
		}
	}
	return op, nil
}

// arguments are the arguments of a method. They hold little more than the fields that the cloud
// uses, so that they are cheap to send.
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

// results are the results of a method, except its error.
type results struct {
	// Yes is the boolean result, such as whether an instance exists.
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

func nodeName(c *Cloud, a arguments) string    { return c.nameOf(a.Node) }
func serviceName(_ *Cloud, a arguments) string { return a.Service.key() }
func targetName(_ *Cloud, a arguments) string  { return a.Route.TargetNode }
func givenName(_ *Cloud, a arguments) string   { return a.Name }

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

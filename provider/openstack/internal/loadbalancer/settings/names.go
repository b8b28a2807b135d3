package settings

// Prefix begins the names of all annotations but two older ones.
const Prefix = "loadbalancer.openstack.org/"

// fxccm also writes these annotations of OCCM.
const (
	// AnnotationLoadBalancerID names the Service's load balancer. A user sets it to share or adopt
	// one.
	AnnotationLoadBalancerID = Prefix + "load-balancer-id"
	// AnnotationLoadBalancerAddress shows its address.
	AnnotationLoadBalancerAddress = Prefix + "load-balancer-address"
)

// AnnotationKeepFloatingIP keeps the floating IP when the Service is deleted.
const AnnotationKeepFloatingIP = Prefix + "keep-floatingip"

// These annotations choose among several regions. OCCM does not have them.
const (
	// AnnotationRegion requests a region of cloud.conf.
	AnnotationRegion = Prefix + "region"
	// AnnotationLoadBalancerRegion is written by fxccm: the region in which the load balancer may
	// exist.
	AnnotationLoadBalancerRegion = Prefix + "load-balancer-region"
)

// olderPrefix begins the names of annotations from the time when the provider was a part of
// Kubernetes.
const olderPrefix = "service.beta.kubernetes.io/openstack-"

const (
	annotationInternal             = olderPrefix + "internal-load-balancer"
	annotationClass                = Prefix + "class"
	annotationFloatingSubnetID     = Prefix + "floating-subnet-id"
	annotationFloatingSubnet       = Prefix + "floating-subnet"
	annotationFloatingSubnetTags   = Prefix + "floating-subnet-tags"
	annotationHealthMonitorDelay   = Prefix + "health-monitor-delay"
	annotationHealthMonitorTimeout = Prefix + "health-monitor-timeout"
	annotationTLSContainer         = Prefix + "default-tls-container-ref"

	fieldAddress      = "spec.loadBalancerIP"
	fieldSourceRanges = "spec.loadBalancerSourceRanges"
)

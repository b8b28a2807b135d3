package servicelb

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// sameRequest reports whether two versions of a Service ask for the same load balancer.
func sameRequest(a, b *v1.Service) bool {
	return a.UID == b.UID && equality.Semantic.DeepEqual(requested(a), requested(b)) &&
		maps.Equal(annotations(a), annotations(b))
}

// sameCleanUp reports whether two versions of a Service both need no load balancer, and are the
// same to its clean-up. The status is not: a release fails if it has changed.
func (c *Controller) sameCleanUp(a, b *v1.Service) bool {
	return !c.Classes.want(a) && !c.Classes.want(b) && sameRequest(a, b) &&
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		a.Annotations[ServedClass] == b.Annotations[ServedClass] &&
		slices.Equal(a.Finalizers, b.Finalizers)
}

// sameAsked reports whether two versions of a Service need the same call.
func (c *Controller) sameAsked(a, b *v1.Service) bool {
	return c.Classes.want(a) && c.Classes.want(b) && sameRequest(a, b) || c.sameCleanUp(a, b)
}

// requested are the fields of a Service that a load balancer may depend on: those that upstream's
// controller compares.
func requested(service *v1.Service) v1.ServiceSpec {
	s := service.Spec
	return v1.ServiceSpec{
		Type: s.Type, LoadBalancerClass: s.LoadBalancerClass, LoadBalancerIP: s.LoadBalancerIP,
		LoadBalancerSourceRanges: s.LoadBalancerSourceRanges, Ports: s.Ports,
		SessionAffinity: s.SessionAffinity, SessionAffinityConfig: s.SessionAffinityConfig,
		ExternalIPs: s.ExternalIPs, ExternalTrafficPolicy: s.ExternalTrafficPolicy,
		HealthCheckNodePort: s.HealthCheckNodePort, IPFamilies: s.IPFamilies,
	}
}

func annotations(service *v1.Service) map[string]string {
	if _, marked := service.Annotations[ServedClass]; !marked {
		return service.Annotations
	}
	rest := maps.Clone(service.Annotations)
	delete(rest, ServedClass)
	return rest
}

// withIPModes returns a status with the default that the API server sets.
func withIPModes(status *v1.LoadBalancerStatus) *v1.LoadBalancerStatus {
	status = status.DeepCopy()
	for i, ingress := range status.Ingress {
		if ingress.IP != "" && ingress.IPMode == nil {
			mode := v1.LoadBalancerIPModeVIP
			status.Ingress[i].IPMode = &mode
		}
	}
	return status
}

func sameStatus(a, b *v1.LoadBalancerStatus) bool {
	return equality.Semantic.DeepEqual(withIPModes(a), withIPModes(b))
}

package informerview

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/apiserverinternal"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/autoscaling"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/discovery"
	"k8s.io/client-go/informers/events"
	"k8s.io/client-go/informers/extensions"
	"k8s.io/client-go/informers/flowcontrol"
	"k8s.io/client-go/informers/lifecycle"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/informers/storagemigration"
)

// The groups of client-go's factory. A test finds a group of the factory that is not here.

// Admissionregistration implements informers.SharedInformerFactory.
func (v *View) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(typed{v}, metav1.NamespaceAll, nil)
}

// Internal implements informers.SharedInformerFactory.
func (v *View) Internal() apiserverinternal.Interface {
	return apiserverinternal.New(typed{v}, metav1.NamespaceAll, nil)
}

// Apps implements informers.SharedInformerFactory.
func (v *View) Apps() apps.Interface {
	return apps.New(typed{v}, metav1.NamespaceAll, nil)
}

// Autoscaling implements informers.SharedInformerFactory.
func (v *View) Autoscaling() autoscaling.Interface {
	return autoscaling.New(typed{v}, metav1.NamespaceAll, nil)
}

// Batch implements informers.SharedInformerFactory.
func (v *View) Batch() batch.Interface {
	return batch.New(typed{v}, metav1.NamespaceAll, nil)
}

// Certificates implements informers.SharedInformerFactory.
func (v *View) Certificates() certificates.Interface {
	return certificates.New(typed{v}, metav1.NamespaceAll, nil)
}

// Coordination implements informers.SharedInformerFactory.
func (v *View) Coordination() coordination.Interface {
	return coordination.New(typed{v}, metav1.NamespaceAll, nil)
}

// Core implements informers.SharedInformerFactory.
func (v *View) Core() core.Interface {
	return core.New(typed{v}, metav1.NamespaceAll, nil)
}

// Discovery implements informers.SharedInformerFactory.
func (v *View) Discovery() discovery.Interface {
	return discovery.New(typed{v}, metav1.NamespaceAll, nil)
}

// Events implements informers.SharedInformerFactory.
func (v *View) Events() events.Interface {
	return events.New(typed{v}, metav1.NamespaceAll, nil)
}

// Extensions implements informers.SharedInformerFactory.
func (v *View) Extensions() extensions.Interface {
	return extensions.New(typed{v}, metav1.NamespaceAll, nil)
}

// Flowcontrol implements informers.SharedInformerFactory.
func (v *View) Flowcontrol() flowcontrol.Interface {
	return flowcontrol.New(typed{v}, metav1.NamespaceAll, nil)
}

// Networking implements informers.SharedInformerFactory.
func (v *View) Networking() networking.Interface {
	return networking.New(typed{v}, metav1.NamespaceAll, nil)
}

// Node implements informers.SharedInformerFactory.
func (v *View) Node() node.Interface {
	return node.New(typed{v}, metav1.NamespaceAll, nil)
}

// Policy implements informers.SharedInformerFactory.
func (v *View) Policy() policy.Interface {
	return policy.New(typed{v}, metav1.NamespaceAll, nil)
}

// Rbac implements informers.SharedInformerFactory.
func (v *View) Rbac() rbac.Interface {
	return rbac.New(typed{v}, metav1.NamespaceAll, nil)
}

// Resource implements informers.SharedInformerFactory.
func (v *View) Resource() resource.Interface {
	return resource.New(typed{v}, metav1.NamespaceAll, nil)
}

// Scheduling implements informers.SharedInformerFactory.
func (v *View) Scheduling() scheduling.Interface {
	return scheduling.New(typed{v}, metav1.NamespaceAll, nil)
}

// Storage implements informers.SharedInformerFactory.
func (v *View) Storage() storage.Interface {
	return storage.New(typed{v}, metav1.NamespaceAll, nil)
}

// Storagemigration implements informers.SharedInformerFactory.
func (v *View) Storagemigration() storagemigration.Interface {
	return storagemigration.New(typed{v}, metav1.NamespaceAll, nil)
}

// Lifecycle implements informers.SharedInformerFactory.
func (v *View) Lifecycle() lifecycle.Interface {
	return lifecycle.New(typed{v}, metav1.NamespaceAll, nil)
}

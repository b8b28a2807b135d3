package main

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

const (
	// serviceNamespace holds the Services of a trial.
	serviceNamespace = "bench"
	// imagesPerNode are listed in a node's status; a kubelet lists up to 50.
	imagesPerNode = 20
)

// newNode is a node as a kubelet registers it that runs with --cloud-provider=external: it has the
// taint, and otherwise all that makes real nodes as large as they are. It is ready, so that the
// lifecycle controller has no reason to ask the cloud for it.
func newNode(name string) *corev1.Node {
	now := metav1.NewTime(time.Now())
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus,
		reason string,
	) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason, Message: "kubelet reports " + reason,
			LastHeartbeatTime: now, LastTransitionTime: now,
		}
	}
	resources := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("8"),
		corev1.ResourceMemory:           resource.MustParse("32Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelOSStable: "linux",
				corev1.LabelArchStable:  "amd64",
				"node.example.com/pool": "workers",
			},
		},
		Spec: corev1.NodeSpec{
			Taints: []corev1.Taint{{
				Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true",
				Effect: corev1.TaintEffectNoSchedule,
			}},
		},
		Status: corev1.NodeStatus{
			Capacity: resources, Allocatable: resources,
			Conditions: []corev1.NodeCondition{
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse,
					"KubeletHasSufficientMemory"),
				condition(corev1.NodeDiskPressure, corev1.ConditionFalse,
					"KubeletHasNoDiskPressure"),
				condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
				condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
			},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}},
			NodeInfo: corev1.NodeSystemInfo{
				MachineID: name, SystemUUID: name, BootID: name, KernelVersion: "6.12.0",
				OSImage:                 "Linux",
				ContainerRuntimeVersion: "containerd://2.2.0", KubeletVersion: "v1.37.1",
				OperatingSystem: "linux", Architecture: "amd64",
			},
		},
	}
	for i := range imagesPerNode {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{
			Names:     []string{fmt.Sprintf("registry.example.com/library/image-%d:v1.0.%d", i, i)},
			SizeBytes: 100 << 20,
		})
	}
	return node
}

func isInitialized(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == cloudproviderapi.TaintExternalCloudProvider {
			return false
		}
	}
	return true
}

// newServices are so many Services of type LoadBalancer with so many ports each.
func newServices(services, ports int) (all []*corev1.Service) {
	for i := range services {
		all = append(all, newService(fmt.Sprintf("service-%04d", i), ports))
	}
	return all
}

func newService(name string, ports int) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: serviceNamespace, Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": name},
		},
	}
	for i := range ports {
		port := int32(8000 + i)
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
			Name: fmt.Sprintf("port-%d", i), Port: port, TargetPort: intstr.FromInt32(port),
		})
	}
	return service
}

// accountName is the ServiceAccount, in kube-system, that the candidates act as. It is no
// administrator: for one of those, priority and fairness does not apply.
const accountName = "cloud-controller-manager"

// newRole allows what a cloud controller manager does.
func newRole() *rbacv1.ClusterRole {
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "bench:" + accountName},
		Rules: []rbacv1.PolicyRule{
			rule("", []string{"nodes"}, "get", "list", "watch", "update", "patch", "delete"),
			rule("", []string{"nodes/status"}, "patch", "update"),
			rule("", []string{"services"}, "get", "list", "watch", "patch", "update"),
			rule("", []string{"services/status"}, "patch", "update"),
			rule("", []string{"configmaps"}, "get", "list", "watch"),
			rule("", []string{"namespaces"}, "get"),
			rule("", []string{"events"}, "create", "patch", "update"),
			rule("events.k8s.io", []string{"events"}, "create", "patch", "update"),
			rule("discovery.k8s.io", []string{"endpointslices"}, "list", "watch"),
			rule("coordination.k8s.io", []string{"leases"}, "get", "list", "watch", "create",
				"update", "delete"),
			rule("authentication.k8s.io", []string{"tokenreviews"}, "create"),
			rule("authorization.k8s.io", []string{"subjectaccessreviews"}, "create"),
		},
	}
}

func newRoleBinding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bench:" + accountName},
		RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: "bench:" + accountName,
		},
		Subjects: []rbacv1.Subject{{
			Kind:      rbacv1.ServiceAccountKind,
			Namespace: metav1.NamespaceSystem, Name: accountName,
		}},
	}
}

package ccm

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/fxccm/fxccm/internal/informerview"
)

// Informers drop most of a Node only if the four cloud controllers are the only readers.
func TestTransform_HostsControllers_ReceiveWholeNodes(t *testing.T) {
	resources := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	for name, c := range map[string]struct {
		enabled []Controller
		// provider reports whether the provider requests an informer.
		provider bool
		whole    bool
	}{
		"the four":         {enabled: builtin(DefaultConfig())},
		"and a host's":     {append(builtin(DefaultConfig()), Controller{Name: "mine"}), false, true},
		"only a host's":    {[]Controller{{Name: "mine"}}, false, true},
		"and a provider's": {builtin(DefaultConfig()), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
			term := &termRun{
				enabled: c.enabled, providerInformers: informerview.New(factory).Scope(),
			}
			transform := term.transform()
			if c.provider {
				term.providerInformers.Core().V1().Nodes().Lister()
			}
			obj, err := transform(&corev1.Node{
				ObjectMeta: metav1.ObjectMeta{
					Name:          "a",
					ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
				},
				Status: corev1.NodeStatus{
					Images: []corev1.ContainerImage{{}}, Capacity: resources,
					Allocatable: resources,
					Addresses:   []corev1.NodeAddress{{Address: "192.0.2.1"}},
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			node := obj.(*corev1.Node)
			if node.ManagedFields != nil || len(node.Status.Addresses) != 1 {
				t.Errorf("managed fields %v, addresses %v", node.ManagedFields,
					node.Status.Addresses)
			}
			if whole := node.Status.Images != nil && node.Status.Capacity != nil &&
				node.Status.Allocatable != nil; whole != c.whole {
				t.Errorf("the node is whole: %t, want %t: %+v", whole, c.whole, node.Status)
			}
		})
	}
}

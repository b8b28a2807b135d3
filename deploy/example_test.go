package deploy_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/deploy"
)

// The rules of the binary are applied as by kubectl.
func ExampleRead() {
	objects, err := deploy.Read(deploy.RBAC)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, object := range objects {
		if object.GetKind() == "ServiceAccount" {
			fmt.Println(object.GetNamespace(), object.GetName())
		}
	}
	_ = func(ctx context.Context, config *rest.Config) error {
		return deploy.Apply(ctx, config, metav1.ApplyOptions{FieldManager: "kubectl"}, objects...)
	}
	// Output:
	// kube-system cloud-controller-manager
	// kube-system cloud-controller-manager-status
}

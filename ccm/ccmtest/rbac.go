package ccmtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

// ApplyRBAC creates the objects of a manifest file, or brings those that exist to what the file says: the RBAC rules that a binary is
// shipped with, to test it under just these. The kinds are Namespace, ServiceAccount, ClusterRole, ClusterRoleBinding, Role and
// RoleBinding; another one fails the test. The objects stay when the test is over.
//
//	ccmtest.ApplyRBAC(t, client, "../deploy/rbac.yaml")
//	identity, err := controlPlane.ServiceAccountConfig("kube-system", "cloud-controller-manager")
//	…
//	app := ccmtest.StartApp(t, controlPlane, cloud, ccmtest.WithIdentity(identity))
func ApplyRBAC(t testing.TB, client kubernetes.Interface, path string) {
	t.Helper()
	objects, err := readManifest(path)
	if err != nil {
		t.Fatal(err)
		return
	}
	ctx, cancel := limited(t)
	defer cancel()
	for _, object := range objects {
		if err := apply(ctx, client, object); err != nil {
			t.Fatalf("apply %s: %v", path, err)
			return
		}
	}
}

// readManifest reads the documents of a YAML file.
func readManifest(path string) ([]runtime.Object, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read RBAC rules: %w", err)
	}
	var objects []runtime.Object
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read RBAC rules in %s: %w", path, err)
		}
		// A document of comments becomes null.
		if data, err := yaml.ToJSON(document); err == nil && string(data) == "null" {
			continue
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("read RBAC rules in %s: %w", path, err)
		}
		objects = append(objects, object)
	}
}

func apply(ctx context.Context, client kubernetes.Interface, object runtime.Object) error {
	rbac := client.RbacV1()
	switch o := object.(type) {
	case *corev1.Namespace:
		return createOrUpdate(ctx, o, client.CoreV1().Namespaces())
	case *corev1.ServiceAccount:
		return createOrUpdate(ctx, o, client.CoreV1().ServiceAccounts(namespaceOf(o)))
	case *rbacv1.ClusterRole:
		return createOrUpdate(ctx, o, rbac.ClusterRoles())
	case *rbacv1.ClusterRoleBinding:
		return createOrUpdate(ctx, o, rbac.ClusterRoleBindings())
	case *rbacv1.Role:
		return createOrUpdate(ctx, o, rbac.Roles(namespaceOf(o)))
	case *rbacv1.RoleBinding:
		return createOrUpdate(ctx, o, rbac.RoleBindings(namespaceOf(o)))
	}
	return fmt.Errorf("it holds a %T, which is neither an RBAC object nor a Namespace or ServiceAccount", object)
}

// writer is a typed client of one kind.
type writer[T any] interface {
	Create(ctx context.Context, object T, opts metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, opts metav1.UpdateOptions) (T, error)
}

func createOrUpdate[T metav1.Object](ctx context.Context, object T, client writer[T]) error {
	_, err := client.Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = client.Update(ctx, object, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write %T %s: %w", object, object.GetName(), err)
	}
	return nil
}

// namespaceOf is where kubectl would put the object.
func namespaceOf(object metav1.Object) string {
	if namespace := object.GetNamespace(); namespace != "" {
		return namespace
	}
	return metav1.NamespaceDefault
}

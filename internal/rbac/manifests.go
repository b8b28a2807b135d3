package rbac

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// fieldManager owns the fields that Apply sets.
const fieldManager = "fxccm-test-rbac"

// Manifests are the shipped ServiceAccounts, roles and bindings.
type Manifests struct {
	ServiceAccounts     []*corev1.ServiceAccount
	ClusterRoles        []*rbacv1.ClusterRole
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	Roles               []*rbacv1.Role
	RoleBindings        []*rbacv1.RoleBinding

	documents []document
}

// document is one object as it is sent to the API server.
type document struct {
	kind, namespace, name string
	json                  []byte
}

// Load reads the documents of YAML files. A kind that is not of RBAC, an unknown field, and an
// object without the namespace that it needs are errors, because they could not be compared.
func Load(paths ...string) (*Manifests, error) {
	var m Manifests
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read RBAC manifests: %w", err)
		}
		if err := m.add(data); err != nil {
			return nil, fmt.Errorf("read RBAC manifests from %s: %w", path, err)
		}
	}
	return &m, nil
}

func (m *Manifests) add(data []byte) error {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for i := 1; ; i++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = m.addDocument(text)
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", i, err)
		}
	}
}

func (m *Manifests) addDocument(text []byte) error {
	content, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	if string(content) == "null" { // only comments
		return nil
	}
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(content, &meta); err != nil {
		return err
	}
	object, err := m.object(meta)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(content, object); err != nil {
		return fmt.Errorf("%s: %w", meta.Kind, err)
	}
	if object.GetName() == "" {
		return fmt.Errorf("%s without a name", meta.Kind)
	}
	if namespaced := meta.Kind != "ClusterRole" &&
		meta.Kind != "ClusterRoleBinding"; namespaced != (object.GetNamespace() != "") {
		return fmt.Errorf("%s %s: its namespace is %q", meta.Kind, object.GetName(),
			object.GetNamespace())
	}
	m.documents = append(m.documents, document{
		kind: meta.Kind, namespace: object.GetNamespace(), name: object.GetName(), json: content,
	})
	return nil
}

// object is a new object of the kind, already stored in m.
func (m *Manifests) object(meta metav1.TypeMeta) (metav1.Object, error) {
	switch meta.APIVersion + " " + meta.Kind {
	case "v1 ServiceAccount":
		return grow(&m.ServiceAccounts), nil
	case "rbac.authorization.k8s.io/v1 ClusterRole":
		return grow(&m.ClusterRoles), nil
	case "rbac.authorization.k8s.io/v1 ClusterRoleBinding":
		return grow(&m.ClusterRoleBindings), nil
	case "rbac.authorization.k8s.io/v1 Role":
		return grow(&m.Roles), nil
	case "rbac.authorization.k8s.io/v1 RoleBinding":
		return grow(&m.RoleBindings), nil
	}
	return nil,
		fmt.Errorf(
			"kind %q of %q is not one of ServiceAccount, ClusterRole, ClusterRoleBinding, Role, RoleBinding",
			meta.Kind, meta.APIVersion)
}

func grow[T any](objects *[]*T) *T {
	object := new(T)
	*objects = append(*objects, object)
	return object
}

// Apply creates the objects in the cluster, or updates those that exist. admin needs the right to
// grant the permissions of the roles. RBAC sees a change with a short delay.
func (m *Manifests) Apply(ctx context.Context, admin kubernetes.Interface) error {
	for _, d := range m.documents {
		if err := d.apply(ctx, admin); err != nil {
			return fmt.Errorf("apply %s %s: %w", d.kind,
				types.NamespacedName{Namespace: d.namespace, Name: d.name}, err)
		}
	}
	return nil
}

func (d document) apply(ctx context.Context, admin kubernetes.Interface) (err error) {
	force := true
	opts := metav1.PatchOptions{
		FieldManager: fieldManager, Force: &force,
		FieldValidation: metav1.FieldValidationStrict,
	}
	switch d.kind {
	case "ServiceAccount":
		_, err = admin.CoreV1().ServiceAccounts(d.namespace).Patch(ctx, d.name,
			types.ApplyPatchType, d.json, opts)
	case "ClusterRole":
		_, err = admin.RbacV1().ClusterRoles().Patch(ctx, d.name, types.ApplyPatchType, d.json,
			opts)
	case "ClusterRoleBinding":
		_, err = admin.RbacV1().ClusterRoleBindings().Patch(ctx, d.name, types.ApplyPatchType,
			d.json, opts)
	case "Role":
		_, err = admin.RbacV1().Roles(d.namespace).Patch(ctx, d.name, types.ApplyPatchType, d.json,
			opts)
	case "RoleBinding":
		_, err = admin.RbacV1().RoleBindings(d.namespace).Patch(ctx, d.name, types.ApplyPatchType,
			d.json, opts)
	}
	return err
}

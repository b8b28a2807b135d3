package migrate

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/deploy"
)

const (
	// fxccmName is the name of fxccm's objects. The base uses the name of OCCM's ServiceAccount,
	// but fxccm must neither inherit OCCM's rights nor lose its account with OCCM.
	fxccmName = "fxccm"
	baseName  = "cloud-controller-manager"

	// fieldManager owns the fields that are applied.
	fieldManager = "fxccm-migrate"

	podName = "POD_NAME"
)

// objects are fxccm's objects with OCCM's settings. The Deployment is the last.
func (m *migration) objects(replicas int32) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, file := range []string{deploy.RBAC, "poddisruptionbudget.yaml", "workload.yaml"} {
		objects, err := deploy.Read(file)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			// "fxccm status" looks for replicas in the cluster that they serve.
			if m.isHosted() && object.GetName() == baseName+"-status" {
				continue
			}
			if err := m.adapt(object, replicas); err != nil {
				return nil, err
			}
			all = append(all, object)
		}
	}
	return all, nil
}

// adapt sets the name, the namespace and OCCM's settings in an object of the base.
func (m *migration) adapt(object *unstructured.Unstructured, replicas int32) error {
	object.SetName(renamed(object.GetName()))
	relabel(object.Object)
	election := m.settings.Config.LeaderElection
	kind := object.GetKind()
	isLease := strings.HasPrefix(kind, "Role") && object.GetName() == fxccmName
	isOfSystem := strings.HasPrefix(kind, "Role") && !isLease
	switch {
	case isLease:
		object.SetNamespace(election.ResourceNamespace)
	case object.GetNamespace() != "" && !isOfSystem: // the objects are in kube-system
		object.SetNamespace(m.occm.Namespace)
	}
	switch kind {
	case "Role":
		return change(object, func(role *rbacv1.Role) {
			for i := range role.Rules {
				if isLease && role.Rules[i].ResourceNames != nil {
					role.Rules[i].ResourceNames = []string{election.ResourceName}
				}
			}
		})
	case "RoleBinding":
		return change(object, func(b *rbacv1.RoleBinding) {
			m.bind(&b.RoleRef, b.Subjects)
		})
	case "ClusterRoleBinding":
		return change(object, func(b *rbacv1.ClusterRoleBinding) {
			m.bind(&b.RoleRef, b.Subjects)
		})
	case deploymentKind:
		return change(object, func(d *appsv1.Deployment) {
			metav1.SetMetaDataAnnotation(&d.ObjectMeta, fromAnnotation, m.occm.String())
			d.Spec.Replicas = &replicas
			m.copyMetadata(&d.Spec.Template)
			m.adaptPod(&d.Spec.Template.Spec)
		})
	}
	return nil
}

const nameLabel = "app.kubernetes.io/name"

// relabel changes the label that selects the Pods, because a release of the chart may run at the
// same time.
func relabel(value any) {
	switch v := value.(type) {
	case map[string]any:
		if v[nameLabel] == baseName {
			v[nameLabel] = fxccmName
		}
		for _, inner := range v {
			relabel(inner)
		}
	case []any:
		for _, inner := range v {
			relabel(inner)
		}
	}
}

func renamed(name string) string {
	return fxccmName + strings.TrimPrefix(name, baseName)
}

func (m *migration) bind(role *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	role.Name = renamed(role.Name)
	for i := range subjects {
		if m.subject != nil && subjects[i].Name == baseName {
			subjects[i] = *m.subject
			continue
		}
		subjects[i].Name, subjects[i].Namespace = renamed(subjects[i].Name), m.occm.Namespace
	}
}

// change converts an object to its Go type, changes it, and converts it back.
func change[T any](object *unstructured.Unstructured, do func(*T)) error {
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object,
		typed, true); err != nil {
		return err
	}
	do(typed)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return err
	}
	// Fields that the API server sets must not be applied.
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(content, "spec", "template", "metadata", "creationTimestamp")
	object.Object = content
	return nil
}

// adaptPod copies the settings of OCCM's Pods, except those of containers.
func (m *migration) adaptPod(pod *v1.PodSpec) {
	is := m.occm.template.Spec
	pod.ServiceAccountName = fxccmName
	pod.Volumes = is.Volumes
	pod.HostNetwork, pod.HostAliases = is.HostNetwork, is.HostAliases
	pod.DNSPolicy, pod.DNSConfig = is.DNSPolicy, is.DNSConfig
	pod.ImagePullSecrets = is.ImagePullSecrets
	if is.PriorityClassName != "" {
		pod.PriorityClassName = is.PriorityClassName
	}
	selector := map[string]string{}
	for key, value := range is.NodeSelector {
		if key != stopSelector {
			selector[key] = value
		}
	}
	if old := m.occm.before(); old.NodeSelector != nil {
		selector = old.NodeSelector
	}
	// The base's node affinity is removed, because OCCM may run where no node is a control plane,
	// such as in a management cluster.
	pod.NodeSelector, pod.Affinity.NodeAffinity = selector, nil
	if is.Affinity != nil {
		pod.Affinity.NodeAffinity = is.Affinity.NodeAffinity
	}
	for _, toleration := range is.Tolerations {
		if !slices.Contains(pod.Tolerations, toleration) {
			pod.Tolerations = append(pod.Tolerations, toleration)
		}
	}
	if context := is.SecurityContext; context != nil {
		pod.SecurityContext.FSGroup = context.FSGroup
		pod.SecurityContext.SupplementalGroups = context.SupplementalGroups
		if context.RunAsGroup != nil && *context.RunAsGroup > 0 {
			pod.SecurityContext.RunAsGroup = context.RunAsGroup
		}
	}
	if user := m.occm.user(); user > 0 {
		pod.SecurityContext.RunAsUser = &user
	}
	// Files of a Secret with a mode such as 0400 are root's, and readable by this group.
	if pod.SecurityContext.FSGroup == nil && m.occm.user() == 0 {
		pod.SecurityContext.FSGroup = pod.SecurityContext.RunAsGroup
	}
	m.adaptContainer(&pod.Containers[0])
}

func (m *migration) adaptContainer(c *v1.Container) {
	is := m.occm.container
	c.Image = m.line.image
	others := slices.DeleteFunc(slices.Clone(is.Env),
		func(env v1.EnvVar) bool { return env.Name == podName })
	c.Env = append(others, v1.EnvVar{
		Name:      podName,
		ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}},
	})
	c.EnvFrom, c.WorkingDir = is.EnvFrom, is.WorkingDir
	c.VolumeMounts = slices.Clone(is.VolumeMounts)
	for i := range c.VolumeMounts {
		c.VolumeMounts[i].ReadOnly = true
	}
	// The Pod's name as the identity shows that fxccm leads.
	c.Args = append(slices.Concat(m.settings.args, m.extra),
		"--leader-elect-identity=$("+podName+")")
	serving := m.settings.Serving
	port := int32(serving.SecurePort)
	c.Ports[0].ContainerPort = port
	host := ""
	if ip := net.ParseIP(serving.BindAddress); ip != nil && !ip.IsUnspecified() {
		host = ip.String() // with the node's network, the kubelet reaches its loopback, too
	}
	for _, probe := range []*v1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		probe.HTTPGet.Host = host
	}
}

// install applies fxccm's objects; a new Deployment has no replicas. With dryRun the API server
// checks the objects, but does not store them.
func (m *migration) install(ctx context.Context, dryRun bool) error {
	// The current number is kept: another field manager may have set it.
	replicas, err := m.installed(ctx)
	if err != nil {
		return err
	}
	objects, err := m.objects(max(replicas, 0))
	if err != nil {
		return err
	}
	opts := metav1.ApplyOptions{FieldManager: fieldManager}
	if dryRun {
		opts.DryRun = []string{metav1.DryRunAll}
	}
	// Rights count in the cluster that the requests go to.
	isRight := func(o *unstructured.Unstructured) bool {
		return strings.Contains(o.GetKind(), "Role")
	}
	deployment := objects[len(objects)-1]
	var rights, others []*unstructured.Unstructured
	for _, object := range objects[:len(objects)-1] {
		if isRight(object) {
			rights = append(rights, object)
		} else {
			others = append(others, object)
		}
	}
	err = deploy.Apply(ctx, m.served.Config, opts, rights...)
	if err == nil {
		err = deploy.Apply(ctx, m.Cluster.Config, opts, others...)
	}
	if err == nil {
		opts.Force = true // "kubectl set image" may have changed it since an earlier apply
		err = deploy.Apply(ctx, m.Cluster.Config, opts, deployment)
	}
	if err != nil {
		return fmt.Errorf("install fxccm: %w", err)
	}
	return nil
}

// installed returns the replicas of fxccm's Deployment, or -1 if it does not exist. The error is a
// [foreignError] if the Deployment is not for this OCCM.
func (m *migration) installed(ctx context.Context) (int32, error) {
	d, err := m.AppsV1().Deployments(m.occm.Namespace).Get(ctx, fxccmName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return -1, nil
	case err != nil:
		return 0, fmt.Errorf("read Deployment %s: %w", fxccmName, err)
	}
	if err := m.checkFrom(deploymentKind, d); err != nil {
		return 0, err
	}
	return ptr.Deref(d.Spec.Replicas, 1), nil
}

// scale changes only the replicas of fxccm's Deployment.
func (m *migration) scale(ctx context.Context, replicas int32) error {
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	_, err := m.AppsV1().Deployments(m.occm.Namespace).Patch(ctx, fxccmName, types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{FieldManager: fieldManager}, "scale")
	if err != nil {
		return fmt.Errorf("scale fxccm to %d: %w", replicas, err)
	}
	return nil
}

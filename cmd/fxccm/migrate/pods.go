package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// occmPods returns the Pods that run OCCM.
func (c *Cluster) occmPods(ctx context.Context) ([]v1.Pod, error) {
	pods, err := c.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Pods: %w", err)
	}
	return slices.DeleteFunc(pods.Items, func(pod v1.Pod) bool {
		w := &workload{template: v1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}}
		return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed ||
			len(pod.Spec.Containers) == 0 || !w.findContainer(false)
	}), nil
}

// isManaged reports whether a Pod belongs to a DaemonSet, or probably to a Deployment.
func isManaged(pod v1.Pod) bool {
	owner := ownerOf(pod)
	return owner == "ReplicaSet" || owner == daemonSetKind
}

func ownerOf(pod v1.Pod) string {
	if owner := metav1.GetControllerOf(&pod); owner != nil {
		return owner.Kind
	}
	return ""
}

// describe says what keeps a Pod running that runs OCCM, and what to do about it.
func describe(pod v1.Pod) string {
	name := pod.Namespace + "/" + pod.Name
	const instead = "run OCCM as a DaemonSet or a Deployment with the same arguments and the " +
		"same lease instead"
	switch owner := ownerOf(pod); {
	case owner == "Node" || pod.Annotations[v1.MirrorPodAnnotationKey] != "":
		return fmt.Sprintf("Pod %s is a static Pod: only node %s can stop it. Remove its "+
			"manifest from the node, and %s", name, pod.Spec.NodeName, instead)
	case owner == "":
		return fmt.Sprintf("Pod %s belongs to no workload: %s", name, instead)
	default:
		return fmt.Sprintf("Pod %s belongs to a %s, which fxccm migrate cannot stop: %s", name,
			owner, instead)
	}
}

// notFound is the error if no Deployment or DaemonSet runs OCCM.
func (m *migration) notFound(ctx context.Context) error {
	pods, err := m.occmPods(ctx)
	if err != nil {
		return err
	}
	if m.line.occm != "" {
		namespace, _, isPair := strings.Cut(m.line.occm, "/")
		pods = slices.DeleteFunc(pods, func(pod v1.Pod) bool { // there are others
			return isManaged(pod) || isPair && pod.Namespace != namespace
		})
	}
	if len(pods) > 0 {
		var all []error
		for _, pod := range pods {
			all = append(all, fmt.Errorf("%s", describe(pod)))
		}
		return errors.Join(all...)
	}
	if namespace, isAny := strings.CutSuffix(m.line.occm, "/"); isAny {
		return fmt.Errorf("no Deployment or DaemonSet in namespace %s runs %s; "+
			"without --namespace, all namespaces are searched", namespace, occmName)
	}
	if m.line.occm != "" {
		return fmt.Errorf("no Deployment or DaemonSet %s exists", m.line.occm)
	}
	return errors.New("no Deployment or DaemonSet runs " + occmName +
		" in the cluster of --kubeconfig; name it with --occm=namespace/name")
}

// checkOthers blocks if other workloads or Pods run OCCM for the cluster, too. They would take over
// when the workload stops, or act at the same time if they have another lease.
func (m *migration) checkOthers(ctx context.Context) error {
	workloads, err := m.findOCCM(ctx, "")
	if err != nil {
		return err
	}
	for _, w := range workloads {
		connection := w.connection()
		servesSame := connection == m.occm.connection() || connection == "" && !m.isHosted()
		if w.String() != m.occm.String() && w.replicas > 0 && servesSame {
			m.add(Blocks, w.String(), "it runs OCCM for this cluster, too: stop or delete it first")
		}
	}
	if m.isHosted() {
		return nil // a Pod without a workload serves the cluster that it runs in
	}
	pods, err := m.occmPods(ctx)
	if err != nil {
		return err
	}
	known := append(slices.Clone(workloads), m.occm) // its name may be all that shows OCCM
	for _, pod := range pods {
		isAlone := ownerOf(pod) == "" && pod.Annotations[v1.MirrorPodAnnotationKey] == ""
		if !slices.ContainsFunc(known, func(w *workload) bool {
			return w.selects(pod) && (isManaged(pod) || isAlone && w == m.occm) // it adopts the Pod
		}) {
			m.add(Blocks, "Pod "+pod.Name, "it runs OCCM, too: %s", describe(pod))
		}
	}
	return nil
}

func (w *workload) selects(pod v1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(w.selector)
	return err == nil && pod.Namespace == w.Namespace && selector.Matches(labels.Set(pod.Labels))
}

// containsEqual compares as the API server does: nil and empty are equal.
func containsEqual[T any](all []T, one T) bool {
	return slices.ContainsFunc(all, func(each T) bool {
		return apiequality.Semantic.DeepEqual(each, one)
	})
}

func sourceOf(from v1.EnvFromSource) string {
	switch {
	case from.ConfigMapRef != nil:
		return "ConfigMap " + from.ConfigMapRef.Name
	case from.SecretRef != nil:
		return "Secret " + from.SecretRef.Name
	}
	return "envFrom"
}

// checkPods compares OCCM's Pods with their template. An admission webhook may have changed them.
func (m *migration) checkPods(ctx context.Context) error {
	if m.occm.selector == nil {
		return nil
	}
	pods, err := m.pods(ctx, m.occm.selector)
	if err != nil {
		return fmt.Errorf("list OCCM's Pods: %w", err)
	}
	is, template := m.occm.container, m.occm.template.Spec
	differing := map[string]bool{}
	for _, pod := range pods {
		at := slices.IndexFunc(pod.Spec.Containers,
			func(c v1.Container) bool { return c.Name == is.Name })
		if at < 0 {
			differing["container "+is.Name] = true
			continue
		}
		c := pod.Spec.Containers[at]
		if !slices.Equal(c.Command, is.Command) || !slices.Equal(c.Args, is.Args) {
			m.add(Blocks, "Pod "+pod.Name, "its arguments differ from those of its template: finish the "+
				"rollout of %s, or write into the template what an admission webhook has changed",
				m.occm)
		}
		for _, name := range slices.Concat(
			differences(c.EnvFrom, is.EnvFrom, func(from v1.EnvFromSource) string {
				return "variables of " + sourceOf(from)
			}),
			differences(c.Env, is.Env, func(env v1.EnvVar) string {
				return "variable " + env.Name
			}),
			differences(otherMounts(c), otherMounts(is), func(mount v1.VolumeMount) string {
				return "volume at " + mount.MountPath
			}),
			differences(volumesOf(is, pod.Spec), volumesOf(is, template),
				func(v v1.Volume) string { return "volume " + v.Name }),
			differences(pod.Spec.HostAliases, template.HostAliases,
				func(alias v1.HostAlias) string { return "host alias " + alias.IP }),
			differences(running(pod.Spec), running(template), func(name string) string {
				return "container " + name
			}),
		) {
			differing[name] = true
		}
	}
	if len(differing) == 0 {
		return nil
	}
	names := strings.Join(slices.Sorted(maps.Keys(differing)), ", ")
	if len(m.line.copyMetadata) > 0 {
		m.add(Differs, "OCCM's Pods", "an admission webhook changes %s: it must do so for fxccm's "+
			"Pods, too", names)
		return nil
	}
	m.add(Blocks, "OCCM's Pods", "they differ from their template: %s. Finish the rollout of %s; "+
		"if an admission webhook changes the Pods, write the change into the template, or name "+
		"with --copy-metadata the annotations and labels that the webhook reads%s", names, m.occm,
		m.listMetadata())
	return nil
}

// differences are the names of what only one of two lists has.
func differences[T any](a, b []T, name func(T) string) []string {
	var names []string
	for _, lists := range [][2][]T{{a, b}, {b, a}} {
		for _, one := range lists[0] {
			if !containsEqual(lists[1], one) {
				names = append(names, name(one))
			}
		}
	}
	return names
}

// otherMounts are the mounts of a container, without the token that the API server adds to Pods.
func otherMounts(c v1.Container) []v1.VolumeMount {
	return slices.DeleteFunc(slices.Clone(c.VolumeMounts), func(mount v1.VolumeMount) bool {
		return path.Clean(mount.MountPath) == accountDir
	})
}

// volumesOf are the volumes of a Pod that a container mounts.
func volumesOf(c v1.Container, pod v1.PodSpec) []v1.Volume {
	return slices.DeleteFunc(slices.Clone(pod.Volumes), func(volume v1.Volume) bool {
		return !slices.ContainsFunc(c.VolumeMounts,
			func(mount v1.VolumeMount) bool { return mount.Name == volume.Name })
	})
}

// running are the names of the containers that run at the same time, with init containers that are
// sidecars.
func running(pod v1.PodSpec) []string {
	var names []string
	for _, c := range pod.InitContainers {
		if ptr.Deref(c.RestartPolicy, "") == v1.ContainerRestartPolicyAlways {
			names = append(names, c.Name)
		}
	}
	for _, c := range pod.Containers {
		names = append(names, c.Name)
	}
	return names
}

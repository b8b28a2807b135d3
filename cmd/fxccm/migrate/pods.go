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
	pods, err := m.occmPods(ctx)
	if err != nil || m.isHosted() {
		return err // in another cluster these Pods serve that one
	}
	selector, err := metav1.LabelSelectorAsSelector(m.occm.selector)
	if err != nil {
		return err
	}
	for _, pod := range slices.DeleteFunc(pods, isManaged) {
		if pod.Namespace == m.occm.Namespace && ownerOf(pod) == "" &&
			pod.Annotations[v1.MirrorPodAnnotationKey] == "" &&
			selector.Matches(labels.Set(pod.Labels)) {
			continue // the workload adopts it
		}
		m.add(Blocks, "Pod "+pod.Name, "it runs OCCM, too: %s", describe(pod))
	}
	workloads, err := m.findOCCM(ctx, "")
	if err != nil {
		return err
	}
	for _, w := range workloads {
		if w.String() != m.occm.String() && w.replicas > 0 && !w.mayServeOther() {
			m.add(Blocks, w.String(), "it runs OCCM for this cluster, too: stop or delete it first")
		}
	}
	return nil
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
	is := m.occm.container
	added := map[string]bool{}
	for _, pod := range pods {
		at := slices.IndexFunc(pod.Spec.Containers,
			func(c v1.Container) bool { return c.Name == is.Name })
		if at < 0 {
			continue
		}
		c := pod.Spec.Containers[at]
		if !slices.Equal(c.Command, is.Command) || !slices.Equal(c.Args, is.Args) {
			m.add(Blocks, "Pod "+pod.Name, "its arguments differ from those of its template: finish the "+
				"rollout of %s, or write into the template what an admission webhook has changed",
				m.occm)
		}
		for _, from := range c.EnvFrom {
			if !containsEqual(is.EnvFrom, from) {
				added["variables of "+sourceOf(from)] = true
			}
		}
		for _, env := range c.Env {
			if !containsEqual(is.Env, env) {
				added["variable "+env.Name] = true
			}
		}
		for _, mount := range c.VolumeMounts {
			if !slices.ContainsFunc(is.VolumeMounts, func(v v1.VolumeMount) bool {
				return path.Clean(v.MountPath) == path.Clean(mount.MountPath) &&
					v.Name == mount.Name
			}) && path.Clean(mount.MountPath) != accountDir {
				added["volume at "+mount.MountPath] = true
			}
		}
		template := m.occm.template.Spec
		for _, alias := range pod.Spec.HostAliases {
			if !containsEqual(template.HostAliases, alias) {
				added["host alias "+alias.IP] = true
			}
		}
		for _, c := range pod.Spec.Containers {
			if !slices.ContainsFunc(template.Containers,
				func(t v1.Container) bool { return t.Name == c.Name }) {
				added["container "+c.Name] = true
			}
		}
	}
	if len(added) == 0 {
		return nil
	}
	names := strings.Join(slices.Sorted(maps.Keys(added)), ", ")
	if len(m.line.copyMetadata) > 0 {
		m.add(Differs, "OCCM's Pods", "an admission webhook adds %s: it must do so for fxccm's "+
			"Pods, too", names)
		return nil
	}
	m.add(Blocks, "OCCM's Pods", "they have what their template has not: %s. Finish the rollout of "+
		"%s; if an admission webhook adds it, write it into the template, or name with "+
		"--copy-metadata the annotations and labels that the webhook reads%s", names, m.occm,
		m.listMetadata())
	return nil
}

package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// occmName is the name of the program, and of its objects in its manifests and its chart.
const occmName = "openstack-cloud-controller-manager"

const (
	deploymentKind = "Deployment"
	daemonSetKind  = "DaemonSet"
)

// restoreAnnotation holds the previous value of the field that stop has changed.
const restoreAnnotation = "fxccm.dev/migrate-restore"

// stopSelector is a node selector that no node satisfies.
const stopSelector = "fxccm.dev/migrate-stopped"

// restored is the value of restoreAnnotation.
type restored struct {
	Replicas     *int32            `json:"replicas,omitempty"`
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
}

// workload is OCCM's Deployment or DaemonSet.
type workload struct {
	kind string
	metav1.ObjectMeta
	replicas  int32
	selector  *metav1.LabelSelector
	template  v1.PodTemplateSpec
	container v1.Container
}

func (w *workload) String() string { return w.kind + " " + w.Namespace + "/" + w.Name }

// isStopped reports whether "fxccm migrate apply" has stopped it, and no owner has started it
// again.
func (w *workload) isStopped() bool {
	_, stopped := w.template.Spec.NodeSelector[stopSelector]
	if w.kind == deploymentKind {
		stopped = w.replicas == 0
	}
	return stopped && w.Annotations[restoreAnnotation] != ""
}

// user is the user ID of OCCM's process, or 0 for root and the image's user.
func (w *workload) user() int64 {
	if c := w.container.SecurityContext; c != nil && c.RunAsUser != nil {
		return *c.RunAsUser
	}
	if c := w.template.Spec.SecurityContext; c != nil && c.RunAsUser != nil {
		return *c.RunAsUser
	}
	return 0
}

func ofDeployment(d *appsv1.Deployment) *workload {
	w := &workload{
		kind: deploymentKind, ObjectMeta: d.ObjectMeta, selector: d.Spec.Selector,
		template: d.Spec.Template, replicas: 1,
	}
	if d.Spec.Replicas != nil {
		w.replicas = *d.Spec.Replicas
	}
	return w
}

func ofDaemonSet(d *appsv1.DaemonSet) *workload {
	return &workload{
		kind: daemonSetKind, ObjectMeta: d.ObjectMeta, selector: d.Spec.Selector,
		template: d.Spec.Template, replicas: d.Status.DesiredNumberScheduled,
	}
}

// findOCCM returns all workloads that run OCCM. If reference, [namespace/][name], is not empty, it
// returns only those with this name and in this namespace.
func (c *Cluster) findOCCM(ctx context.Context, reference string) ([]*workload, error) {
	namespace, name, qualified := strings.Cut(reference, "/")
	if !qualified {
		namespace, name = "", reference
	}
	deployments, err := c.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Deployments: %w", err)
	}
	daemonSets, err := c.AppsV1().DaemonSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list DaemonSets: %w", err)
	}
	var found []*workload
	add := func(w *workload) {
		if (name == "" || name == w.Name) && w.findContainer(name != "") {
			found = append(found, w)
		}
	}
	for i := range deployments.Items {
		add(ofDeployment(&deployments.Items[i]))
	}
	for i := range daemonSets.Items {
		add(ofDaemonSet(&daemonSets.Items[i]))
	}
	return found, nil
}

// findContainer finds OCCM's container by image, command or labels.
func (w *workload) findContainer(named bool) bool {
	containers := w.template.Spec.Containers
	at := slices.IndexFunc(containers, func(c v1.Container) bool {
		image, _, _ := strings.Cut(path.Base(c.Image), ":")
		image, _, _ = strings.Cut(image, "@")
		return image == occmName ||
			slices.ContainsFunc(append(slices.Clone(c.Command), c.Args...), startsOCCM)
	})
	if at < 0 {
		labels := w.template.Labels
		if !named && labels["k8s-app"] != occmName && labels["app.kubernetes.io/name"] != occmName {
			return false
		}
		at = 0
	}
	w.container = containers[at]
	return true
}

// startsOCCM reports whether a word of a command line is OCCM's program, or a script that has it.
func startsOCCM(word string) bool {
	return path.Base(word) == occmName || !strings.HasPrefix(word, "-") &&
		(strings.Contains(word, "/"+occmName) || strings.Contains(word, " "+occmName))
}

// stop scales a Deployment to zero, and gives a DaemonSet a node selector that no node has. The
// same write stores the previous value in an annotation.
func (c *Cluster) stop(ctx context.Context, w *workload) error {
	return c.update(ctx, w, func(meta *metav1.ObjectMeta, replicas **int32,
		nodeSelector *map[string]string,
	) error {
		old := restored{NodeSelector: *nodeSelector}
		if w.kind == deploymentKind {
			old = restored{Replicas: *replicas}
		}
		if meta.Annotations[restoreAnnotation] == "" {
			text, err := json.Marshal(old)
			if err != nil {
				return err
			}
			metav1.SetMetaDataAnnotation(meta, restoreAnnotation, string(text))
		}
		if w.kind == deploymentKind {
			*replicas = new(int32)
		} else {
			*nodeSelector = map[string]string{stopSelector: "true"}
		}
		return nil
	})
}

// restore undoes stop.
func (c *Cluster) restore(ctx context.Context, w *workload) error {
	return c.update(ctx, w, func(meta *metav1.ObjectMeta, replicas **int32,
		nodeSelector *map[string]string,
	) error {
		text := meta.Annotations[restoreAnnotation]
		if text == "" {
			return nil
		}
		var old restored
		if err := json.Unmarshal([]byte(text), &old); err != nil {
			return fmt.Errorf("annotation %s: %w", restoreAnnotation, err)
		}
		delete(meta.Annotations, restoreAnnotation)
		if w.kind == deploymentKind {
			*replicas = old.Replicas
		} else {
			*nodeSelector = old.NodeSelector
		}
		return nil
	})
}

// update changes the workload, and retries after a conflict.
func (c *Cluster) update(ctx context.Context, w *workload,
	change func(*metav1.ObjectMeta, **int32, *map[string]string) error,
) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if w.kind == deploymentKind {
			client := c.AppsV1().Deployments(w.Namespace)
			d, err := client.Get(ctx, w.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := change(&d.ObjectMeta, &d.Spec.Replicas,
				&d.Spec.Template.Spec.NodeSelector); err != nil {
				return err
			}
			_, err = client.Update(ctx, d, metav1.UpdateOptions{FieldManager: fieldManager})
			return err
		}
		client := c.AppsV1().DaemonSets(w.Namespace)
		d, err := client.Get(ctx, w.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var none *int32
		if err := change(&d.ObjectMeta, &none, &d.Spec.Template.Spec.NodeSelector); err != nil {
			return err
		}
		_, err = client.Update(ctx, d, metav1.UpdateOptions{FieldManager: fieldManager})
		return err
	})
	if err != nil {
		return fmt.Errorf("update %s: %w", w, err)
	}
	return nil
}

// before is the previous value of the field that stop has changed, or the zero value.
func (w *workload) before() restored {
	var old restored
	_ = json.Unmarshal([]byte(w.Annotations[restoreAnnotation]), &old)
	return old
}

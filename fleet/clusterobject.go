package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/fxccm/fxccm/internal/requestlog"
)

// The finalizer and the annotations that the fleet writes to Clusters of Cluster API.
const (
	// loadBalancersFinalizer keeps a Cluster until its load balancers are deleted.
	loadBalancersFinalizer = "fxccm.dev/load-balancers"
	// uidAnnotation holds the UID of the namespace kube-system, which is in the tags of the load
	// balancers.
	uidAnnotation = "fxccm.dev/kube-system-uid"
	// disputedAnnotation holds the UID of kube-system that the API server has reported although the
	// Cluster has another one, or another Cluster has the same. Then the clean-up keeps everything,
	// because only the cluster's own API server vouches for the UID. An operator removes it.
	disputedAnnotation = "fxccm.dev/disputed-kube-system-uid"
	// serverAnnotation holds the address of the API server, which may answer when the kubeconfig
	// Secret is gone.
	serverAnnotation = "fxccm.dev/api-server"
	// cloudConfigAnnotation is on a Cluster that has a provider's configuration of its own.
	// Another configuration may lead to a project that has no load balancer of the cluster.
	cloudConfigAnnotation = "fxccm.dev/has-cloud-config"

	// moveAnnotation is on a Cluster that clusterctl deletes because it has moved it to another
	// management cluster (cluster-api, cmd/clusterctl/api/v1alpha3/annotations.go).
	moveAnnotation = "clusterctl.cluster.x-k8s.io/delete-for-move"
)

// clusterObjects are the Clusters of Cluster API in the management cluster.
type clusterObjects struct {
	client   kubernetes.Interface
	objects  dynamic.Interface
	metadata metadata.Interface
	resource schema.GroupVersionResource
	// namespace is the namespace of the Clusters; "" means all.
	namespace string
}

// clusterObject is a Cluster of Cluster API, with its state when the source last saw it. All of its
// methods read it again from the API server.
type clusterObject struct {
	*clusterObjects
	namespace, name string
	uid             types.UID

	// deleting is true if the Cluster has the fleet's finalizer and a deletion timestamp.
	deleting bool
	// noKubeconfig is true if the Cluster's kubeconfig Secret does not exist.
	noKubeconfig bool
}

func (o *clusterObjects) of(object *metav1.PartialObjectMetadata) *clusterObject {
	return &clusterObject{
		clusterObjects: o,
		namespace:      object.Namespace, name: object.Name, uid: object.UID,
		deleting: object.DeletionTimestamp != nil &&
			slices.Contains(object.Finalizers, loadBalancersFinalizer),
	}
}

func (o *clusterObject) clusters() dynamic.ResourceInterface {
	return o.objects.Resource(o.resource).Namespace(o.namespace)
}

// read returns the Cluster. A Cluster of the same name but with another UID is an error.
func (o *clusterObject) read(ctx context.Context) (*unstructured.Unstructured, error) {
	object, err := o.clusters().Get(ctx, o.name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the Cluster: %w", err)
	}
	if object.GetUID() != o.uid {
		return nil, errors.New("read the Cluster: it was replaced by another one of its name")
	}
	return object, nil
}

// write replaces the finalizers and sets annotations of the Cluster, if it is unchanged since read.
func (o *clusterObject) write(
	ctx context.Context, object *unstructured.Unstructured, finalizers []string,
	annotations map[string]any,
) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion(),
		"finalizers": finalizers, "annotations": annotations,
	}})
	if err != nil {
		return err
	}
	_, err = o.clusters().Patch(ctx, o.name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// record adds the finalizer and sets the annotations that the clean-up reads; "" removes one. The
// UID of kube-system is set once, and never replaced; disputed is why another one is not used. A
// Cluster that is being deleted stays unchanged, because the API server refuses finalizers then.
func (o *clusterObject) record(
	ctx context.Context, annotations map[string]string,
) (disputed, err error) {
	object, err := o.read(ctx)
	if err != nil || object.GetDeletionTimestamp() != nil {
		return nil, err
	}
	has, finalizers := object.GetAnnotations(), object.GetFinalizers()
	bound, reported := has[uidAnnotation], annotations[uidAnnotation]
	switch {
	case !isUID(reported):
		return nil, errors.New("the API server reports no valid UID of namespace kube-system")
	case bound != "" && bound != reported:
		disputed = fmt.Errorf(
			"the API server reports another UID of kube-system, %s, than before, %s", reported,
			bound)
	default:
		if disputed, err = o.findTwin(ctx, reported); err != nil {
			return nil, err
		}
	}
	if disputed != nil {
		annotations[disputedAnnotation] = reported
		annotations[uidAnnotation] = bound
	}
	if err := o.annotate(ctx, object, has, finalizers, annotations); err != nil {
		return nil, err
	}
	return disputed, nil
}

// isUID reports whether a text is short and plain enough for a UID. The API server of a tenant may
// report anything.
func isUID(text string) bool {
	return text != "" && len(text) <= 40 && !strings.ContainsFunc(text, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-'
	})
}

func (o *clusterObject) annotate(
	ctx context.Context, object *unstructured.Unstructured, has map[string]string,
	finalizers []string, annotations map[string]string,
) error {
	differ := map[string]any{}
	for name, value := range annotations {
		switch {
		case has[name] == value:
		case value == "":
			differ[name] = nil
		default:
			differ[name] = value
		}
	}
	if !slices.Contains(finalizers, loadBalancersFinalizer) {
		finalizers = append(finalizers, loadBalancersFinalizer)
	} else if len(differ) == 0 {
		return nil
	}
	if err := o.write(ctx, object, finalizers, differ); err != nil {
		return fmt.Errorf("add the finalizer %s to the Cluster: %w", loadBalancersFinalizer, err)
	}
	return nil
}

// release removes the finalizer.
func (o *clusterObject) release(ctx context.Context) error {
	object, err := o.read(ctx)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	finalizers := slices.DeleteFunc(object.GetFinalizers(),
		func(each string) bool { return each == loadBalancersFinalizer })
	if err := o.write(ctx, object, finalizers, nil); err != nil {
		return fmt.Errorf("remove the finalizer %s from the Cluster: %w", loadBalancersFinalizer,
			err)
	}
	return nil
}

// deletion is the state of a Cluster that is being deleted, from the management cluster.
type deletion struct {
	clusterUID, server           string
	hasCloudConfig, noKubeconfig bool
	// kept is the reason to keep its load balancers nevertheless.
	kept error
}

// readDeletion reads the proof of the Cluster's deletion, without a cache. It returns an error if
// the Cluster is not being deleted.
func (o *clusterObject) readDeletion(ctx context.Context) (deletion, error) {
	object, err := o.read(ctx)
	if err != nil {
		return deletion{}, err
	}
	if object.GetDeletionTimestamp() == nil ||
		!slices.Contains(object.GetFinalizers(), loadBalancersFinalizer) {
		return deletion{}, errors.New("the Cluster is not being deleted, or its finalizer " +
			loadBalancersFinalizer + " was removed")
	}
	secrets, err := o.client.CoreV1().Secrets(o.namespace).List(requestlog.WithoutBodies(ctx),
		metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField,
				o.name+kubeconfigSuffix).String(),
		})
	if err != nil {
		return deletion{}, fmt.Errorf("read the kubeconfig Secret: %w", err)
	}
	annotations := object.GetAnnotations()
	d := deletion{
		clusterUID: annotations[uidAnnotation], server: annotations[serverAnnotation],
		noKubeconfig:   len(secrets.Items) == 0,
		hasCloudConfig: annotations[cloudConfigAnnotation] != "",
	}
	paused, _, _ := unstructured.NestedBool(object.Object, "spec", "paused")
	_, moved := annotations[moveAnnotation]
	switch {
	case annotations[disputedAnnotation] != "":
		disputed := annotations[disputedAnnotation]
		if d.kept, err = o.findTwin(ctx, disputed); d.kept == nil && err == nil {
			d.kept = fmt.Errorf("the API server has reported another UID of kube-system, %s",
				disputed)
		}
	case d.clusterUID == "":
		d.kept = errors.New("the Cluster has no annotation " + uidAnnotation)
	case paused, moved:
		d.kept = errors.New("the Cluster is paused, or was moved to another management cluster")
	default:
		d.kept, err = o.findTwin(ctx, d.clusterUID)
	}
	return d, err
}

// findTwin returns an error in kept if another Cluster has the same UID of kube-system, as after a
// restored backup, or if its API server copies the UID: the load balancers have the same tags.
func (o *clusterObject) findTwin(ctx context.Context, clusterUID string) (kept, err error) {
	all, err := o.metadata.Resource(o.resource).Namespace(o.clusterObjects.namespace).List(ctx,
		metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the Clusters: %w", err)
	}
	for _, other := range all.Items {
		if other.UID != o.uid && (other.Annotations[uidAnnotation] == clusterUID ||
			other.Annotations[disputedAnnotation] == clusterUID) {
			return fmt.Errorf("Cluster %s/%s has the same UID of kube-system, %s",
				other.Namespace, other.Name, clusterUID), nil
		}
	}
	return nil, nil
}

// tell writes an event of the Cluster, at most one an hour for each reason and message.
func (o *clusterObject) tell(ctx context.Context, kind, reason, message string) error {
	sum := sha256.Sum256([]byte(string(o.uid) + reason + message))
	now := metav1.Now()
	_, err := o.client.CoreV1().Events(o.namespace).Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.namespace, Name: fmt.Sprintf("%s.%x", o.name, sum[:8]),
		},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: o.resource.GroupVersion().String(), Kind: "Cluster",
			Namespace: o.namespace, Name: o.name, UID: o.uid,
		},
		Type: kind, Reason: reason, Message: message, Count: 1,
		FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: "fxccm-fleet"},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

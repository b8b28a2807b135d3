package servicelb_test

import (
	"encoding/json"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// addRules adds the rules of an API server that the tracker lacks: versions, the preconditions of a
// patch, an address only for the type LoadBalancer, and no new finalizer during a deletion.
func addRules(client *fake.Clientset) {
	version := 0
	next := func() string { version++; return fmt.Sprint(version) }
	react := clienttesting.ObjectReaction(client.Tracker())
	client.PrependReactor("create", "services",
		func(action clienttesting.Action) (bool, runtime.Object, error) {
			action.(clienttesting.CreateAction).GetObject().(*v1.Service).ResourceVersion = next()
			return react(action)
		})
	client.PrependReactor("update", "services",
		func(action clienttesting.Action) (bool, runtime.Object, error) {
			action.(clienttesting.UpdateAction).GetObject().(*v1.Service).ResourceVersion = next()
			return react(action)
		})
	client.PrependReactor("patch", "services",
		func(action clienttesting.Action) (bool, runtime.Object, error) {
			patch := action.(clienttesting.PatchActionImpl)
			object, err := client.Tracker().Get(patch.Resource, patch.Namespace, patch.Name)
			if err != nil {
				return true, nil, err
			}
			now := object.(*v1.Service)
			var wanted struct {
				Metadata struct {
					UID             types.UID `json:"uid"`
					ResourceVersion string    `json:"resourceVersion"`
					Finalizers      []string  `json:"finalizers"`
				} `json:"metadata"`
				Status v1.ServiceStatus `json:"status"`
			}
			var all map[string]any
			if err := json.Unmarshal(patch.Patch, &wanted); err != nil {
				return true, nil, err
			}
			if err := json.Unmarshal(patch.Patch, &all); err != nil {
				return true, nil, err
			}
			var refused field.ErrorList
			metadata := wanted.Metadata
			isNew := func(f string) bool { return !slices.Contains(now.Finalizers, f) }
			switch {
			case metadata.UID != "" && metadata.UID != now.UID:
				refused = append(refused, field.Invalid(field.NewPath("metadata", "uid"),
					metadata.UID, "field is immutable"))
			case metadata.ResourceVersion != "" && metadata.ResourceVersion != now.ResourceVersion:
				return true, nil, apierrors.NewConflict(v1.Resource("services"), now.Name, nil)
			case len(wanted.Status.LoadBalancer.Ingress) > 0 &&
				now.Spec.Type != v1.ServiceTypeLoadBalancer:
				refused = append(refused, field.Forbidden(field.NewPath("status", "loadBalancer",
					"ingress"), "may only be used when `spec.type` is \"LoadBalancer\""))
			case now.DeletionTimestamp != nil && slices.ContainsFunc(metadata.Finalizers, isNew):
				refused = append(refused, field.Forbidden(field.NewPath("metadata", "finalizers"),
					"no new finalizers can be added if the object is being deleted"))
			}
			if len(refused) > 0 {
				return true, nil, apierrors.NewInvalid(v1.SchemeGroupVersion.WithKind(
					"Service").GroupKind(), now.Name, refused)
			}
			if _, has := all["metadata"]; !has {
				all["metadata"] = map[string]any{}
			}
			all["metadata"].(map[string]any)["resourceVersion"] = next()
			if patch.Patch, err = json.Marshal(all); err != nil {
				return true, nil, err
			}
			return react(patch)
		})
}

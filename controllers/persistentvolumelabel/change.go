package persistentvolumelabel

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	volumehelpers "k8s.io/cloud-provider/volume/helpers"
)

// lacksLabels reports whether a volume needs the provider's labels. A deleted volume is nil.
func lacksLabels(pv *corev1.PersistentVolume) bool {
	return pv != nil && pv.DeletionTimestamp == nil &&
		!hasLabels(pv, corev1.LabelTopologyZone, corev1.LabelTopologyRegion) &&
		!hasLabels(pv, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion)
}

func hasLabels(pv *corev1.PersistentVolume, keys ...string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool {
		_, has := pv.Labels[key]
		return !has
	})
}

// patchFor returns the merge patch that writes the provider's labels to a volume, and the matching
// node affinity if the volume has no affinity. It returns nil if the volume needs no change. The
// error names the invalid label.
func patchFor(pv *corev1.PersistentVolume, labels map[string]string) ([]byte, error) {
	labels = maps.Clone(labels)
	// A cloud without regions may report an empty region. No node has such a label, so no node
	// could use the volume.
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	if len(labels) == 0 {
		return nil, nil
	}
	affinity, err := affinityTo(labels)
	if err != nil {
		return nil, err
	}
	change := patch{}
	change.Metadata.ResourceVersion = pv.ResourceVersion
	change.Metadata.Labels = labels
	// The API server accepts an affinity only for a volume without one
	// (ValidatePersistentVolumeUpdate in k8s.io/kubernetes; the gate MutablePVNodeAffinity, alpha
	// in 1.37, would lift that). An existing affinity says where the volume can be used.
	switch {
	case pv.Spec.NodeAffinity == nil:
		change.Spec = &spec{NodeAffinity: affinity}
	case has(pv.Labels, labels):
		return nil, nil
	}
	return json.Marshal(change)
}

// patch contains the fields of a PersistentVolume that the controller writes.
type patch struct {
	Metadata struct {
		// ResourceVersion makes the API server refuse the patch (409) if the volume has changed.
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec *spec `json:"spec,omitempty"`
}

type spec struct {
	NodeAffinity *corev1.VolumeNodeAffinity `json:"nodeAffinity"`
}

func has(all, some map[string]string) bool {
	for key, value := range some {
		if all[key] != value {
			return false
		}
	}
	return true
}

// affinityTo returns an affinity to the nodes with all labels.
func affinityTo(labels map[string]string) (*corev1.VolumeNodeAffinity, error) {
	var term corev1.NodeSelectorTerm
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		values, err := valuesOf(key, labels[key])
		if err != nil {
			return nil, err
		}
		term.MatchExpressions = append(term.MatchExpressions,
			corev1.NodeSelectorRequirement{
				Key: key, Operator: corev1.NodeSelectorOpIn,
				Values: values,
			})
	}
	terms := []corev1.NodeSelectorTerm{term}
	required := &corev1.NodeSelector{NodeSelectorTerms: terms}
	return &corev1.VolumeNodeAffinity{Required: required}, nil
}

// valuesOf returns the values of which a node must have one. A volume in several zones has them in
// one label, as "a__b".
func valuesOf(key, value string) ([]string, error) {
	if key != corev1.LabelTopologyZone && key != corev1.LabelFailureDomainBetaZone {
		return []string{value}, nil
	}
	zones, err := volumehelpers.LabelZonesToSet(value)
	if err != nil {
		return nil, fmt.Errorf("the cloud provider's label %s=%s makes no sense: %w", key, value,
			err)
	}
	return zones.List(), nil
}

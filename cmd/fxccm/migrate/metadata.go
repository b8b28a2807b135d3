package migrate

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// selectsMetadata reports whether --copy-metadata has a name, also by a prefix that ends with *.
func (m *migration) selectsMetadata(name string) bool {
	return slices.ContainsFunc(m.line.copyMetadata, func(p string) bool { return matches(p, name) })
}

func matches(pattern, name string) bool {
	prefix, isPrefix := strings.CutSuffix(pattern, "*")
	return name == pattern || isPrefix && strings.HasPrefix(name, prefix)
}

// metadataNames are the annotations and labels of OCCM's Pods, without those that its selector
// needs.
func (m *migration) metadataNames() []string {
	names := slices.Collect(maps.Keys(m.occm.template.Annotations))
	for name := range m.occm.template.Labels {
		if m.occm.selector == nil || m.occm.selector.MatchLabels[name] == "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (m *migration) listMetadata() string {
	names := m.metadataNames()
	if len(names) == 0 {
		return ". Their template has none"
	}
	return ". Their template has " + strings.Join(names, ", ")
}

// checkMetadata checks --copy-metadata.
func (m *migration) checkMetadata() {
	var copied []string
	for _, pattern := range m.line.copyMetadata {
		isUsed := false
		for _, name := range m.metadataNames() {
			if matches(pattern, name) {
				isUsed, copied = true, append(copied, name)
			}
		}
		if !isUsed {
			m.add(Blocks, "--copy-metadata="+pattern, "no annotation or label of OCCM's Pods has "+
				"this name%s", m.listMetadata())
		}
	}
	if len(copied) == 0 {
		return
	}
	slices.Sort(copied)
	m.add(Same, "--copy-metadata", "fxccm's Pods get %s",
		strings.Join(slices.Compact(copied), ", "))
	copies := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{
		Labels: maps.Clone(fxccmSelector().MatchLabels),
	}}
	m.copyMetadata(&copies)
	if s, err := metav1.LabelSelectorAsSelector(m.occm.selector); err == nil &&
		m.occm.selector != nil && s.Matches(labels.Set(copies.Labels)) {
		m.add(Blocks, "--copy-metadata", "OCCM's selector would select fxccm's Pods: copy fewer "+
			"labels")
	}
	for name, value := range fxccmSelector().MatchLabels {
		if copies.Labels[name] != value {
			m.add(Blocks, "--copy-metadata", "fxccm needs another value of label %s", name)
		}
	}
}

// copyMetadata copies the annotations and labels that --copy-metadata selects.
func (m *migration) copyMetadata(to *v1.PodTemplateSpec) {
	for name, value := range m.occm.template.Annotations {
		if m.selectsMetadata(name) {
			metav1.SetMetaDataAnnotation(&to.ObjectMeta, name, value)
		}
	}
	for name, value := range m.occm.template.Labels {
		if m.selectsMetadata(name) && slices.Contains(m.metadataNames(), name) {
			metav1.SetMetaDataLabel(&to.ObjectMeta, name, value)
		}
	}
}

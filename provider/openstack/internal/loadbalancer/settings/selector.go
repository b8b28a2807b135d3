package settings

import (
	"slices"
	"strings"
)

// NodeSelector chooses the nodes that become members. The zero value chooses all.
type NodeSelector struct {
	// labels are sorted by unique keys.
	labels []label
}

// label with the value "" matches any value.
type label struct{ key, value string }

func (l label) String() string {
	if l.value == "" {
		return l.key
	}
	return l.key + "=" + l.value
}

// ParseNodeSelector parses labels: key=value or key, with commas between them. The last of a
// repeated key is used. An invalid label selects no node.
func ParseNodeSelector(text string) NodeSelector {
	wanted := map[string]string{}
	for element := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(element, "=")
		key = strings.TrimSpace(key)
		if key == "" && !found {
			continue
		}
		wanted[key] = strings.TrimSpace(value)
	}
	var s NodeSelector
	for key, value := range wanted {
		s.labels = append(s.labels, label{key, value})
	}
	slices.SortFunc(s.labels, func(a, b label) int { return strings.Compare(a.key, b.key) })
	return s
}

// Matches reports whether a node with these labels is selected.
func (s NodeSelector) Matches(labels map[string]string) bool {
	for _, wanted := range s.labels {
		value, ok := labels[wanted.key]
		if !ok || wanted.value != "" && value != wanted.value {
			return false
		}
	}
	return true
}

// String returns the form that [ParseNodeSelector] parses.
func (s NodeSelector) String() string {
	var all []string
	for _, l := range s.labels {
		all = append(all, l.String())
	}
	return strings.Join(all, ",")
}

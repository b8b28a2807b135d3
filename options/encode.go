package options

import (
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// encodeSection returns the mapping of a struct: every member, in the order of its declaration.
func encodeSection(path string, v reflect.Value) (*yaml.Node, error) {
	mapping := &yaml.Node{Kind: yaml.MappingNode}
	for name, member := range members(v) {
		value, err := encodeMember(child(path, name), member)
		if err != nil {
			return nil, err
		}
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: name}
		mapping.Content = append(mapping.Content, key, value)
	}
	return mapping, nil
}

func encodeMember(path string, v reflect.Value) (*yaml.Node, error) {
	if isSection(v) {
		return encodeSection(path, v)
	}
	value := v.Interface()
	if d, ok := value.(metav1.Duration); ok {
		value = d.Duration.String()
	}
	var node yaml.Node
	if err := node.Encode(value); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if isBinary(&node) {
		return nil, fmt.Errorf("%s: not valid UTF-8", path)
	}
	return &node, nil
}

// isBinary reports whether the YAML library encoded a string that is not text as base64.
func isBinary(node *yaml.Node) bool {
	if node.ShortTag() == "!!binary" {
		return true
	}
	for _, item := range node.Content {
		if isBinary(item) {
			return true
		}
	}
	return false
}

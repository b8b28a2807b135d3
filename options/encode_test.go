package options

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// encode writes every field of a configuration file, in the order of its declaration.
func encode(cfg Configuration) ([]byte, error) {
	doc := document{APIVersion: apiVersion, Kind: configKind, Configuration: cfg}
	root, err := encodeSection("", reflect.ValueOf(doc))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err = errors.Join(encoder.Encode(root), encoder.Close())
	return out.Bytes(), err
}

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
	return &node, nil
}

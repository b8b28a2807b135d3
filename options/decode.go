package options

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// decoder sets the fields of a struct from YAML. It continues after an error, so that one run
// reports all errors of a file. It is stricter than the YAML library, which reads 1.7 into an
// integer and 5 into a string.
type decoder struct{ errs []error }

func (d *decoder) fail(node *yaml.Node, format string, args ...any) {
	d.errs = append(d.errs, fmt.Errorf("line %d: %s", node.Line, fmt.Sprintf(format, args...)))
}

// section sets the members of a struct from a mapping.
func (d *decoder) section(path string, node *yaml.Node, v reflect.Value) {
	node = resolve(node)
	if isNull(node) {
		return
	}
	if node.Kind != yaml.MappingNode {
		d.fail(node, "%s: want a mapping, got %s", path, describe(node))
		return
	}
	fields, known := map[string]reflect.Value{}, []string{}
	for name, member := range members(v) {
		fields[name] = member
		known = append(known, name)
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		field, ok := fields[key.Value]
		path := child(path, key.Value)
		switch first := lines[key.Value]; {
		case !ok:
			d.fail(key, "unknown field %.80q: known are %s", path, strings.Join(known, ", "))
		case first != 0:
			d.fail(key, "%s: given twice, first in line %d", path, first)
		case isSection(field):
			d.section(path, value, field)
		default:
			d.value(path, value, field)
		}
		lines[key.Value] = key.Line
	}
}

// value sets a scalar or a list of scalars.
func (d *decoder) value(path string, node *yaml.Node, v reflect.Value) {
	node = resolve(node)
	if isNull(node) {
		return
	}
	if v.Kind() != reflect.Slice {
		if !setScalar(v, node) {
			d.fail(node, "%s: want %s, got %s", path, wanted(v.Type()), describe(node))
		}
		return
	}
	if node.Kind != yaml.SequenceNode {
		d.fail(node, "%s: want a list, got %s", path, describe(node))
		return
	}
	list := reflect.MakeSlice(v.Type(), len(node.Content), len(node.Content))
	for i, item := range node.Content {
		if item = resolve(item); !setScalar(list.Index(i), item) {
			d.fail(item, "%s[%d]: want %s, got %s",
				path, i, wanted(v.Type().Elem()), describe(item))
		}
	}
	v.Set(list)
}

// setScalar reports whether the node has v's type and is in its range.
func setScalar(v reflect.Value, node *yaml.Node) bool {
	if node.Kind != yaml.ScalarNode {
		return false
	}
	tag := node.ShortTag()
	switch p := v.Addr().Interface().(type) {
	case *metav1.Duration:
		d, err := time.ParseDuration(node.Value)
		p.Duration = d
		return tag == "!!str" && err == nil
	case *string:
		*p = node.Value
		return tag == "!!str"
	case *bool:
		return tag == "!!bool" && node.Decode(p) == nil
	case *int, *int32:
		var n int64
		if tag != "!!int" || node.Decode(&n) != nil || v.OverflowInt(n) {
			return false
		}
		v.SetInt(n)
		return true
	case *float32:
		var n float64
		isNumber := (tag == "!!int" || tag == "!!float") && node.Decode(&n) == nil
		if !isNumber || math.IsNaN(n) || math.IsInf(n, 0) || v.OverflowFloat(n) {
			return false
		}
		*p = float32(n)
		return true
	}
	return false
}

func wanted(t reflect.Type) string {
	if t == reflect.TypeFor[metav1.Duration]() {
		return "a duration like 1m30s"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32:
		return "a number"
	default:
		return "a whole number"
	}
}

func describe(node *yaml.Node) string {
	switch {
	case node.Kind == yaml.MappingNode:
		return "a mapping"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(node):
		return "nothing"
	}
	switch node.ShortTag() {
	case "!!int", "!!float", "!!bool", "!!timestamp":
		return fmt.Sprintf("%.40s", node.Value)
	default:
		return fmt.Sprintf("%.40q", node.Value)
	}
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

// resolve follows an alias to its anchor. An anchor that contains its own alias does not loop,
// because the decoder goes no deeper than the struct.
func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

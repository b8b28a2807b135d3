package options

import (
	"iter"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// members yields the YAML name and the value of each field of a struct, in the order of
// declaration. The fields of an inlined struct replace that struct.
func members(v reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		for i := range v.NumField() {
			name, how, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if how != "inline" {
				if !yield(name, v.Field(i)) {
					return
				}
				continue
			}
			for name, member := range members(v.Field(i)) {
				if !yield(name, member) {
					return
				}
			}
		}
	}
}

// isSection reports whether a field groups others. A metav1.Duration is a struct, but a value.
func isSection(v reflect.Value) bool {
	return v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[metav1.Duration]()
}

// leaves maps the address of every value of a Configuration to its path, such as
// node.concurrentSyncs.
func leaves(cfg *Configuration) map[any]string {
	paths := map[any]string{}
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		if !isSection(v) {
			paths[v.Addr().Interface()] = path
			return
		}
		for name, member := range members(v) {
			walk(child(path, name), member)
		}
	}
	walk("", reflect.ValueOf(cfg).Elem())
	return paths
}

func child(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

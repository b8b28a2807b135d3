package cloudconf

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestTable_HasOneRowForEachField(t *testing.T) {
	t.Parallel()
	// These are not read from the file.
	without := []string{"LoadBalancer.ActiveSteps"}

	var c Config
	class := &LoadBalancerClass{}
	rows := map[any]string{}
	for _, s := range table(&c) {
		var of any = &c
		if s.named {
			s, of = loadBalancerClass(class), class
		}
		for _, o := range s.options {
			for _, field := range fieldsSetBy(o, of) {
				if other, taken := rows[field]; taken {
					t.Errorf("%s and [%s] %s set the same field", other, s.name, o.key)
				}
				rows[field] = "[" + s.name + "] " + o.key
			}
		}
	}
	for name, field := range leaves("", reflect.ValueOf(&c).Elem()) {
		_, ok := rows[field]
		if ok == slices.Contains(without, name) {
			t.Errorf("field %s: in the table: %t", name, ok)
		}
	}
	for name, field := range leaves("LoadBalancerClass", reflect.ValueOf(class).Elem()) {
		if _, ok := rows[field]; !ok {
			t.Errorf("field %s is not in the table", name)
		}
	}
}

// fieldsSetBy parses an option into a struct, and returns the fields that are not zero then.
func fieldsSetBy(o option, of any) (set []any) {
	reflect.ValueOf(of).Elem().SetZero()
	for _, value := range []string{"internal", "true", "7", "7s"} {
		if o.read(value, false) == nil {
			break
		}
	}
	for _, field := range leaves("", reflect.ValueOf(of).Elem()) {
		if !reflect.ValueOf(field).Elem().IsZero() {
			set = append(set, field)
		}
	}
	return set
}

// leaves returns pointers to the fields of structs in a struct.
func leaves(name string, v reflect.Value) map[string]any {
	all := map[string]any{}
	for i := range v.NumField() {
		field, path := v.Field(i), strings.TrimPrefix(name+"."+v.Type().Field(i).Name, ".")
		switch {
		case field.Kind() == reflect.Struct:
			for below, leaf := range leaves(path, field) {
				all[below] = leaf
			}
		case path != "LoadBalancerClasses" && path != "Regions":
			all[path] = field.Addr().Interface()
		}
	}
	return all
}

func TestTable_KeysAreUniqueAndExplained(t *testing.T) {
	t.Parallel()
	for _, s := range table(&Config{}) {
		seen := map[string]bool{}
		if s.meaning == "" {
			t.Errorf("[%s] has no meaning", s.name)
		}
		for _, o := range s.options {
			if seen[o.key] || o.meaning == "" || o.key != strings.ToLower(o.key) {
				t.Errorf("[%s] %s is repeated, not in lower case, or not explained", s.name,
					o.key)
			}
			seen[o.key] = true
		}
	}
}

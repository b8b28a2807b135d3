package snapshot

import (
	"fmt"
	"net/http"
	"reflect"
)

// handlers returns the patterns of a mux by reflection, because ServeMux has no method for them.
// The fields exist since Go 1.22.
func handlers(mux *http.ServeMux) ([]string, error) {
	tree := reflect.ValueOf(mux).Elem().FieldByName("tree")
	if !tree.IsValid() {
		return nil, fmt.Errorf("net/http.ServeMux has changed: it has no field tree")
	}
	found := map[string]bool{}
	if err := patterns(tree, map[any]bool{}, found); err != nil {
		return nil, err
	}
	var all []string
	for pattern := range found {
		all = append(all, pattern)
	}
	return all, nil
}

// patterns collects the texts of all reachable values of net/http's type pattern.
func patterns(v reflect.Value, seen map[any]bool, found map[string]bool) error {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || seen[v.Pointer()] {
			return nil
		}
		seen[v.Pointer()] = true
		return patterns(v.Elem(), seen, found)
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if err := patterns(v.MapIndex(key), seen, found); err != nil {
				return err
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := patterns(v.Index(i), seen, found); err != nil {
				return err
			}
		}
	case reflect.Struct:
		if v.Type().String() == "http.pattern" {
			text := v.FieldByName("str")
			if !text.IsValid() {
				return fmt.Errorf("net/http.pattern has changed: it has no field str")
			}
			found[text.String()] = true
			return nil
		}
		if v.Type().PkgPath() != "net/http" {
			return nil
		}
		for i := range v.NumField() {
			if err := patterns(v.Field(i), seen, found); err != nil {
				return err
			}
		}
	}
	return nil
}

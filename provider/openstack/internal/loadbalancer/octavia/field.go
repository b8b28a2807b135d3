package octavia

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A field declares a setting of one of Octavia's objects, with the tags of a field of the Go type.
// The tag json has its name in the API. Comparison, update, text and prediction include the field,
// unless the tag octavia has one of these options, with commas between them:
//
//   - create: an update cannot change it.
//   - kept: the existing value stays. An update sends it, unless it is empty.
//   - optional: an empty value is neither compared nor sent by an update.
//   - chosen: a setting chooses it, or a lookup for want of a setting. The cloud may refuse it.
//   - null: the zero value means none, for which an update sends null.
//   - since=N: Octavia has it since version 2.N of the API. This is the last option.
type field struct {
	name    string
	options []string
	since   int
	index   []int
}

// Fields are the fields of T that Octavia has.
type Fields[T any] []field

// FieldsOf reads the tags of T.
func FieldsOf[T any]() Fields[T] {
	var all Fields[T]
	for _, of := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(of.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		options, since, _ := strings.Cut(of.Tag.Get("octavia"), "since=")
		f := field{name: name, options: strings.Split(options, ","), index: of.Index}
		f.since, _ = strconv.Atoi(since)
		all = append(all, f)
	}
	return all
}

func (f field) is(option string) bool { return slices.Contains(f.options, option) }

// isWritten reports whether an update sends a value.
func (f field) isWritten(v reflect.Value) bool {
	return !f.is("create") && !(v.IsZero() && (f.is("kept") || f.is("optional")))
}

// Since returns the minor version of the API that added a field, 0 for the first one.
func (all Fields[T]) Since(name string) int {
	return all[slices.IndexFunc(all, func(f field) bool { return f.name == name })].since
}

// Newer returns the names of the fields with a value that version 2.minor of the API lacks.
func (all Fields[T]) Newer(object T, minor int) []string {
	var names []string
	for _, f := range all {
		if v, has := f.of(&object); has && !v.IsZero() && f.since > minor {
			names = append(names, f.name)
		}
	}
	return names
}

// Change is a difference of a field, in texts for people.
type Change struct{ Name, Is, Want string }

// Changes returns the differences that an update resolves.
func (all Fields[T]) Changes(is, want T) []Change {
	var changes []Change
	for _, f := range all {
		old, known := f.of(&is)
		wanted, has := f.of(&want)
		if !known || !has || f.is("kept") || !f.isWritten(wanted) {
			continue
		}
		if c := (Change{f.name, f.text(old), f.text(wanted)}); c.Is != c.Want {
			changes = append(changes, c)
		}
	}
	return changes
}

// Texts returns a text for each setting that an update can change and that has a value, except
// those of structs in T.
func (all Fields[T]) Texts(object T) []string {
	var texts []string
	for _, f := range all {
		v, _ := f.of(&object)
		if len(f.index) == 1 && !f.is("kept") && f.isWritten(v) && f.text(v) != "" {
			texts = append(texts, f.name+" "+f.text(v))
		}
	}
	return texts
}

// Updated predicts an object after an update.
func (all Fields[T]) Updated(is, want T) T {
	for _, f := range all {
		if v, has := f.of(&want); has && f.isWritten(v) {
			// A struct in T may be shared, so it is replaced as a whole.
			reflect.ValueOf(&is).Elem().Field(f.index[0]).
				Set(reflect.ValueOf(&want).Elem().Field(f.index[0]))
		}
	}
	return is
}

// update returns the attributes of a request that updates an object, for version 2.minor of the
// API.
func (all Fields[T]) update(want T, minor int) fields {
	attributes := fields{}
	for _, f := range all {
		v, has := f.of(&want)
		switch {
		case !has || !f.isWritten(v) || f.since > minor:
		case v.IsZero() && f.is("null"):
			attributes[f.name] = nil
		default:
			attributes[f.name] = v.Interface()
		}
	}
	return attributes
}

// Chosen returns the values of objects that a setting chooses, or a lookup for want of a setting.
func Chosen[T any](objects ...T) (chosen []string) {
	for i := range objects {
		for _, f := range FieldsOf[T]() {
			if v, has := f.of(&objects[i]); has && f.is("chosen") {
				chosen = append(chosen, strings.Trim(f.text(v), "[]"))
			}
		}
	}
	return chosen
}

// normalize replaces empty lists and maps with nil, and sorts the lists of settings, in new slices.
func (all Fields[T]) normalize(object *T) {
	for _, f := range all {
		v, has := f.of(object)
		if !has {
			continue
		}
		list, isList := v.Interface().([]string)
		switch {
		case (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0:
			v.SetZero()
		case isList && !f.is("kept"):
			v.Set(reflect.ValueOf(slices.Sorted(slices.Values(list))))
		}
	}
}

// of returns the value of the field; false if it is in a struct that is nil.
func (f field) of(object any) (reflect.Value, bool) {
	v, err := reflect.ValueOf(object).Elem().FieldByIndexErr(f.index)
	return v, err == nil
}

// text returns "" for none. The order of a list has no meaning.
func (f field) text(v reflect.Value) string {
	var list []string
	switch value := v.Interface().(type) {
	case []string:
		list = slices.Sorted(slices.Values(value))
	case map[string]string:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			list = append(list, name+"="+value[name])
		}
	default:
		if f.is("null") && v.IsZero() {
			return ""
		}
		return fmt.Sprint(value)
	}
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprint(list)
}

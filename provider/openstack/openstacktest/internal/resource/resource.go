// Package resource describes the attributes of the resources of an API: their names and types,
// their defaults and checks, and when a request may give them. The description of a field of a Go
// struct is its tag "api":
//
//	Weight int `api:"weight,min=0,max=256,default=1"`
//
// The tag begins with the name in the API, or several names separated by |: all show the field, and
// the first one sets it. The options are:
//
//   - ro: no request gives it. create, update: only a creation, or only a change, gives it.
//   - required: a creation must give it.
//   - default=VALUE: the value if a request gives none, or null.
//   - null: the API shows an empty value as null.
//   - not: the API shows the negation.
//   - hidden: the API never shows it. admin: the API shows it to administrators only.
//   - nofilter: lists cannot be filtered by it.
//   - uuid, ip, cidr, oneof=A|B, min=N, max=N: checks. A text has at most 255 characters.
//   - loose: a text that holds a value of the type counts as the value.
//   - format=LAYOUT: the form of a time.
//   - feature=ALIAS, since=N: the extension, or the minor version, that the field belongs to.
package resource

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// Field is an attribute of a resource.
type Field[T any] struct {
	Name string
	// Get returns the value that the API shows.
	Get func(*T) any
	// Set takes the value of a request. Nil: read-only. The service words an [InvalidError] or
	// [UnknownError]; any other error is the answer.
	Set func(*T, json.RawMessage) error

	CreateOnly, UpdateOnly, Required bool
	Hidden, AdminOnly, Unfiltered    bool
	// Filter returns a filter of lists by the field. Nil: the value equals one of the given values.
	Filter func(values []string) (func(*T) bool, error)

	Feature string
	Since   int

	isBool   bool
	complete func(*T)
}

// Absent is a value that the API does not show.
type Absent struct{}

// Fields are the attributes of a resource.
type Fields[T any] []Field[T]

// Of returns the fields of T that have a tag, and then others.
func Of[T any](others ...Field[T]) Fields[T] {
	return append(fieldsOf[T](reflect.TypeFor[T](), nil), others...)
}

// Shown is a read-only field.
func Shown[T any](name string, get func(*T) any) Field[T] { return Field[T]{Name: name, Get: get} }

func fieldsOf[T any](t reflect.Type, parent []int) (all Fields[T]) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(slices.Clone(parent), i)
		tag, tagged := f.Tag.Lookup("api")
		switch {
		case tagged:
			all = append(all, parse[T](tag, index)...)
		case f.Anonymous:
			all = append(all, fieldsOf[T](f.Type, index)...)
		}
	}
	return all
}

func parse[T any](tag string, index []int) (all Fields[T]) {
	names, rest, _ := strings.Cut(tag, ",")
	o := options{}
	for option := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(option, "=")
		o[key] = value
	}
	at := func(row *T) reflect.Value { return reflect.ValueOf(row).Elem().FieldByIndex(index) }
	kind := reflect.TypeFor[T]().FieldByIndex(index).Type.Kind()
	for i, name := range strings.Split(names, "|") {
		f := Field[T]{
			Name: name, Get: func(row *T) any { return o.show(at(row)) },
			CreateOnly: o.has("create"), UpdateOnly: o.has("update"), Required: o.has("required"),
			Hidden: o.has("hidden"), AdminOnly: o.has("admin"), Unfiltered: o.has("nofilter"),
			Feature: o["feature"], Since: o.number("since"), isBool: kind == reflect.Bool,
			complete: func(row *T) { o.complete(at(row)) },
		}
		if i == 0 && !o.has("ro") {
			f.Set = func(row *T, raw json.RawMessage) error { return o.set(name, at(row), raw) }
		}
		all = append(all, f)
	}
	return all
}

// On returns the fields for which is returns true.
func (fields Fields[T]) On(is func(Field[T]) bool) Fields[T] {
	return slices.DeleteFunc(slices.Clone(fields), func(f Field[T]) bool { return !is(f) })
}

// Named returns the fields with these names; all fields without a name.
func (fields Fields[T]) Named(names []string) Fields[T] {
	return fields.On(func(f Field[T]) bool {
		return len(names) == 0 || slices.Contains(names, f.Name)
	})
}

// Within are the fields of a part of T, to be shown, and then others.
func Within[T, P any](
	fields Fields[P], part func(*T) *P, others ...Field[T],
) (all Fields[T]) {
	for _, f := range fields {
		all = append(all, Field[T]{
			Name: f.Name, Get: func(t *T) any { return f.Get(part(t)) }, Hidden: f.Hidden,
			Unfiltered: f.Unfiltered, isBool: f.isBool,
		})
	}
	return append(all, others...)
}

// Field returns the field with a name; nil for none.
func (fields Fields[T]) Field(name string) *Field[T] {
	i := slices.IndexFunc(fields, func(f Field[T]) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return &fields[i]
}

// Change calls then after each set of a field.
func (fields Fields[T]) Change(name string, then func(*T, json.RawMessage) error) {
	f := fields.Field(name)
	set := f.Set
	f.Set = func(row *T, raw json.RawMessage) error {
		if err := set(row, raw); err != nil {
			return err
		}
		return then(row, raw)
	}
}

// Complete gives each empty field of a row its default.
func (fields Fields[T]) Complete(row *T) {
	for _, f := range fields {
		if f.complete != nil {
			f.complete(row)
		}
	}
}

// Show renders a row.
func (fields Fields[T]) Show(row *T) api.Object {
	shown := make(api.Object, len(fields))
	for _, f := range fields {
		if f.Hidden {
			continue
		}
		if value := f.Get(row); value != any(Absent{}) {
			shown[f.Name] = value
		}
	}
	return shown
}

// Unknown refuses all attributes within an object that are not fields.
func (fields Fields[T]) Unknown(within string, given map[string]json.RawMessage) error {
	names := []string{}
	for _, f := range fields {
		names = append(names, f.Name)
	}
	return unknown(within, given, names...)
}

// Refusals are a service's texts for the mistakes in a body or in a query.
type Refusals interface {
	// Missing refuses a required attribute that is missing, or null.
	Missing(name string, null bool) error
	// Unknown refuses names; within is the attribute that holds them, or "".
	Unknown(within string, names []string) error
	// ReadOnly refuses a known attribute.
	ReadOnly(name string, creating bool) error
	Invalid(e *InvalidError) error
	// UnknownFilter refuses a filter of a list, NotBool the value of a filter.
	UnknownFilter(name string) error
	NotBool(text string) error
}

// Read sets the attributes of a request, except those that the caller handles itself.
func (fields Fields[T]) Read(
	row *T, given map[string]json.RawMessage, creating bool, refusals Refusals, handled ...string,
) error {
	known := slices.Clone(handled)
	for _, f := range fields {
		raw, present := given[f.Name]
		if null := isNull(raw); f.Required && (creating && !present || null) {
			return refusals.Missing(f.Name, null)
		}
		if slices.Contains(known, f.Name) {
			continue
		}
		known = append(known, f.Name)
		switch {
		case !present:
			continue
		case f.Set == nil, creating && f.UpdateOnly, !creating && f.CreateOnly:
			if err := refusals.ReadOnly(f.Name, creating); err != nil {
				return err
			}
			continue
		}
		if err := f.Set(row, raw); err != nil {
			return inWords(err, refusals)
		}
	}
	return inWords(unknown("", given, known...), refusals)
}

func inWords(err error, refusals Refusals) error {
	switch err := err.(type) {
	case *InvalidError:
		return refusals.Invalid(err)
	case *UnknownError:
		return refusals.Unknown(err.Within, err.Names)
	}
	return err
}

type options map[string]string

func (o options) has(key string) bool {
	_, has := o[key]
	return has
}

func (o options) number(key string) int {
	n, _ := strconv.Atoi(o[key])
	return n
}

package resource

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// InvalidError refuses the value of an attribute.
type InvalidError struct {
	Field string
	// Value is the value as a text, or in JSON.
	Value string
	// Check is the failed check: type, uuid, ip, cidr, oneof, min, max or length; "" for another.
	Check string
	// Why says what the value should be.
	Why string
}

func (e *InvalidError) Error() string { return e.Why }

// UnknownError refuses attributes within the value of another attribute.
type UnknownError struct {
	Within string
	Names  []string
}

func (e *UnknownError) Error() string { return strings.Join(e.Names, ", ") }

// unknown refuses all attributes within an object except the known ones.
func unknown(within string, given map[string]json.RawMessage, known ...string) error {
	names := slices.DeleteFunc(api.SortedKeys(given),
		func(name string) bool { return slices.Contains(known, name) })
	if len(names) == 0 {
		return nil
	}
	return &UnknownError{within, names}
}

func isNull(raw json.RawMessage) bool { return bytes.Equal(bytes.TrimSpace(raw), []byte("null")) }

// show returns the value as the API shows it. Lists and objects are null only with the option null.
func (o options) show(v reflect.Value) any {
	empty := v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0
	switch {
	case o.has("not"):
		return !v.Bool()
	case o.has("null") && empty, v.Kind() == reflect.Pointer && empty:
		return nil
	case v.Kind() == reflect.Pointer:
		return v.Elem().Interface()
	case v.Kind() == reflect.Slice && empty:
		return reflect.MakeSlice(v.Type(), 0, 0).Interface()
	case v.Kind() == reflect.Map && empty:
		return reflect.MakeMap(v.Type()).Interface()
	}
	if at, isTime := v.Interface().(time.Time); isTime {
		return at.UTC().Format(o["format"])
	}
	return v.Interface()
}

func (o options) complete(v reflect.Value) {
	text, has := o["default"]
	if !has || !v.IsZero() {
		return
	}
	if err := json.Unmarshal([]byte(text), v.Addr().Interface()); err != nil {
		panic(fmt.Sprintf("the default %q: %v", text, err))
	}
}

func (o options) set(name string, v reflect.Value, raw json.RawMessage) error {
	if isNull(raw) {
		v.SetZero()
		o.complete(v)
		return nil
	}
	var text string
	isText := json.Unmarshal(raw, &text) == nil
	given := reflect.New(v.Type())
	if isText && o.has("loose") {
		raw = json.RawMessage(text)
	}
	if json.Unmarshal(raw, given.Interface()) != nil {
		return &InvalidError{name, Text(raw), "type", "Value should be " + typeName(v.Type())}
	}
	value := given.Elem()
	if check, why := o.check(value); why != "" {
		return &InvalidError{name, Text(raw), check, why}
	}
	switch {
	case o.has("not"):
		value.SetBool(!value.Bool())
	case o.has("uuid") && isText:
		value.SetString(WithHyphens(text))
	}
	v.Set(value)
	return nil
}

// Text is a JSON value in the form of an error: a text without quotes, a list in Python's form.
func Text(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return strings.ReplaceAll(string(raw), `"`, "'")
}

func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "of type bool."
	case reflect.Int, reflect.Pointer:
		return "of type integer."
	case reflect.Float64:
		return "of type float."
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String {
			return "an array of strings."
		}
		return "an array of objects."
	case reflect.Map:
		return "a dictionary of strings."
	}
	return "of type string."
}

// check returns the failed check and what the value should be.
func (o options) check(v reflect.Value) (check, why string) {
	switch v.Kind() {
	case reflect.String:
		return o.checkText(v.String())
	case reflect.Int:
		switch n := v.Int(); {
		case o.has("min") && n < int64(o.number("min")):
			return "min", "Value should be greater or equal to " + o["min"]
		case o.has("max") && n > int64(o.number("max")):
			return "max", "Value should be lower or equal to " + o["max"]
		}
	case reflect.Float64:
		if o.has("oneof") {
			return o.checkText(fmt.Sprintf("%.1f", v.Float()))
		}
	case reflect.Slice:
		for i := range v.Len() {
			if check, why = o.check(v.Index(i)); why != "" {
				return check, why
			}
		}
	}
	return "", ""
}

func (o options) checkText(text string) (check, why string) {
	_, errAddress := netip.ParseAddr(text)
	_, errPrefix := netip.ParsePrefix(text)
	values := strings.Split(o["oneof"], "|")
	switch {
	case utf8.RuneCountInString(text) > 255:
		return "length", "Value should have a maximum character requirement of 255"
	case o.has("uuid") && uuid.Validate(text) != nil:
		return "uuid", "Value should be UUID format"
	case o.has("ip") && errAddress != nil:
		return "ip", "Value should be IPv4 or IPv6 format"
	case o.has("cidr") && errAddress != nil && errPrefix != nil:
		return "cidr", "Value should be IPv4 or IPv6 CIDR format"
	case o.has("oneof") && !slices.Contains(values, text):
		return "oneof", "Value should be one of: " + strings.Join(values, ", ")
	}
	return "", ""
}

// WithHyphens returns a UUID in its usual form. Another text stays as it is.
func WithHyphens(id string) string {
	if parsed, err := uuid.Parse(id); err == nil {
		return parsed.String()
	}
	return id
}

// Clone returns a copy of a row that shares no list, map or pointer with it.
func Clone[T any](row T) T {
	detach(reflect.ValueOf(&row).Elem())
	return row
}

// detach replaces the lists, maps and pointers in a value by copies.
func detach(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				detach(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.IsNil() {
			return
		}
		list := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(list, v)
		for i := range list.Len() {
			detach(list.Index(i))
		}
		v.Set(list)
	case reflect.Map:
		if v.IsNil() {
			return
		}
		copied := reflect.MakeMapWithSize(v.Type(), v.Len())
		for key, value := range v.Seq2() {
			copied.SetMapIndex(key, value)
		}
		v.Set(copied)
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		copied := reflect.New(v.Type().Elem())
		copied.Elem().Set(v.Elem())
		detach(copied.Elem())
		v.Set(copied)
	}
}

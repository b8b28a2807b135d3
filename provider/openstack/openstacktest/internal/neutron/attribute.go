package neutron

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// attribute is one attribute of a resource, as the API shows it, takes it and filters by it.
type attribute[T any] struct {
	name string
	get  func(*T) any
	// set takes the value of a request. Nil: read-only.
	set func(*T, json.RawMessage) error
	// constant ones are given at creation only, required ones must be, late ones are given
	// afterwards only.
	constant, required, late bool
	// unfiltered ones are not among the API's filters.
	unfiltered bool
	// secret ones are shown to administrators only, by the default policy.
	secret bool
	// concealed ones are taken and never shown.
	concealed bool
	// allowed tells whether the caller may give the attribute, by the default policy. Nil: who may
	// write the resource.
	allowed func(caller, *T) bool
	// extension is the alias of the extension that the attribute is of. Empty: the core.
	extension string
}

func (a attribute[T]) atCreation() attribute[T] { a.constant = true; return a }
func (a attribute[T]) needed() attribute[T] {
	a.constant, a.required = true, true
	return a
}
func (a attribute[T]) noFilter() attribute[T]                  { a.unfiltered = true; return a }
func (a attribute[T]) of(extension string) attribute[T]        { a.extension = extension; return a }
func (a attribute[T]) readOnly() attribute[T]                  { a.set = nil; return a }
func (a attribute[T]) later() attribute[T]                     { a.late = true; return a }
func (a attribute[T]) hidden() attribute[T]                    { a.concealed = true; return a }
func (a attribute[T]) toAdministrators() attribute[T]          { a.secret = true; return a }
func (a attribute[T]) by(p func(caller, *T) bool) attribute[T] { a.allowed = p; return a }

// fieldOf is an attribute that is a field of T, in its own form.
func fieldOf[T, V any](name string, field func(*T) *V) attribute[T] {
	return attribute[T]{
		name: name,
		get:  func(row *T) any { return *field(row) },
		set: func(row *T, raw json.RawMessage) error {
			var value V
			if err := json.Unmarshal(raw, &value); err != nil {
				return invalidInput(name, "'"+string(raw)+"' is of the wrong type")
			}
			*field(row) = value
			return nil
		},
	}
}

// longestText is how many characters names and descriptions may have (neutron-lib's
// NAME_FIELD_SIZE, DESCRIPTION_FIELD_SIZE).
const longestText = 255

// limited is a text that may be no longer than that.
func limited[T any](a attribute[T]) attribute[T] {
	set := a.set
	a.set = func(row *T, raw json.RawMessage) error {
		var text string
		if json.Unmarshal(raw, &text) == nil && utf8.RuneCountInString(text) > longestText {
			return invalidInput(a.name,
				fmt.Sprintf("'%s' exceeds maximum length of %d", text, longestText))
		}
		return set(row, raw)
	}
	return a
}

// reference is a text that the API shows as null when it is empty.
func reference[T any](name string, field func(*T) *string) attribute[T] {
	a := fieldOf(name, field)
	a.get = func(row *T) any {
		if value := *field(row); value != "" {
			return value
		}
		return nil
	}
	return a
}

// checked is a text of which why tells what is wrong with it; "": nothing.
func checked[T any](a attribute[T], why func(string) string) attribute[T] {
	set := a.set
	a.set = func(row *T, raw json.RawMessage) error {
		var text string
		if json.Unmarshal(raw, &text) == nil && text != "" && why(text) != "" {
			return invalidInput(a.name, why(text))
		}
		return set(row, raw)
	}
	return a
}

func isNeutronID(text string) string {
	if !api.IsUUID(text) {
		return "'" + text + "' is not a valid UUID"
	}
	return ""
}

func isAddress(text string) string {
	if _, err := netip.ParseAddr(text); err != nil {
		return "'" + text + "' is not a valid IP address"
	}
	return ""
}

// unless is a truth value that T keeps the negation of, so that the zero T has the API's default:
// true.
func unless[T any](name string, field func(*T) *bool) attribute[T] {
	return attribute[T]{
		name: name,
		get:  func(row *T) any { return !*field(row) },
		set: func(row *T, raw json.RawMessage) error {
			var value bool
			if err := json.Unmarshal(raw, &value); err != nil {
				return neutronBadRequest("InvalidInput",
					"Invalid input for operation: %s cannot be converted to boolean.",
					pythonText(raw))
			}
			*field(row) = !value
			return nil
		},
	}
}

// pythonText is a value of JSON as Python writes it, as far as errors need that.
func pythonText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return "'" + text + "'"
	}
	return "'" + string(raw) + "'"
}

// textsOf is a list of texts; the API never shows it as null.
func textsOf[T any](name string, field func(*T) *[]string) attribute[T] {
	a := fieldOf(name, field)
	a.get = func(row *T) any { return api.NonNil(*field(row)) }
	return a
}

// shown is an attribute that no request gives.
func shown[T any](name string, get func(*T) any) attribute[T] {
	return attribute[T]{name: name, get: get}
}

// standard are the attributes that most resources have: pointers to the fields of one. Nil: it has
// none.
type standard struct {
	id, name, description, project *string
	tags                           *[]string
	revision                       *int
	created, updated               *time.Time
}

// neutronTime is Neutron's form of a time.
func neutronTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// standardAttributes are those of a resource, in terms of its [standard].
func standardAttributes[T any](of func(*T) standard) []attribute[T] {
	has := of(new(T))
	project := func(row *T) any { return *of(row).project }
	all := []attribute[T]{
		shown("id", func(row *T) any { return *of(row).id }),
		// tenant_id is the old name of project_id, and still there.
		shown("project_id", project),
		shown("tenant_id", project),
		limited(fieldOf("description", func(row *T) *string { return of(row).description })),
		shown("revision_number",
			func(row *T) any { return *of(row).revision }).of("standard-attr-revisions"),
		shown("created_at",
			func(row *T) any {
				return neutronTime(*of(row).created)
			}).of("standard-attr-timestamp"),
		shown("updated_at",
			func(row *T) any {
				return neutronTime(*of(row).updated)
			}).of("standard-attr-timestamp"),
	}
	if has.name != nil {
		all = append(all, limited(fieldOf("name", func(row *T) *string { return of(row).name })))
	}
	if has.tags != nil {
		all = append(all,
			shown("tags",
				func(row *T) any { return api.NonNil(*of(row).tags) }).of("standard-attr-tag"))
	}
	return slices.Clip(all)
}

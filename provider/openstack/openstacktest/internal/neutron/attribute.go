package neutron

import (
	"reflect"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"
)

// Stamps are attributes that the cloud sets.
type Stamps struct {
	RevisionNumber int       `api:"revision_number,ro,feature=standard-attr-revisions"`
	CreatedAt      time.Time `api:"created_at,ro,format=2006-01-02T15:04:05Z,feature=standard-attr-timestamp"`
	UpdatedAt      time.Time `api:"updated_at,ro,format=2006-01-02T15:04:05Z,feature=standard-attr-timestamp"`
}

// standard are the attributes of each resource. Only tags may be nil.
type standard struct {
	*Stamps
	id, project *string
	tags        *[]string
}

func (k *kind[T]) standard(row *T) standard {
	v := reflect.ValueOf(row).Elem()
	at := func(i int) any { return v.Field(k.columns[i]).Addr().Interface() }
	s := standard{Stamps: at(0).(*Stamps), id: at(1).(*string), project: at(2).(*string)}
	if k.columns[3] >= 0 {
		s.tags = at(3).(*[]string)
	}
	return s
}

// columnsOf are the indexes of the standard attributes in T.
func columnsOf[T any]() (columns [4]int) {
	for i, name := range [...]string{"Stamps", "ID", "ProjectID", "Tags"} {
		columns[i] = -1
		if field, has := reflect.TypeFor[T]().FieldByName(name); has {
			columns[i] = field.Index[0]
		}
	}
	return columns
}

// words are the texts of Neutron's refusals of a body.
type words struct{}

func (words) Missing(name string, _ bool) error {
	return neutronBadRequest("HTTPBadRequest",
		"Failed to parse request. Required attribute '%s' not specified", name)
}

func (words) Unknown(_ string, names []string) error {
	return neutronBadRequest("HTTPBadRequest", "Unrecognized attribute(s) '%s'", names[0])
}

func (words) ReadOnly(name string, creating bool) error {
	if creating {
		return neutronBadRequest("HTTPBadRequest", "Attribute '%s' not allowed in POST", name)
	}
	return neutronBadRequest("HTTPBadRequest", "Cannot update read-only attribute %s", name)
}

func (words) Invalid(e *resource.InvalidError) error {
	switch e.Check {
	case "length":
		return invalidInput(e.Field, "'"+e.Value+"' exceeds maximum length of 255")
	case "uuid":
		return invalidInput(e.Field, "'"+e.Value+"' is not a valid UUID")
	case "ip":
		return invalidInput(e.Field, "'"+e.Value+"' is not a valid IP address")
	}
	if e.Why == "Value should be of type bool." {
		return words{}.NotBool(e.Value)
	}
	return invalidInput(e.Field, "'"+e.Value+"' is of the wrong type")
}

func (words) UnknownFilter(name string) error {
	return neutronBadRequest("HTTPBadRequest", "['%s'] is invalid attribute for filtering", name)
}

func (words) NotBool(text string) error {
	return neutronBadRequest("InvalidInput",
		"Invalid input for operation: '%s' cannot be converted to boolean.", text)
}

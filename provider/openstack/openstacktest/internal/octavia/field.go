package octavia

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// octaviaField is an attribute of a resource as the API has it: the types of octavia/api/v2/types.
type octaviaField[T any] struct {
	name string
	// get is nil for what is not shown.
	get func(*T) any
	// set reads the value; null sets it back to the default. Nil: clients cannot set it.
	set func(*T, json.RawMessage) (why string)
	// inner checks the attributes of a value that is made of some; nil for others.
	inner func(path string, raw json.RawMessage) error
	// once is for what only a creation may hold.
	once bool
	// needed is for what a creation must hold.
	needed bool
	// since is the API's minor version that brought it.
	since int
}

func (f octaviaField[T]) atCreation() octaviaField[T]    { f.once = true; return f }
func (f octaviaField[T]) required() octaviaField[T]      { f.once, f.needed = true, true; return f }
func (f octaviaField[T]) from(minor int) octaviaField[T] { f.since = minor; return f }

// otherwise is the value that null stands for.
func (f octaviaField[T]) otherwise(value string) octaviaField[T] {
	set := f.set
	f.set = func(row *T, raw json.RawMessage) string {
		if isJSONNull(raw) {
			raw = json.RawMessage(strconv.Quote(value))
		}
		return set(row, raw)
	}
	return f
}

func (f octaviaField[T]) mandatory() octaviaField[T] { f.needed = true; return f }
func (f octaviaField[T]) settableAt(creating bool) bool {
	return f.set != nil && (creating || !f.once)
}

func octaviaShown[T any](name string, get func(*T) any) octaviaField[T] {
	return octaviaField[T]{name: name, get: get}
}

// octaviaType are the fields of a resource.
type octaviaType[T any] []octaviaField[T]

// read puts the body's values into the row. path is where in the request the object is, as WSME
// names it. handled are the attributes that the caller has read itself.
func (fields octaviaType[T]) read(
	row *T, given map[string]json.RawMessage, creating bool, minor int, path string,
	handled ...string,
) error {
	known := map[string]bool{}
	for _, name := range handled {
		known[name] = true
	}
	for _, f := range fields {
		if f.since > minor || !f.settableAt(creating) {
			continue
		}
		known[f.name] = true
		raw, present := given[f.name]
		switch {
		case !present && f.needed && creating:
			return badInput(f.name, "None", "Mandatory field missing.")
		case !present:
			continue
		case f.needed && isJSONNull(raw):
			// WSME lets it pass.
			return badOption("None", f.name)
		}
		if f.inner != nil {
			if err := f.inner(path+"."+f.name, raw); err != nil {
				return err
			}
		}
		if why := f.set(row, raw); why != "" {
			return badInput(f.name, wsmeValue(raw), why)
		}
	}
	if err := unknownAttributes(path, given, known); err != nil {
		return err
	}
	return repeatedTag(given["tags"])
}

// repeatedTag refuses a repeated tag: it reaches the database, whose key it breaks.
// (Octavia takes it if the resource has the tag already.)
func repeatedTag(raw json.RawMessage) error {
	var tags []string
	_ = json.Unmarshal(raw, &tags)
	slices.Sort(tags)
	if len(slices.Compact(slices.Clone(tags))) != len(tags) {
		return refuse(http.StatusInternalServerError,
			"(pymysql.err.IntegrityError) (1062, \"Duplicate entry for key 'PRIMARY'\")")
	}
	return nil
}

// unknownAttributes is WSME's UnknownAttribute: a body must not hold what the type does not.
func unknownAttributes(path string, given map[string]json.RawMessage, known map[string]bool) error {
	unknown := []string{}
	for name := range given {
		if !known[name] {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	sort.Strings(unknown)
	plural := ""
	if len(unknown) > 1 {
		plural = "s"
	}
	return refuse(400, "Unknown attribute%s for argument %s: %s", plural, path,
		strings.Join(unknown, ", "))
}

// show renders the row.
func (fields octaviaType[T]) show(row *T, minor int) object {
	shown := object{}
	for _, f := range fields {
		if f.get != nil && f.since <= minor {
			shown[f.name] = f.get(row)
		}
	}
	return shown
}

// commonFields are those of all resources.
func commonFields[T any](of func(*T) *OctaviaResource) octaviaType[T] {
	return octaviaType[T]{
		octaviaShown("id", func(row *T) any { return of(row).ID }),
		octaviaShown("project_id", func(row *T) any { return of(row).ProjectID }),
		octaviaShown("tenant_id", func(row *T) any { return of(row).ProjectID }),
		octaviaText("name", func(row *T) *string { return &of(row).Name }),
		{
			name: "admin_state_up",
			get:  func(row *T) any { return !of(row).Down },
			// null means false here, unlike elsewhere (BaseType.to_dict).
			set: func(row *T, raw json.RawMessage) string {
				up := false
				why := readJSON(raw, &up, "Value should be of type bool.")
				of(row).Down = !up
				return why
			},
		},
		octaviaShown("provisioning_status", func(row *T) any { return of(row).ProvisioningStatus }),
		octaviaShown("operating_status", func(row *T) any { return of(row).OperatingStatus }),
		octaviaTexts("tags", func(row *T) *[]string { return &of(row).Tags }, false).from(5),
		octaviaShown("created_at", func(row *T) any { return octaviaTime(of(row).CreatedAt) }),
		octaviaShown("updated_at", func(row *T) any { return octaviaTime(of(row).UpdatedAt) }),
	}
}

// octaviaTime is without a zone, and null for never.
func octaviaTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05")
}

func isJSONNull(raw json.RawMessage) bool {
	return bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}

// wsmeValue is how WSME shows a value that it refuses.
func wsmeValue(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return pythonList(list)
	}
	return string(raw)
}

func readJSON(raw json.RawMessage, v any, why string) string {
	if json.Unmarshal(raw, v) != nil {
		return why
	}
	return ""
}

// withHyphens is how ids are stored: WSME takes them without hyphens, too.
func withHyphens(id string) string {
	digits := strings.ToLower(strings.ReplaceAll(id, "-", ""))
	if isUUID(id) != "" {
		return id
	}
	return digits[:8] + "-" + digits[8:12] + "-" + digits[12:16] + "-" + digits[16:20] + "-" +
		digits[20:]
}

// check says what is wrong with a text; "" for nothing.
type check func(string) (why string)

func anyText(s string) string {
	if len(s) > 255 {
		return "Value should have a maximum character requirement of 255"
	}
	return ""
}

func oneOf(values ...string) check {
	return func(s string) string {
		if !slices.Contains(values, s) {
			return fmt.Sprintf("Value should be one of: %s", strings.Join(values, ", "))
		}
		return ""
	}
}

func isUUID(s string) string {
	if !api.IsUUID(s) {
		return "Value should be UUID format"
	}
	return ""
}

func isIP(s string) string {
	if _, err := netip.ParseAddr(s); err != nil {
		return "Value should be IPv4 or IPv6 format"
	}
	return ""
}

func isCIDR(s string) string {
	if _, ok := parseCIDR(s); !ok {
		return "Value should be IPv4 or IPv6 CIDR format"
	}
	return ""
}

// parseCIDR reads a CIDR, or an address alone, as a network (octavia/api/common/types.py,
// CidrType).
func parseCIDR(s string) (netip.Prefix, bool) {
	if address, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(address, address.BitLen()), true
	}
	prefix, err := netip.ParsePrefix(s)
	return prefix.Masked(), err == nil
}

// octaviaText is a text that is "" for none.
func octaviaText[T any](name string, at func(*T) *string) octaviaField[T] {
	f := octaviaReference(name, at, anyText)
	f.get = func(row *T) any { return *at(row) }
	return f
}

// octaviaReference is a text that is null for none.
func octaviaReference[T any](name string, at func(*T) *string, is check) octaviaField[T] {
	return octaviaField[T]{
		name: name,
		get: func(row *T) any {
			if *at(row) == "" {
				return nil
			}
			return *at(row)
		},
		set: func(row *T, raw json.RawMessage) string {
			var value *string
			if why := readJSON(raw, &value, "Value should be of type string."); why != "" {
				return why
			}
			*at(row) = ""
			if value == nil {
				return ""
			}
			*at(row) = *value
			return is(*value)
		},
	}
}

// octaviaID is an id, or null.
func octaviaID[T any](name string, at func(*T) *string) octaviaField[T] {
	f := octaviaReference(name, at, isUUID)
	set := f.set
	f.set = func(row *T, raw json.RawMessage) string {
		why := set(row, raw)
		*at(row) = withHyphens(*at(row))
		return why
	}
	return f
}

func octaviaBool[T any](name string, at func(*T) *bool) octaviaField[T] {
	return octaviaField[T]{
		name: name,
		get:  func(row *T) any { return *at(row) },
		set: func(row *T, raw json.RawMessage) string {
			*at(row) = false
			return readJSON(raw, at(row), "Value should be of type bool.")
		},
	}
}

// octaviaInt is a number within bounds.
func octaviaInt[T any](name string, at func(*T) *int, least, most, otherwise int) octaviaField[T] {
	return octaviaField[T]{
		name: name,
		get:  func(row *T) any { return *at(row) },
		set: func(row *T, raw json.RawMessage) string {
			var value *int
			if why := readJSON(raw, &value, "Value should be of type integer."); why != "" {
				return why
			}
			if value == nil {
				*at(row) = otherwise
				return ""
			}
			*at(row) = *value
			return inRange(*value, least, most)
		},
	}
}

// octaviaOptionalInt is null for none, which the row has as 0.
func octaviaOptionalInt[T any](name string, at func(*T) *int, least, most int) octaviaField[T] {
	f := octaviaInt(name, at, least, most, 0)
	f.get = func(row *T) any {
		if *at(row) == 0 {
			return nil
		}
		return *at(row)
	}
	return f
}

func inRange(value, least, most int) string {
	if value < least {
		return fmt.Sprintf("Value should be greater or equal to %d", least)
	}
	if value > most {
		return fmt.Sprintf("Value should be lower or equal to %d", most)
	}
	return ""
}

// octaviaTexts is a list; nullable ones are shown as null when they are empty.
func octaviaTexts[T any](
	name string, at func(*T) *[]string, nullable bool, is ...check,
) octaviaField[T] {
	return octaviaField[T]{
		name: name,
		get: func(row *T) any {
			if len(*at(row)) == 0 && nullable {
				return nil
			}
			return append([]string{}, *at(row)...)
		},
		set: func(row *T, raw json.RawMessage) string {
			var values []string
			if why := readJSON(raw, &values, "Value should be an array of strings."); why != "" {
				return why
			}
			*at(row) = values
			for _, value := range values {
				for _, passes := range append([]check{anyText}, is...) {
					if why := passes(value); why != "" {
						return why
					}
				}
			}
			return ""
		},
	}
}

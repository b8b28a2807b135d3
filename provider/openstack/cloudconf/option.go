package cloudconf

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// section is a section of cloud.conf in the table of options.
type section struct {
	name    string
	meaning string
	// named sections may occur several times, each with the name of its instance in quotes.
	named    bool
	instance string
	// regional sections may occur again for each region, with its name in quotes.
	regional bool
	// own sections are fxccm's. OCCM ignores them.
	own     bool
	options []option
}

// option is a row of the table. Parsing, validation, rendering and the reference page use it.
type option struct {
	key     string
	typ     string
	meaning string
	secret  bool
	// repeatable options have an element for each time that the key is written.
	repeatable bool
	// noEffect says why the option has no effect. A value then causes a warning.
	noEffect string
	// clouds is the key of the same setting in clouds.yaml, below the name of the cloud.
	clouds string
	// elsewhere lists the names of this option in other tools.
	elsewhere []string

	// read parses a value from a file into the field.
	read func(written string, bare bool) *finding
	// write returns the values of the field, one for each time that the key is written.
	write func() []string
	// rules check the value, no matter where it came from.
	rules []boundRule
}

// finding is a Problem without its position.
type finding struct {
	severity severity
	text     string
}

func mistake(text string) *finding { return &finding{asMistake, text} }
func wrong(text string) *finding   { return &finding{asError, text} }

// rule checks a value.
type rule[T any] struct {
	// typ is a more precise type, and says is a sentence for the reference page. Both may be empty.
	typ, says string
	check     func(T) *finding
}

type boundRule struct {
	says  string
	check func() *finding
}

func bind[T any](field *T, rules []rule[T]) []boundRule {
	var bound []boundRule
	for _, r := range rules {
		bound = append(bound, boundRule{r.says, func() *finding { return r.check(*field) }})
	}
	return bound
}

// inClouds sets the key of clouds.yaml.
func (o option) inClouds(key string) option {
	o.clouds = key
	return o
}

// withoutEffect marks an option that is only validated.
func (o option) withoutEffect(why string) option {
	o.noEffect = why
	return o
}

func (o option) isValid() bool {
	return !slices.ContainsFunc(o.rules, func(r boundRule) bool { return r.check() != nil })
}

// known lists names of the option in other tools, so that a user of those names gets a hint.
func (o option) known(names ...string) option {
	o.elsewhere = names
	return o
}

func text(key string, field *string, meaning string, rules ...rule[string]) option {
	o := option{
		key: key, typ: "text", meaning: meaning, rules: bind(field, rules),
		read: func(written string, bare bool) *finding {
			if bare {
				return wrong("needs a value")
			}
			*field = written
			return nil
		},
		write: func() []string { return []string{*field} },
	}
	for _, r := range rules {
		o.typ = cmp.Or(r.typ, o.typ)
	}
	return o
}

func secret(key string, field *Secret, meaning string) option {
	o := text(key, (*string)(field), meaning)
	o.typ, o.secret = "secret", true
	return o
}

// texts is a repeatable option with one element per line.
func texts(key string, field *[]string, meaning string, rules ...rule[[]string]) option {
	return option{
		key: key, typ: "text, repeatable", meaning: meaning, repeatable: true,
		rules: bind(field, rules),
		read: func(written string, bare bool) *finding {
			if bare {
				*field = nil
			} else {
				*field = append(*field, written)
			}
			return nil
		},
		write: func() []string { return *field },
	}
}

// list is an option with elements between commas.
func list(key string, field *[]string, meaning string, rules ...rule[[]string]) option {
	return option{
		key: key, typ: "comma-separated list", meaning: meaning, rules: bind(field, rules),
		read: func(written string, bare bool) *finding {
			if bare {
				return wrong("needs a value")
			}
			*field = elements(written)
			return nil
		},
		write: func() []string { return []string{strings.Join(*field, ",")} },
	}
}

// elements splits a list at its commas and trims the elements.
func elements(list string) []string {
	if strings.TrimSpace(list) == "" {
		return nil
	}
	all := strings.Split(list, ",")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// word is a text without blanks. OCCM parses it with fmt's scanner. normalize is applied to the
// value.
func word(key string, field *string, normalize func(string) string, meaning string,
	rules ...rule[string],
) option {
	o := text(key, field, meaning, rules...)
	o.read = func(written string, bare bool) *finding {
		words := strings.Fields(written)
		if bare || len(words) != 1 || strings.Contains(written, "\n") {
			return wrong("must be one word")
		}
		*field = normalize(words[0])
		return nil
	}
	return o
}

// words are the Boolean words of gcfg.
func words() map[string]bool {
	return map[string]bool{
		"true": true, "yes": true, "on": true, "1": true, "false": false,
		"no": false, "off": false, "0": false,
	}
}

func truth(key string, field *bool, meaning string) option {
	return option{
		key: key, typ: "true or false", meaning: meaning,
		read: func(written string, bare bool) *finding {
			value, ok := words()[strings.ToLower(written)]
			if !ok && !bare {
				return wrong("must be true or false (yes, on, 1; no, off, 0)")
			}
			*field = value || bare
			return nil
		},
		write: func() []string { return []string{strconv.FormatBool(*field)} },
	}
}

// exactTruth is true only for "true". OCCM reads a text here and treats every other value as false.
// Treating "yes" as true would disable checks that OCCM makes.
func exactTruth(key string, field *bool, meaning string) option {
	o := truth(key, field, meaning)
	o.read = func(written string, bare bool) *finding {
		if bare {
			return wrong("must be true or false")
		}
		*field = written == "true"
		if value, ok := words()[strings.ToLower(written)]; !*field &&
			written != "" && (value || !ok) {
			return mistake(`is treated as false; only "true" enables it`)
		}
		return nil
	}
	return o
}

func number(key string, field *int, meaning string, rules ...rule[int]) option {
	return option{
		key: key, typ: "number", meaning: meaning, rules: bind(field, rules),
		read: func(written string, bare bool) *finding {
			value, err := parseNumber(written)
			if err != nil || bare {
				return wrong("must be a whole number" + limits(rules))
			}
			*field = value
			return nil
		},
		write: func() []string { return []string{strconv.Itoa(*field)} },
	}
}

// parseNumber accepts hexadecimal numbers with 0x, as gcfg does. A leading 0 has no meaning.
func parseNumber(written string) (int, error) {
	written = strings.TrimSpace(written)
	base := 10
	if strings.HasPrefix(strings.TrimPrefix(written, "-"), "0x") {
		base = 0
	}
	value, err := strconv.ParseInt(written, base, strconv.IntSize)
	return int(value), err
}

// count is a number without a sign.
func count(key string, field *int, meaning string, rules ...rule[int]) option {
	o := number(key, field, meaning, rules...)
	read := o.read
	o.read = func(written string, bare bool) *finding {
		if strings.ContainsAny(written, "+-") {
			return wrong("must be a whole number without a sign" + limits(rules))
		}
		return read(written, bare)
	}
	return o
}

func real(key string, field *float64, meaning string, rules ...rule[float64]) option {
	return option{
		key: key, typ: "number", meaning: meaning, rules: bind(field, rules),
		read: func(written string, bare bool) *finding {
			value, err := strconv.ParseFloat(written, 64)
			if err != nil || bare {
				return wrong("must be a number" + limits(rules))
			}
			*field = value
			return nil
		},
		write: func() []string { return []string{strconv.FormatFloat(*field, 'g', -1, 64)} },
	}
}

func duration(key string, field *time.Duration, meaning string,
	rules ...rule[time.Duration],
) option {
	return option{
		key: key, typ: "duration", meaning: meaning, rules: bind(field, rules),
		read: func(written string, bare bool) *finding {
			if written != "" && strings.Trim(written, "0123456789") == "" {
				written += "s"
			}
			value, err := time.ParseDuration(written)
			if err != nil || bare {
				return wrong("must be a duration such as 5s or 1m30s" + limits(rules))
			}
			*field = value
			return nil
		},
		write: func() []string { return []string{short(*field)} },
	}
}

// limits returns what the rules of a number say, for the end of a sentence: ", from 1 to 10".
func limits[T any](rules []rule[T]) string {
	text := ""
	for _, r := range rules {
		if r.says != "" {
			text += ", " + strings.ToLower(r.says[:1]) + r.says[1:]
		}
	}
	return text
}

// oneOf accepts a fixed set of values. An empty value stands for an unnamed default.
func oneOf(severity severity, values ...string) rule[string] {
	shown := strings.Join(slices.DeleteFunc(slices.Clone(values), func(v string) bool {
		return v == ""
	}), ", ")
	says := "One of " + shown
	if severity == asWarning {
		says = "Known values: " + shown
	}
	return rule[string]{says: says, check: func(value string) *finding {
		if slices.Contains(values, value) {
			return nil
		}
		if severity == asWarning {
			return &finding{severity, "is not one of the known values " + shown +
				guess(value, values)}
		}
		return &finding{severity, "must be one of " + shown + guess(value, values)}
	}}
}

// between includes both ends.
func between[T int | float64 | time.Duration](severity severity, low, high T) rule[T] {
	shown := fmt.Sprintf("from %s to %s", short(low), short(high))
	return rule[T]{
		says: "From " + strings.TrimPrefix(shown, "from "),
		check: func(value T) *finding {
			if value >= low && value <= high {
				return nil
			}
			return &finding{severity, "must be " + shown}
		},
	}
}

func atLeast[T int | float64 | time.Duration](severity severity, low T) rule[T] {
	return rule[T]{says: "At least " + short(low), check: func(value T) *finding {
		if value >= low {
			return nil
		}
		return &finding{severity, "must be at least " + short(low)}
	}}
}

// short formats a number or a duration: 1h instead of 1h0m0s.
func short(v any) string {
	d, ok := v.(time.Duration)
	if !ok {
		return fmt.Sprint(v)
	}
	shown := d.String()
	if strings.HasSuffix(shown, "m0s") {
		shown = strings.TrimSuffix(shown, "0s")
	}
	if strings.HasSuffix(shown, "h0m") {
		shown = strings.TrimSuffix(shown, "0m")
	}
	return shown
}

func (s section) header() string { return header(s.name, s.instance) }

func (s section) keys() []string {
	var keys []string
	for _, o := range s.options {
		keys = append(keys, o.key)
	}
	return keys
}

// header is the header line of a section.
func header(section, name string) string {
	if name == "" {
		return "[" + section + "]"
	}
	return fmt.Sprintf("[%s %q]", section, name)
}

package cloudconf

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// section is a section of cloud.conf in the table of options.
type section struct {
	name    string
	meaning string
	// named sections may occur several times, each with a name in quotes.
	named bool
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
	// clouds is the key of the same setting in clouds.yaml, below the name of the cloud.
	clouds string
	// elsewhere lists the names of this option in other tools.
	elsewhere []string

	// read parses a value from a file into the field.
	read func(p place, written string, bare bool) *finding
	// write returns the values of the field, one for each time that the key is written.
	write func(p place) []string
	// rules check the value, no matter where it came from.
	rules []boundRule
}

// place is where the field of an option is: in the Config, or in a load balancer class.
type place struct {
	*Config
	class *LoadBalancerClass
}

// finding is a Problem without its position.
type finding struct {
	severity Severity
	text     string
}

func mistake(text string) *finding { return &finding{Mistake, text} }
func wrong(text string) *finding   { return &finding{Error, text} }

// rule checks a value.
type rule[T any] struct {
	// typ is a more precise type, and says is a sentence for the reference page. Both may be empty.
	typ, says string
	check     func(T) *finding
}

type boundRule struct {
	says  string
	check func(place) *finding
}

func bind[T any](at func(place) *T, rules []rule[T]) []boundRule {
	var bound []boundRule
	for _, r := range rules {
		bound = append(bound, boundRule{r.says, func(p place) *finding { return r.check(*at(p)) }})
	}
	return bound
}

// inClouds sets the key of clouds.yaml.
func (o option) inClouds(key string) option {
	o.clouds = key
	return o
}

// known lists names of the option in other tools, so that a user of those names gets a hint.
func (o option) known(names ...string) option {
	o.elsewhere = names
	return o
}

func text(key string, at func(place) *string, meaning string, rules ...rule[string]) option {
	o := option{
		key: key, typ: "text", meaning: meaning, rules: bind(at, rules),
		read: func(p place, written string, bare bool) *finding {
			if bare {
				return wrong("needs a value")
			}
			*at(p) = written
			return nil
		},
		write: func(p place) []string { return []string{*at(p)} },
	}
	for _, r := range rules {
		o.typ = cmp.Or(r.typ, o.typ)
	}
	return o
}

func secret(key string, at func(place) *Secret, meaning string) option {
	o := text(key, func(p place) *string { return (*string)(at(p)) }, meaning)
	o.typ, o.secret = "secret", true
	return o
}

// texts is a repeatable option with one element per line.
func texts(key string, at func(place) *[]string, meaning string, rules ...rule[[]string]) option {
	return option{
		key: key, typ: "text, repeatable", meaning: meaning, rules: bind(at, rules),
		read: func(p place, written string, bare bool) *finding {
			if bare {
				*at(p) = nil
			} else {
				*at(p) = append(*at(p), written)
			}
			return nil
		},
		write: func(p place) []string { return *at(p) },
	}
}

// list is an option with elements between commas.
func list(key string, at func(place) *[]string, meaning string, rules ...rule[[]string]) option {
	return option{
		key: key, typ: "comma-separated list", meaning: meaning, rules: bind(at, rules),
		read: func(p place, written string, bare bool) *finding {
			if bare {
				return wrong("needs a value")
			}
			*at(p) = elements(written)
			return nil
		},
		write: func(p place) []string { return []string{strings.Join(*at(p), ",")} },
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
func word(key string, at func(place) *string, normalize func(string) string, meaning string,
	rules ...rule[string],
) option {
	o := text(key, at, meaning, rules...)
	o.read = func(p place, written string, bare bool) *finding {
		words := strings.Fields(written)
		if bare || len(words) != 1 || strings.Contains(written, "\n") {
			return wrong("must be one word")
		}
		*at(p) = normalize(words[0])
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

func truth(key string, at func(place) *bool, meaning string) option {
	return option{
		key: key, typ: "true or false", meaning: meaning,
		read: func(p place, written string, bare bool) *finding {
			value, ok := words()[strings.ToLower(written)]
			if !ok && !bare {
				return wrong("must be true or false (yes, on, 1; no, off, 0)")
			}
			*at(p) = value || bare
			return nil
		},
		write: func(p place) []string { return []string{strconv.FormatBool(*at(p))} },
	}
}

// exactTruth is true only for "true". OCCM reads a text here and treats every other value as false.
// Treating "yes" as true would disable checks that OCCM makes.
func exactTruth(key string, at func(place) *bool, meaning string) option {
	o := truth(key, at, meaning)
	o.read = func(p place, written string, bare bool) *finding {
		if bare {
			return wrong("must be true or false")
		}
		*at(p) = written == "true"
		if value, ok := words()[strings.ToLower(written)]; !*at(p) &&
			written != "" && (value || !ok) {
			return mistake(`is treated as false; only "true" enables it`)
		}
		return nil
	}
	return o
}

func number(key string, at func(place) *int, meaning string, rules ...rule[int]) option {
	return option{
		key: key, typ: "number", meaning: meaning, rules: bind(at, rules),
		read: func(p place, written string, bare bool) *finding {
			value, err := parseNumber(written)
			if err != nil || bare {
				return wrong("must be a whole number")
			}
			*at(p) = value
			return nil
		},
		write: func(p place) []string { return []string{strconv.Itoa(*at(p))} },
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
func count(key string, at func(place) *int, meaning string, rules ...rule[int]) option {
	o := number(key, at, meaning, rules...)
	read := o.read
	o.read = func(p place, written string, bare bool) *finding {
		if strings.ContainsAny(written, "+-") {
			return wrong("must be a whole number without a sign")
		}
		return read(p, written, bare)
	}
	return o
}

func real(key string, at func(place) *float64, meaning string, rules ...rule[float64]) option {
	return option{
		key: key, typ: "number", meaning: meaning, rules: bind(at, rules),
		read: func(p place, written string, bare bool) *finding {
			value, err := strconv.ParseFloat(written, 64)
			if err != nil || bare {
				return wrong("must be a number")
			}
			*at(p) = value
			return nil
		},
		write: func(p place) []string { return []string{strconv.FormatFloat(*at(p), 'g', -1, 64)} },
	}
}

func duration(key string, at func(place) *time.Duration, meaning string,
	rules ...rule[time.Duration],
) option {
	return option{
		key: key, typ: "duration", meaning: meaning, rules: bind(at, rules),
		read: func(p place, written string, bare bool) *finding {
			if written != "" && strings.Trim(written, "0123456789") == "" {
				written += "s"
			}
			value, err := time.ParseDuration(written)
			if err != nil || bare {
				return wrong("must be a duration such as 5s or 1m30s")
			}
			*at(p) = value
			return nil
		},
		write: func(p place) []string { return []string{short(*at(p))} },
	}
}

// oneOf accepts a fixed set of values. An empty value stands for an unnamed default.
func oneOf(severity Severity, values ...string) rule[string] {
	shown := strings.Join(slices.DeleteFunc(slices.Clone(values), func(v string) bool {
		return v == ""
	}), ", ")
	says := "One of " + shown
	if severity == Warning {
		says = "Known values: " + shown
	}
	return rule[string]{says: says, check: func(value string) *finding {
		if slices.Contains(values, value) {
			return nil
		}
		if severity == Warning {
			return &finding{severity, "is not one of the known values " + shown +
				guess(value, values)}
		}
		return &finding{severity, "must be one of " + shown + guess(value, values)}
	}}
}

// between includes both ends.
func between[T int | float64 | time.Duration](severity Severity, low, high T) rule[T] {
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

func atLeast[T int | float64 | time.Duration](severity Severity, low T) rule[T] {
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

func (s section) keys() []string {
	var keys []string
	for _, o := range s.options {
		keys = append(keys, o.key)
	}
	return keys
}

// places returns the places of a section's options in c, by section name.
func (s section) places(c *Config) map[string]place {
	if !s.named {
		return map[string]place{"": {Config: c}}
	}
	all := map[string]place{}
	for name, class := range c.LoadBalancerClasses {
		all[name] = place{Config: c, class: &class}
	}
	return all
}

// names returns the names of a section's places in order.
func names(places map[string]place) []string { return slices.Sorted(maps.Keys(places)) }

// header is the header line of a section.
func header(section, name string) string {
	if name == "" {
		return "[" + section + "]"
	}
	return fmt.Sprintf("[%s %q]", section, name)
}

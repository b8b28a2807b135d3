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

// A section is a part of the table of options.
type section struct {
	name    string
	meaning string
	// named sections can be there several times, with a name in quotes each.
	named bool
	// own sections are fxccm's; OCCM takes no notice of them.
	own     bool
	options []option
}

// An option is a row of the table that reading, validation, rendering and the reference page share.
type option struct {
	key     string
	typ     string
	meaning string
	secret  bool
	// clouds is where clouds.yaml has it, below the cloud's name.
	clouds string
	// elsewhere are the names that other tools have for it.
	elsewhere []string

	// read sets the field from what is written in a file, if it can be.
	read func(p place, written string, bare bool) *finding
	// write gives the field as it is written, once for each time that the key is there.
	write func(p place) []string
	// rules bind the value, whoever has set it.
	rules []boundRule
}

// A place is where an option's field is: in the Config or, for an option of a load balancer class, in that.
type place struct {
	*Config
	class *LoadBalancerClass
}

// A finding is a Problem without its whereabouts.
type finding struct {
	severity Severity
	text     string
}

func mistake(text string) *finding { return &finding{Mistake, text} }
func wrong(text string) *finding   { return &finding{Error, text} }

// A rule is what a value must be.
type rule[T any] struct {
	// typ narrows the option's type, and says tells the rule, for the reference page. Both can be empty.
	typ, says string
	judge     func(T) *finding
}

type boundRule struct {
	says  string
	judge func(place) *finding
}

func bind[T any](at func(place) *T, rules []rule[T]) []boundRule {
	var bound []boundRule
	for _, r := range rules {
		bound = append(bound, boundRule{r.says, func(p place) *finding { return r.judge(*at(p)) }})
	}
	return bound
}

// inClouds names the key of clouds.yaml.
func (o option) inClouds(key string) option {
	o.clouds = key
	return o
}

// known names what the option is called elsewhere, so that who writes that is told.
func (o option) known(names ...string) option {
	o.elsewhere = names
	return o
}

func text(key string, at func(place) *string, meaning string, rules ...rule[string]) option {
	o := option{
		key: key, typ: "text", meaning: meaning, rules: bind(at, rules),
		read: func(p place, written string, bare bool) *finding {
			if bare {
				return wrong("wants a value")
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

// texts is given once for each of its elements.
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

// list is given once, with commas between its elements.
func list(key string, at func(place) *[]string, meaning string, rules ...rule[[]string]) option {
	return option{
		key: key, typ: "list with commas", meaning: meaning, rules: bind(at, rules),
		read: func(p place, written string, bare bool) *finding {
			if bare {
				return wrong("wants a value")
			}
			*at(p) = elements(written)
			return nil
		},
		write: func(p place) []string { return []string{strings.Join(*at(p), ",")} },
	}
}

// elements are those of a list with commas, without the blanks around them.
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

// word is a text without blanks, which OCCM takes apart with fmt's scanner. Its values are normalised by as.
func word(key string, at func(place) *string, as func(string) string, meaning string, rules ...rule[string]) option {
	o := text(key, at, meaning, rules...)
	o.read = func(p place, written string, bare bool) *finding {
		words := strings.Fields(written)
		if bare || len(words) != 1 || strings.Contains(written, "\n") {
			return wrong("wants one word")
		}
		*at(p) = as(words[0])
		return nil
	}
	return o
}

// words are gcfg's for yes and no.
func words() map[string]bool {
	return map[string]bool{"true": true, "yes": true, "on": true, "1": true, "false": false, "no": false, "off": false, "0": false}
}

func truth(key string, at func(place) *bool, meaning string) option {
	return option{
		key: key, typ: "true or false", meaning: meaning,
		read: func(p place, written string, bare bool) *finding {
			value, ok := words()[strings.ToLower(written)]
			if !ok && !bare {
				return wrong("wants true or false (yes, on, 1; no, off, 0)")
			}
			*at(p) = value || bare
			return nil
		},
		write: func(p place) []string { return []string{strconv.FormatBool(*at(p))} },
	}
}

// exactTruth is true for nothing but "true". OCCM reads a text there and takes whatever else for false; to take "yes" for true would
// turn checks off that OCCM makes.
func exactTruth(key string, at func(place) *bool, meaning string) option {
	o := truth(key, at, meaning)
	o.read = func(p place, written string, bare bool) *finding {
		if bare {
			return wrong("wants true or false")
		}
		*at(p) = written == "true"
		if value, ok := words()[strings.ToLower(written)]; !*at(p) && written != "" && (value || !ok) {
			return mistake(`is true for nothing but "true", and taken for false here`)
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
				return wrong("wants a whole number")
			}
			*at(p) = value
			return nil
		},
		write: func(p place) []string { return []string{strconv.Itoa(*at(p))} },
	}
}

// parseNumber knows hexadecimal numbers by 0x, as gcfg does. A leading 0 means nothing.
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
			return wrong("wants a whole number without a sign")
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
				return wrong("wants a number")
			}
			*at(p) = value
			return nil
		},
		write: func(p place) []string { return []string{strconv.FormatFloat(*at(p), 'g', -1, 64)} },
	}
}

func duration(key string, at func(place) *time.Duration, meaning string, rules ...rule[time.Duration]) option {
	return option{
		key: key, typ: "duration", meaning: meaning, rules: bind(at, rules),
		read: func(p place, written string, bare bool) *finding {
			if written != "" && strings.Trim(written, "0123456789") == "" {
				written += "s"
			}
			value, err := time.ParseDuration(written)
			if err != nil || bare {
				return wrong("wants a duration: 5s, 1m30s")
			}
			*at(p) = value
			return nil
		},
		write: func(p place) []string { return []string{short(*at(p))} },
	}
}

// oneOf is for a text that has few values. Empty stands for a default that is not named.
func oneOf(severity Severity, values ...string) rule[string] {
	shown := strings.Join(slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == "" }), ", ")
	says := "One of " + shown
	if severity == Warning {
		says = "Known are " + shown
	}
	return rule[string]{says: says, judge: func(value string) *finding {
		if slices.Contains(values, value) {
			return nil
		}
		return &finding{severity, "is none of " + shown + guess(value, values)}
	}}
}

// between includes both ends.
func between[T int | float64 | time.Duration](severity Severity, low, high T) rule[T] {
	shown := fmt.Sprintf("from %s to %s", short(low), short(high))
	return rule[T]{says: "From " + strings.TrimPrefix(shown, "from "), judge: func(value T) *finding {
		if value >= low && value <= high {
			return nil
		}
		return &finding{severity, "must be " + shown}
	}}
}

// atLeast has no upper end.
func atLeast[T int | float64 | time.Duration](severity Severity, low T) rule[T] {
	return rule[T]{says: "At least " + short(low), judge: func(value T) *finding {
		if value >= low {
			return nil
		}
		return &finding{severity, "must be at least " + short(low)}
	}}
}

// short shows a number or a duration: 1h, not 1h0m0s.
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

// keys are those of a section.
func (s section) keys() []string {
	var keys []string
	for _, o := range s.options {
		keys = append(keys, o.key)
	}
	return keys
}

// places are those in which a section's options are in c, by the names of the sections.
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

// names of a section's places, in order.
func names(places map[string]place) []string { return slices.Sorted(maps.Keys(places)) }

// header is how a section is written.
func header(section, name string) string {
	if name == "" {
		return "[" + section + "]"
	}
	return fmt.Sprintf("[%s %q]", section, name)
}

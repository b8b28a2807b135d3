package cloudconf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Render writes a configuration as cloud.conf, without secrets and without values that equal
// [Default].
func Render(c Config) (string, error) { return render(c, false) }

// RenderWithSecrets is Render with secrets: [Parse] reads the same configuration from it.
func RenderWithSecrets(c Config) (string, error) { return render(c, true) }

func render(c Config, secrets bool) (string, error) {
	var text strings.Builder
	for _, section := range c.sections() {
		lines, err := section.lines(secrets, c)
		if err != nil {
			return "", err
		}
		if len(lines) == 0 && !section.named {
			continue
		}
		title, err := section.title()
		if err != nil {
			return "", err
		}
		if text.Len() > 0 {
			text.WriteString("\n")
		}
		text.WriteString(strings.Join(append([]string{title}, lines...), "\n") + "\n")
	}
	return text.String(), nil
}

// lines are the section's assignments that differ from the defaults, or from what [Global] of a
// region would inherit.
func (s section) lines(secrets bool, c Config) ([]string, error) {
	var lines []string
	defaults := Default()
	same := func(other section) bool { return other.name == s.name }
	at := slices.IndexFunc(table(&defaults), same)
	unchanged, inherited := table(&defaults)[at], table(&defaults)[at]
	if s.name == "Global" && s.instance != "" {
		inherited = table(&c)[at]
	}
	for i, o := range s.options {
		values := o.write()
		if slices.Equal(values, unchanged.options[i].write()) &&
			slices.Equal(values, inherited.options[i].write()) {
			continue
		}
		if o.secret && !secrets && values[0] != "" {
			lines = append(lines, "# "+o.key+" is omitted")
			continue
		}
		for _, value := range values {
			written, err := quote(value)
			if err != nil {
				return nil, fmt.Errorf("write %s in [%s]: %w", o.key, s.name, err)
			}
			lines = append(lines, o.key+" = "+written)
		}
	}
	return lines, nil
}

// title is the header with a name that the format can express.
func (s section) title() (string, error) {
	name := s.instance
	if name == "" {
		return s.header(), nil
	}
	if !utf8.ValidString(name) || strings.ContainsAny(name, "\x00\n") {
		return "", fmt.Errorf("write [%s]: the format cannot express its name", s.name)
	}
	return fmt.Sprintf(`[%s "%s"]`, s.name, strings.NewReplacer(`\`, `\\`, `"`, `\"`).
		Replace(name)), nil
}

// quote writes a value so that it is read back unchanged.
func quote(value string) (string, error) {
	if !utf8.ValidString(value) || strings.ContainsAny(value, "\x00\r") {
		return "", errors.New("the format cannot express a carriage return, a NUL or invalid UTF-8")
	}
	if value != "" && strings.Trim(value, plain) == "" {
		return value, nil
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).
		Replace(value) + `"`, nil
}

// plain are the characters that need no quotes.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/,+@%~*!"

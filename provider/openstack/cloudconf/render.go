package cloudconf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Render writes a configuration as cloud.conf, without its secrets. What is as in [Default] is left out.
func Render(c Config) (string, error) { return render(c, false) }

// RenderWithSecrets writes all of a configuration, so that [Parse] reads the same from it.
func RenderWithSecrets(c Config) (string, error) { return render(c, true) }

func render(c Config, secrets bool) (string, error) {
	var text strings.Builder
	defaults := Default()
	for _, section := range table() {
		places := section.places(&c)
		for _, name := range names(places) {
			without := place{Config: &defaults, class: &LoadBalancerClass{}}
			lines, err := section.lines(places[name], without, secrets)
			if err != nil {
				return "", err
			}
			if len(lines) == 0 && !section.named {
				continue
			}
			title, err := section.title(name)
			if err != nil {
				return "", err
			}
			if text.Len() > 0 {
				text.WriteString("\n")
			}
			text.WriteString(strings.Join(append([]string{title}, lines...), "\n") + "\n")
		}
	}
	return text.String(), nil
}

// lines are those of a section, without those that are the same elsewhere.
func (s section) lines(p, without place, secrets bool) ([]string, error) {
	var lines []string
	for _, o := range s.options {
		values := o.write(p)
		if slices.Equal(values, o.write(without)) {
			continue
		}
		if o.secret && !secrets {
			lines = append(lines, "# "+o.key+" is left out")
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

func (s section) title(name string) (string, error) {
	if name == "" {
		return "[" + s.name + "]", nil
	}
	if !utf8.ValidString(name) || strings.ContainsAny(name, "\x00\n") {
		return "", fmt.Errorf("write [%s]: the format has no way to write its name", s.name)
	}
	return fmt.Sprintf(`[%s "%s"]`, s.name, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name)), nil
}

// quote writes a value so that it is read as it is.
func quote(value string) (string, error) {
	if !utf8.ValidString(value) || strings.ContainsAny(value, "\x00\r") {
		return "", errors.New("the format has no way to write a carriage return, a NUL or what is not UTF-8")
	}
	if value != "" && strings.Trim(value, plain) == "" {
		return value, nil
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(value) + `"`, nil
}

// plain are the characters that need no quotes.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/,+@%~*!"

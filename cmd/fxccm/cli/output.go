package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// Output is the format in which a command prints its result.
type Output struct{ Format string }

// AddFlag adds --output. "text" says what is printed without it, such as "tables".
func (o *Output) AddFlag(set *pflag.FlagSet, text string) {
	set.StringVarP(&o.Format, "output", "o", "", "json or yaml. Empty: "+text+".")
}

// Check returns a usage error if the format is unknown.
func (o *Output) Check() error {
	switch o.Format {
	case "", "json", "yaml":
		return nil
	}
	return Usagef("--output=%s is not supported: want json or yaml", o.Format)
}

// Print writes value as JSON or YAML, or otherwise the text.
func (o *Output) Print(out io.Writer, value any, text func(io.Writer) error) error {
	if o.Format == "" {
		return text(out)
	}
	rendered, err := o.render(value)
	if err == nil {
		_, err = io.WriteString(Underlying(out), rendered)
	}
	return err
}

func (o *Output) render(value any) (string, error) {
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	text := escaped(content.String())
	if o.Format == "yaml" {
		converted, err := yaml.JSONToYAML([]byte(text))
		return string(converted), err
	}
	return text, nil
}

// escaped escapes the control characters of a text in JSON that encoding/json leaves as they are.
func escaped(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r != '\n' && unicode.IsControl(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

package chart

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// valuesPage is the page of the values. Each value has a comment `# -- meaning`.
func valuesPage(values []byte) (string, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(values, &document); err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString(`# Values of the Helm chart

Generated from [values.yaml](../../deploy/chart/values.yaml). [values.schema.json](../../deploy/chart/values.schema.json) checks them:
a value with an unknown name or of the wrong type is an error.

| value | default | meaning |
|---|---|---|
`)
	err := describe(&out, "", document.Content[0])
	return out.String(), err
}

func describe(out *strings.Builder, prefix string, mapping *yaml.Node) error {
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := prefix + key.Value
		meaning, documented := strings.CutPrefix(lastLine(key.HeadComment), "# -- ")
		if !documented || value.Kind == yaml.MappingNode && len(value.Content) > 0 {
			if value.Kind != yaml.MappingNode {
				return fmt.Errorf("line %d: %s has no comment that begins with --", key.Line, name)
			}
			if documented {
				fmt.Fprintf(out, "| `%s` | | %s |\n", name, meaning)
			}
			if err := describe(out, name+".", value); err != nil {
				return err
			}
			continue
		}
		var content any
		if err := value.Decode(&content); err != nil {
			return err
		}
		text, err := json.Marshal(content)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "| `%s` | `%s` | %s |\n", name, text, meaning)
	}
	return nil
}

func lastLine(text string) string {
	return text[strings.LastIndex(text, "\n")+1:]
}

package options

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/internal/pagetest"
)

// The page is written by `go generate ./options`.
func TestFlagsPage_IsUpToDate(t *testing.T) {
	want, err := flagsPage()
	if err != nil {
		t.Fatal(err)
	}
	pagetest.Check(t, "../docs/reference/flags.md", want)
}

func flagsPage() (string, error) {
	var page strings.Builder
	page.WriteString(`# Flags and configuration file

<!-- Generated from package options; change it there and run: go generate ./options -->

Every flag of upstream's cloud-controller-manager v0.37.2 exists with its name, meaning and default, but for
[the differences](#differences-from-upstream) below. Flags for logging are the program's own:
[commands](commands.md#logging) lists them, and the flags of all commands. Flags that upstream has removed are
accepted with a warning: [flags of older releases](commands.md#flags-of-older-releases).

A host that embeds fxccm may put a prefix before every name (` + "`options.WithPrefix(\"ccm-\")`" + `: ` + "`--ccm-leader-elect`" + `).

A value is taken from the first of these that gives it:

1. a flag on the command line, even if it is given its default;
2. [the file](#configuration-file) that ` + "`--config`" + ` names;
3. what the host put into ` + "`options.Options`" + `;
4. the default.

`)
	o := New()
	sets, _ := o.bind(newBinding(nil))
	paths := leaves(&o.Configuration)
	byFlag := map[string]difference{}
	for _, d := range differences() {
		byFlag[d.Flag] = d
	}
	for _, group := range flagTable(newBinding(nil).controllers) {
		fmt.Fprintf(&page,
			"## %s\n\n| flag | type | default | field in the file | |\n|---|---|---|---|---|\n",
			capital(group.name))
		for _, spec := range group.flags {
			flag := sets.FlagSets[group.name].Lookup(spec.name)
			field := ""
			if spec.field != nil {
				field = code(paths[spec.field(&o.Configuration)])
			}
			fmt.Fprintf(&page, "| %s | %s | %s | %s | %s |\n", code("--"+spec.name),
				flag.Value.Type(),
				defaultCell(flag.DefValue, byFlag[spec.name]), field,
				cell(spec.usage)+deprecatedCell(spec))
		}
		page.WriteString("\n")
	}
	page.WriteString(differencesSection())
	file, err := fileSection()
	page.WriteString(file)
	return page.String(), err
}

func differencesSection() string {
	var s strings.Builder
	s.WriteString("## Differences from upstream\n\n")
	for _, part := range []struct {
		kind differenceKind
		text string
	}{
		{isDefault, "Another default:"},
		{isMeaning, "Another meaning of some value:"},
		{isAdded, "Not upstream:"},
		{isIgnored, "Accepted with a warning, and without effect, as upstream:"},
		{isRefused, "Refused when given another value than the default, because fxccm does not do what they ask for:"},
	} {
		fmt.Fprintf(&s, "%s\n\n| flag | why |\n|---|---|\n", part.text)
		for _, d := range differences() {
			if d.Kind != part.kind {
				continue
			}
			why := d.Why
			if d.Kind == isDefault {
				why = fmt.Sprintf("%s instead of %s. %s", d.Ours, d.Upstream, why)
			}
			for _, value := range d.Accepted {
				why += " The value " + value + " is accepted."
			}
			fmt.Fprintf(&s, "| %s | %s |\n", code("--"+d.Flag), capital(cell(why)))
		}
		s.WriteString("\n")
	}
	return s.String()
}

func fileSection() (string, error) {
	defaults, err := encode(DefaultConfiguration())
	if err != nil {
		return "", err
	}
	return `## Configuration file

One YAML document. A field that is absent keeps its value; a list replaces the whole list. A field that is
unknown, given twice or of another type is an error that names the line. Durations are written like ` + "`1m30s`" + `.
The file holds nothing secret: it names files that may.

These are the defaults:

` + "```yaml\n" + string(defaults) + "```\n", nil
}

func defaultCell(value string, d difference) string {
	shown := ""
	if value != "" && value != "[]" {
		shown = code(value)
	}
	if d.Kind == isDefault {
		shown += " (upstream " + code(d.Upstream) + ")"
	}
	return shown
}

func deprecatedCell(spec flagSpec) string {
	if spec.deprecated == "" {
		return ""
	}
	return " Deprecated: " + cell(spec.deprecated)
}

func code(s string) string { return "`" + s + "`" }

// cell makes a text safe in a Markdown table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", `\<`, "\n", " ").Replace(s)
}

func capital(s string) string {
	if s == "" || strings.HasPrefix(s, "--") {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

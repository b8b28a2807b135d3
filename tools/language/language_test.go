package main

import (
	"slices"
	"strings"
	"testing"
)

const table = "| Avoid | Write | Why |\n|---|---|---|\n| `foo bar`, `qux` | override | jargon |\n| `^Baz` | a named subject | riddle |\n"

func TestCheck_ForbiddenPhrases_AreFoundWithTheirLines(t *testing.T) {
	rules, err := parseGlossary(table)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, source string
		want         []string
	}{
		{"comment over two lines", "package p\n\n// The flag is foo\n// bar here.\nvar a int\n", []string{`x.go:4: "foo bar": write override (jargon)`}},
		{"string", "package p\n\nvar a = \"made Qux\"\n", []string{`x.go:3: "qux": write override (jargon)`}},
		{"opening", "package p\n\n// It leads. Baz leads is known.\nvar a int\n", []string{`x.go:3: "^Baz": write a named subject (riddle)`}},
		{"no opening", "package p\n\n// The one Baz leads, renewed.\nvar a int\n", nil},
		{"name", "package p\n\nfunc isFooBar() {}\n", []string{`x.go:3: "foo bar": write override (jargon)`}},
		{"long line", "package p\n\n// " + strings.Repeat("a ", 50) + "\n", []string{"x.go:3: 103 columns, want 100 at most"}},
		{"short string", "package p\n\nvar a = " + strings.Repeat("\"a\" + ", 20) + "\"\"\n", []string{"x.go:3: 130 columns, want 100 at most"}},
		{"long string", "package p\n\nvar a = \"" + strings.Repeat("a ", 50) + "\"\n", nil},
		{
			"beside a long string",
			"package p\n\nvar a" + strings.Repeat("a", 90) + " = \"" +
				strings.Repeat("a ", 50) + "\"\n",
			[]string{"x.go:3: 200 columns, want 182 at most"},
		},
		{
			"test without an outcome",
			"package p\n\nfunc TestThing(t *testing.T) {}\n\nfunc TestThing_Is(t *testing.T) {}\n",
			[]string{"x.go:3: TestThing: write Test<Thing>_<Situation>_<Outcome>"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			source, err := scan("x.go", []byte(test.source))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			found := append(source.longLines(), source.shortTestNames()...)
			for _, f := range append(found, checkTexts("x.go", source.texts, rules)...) {
				got = append(got, f.String())
			}
			if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
				t.Errorf("findings:\n%s\nwant:\n%s", strings.Join(got, "\n"),
					strings.Join(test.want, "\n"))
			}
		})
	}
}

func TestCheck_CodeOfAPage_IsNotRead(t *testing.T) {
	rules, err := parseGlossary(table)
	if err != nil {
		t.Fatal(err)
	}
	page := "Text of `qux`.\n\n```go\nqux()\n```\n\nIt begins\nqux.\n"
	found := checkTexts("x.md", pageTexts(page), rules)
	if len(found) != 1 || found[0].line != 8 {
		t.Errorf("findings: %v, want one, in line 8", found)
	}
}

func TestCheck_CommentsOfYAML_AreReadWithoutTheirValues(t *testing.T) {
	rules, err := parseGlossary(table)
	if err != nil {
		t.Fatal(err)
	}
	file := "# It is foo\n# bar.\na: qux\nb: c # Baz is\n\n  # -- qux\n# foo\n\n# bar\n# -- x\n\n# -- Baz is\n"
	var lines []int
	for _, f := range checkTexts("x.yaml", comments(file), rules) {
		lines = append(lines, f.line)
	}
	slices.Sort(lines)
	if want := []int{2, 4, 6, 12}; !slices.Equal(lines, want) {
		t.Errorf("findings in lines %v, want %v", lines, want)
	}
}

func TestCheck_DescriptionsOfYAMLAndJSON_AreRead(t *testing.T) {
	rules, err := parseGlossary(table)
	if err != nil {
		t.Fatal(err)
	}
	file := "a: qux\nsummary: 'foo bar {{ $qux }}'\n- description: \"Baz is\"\n" +
		"{\n \"title\": \"qux\",\n \"expr\": \"qux\"\n}\n"
	var lines []int
	for _, f := range checkTexts("x.yaml", descriptions(file), rules) {
		lines = append(lines, f.line)
	}
	slices.Sort(lines)
	if want := []int{2, 3, 5}; !slices.Equal(lines, want) {
		t.Errorf("findings in lines %v, want %v", lines, want)
	}
}

func TestCheck_TextsOfTemplates_AreReadWithoutTheirCode(t *testing.T) {
	rules, err := parseGlossary(table)
	if err != nil {
		t.Fatal(err)
	}
	template := "{{/* It is foo\nbar. */}}\n{{ qux }}\n# qux\na: qux {{ fail \"no qux\" }}\n" +
		"{{- /* Baz\nis */ -}}\n"
	for name, want := range map[string][]int{
		"_x.tpl": {2, 4, 5, 6}, "templates/x.yaml": {2, 4, 5, 6}, "NOTES.txt": {2, 4, 5, 5, 6},
	} {
		var lines []int
		for _, f := range checkTexts(name, templateTexts(name, template), rules) {
			lines = append(lines, f.line)
		}
		slices.Sort(lines)
		if !slices.Equal(lines, want) {
			t.Errorf("%s: findings in lines %v, want %v", name, lines, want)
		}
	}
}

func TestCheck_Module_HasItsCommentsAndStringsRead(t *testing.T) {
	rules, err := parseGlossary(table)
	if err != nil {
		t.Fatal(err)
	}
	module := "// It is foo\n// bar.\nconst qux = 'qux' // Baz is\n" +
		"throw new Error(`a ${qux} foo\nbar`)\nconst link = 'https://qux'\n"
	var lines []int
	for _, f := range checkTexts("x.mjs", moduleTexts(module), rules) {
		lines = append(lines, f.line)
	}
	slices.Sort(lines)
	if want := []int{2, 3, 3, 5, 6}; !slices.Equal(lines, want) {
		t.Errorf("findings in lines %v, want %v", lines, want)
	}
}

func TestCheck_Picture_IsReadWithoutItsStyle(t *testing.T) {
	rules, err := parseGlossary(table)
	if err != nil {
		t.Fatal(err)
	}
	picture := `<svg xmlns="http://www.w3.org/2000/svg">
<title>Foo bar</title><desc>It leads. Baz
leads.</desc>
<style>.qux { fill: none }</style>
<rect class="qux"/>
<!-- qux -->
<text x="1" class="qux">Baz &amp; <tspan>foo
bar</tspan></text>
</svg>`
	texts, err := pictureTexts([]byte(picture))
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for _, f := range checkTexts("x.svg", texts, rules) {
		lines = append(lines, f.line)
	}
	slices.Sort(lines)
	if want := []int{2, 2, 6, 7, 8}; !slices.Equal(lines, want) {
		t.Errorf("findings in lines %v, want %v", lines, want)
	}
	if _, err := pictureTexts([]byte("<svg>")); err == nil {
		t.Error("a picture without an end was accepted")
	}
}

func TestParseGlossary_WithoutATable_Fails(t *testing.T) {
	if _, err := parseGlossary("# Words\n"); err == nil {
		t.Error("a page without the table was accepted")
	}
}

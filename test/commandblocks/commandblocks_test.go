package commandblocks

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParse_MistakesOnAPage_AreErrors(t *testing.T) {
	for name, c := range map[string]struct{ page, want string }{
		"no mark":        {"text\n\n```console\n$ ls\n```\n", "3: say above the block"},
		"no block":       {"<!-- run -->\n\ntext\n", "2: no block of commands follows"},
		"no command":     {"<!-- run -->\n```console\n```\n", "2: the block has no command"},
		"output first":   {"<!-- run -->\n```console\nls\n```\n", "3: a block begins with a command"},
		"no end":         {"<!-- run -->\n```console\n$ ls\n", "2: the block has no end"},
		"a reason":       {"<!-- not run: it is long -->\n```console\n$ ls\n```\n", "2: say above the block"},
		"another shell":  {"<!-- run -->\n```sh\nls\n```\n", "2: a block of commands begins with"},
		"no language":    {"```go\n```\n```\nls\n```\n", "3: a block of commands begins with"},
		"no such phrase": {"<!-- ran -->\n```console\n$ ls\n```\n", "2: say above the block"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse(c.page); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestRunBy_TakesTheBlocksOfTheFolder(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	text := "<!-- run by: a -->\n```console\n$ x 1 \\\n   -b\nout\n$ x $HOME\n```\n" +
		"<!-- run by: b -->\n```console\n$ y\n```\n"
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	commands, err := RunBy("a", page)
	if err != nil || len(commands) != 2 {
		t.Fatalf("got %+v, %v", commands, err)
	}
	if args, err := commands[0].Args("x"); err != nil || !slices.Equal(args, []string{"1", "-b"}) {
		t.Errorf("the arguments are %q, %v", args, err)
	}
	if _, err := commands[0].Args("x", "2"); err == nil {
		t.Error("a command that begins differently has arguments")
	}
	if _, err := commands[1].Args("x"); err == nil {
		t.Error("a command with a variable has arguments without a shell")
	}
	if line := commands[0].Missing("other\n"); line != "out" {
		t.Errorf("missing is %q, want out", line)
	}
	if _, err := RunBy("c", page); err == nil || !strings.Contains(err.Error(), "run by c") {
		t.Errorf("a page without a block of the folder: %v", err)
	}
}

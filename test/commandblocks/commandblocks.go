// Package commandblocks reads the blocks of commands of the documentation, for the tests that run
// them.
//
// A block of commands (```console) stands below a comment that says how it is run:
//
//	<!-- run -->                   its commands succeed, and print what the block shows
//	<!-- run: in a playground -->  the same, beside the tutorial's cluster and Service
//	<!-- run: in a new cluster --> the same, with an API server of its own that has no objects yet
//	<!-- run: in a migrated cluster --> the same, after fxccm migrate of a Helm release of OCCM
//	<!-- run: in the background, until "text" -->  its command prints the text, and runs on
//	<!-- run by: cmd/fxccm -->       the tests of the package in this folder take it with [RunBy]
//	<!-- run by: .ci/run -->       CI runs the same make targets
//	<!-- dry run: reason -->       make has the targets and uses the variables
//
// A command begins with "$ ", and a backslash continues it in the next line. The other lines are
// its output: the command must print them in this order; "…" matches any text.
package commandblocks

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Block is a block of commands of a page.
type Block struct {
	// Place is where the commands run: Playground, NewCluster, Migrated or anywhere.
	Place string
	// Until is not empty for a command in the background.
	Until string
	// RunBy is the folder of the test that runs the block, or CI. If it is empty,
	// test/chart/commands runs it.
	RunBy string
	// DryRun is why make only prints what it would run, or "".
	DryRun   string
	Commands []Command
}

// Values of [Block].
const (
	Playground = "in a playground"
	NewCluster = "in a new cluster"
	Migrated   = "in a migrated cluster"
	CI         = ".ci/run"
)

// Command is a command of a block, with the output that the page shows.
type Command struct {
	Line   int
	Text   string
	Output []string
}

var mark = regexp.MustCompile(`^<!-- (?:run|run: (` +
	strings.Join([]string{Playground, NewCluster, Migrated}, "|") +
	`)|run: in the background, until "(.+)"|run by: (\S+)|dry run: (.+)) -->$`)

// unclear matches the begin of a block that could have commands.
var unclear = regexp.MustCompile("^```(sh|bash|shell)?$")

// RunBy returns the commands of the page that are run by the folder's tests. Errors are a page that
// cannot be read or parsed, or that has no such block.
func RunBy(folder, page string) ([]Command, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	blocks, err := Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", page, err)
	}
	var commands []Command
	for _, b := range blocks {
		if b.RunBy == folder {
			commands = append(commands, b.Commands...)
		}
	}
	if commands == nil {
		return nil, fmt.Errorf("%s: no block is run by %s", page, folder)
	}
	return commands, nil
}

// Parse returns the blocks of a page. A block without a mark is an error; errors begin with the
// number of the line.
func Parse(page string) ([]Block, error) {
	var (
		found  []Block
		marked []string
		indent string
		begun  int
		inside bool
		fenced bool // inside another block
	)
	for i, line := range strings.Split(page, "\n") {
		text := strings.TrimSpace(line)
		switch {
		case inside && text == "```":
			inside = false
			if len(found[len(found)-1].Commands) == 0 {
				return nil, fmt.Errorf("%d: the block has no command", begun)
			}
		case inside:
			last := &found[len(found)-1]
			if err := last.add(i+1, strings.TrimPrefix(line, indent)); err != nil {
				return nil, err
			}
		case fenced:
			fenced = text != "```"
		case unclear.MatchString(text):
			return nil, fmt.Errorf("%d: a block of commands begins with ```console, and another "+
				"one with its language, or ```text", i+1)
		case text == "```console" && marked == nil:
			return nil, fmt.Errorf("%d: say above the block how its commands are run", i+1)
		case text == "```console":
			inside, begun, indent = true, i+1, line[:strings.Index(line, "`")]
			found = append(found, Block{
				Place: marked[1], Until: marked[2], RunBy: marked[3], DryRun: marked[4],
			})
			marked = nil
		case text == "":
		case marked != nil:
			return nil, fmt.Errorf("%d: no block of commands follows", i)
		case strings.HasPrefix(text, "```"):
			fenced = true
		default:
			marked = mark.FindStringSubmatch(text)
		}
	}
	if inside {
		return nil, fmt.Errorf("%d: the block has no end", begun)
	}
	return found, nil
}

// add adds a line to the block.
func (b *Block) add(number int, line string) error {
	if text, ok := strings.CutPrefix(line, "$ "); ok {
		b.Commands = append(b.Commands, Command{Line: number, Text: text})
		return nil
	}
	if len(b.Commands) == 0 {
		return fmt.Errorf("%d: a block begins with a command: $ ", number)
	}
	last := &b.Commands[len(b.Commands)-1]
	if strings.HasSuffix(last.Text, `\`) {
		last.Text += "\n" + line
		return nil
	}
	last.Output = append(last.Output, line)
	return nil
}

// Args are the arguments after the words with which the command begins. It is an error if it begins
// differently, or needs a shell.
func (c Command) Args(begin ...string) ([]string, error) {
	words := strings.Fields(strings.ReplaceAll(c.Text, "\\\n", " "))
	if len(words) < len(begin) || !slices.Equal(words[:len(begin)], begin) ||
		strings.ContainsAny(strings.Join(words, ""), "\\\"'`$#|&;<>*?(){}~") {
		return nil, fmt.Errorf("%d: want %q and arguments, without a shell's syntax: %s", c.Line,
			begin, c.Text)
	}
	return words[len(begin):], nil
}

// Missing is the first line of the expected output that was not printed, or "".
func (c Command) Missing(printed string) string {
	lines := strings.Split(printed, "\n")
	for _, want := range c.Output {
		pattern := patternOf(want)
		at := 0
		for at < len(lines) && !pattern.MatchString(lines[at]) {
			at++
		}
		if at == len(lines) {
			return want
		}
		lines = lines[at+1:]
	}
	return ""
}

// patternOf matches any number of spaces, because they align columns.
func patternOf(line string) *regexp.Regexp {
	pattern := regexp.QuoteMeta(strings.Join(strings.Fields(line), " "))
	pattern = strings.ReplaceAll(pattern, " ", `\s+`)
	return regexp.MustCompile(`^\s*` + strings.ReplaceAll(pattern, "…", `.*`) + `\s*$`)
}

// Fenced returns the blocks of a page in the language, by the number of their first line.
func Fenced(page, language string) map[int]string {
	found := map[int]string{}
	var begun int
	var lines []string
	for i, line := range strings.Split(page, "\n") {
		switch {
		case begun == 0 && line == "```"+language:
			begun, lines = i+2, nil
		case begun > 0 && line == "```":
			found[begun] = strings.Join(lines, "\n") + "\n"
			begun = 0
		case begun > 0:
			lines = append(lines, line)
		}
	}
	return found
}

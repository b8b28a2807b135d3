// Package commands runs the commands of the documentation.
//
// A block of commands (```console) stands below a comment that says whether it is run:
//
//	<!-- run -->                            its commands succeed, and print what the block shows
//	<!-- run: in a playground -->           the same, beside the tutorial's cluster and Service
//	<!-- run: in the background, until "text" -->  its command prints the text, and runs on
//	<!-- not run: reason -->
//
// A command begins with "$ ", and goes on in the next line after a backslash. The other lines are
// its output: each is found in what the command prints, in this order; "…" stands for anything.
package commands

import (
	"fmt"
	"regexp"
	"strings"
)

// A block is a block of commands of a page.
type block struct {
	line int
	// inPlayground is set if the commands need a cluster with fxccm, nodes and a Service.
	inPlayground bool
	// until is not empty for a command in the background.
	until string
	// skipped is the reason why it is not run.
	skipped  string
	commands []command
}

type command struct {
	line   int
	text   string
	output []string
}

var mark = regexp.MustCompile(
	`^<!-- (?:run|run: (in a playground)|run: in the background, until "(.+)"|not run: (.+)) -->$`)

var otherBlock = regexp.MustCompile("^```(ba)?sh(ell)?$|^```shell$")

// parse returns the blocks of a page. A block without a mark is an error.
func parse(page string) ([]block, error) {
	var (
		found  []block
		marked []string
		indent string
		inside bool
	)
	for i, line := range strings.Split(page, "\n") {
		text := strings.TrimSpace(line)
		switch {
		case inside && text == "```":
			inside = false
			if len(found[len(found)-1].commands) == 0 {
				return nil, fmt.Errorf("%d: the block has no command", found[len(found)-1].line)
			}
		case inside:
			last := &found[len(found)-1]
			if err := last.add(i+1, strings.TrimPrefix(line, indent)); err != nil {
				return nil, err
			}
		case otherBlock.MatchString(text):
			return nil, fmt.Errorf("%d: a block of commands begins with ```console", i+1)
		case text == "```console" && marked == nil:
			return nil, fmt.Errorf(
				"%d: say above the block whether its commands are run, and if not, why", i+1)
		case text == "```console":
			inside, indent = true, line[:strings.Index(line, "`")]
			found = append(found, block{
				line: i + 1, inPlayground: marked[1] != "", until: marked[2], skipped: marked[3],
			})
			marked = nil
		case text == "":
		case marked != nil:
			return nil, fmt.Errorf("%d: no block of commands follows", i)
		default:
			marked = mark.FindStringSubmatch(text)
		}
	}
	if inside {
		return nil, fmt.Errorf("%d: the block has no end", found[len(found)-1].line)
	}
	return found, nil
}

// add adds a line to the block.
func (b *block) add(number int, line string) error {
	if text, ok := strings.CutPrefix(line, "$ "); ok {
		b.commands = append(b.commands, command{line: number, text: text})
		return nil
	}
	if len(b.commands) == 0 {
		return fmt.Errorf("%d: a block begins with a command: $ ", number)
	}
	last := &b.commands[len(b.commands)-1]
	if strings.HasSuffix(last.text, `\`) {
		last.text += "\n" + line
		return nil
	}
	last.output = append(last.output, line)
	return nil
}

// missing is the first line of the expected output that is not printed, or "".
func (c command) missing(printed string) string {
	lines := strings.Split(printed, "\n")
	for _, want := range c.output {
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

// patternOf ignores how many spaces align columns.
func patternOf(line string) *regexp.Regexp {
	pattern := regexp.QuoteMeta(strings.Join(strings.Fields(line), " "))
	pattern = strings.ReplaceAll(pattern, " ", `\s+`)
	return regexp.MustCompile(`^\s*` + strings.ReplaceAll(pattern, "…", `.*`) + `\s*$`)
}

package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/term"
)

const (
	groupAnnotation = "fxccm.dev/flag-group"
	shownAnnotation = "fxccm.dev/shown-flag-group"
	helpAnnotation  = "fxccm.dev/help"
	// otherFlags is the title of flags without a group.
	otherFlags = "Flags"
)

// AddFlags adds the flags of a function. The help shows them below a title.
func AddFlags(set *pflag.FlagSet, title string, add func(*pflag.FlagSet)) {
	group := pflag.NewFlagSet(title, pflag.ContinueOnError)
	add(group)
	SetTitle(group, title)
	set.AddFlagSet(group)
}

// SetTitle sets the title below which the help shows the flags.
func SetTitle(set *pflag.FlagSet, title string) {
	set.VisitAll(func(flag *pflag.Flag) {
		_ = set.SetAnnotation(flag.Name, groupAnnotation, []string{title})
	})
}

// ShowOnly limits the help of a command to the flags with a title.
func ShowOnly(cmd *cobra.Command, title string) { annotate(cmd, shownAnnotation, title) }

func annotate(cmd *cobra.Command, key, value string) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[key] = value
}

// Help prints the help of a command: its subcommands and flags in groups.
func Help(cmd *cobra.Command, _ []string) {
	out := cmd.OutOrStdout()
	columns, _, err := term.TerminalSize(Underlying(out))
	if err != nil {
		columns = 0 // not a terminal: lines are not wrapped
	}
	_, _ = io.WriteString(out, HelpText(cmd, columns))
}

// HelpText is the text of [Help] for a terminal. 0 columns do not wrap lines.
func HelpText(cmd *cobra.Command, columns int) string {
	var text strings.Builder
	about := cmd.Long
	if about == "" {
		about = cmd.Short + "."
	}
	fmt.Fprintf(&text, "%s\n\nUsage:\n", filled(strings.TrimSpace(about), columns))
	if cmd.Annotations[helpAnnotation] == "" {
		fmt.Fprintf(&text, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&text, "  %s [command]\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&text, "\nExamples:\n%s\n", cmd.Example)
	}
	for _, group := range cmd.Groups() {
		writeCommands(&text, cmd, group.Title, group.ID, columns)
	}
	title := "Commands:"
	if len(cmd.Groups()) > 0 {
		title = "Other commands:"
	}
	writeCommands(&text, cmd, title, "", columns)
	for _, group := range flagGroups(cmd) {
		fmt.Fprintf(&text, "\n%s:\n%s", group.title, FlagUsages(group.flags, columns))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&text, "\n\"%s [command] --help\" describes a command.\n", cmd.CommandPath())
	}
	return text.String()
}

// filled wraps the paragraphs of a text. Paragraphs with indented lines stay as they are.
func filled(text string, columns int) string {
	if columns == 0 {
		return text
	}
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !strings.ContainsAny(p[:min(1, len(p))], " \t") && !strings.Contains(p, "\n ") &&
			!strings.Contains(p, "\n\t") {
			paragraphs[i] = wrapped(strings.Join(strings.Fields(p), " "), columns, 0)
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

func writeCommands(out io.Writer, of *cobra.Command, title, group string, columns int) {
	for _, c := range of.Commands() {
		if c.GroupID != group || !c.IsAvailableCommand() && c.Name() != "help" {
			continue
		}
		if title != "" {
			_, _ = fmt.Fprintf(out, "\n%s\n", title)
			title = ""
		}
		line := fmt.Sprintf("  %-12s %s", c.Name(), c.Short)
		_, _ = fmt.Fprintln(out, wrapped(line, columns, len("  ")+12+len(" ")))
	}
}

type flagGroup struct {
	title string
	flags []*pflag.Flag
}

// flagGroups returns the flags of a command that its help shows: first those without a group, then
// the groups by their titles.
func flagGroups(cmd *cobra.Command) []flagGroup {
	shown, isLimited := cmd.Annotations[shownAnnotation]
	groups := []flagGroup{{title: otherFlags}}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		title := otherFlags
		if of := flag.Annotations[groupAnnotation]; len(of) > 0 {
			title = of[0]
		}
		if flag.Hidden || isLimited && title != shown {
			return
		}
		at := slices.IndexFunc(groups, func(g flagGroup) bool { return g.title == title })
		if at < 0 {
			at = len(groups)
			groups = append(groups, flagGroup{title: title})
		}
		groups[at].flags = append(groups[at].flags, flag)
	})
	slices.SortFunc(groups, func(a, b flagGroup) int { return strings.Compare(a.title, b.title) })
	groups = slices.DeleteFunc(groups, func(g flagGroup) bool { return len(g.flags) == 0 })
	return groups
}

const (
	// minUsageColumns is the width that a usage needs beside its flag.
	minUsageColumns = 30
	// usageIndent is the indentation of a usage below its flag.
	usageIndent = 10
)

// FlagUsages formats flags, each with its usage beside it, or below it on a narrow terminal. 0
// columns do not wrap lines.
func FlagUsages(flags []*pflag.Flag, columns int) string {
	heads, usages, width := make([]string, len(flags)), make([]string, len(flags)), 0
	for i, flag := range flags {
		heads[i] = "      --" + flag.Name
		if flag.Shorthand != "" {
			heads[i] = "  -" + flag.Shorthand + ", --" + flag.Name
		}
		kind, usage := pflag.UnquoteUsage(flag)
		if kind != "" {
			heads[i] += " " + plain(kind)
		}
		usages[i] = usage + defaultOf(flag)
		width = max(width, len(heads[i])+3)
	}
	var out strings.Builder
	isNarrow := columns > 0 && columns-width < minUsageColumns
	for i, head := range heads {
		if isNarrow {
			out.WriteString(head + "\n")
			head, width = "", usageIndent
		}
		line := fmt.Sprintf("%-*s%s", width, head, usages[i])
		out.WriteString(wrapped(line, columns, width) + "\n")
	}
	return out.String()
}

// plain is the name of a kind of value without the size and the type of Go.
func plain(kind string) string {
	switch kind {
	case "uint16", "int32", "int64":
		return "int"
	case "stringArray":
		return "strings"
	case "ipNetSlice":
		return "CIDRs"
	}
	return kind
}

// defaultOf names the default, unless that is an empty value.
func defaultOf(flag *pflag.Flag) string {
	switch value := flag.DefValue; {
	case slices.Contains([]string{"", "0", "false", "0s", "[]", "<nil>"}, value):
		return ""
	case flag.Value.Type() == "string":
		return fmt.Sprintf(" (default %q)", value)
	default:
		return " (default " + value + ")"
	}
}

package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Underlying returns the writer below one of [Renamed].
func Underlying(out io.Writer) io.Writer {
	if of, ok := out.(*renamed); ok {
		return of.Writer
	}
	return out
}

// Renamed returns a writer for texts that mention the commands of root, such as "fxccm status". It
// replaces the name of the program by the one that the user types.
func Renamed(out io.Writer, root *cobra.Command, typed string) io.Writer {
	var pairs []string
	for _, next := range append(root.Commands(), &cobra.Command{Use: "--"}) {
		mention := root.Name() + " " + next.Name()
		pairs = append(pairs, typed+" "+next.Name(), typed+" "+next.Name(), mention,
			typed+" "+next.Name())
	}
	return &renamed{out, strings.NewReplacer(pairs...)}
}

// renamed expects that no mention is split between two writes.
type renamed struct {
	io.Writer
	names *strings.Replacer
}

func (r *renamed) Write(text []byte) (int, error) {
	if _, err := r.names.WriteString(r.Writer, string(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

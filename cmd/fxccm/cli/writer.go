package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Printing returns a writer for texts that a person reads. It makes them [Printable], because they
// may quote the cloud or an API server.
func Printing(out io.Writer) io.Writer { return &printing{out, strings.NewReplacer()} }

// Renamed is [Printing] for texts that mention the commands of root, such as "fxccm status". It
// replaces the name of the program by the one that the user types.
func Renamed(out io.Writer, root *cobra.Command, typed string) io.Writer {
	var pairs []string
	for _, next := range append(root.Commands(), &cobra.Command{Use: "--"}) {
		mention := root.Name() + " " + next.Name()
		pairs = append(pairs, typed+" "+next.Name(), typed+" "+next.Name(), mention,
			typed+" "+next.Name())
	}
	return &printing{Underlying(out), strings.NewReplacer(pairs...)}
}

// Underlying returns the writer below one of [Printing] or [Renamed].
func Underlying(out io.Writer) io.Writer {
	if of, ok := out.(*printing); ok {
		return of.Writer
	}
	return out
}

// printing expects that neither a mention nor a character is split between two writes.
type printing struct {
	io.Writer
	names *strings.Replacer
}

func (p *printing) Write(text []byte) (int, error) {
	if err := WriteStyled(p, Printable(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// WriteStyled writes a text that controls the terminal itself, such as by the colors of [Tables].
// Texts that it quotes must be [Printable] already.
func WriteStyled(out io.Writer, text string) error {
	names := strings.NewReplacer()
	if of, ok := out.(*printing); ok {
		out, names = of.Writer, of.names
	}
	_, err := io.WriteString(out, names.Replace(text))
	return err
}

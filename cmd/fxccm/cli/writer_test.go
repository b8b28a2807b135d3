package cli_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
)

func TestPrinting_TextOfTheCloud_ControlsNothing(t *testing.T) {
	root := &cobra.Command{Use: "fxccm"}
	root.AddCommand(&cobra.Command{Use: "status"})
	for name, test := range map[string]struct {
		writer func(io.Writer) io.Writer
		want   string
	}{
		"a program": {cli.Printing, "see fxccm status:\tweb [2J\n"},
		"a plugin": {func(out io.Writer) io.Writer {
			return cli.Renamed(cli.Printing(out), root, "kubectl fxccm")
		}, "see kubectl fxccm status:\tweb [2J\n"},
	} {
		var out strings.Builder
		writer := test.writer(&out)
		const text = "see fxccm status:\tweb\x1b[2J\n"
		n, err := fmt.Fprint(writer, text)
		if n != len(text) || err != nil || out.String() != test.want {
			t.Errorf("%s: %d, %v, %q, want %q", name, n, err, &out, test.want)
		}
		if cli.Underlying(writer) != &out {
			t.Errorf("%s: the writer below is %T", name, cli.Underlying(writer))
		}
		out.Reset()
		err = cli.WriteStyled(writer, string(cli.Red)+"see fxccm status")
		if err != nil || !strings.HasPrefix(out.String(), string(cli.Red)+"see ") {
			t.Errorf("%s: %v, its own color becomes %q", name, err, &out)
		}
	}
}

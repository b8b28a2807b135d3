package cli_test

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
)

func TestFlagUsages_EachScreen_AreReadable(t *testing.T) {
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	set.StringP("output", "o", "", "json or yaml. Empty: tables.")
	set.Bool("insecure-skip-tls-verify", false, "Send the credentials without a check.")
	set.Uint16("port", 10258, "The --secure-port of the pods.")
	var flags []*pflag.Flag
	set.VisitAll(func(flag *pflag.Flag) { flags = append(flags, flag) })
	for columns, want := range map[int]string{
		0: `      --insecure-skip-tls-verify   Send the credentials without a check.
  -o, --output string              json or yaml. Empty: tables.
      --port int                   The --secure-port of the pods. (default 10258)
`,
		66: `      --insecure-skip-tls-verify   Send the credentials without a
                                   check.
  -o, --output string              json or yaml. Empty: tables.
      --port int                   The --secure-port of the pods.
                                   (default 10258)
`,
		40: `      --insecure-skip-tls-verify
          Send the credentials without a
          check.
  -o, --output string
          json or yaml. Empty: tables.
      --port int
          The --secure-port of the pods.
          (default 10258)
`,
	} {
		if got := cli.FlagUsages(flags, columns); got != want {
			t.Errorf("%d columns: got\n%s\nwant\n%s", columns, got, want)
		}
	}
}

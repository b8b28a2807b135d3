package flags

import (
	"flag"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

var verbose = flag.Bool("v", false, "") // want `flag: flag.Bool uses the flags of the host's program`

func Flags(s *string) {
	flag.StringVar(s, "s", "", "")         // want `flag: flag.StringVar`
	flag.CommandLine.Bool("b", false, "")  // want `flag: flag.CommandLine`
	flag.Parse()                           // want `flag: flag.Parse`
	pflag.StringVar(s, "s", "", "")        // want `flag: github.com/spf13/pflag.StringVar`
	pflag.CommandLine.Bool("b", false, "") // want `flag: github.com/spf13/pflag.CommandLine`
	klog.InitFlags(nil)                    // want `flag: k8s.io/klog/v2.InitFlags`
}

func Fine() *bool {
	_ = flag.NewFlagSet("x", flag.ContinueOnError)
	return pflag.NewFlagSet().Bool("b", false, "")
}

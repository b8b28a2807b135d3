package pflag

type FlagSet struct{}

func (f *FlagSet) Bool(name string, value bool, usage string) *bool { return &value }

var CommandLine = &FlagSet{}

func NewFlagSet() *FlagSet                           { return &FlagSet{} }
func StringVar(p *string, name, value, usage string) {}

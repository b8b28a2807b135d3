// Package options reads a [ccm.Config] and a servingconfig.Config from the command line and from
// a YAML file.
//
// The flags are those of upstream's cloud-controller-manager: same names, meanings and defaults,
// except for [Differences]. A host with its own flags adds a prefix to these:
//
//	opts := options.New()
//	err := opts.AddFlags(cmd.Flags(), options.WithPrefix("ccm-")) // --ccm-leader-elect, …
//	…
//	completed, err := opts.Complete() // after the flags have been parsed
//	fx.Supply(completed.Config, completed.Serving)
//
// The first source that sets a value wins: a flag on the command line, the file that --config
// names, the [Options], [DefaultConfiguration].
//
// The package registers nothing, prints nothing, and sets no process-wide feature gate. Logging
// flags belong to the program: component-base binds them.
package options

//go:generate env UPDATE_DOCS=1 go test -count=1 -run ^TestFlagsPage_IsUpToDate$ .

package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
)

// buildInfo describes a binary, by the information that the Go toolchain adds to it.
type buildInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	// Modified: the build had changes that are not in the commit.
	Modified bool `json:"modified,omitempty"`
	// CloudProvider is the version of k8s.io/cloud-provider.
	CloudProvider string `json:"cloudProvider"`
	Go            string `json:"go"`
	Platform      string `json:"platform"`
}

func currentBuild() buildInfo {
	b := buildInfo{
		Version: "unknown", Commit: "unknown", CloudProvider: "unknown", Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	of := map[string]string{}
	for _, setting := range info.Settings {
		of[setting.Key] = setting.Value
	}
	for _, module := range info.Deps {
		of[module.Path] = module.Version
	}
	b.Version = cmp.Or(info.Main.Version, "(devel)")
	b.Commit = cmp.Or(of["vcs.revision"], b.Commit)
	b.Modified = of["vcs.modified"] == "true"
	b.CloudProvider = cmp.Or(of["k8s.io/cloud-provider"], b.CloudProvider)
	return b
}

func version() string {
	b, modified := currentBuild(), ""
	if b.Modified {
		modified = ", modified"
	}
	return fmt.Sprintf("fxccm %s (commit %s%s, k8s.io/cloud-provider %s, %s, %s)", b.Version,
		b.Commit, modified, b.CloudProvider, b.Go, b.Platform)
}

func newVersionCommand() *cobra.Command {
	var output cli.Output
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version of this binary", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			return output.Print(cmd.OutOrStdout(), currentBuild(), func(out io.Writer) error {
				_, err := fmt.Fprintln(out, version())
				return err
			})
		},
	}
	output.AddFlag(cmd.Flags(), "a line of text")
	return cmd
}

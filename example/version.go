package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version describes the build, from the information that the Go toolchain adds to the binary.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "fxccm, built without module information"
	}
	of := map[string]string{}
	for _, setting := range info.Settings {
		of[setting.Key] = setting.Value
	}
	for _, module := range info.Deps {
		of[module.Path] = module.Version
	}
	modified := ""
	if of["vcs.modified"] == "true" {
		modified = ", modified"
	}
	return fmt.Sprintf("fxccm %s (commit %s%s, k8s.io/cloud-provider %s, %s, %s/%s)",
		cmp.Or(info.Main.Version, "(devel)"), cmp.Or(of["vcs.revision"], "unknown"), modified,
		of["k8s.io/cloud-provider"], info.GoVersion, runtime.GOOS, runtime.GOARCH)
}

package main

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
)

// The bytes of a release must not depend on the machine. So the commands that decide about them
// inherit only variables that say where something is, and not GIT_DIR, GOROOT, GOEXPERIMENT and
// others, which choose other sources or another code.
var (
	places = []string{
		"PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
		"SSL_CERT_DIR", "SSL_CERT_FILE",
	}
	// placesOfGo may also be set by "go env -w". Modules have hashes in go.sum.
	placesOfGo = []string{
		"GOCACHE", "GOMODCACHE", "GONOPROXY", "GONOSUMDB", "GOPROXY", "GOSUMDB", "GOTOOLCHAIN",
	}
)

// inherited returns the places, and other variables of this process.
func inherited(others ...string) []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return !slices.Contains(places, name) && !slices.Contains(others, name)
	})
}

// environment returns all variables of a build. They replace the settings of "go env -w", and the
// choices of the toolchain that its packager may have changed.
func (b builder) environment(ctx context.Context, p platform) ([]string, error) {
	out, err := commandWith(ctx, b.source.dir,
		inherited(append([]string{"GOENV"}, placesOfGo...)...),
		"go", append([]string{"env", "-json"}, placesOfGo...)...)
	if err != nil {
		return nil, err
	}
	var found map[string]string
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		return nil, err
	}
	env := append(inherited(),
		"GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0", "CGO_ENABLED=0",
		"GOENV=off", "GOWORK=off", "GOFLAGS=-mod=readonly", "GOFIPS140=off")
	for _, name := range placesOfGo {
		env = append(env, name+"="+found[name])
	}
	return env, nil
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"k8s.io/client-go/discovery"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// machine is what the results were measured on.
type machine struct {
	processor string
	cores     int
	memory    string
	kernel    string
	// load is the load average of the last minute when the benchmark began: what else the machine
	// did.
	load string
}

func describeMachine() (m machine, err error) {
	m.cores = runtime.NumCPU()
	if m.processor, err = procValue("/proc/cpuinfo", "model name"); err != nil {
		m.processor, err = runtime.GOARCH, nil // not every architecture has it
	}
	total, err := procValue("/proc/meminfo", "MemTotal")
	if err != nil {
		return m, err
	}
	kib, err := strconv.ParseInt(strings.TrimSuffix(total, " kB"), 10, 64)
	if err != nil {
		return m, fmt.Errorf("read /proc/meminfo: %w", err)
	}
	m.memory = fmt.Sprintf("%.1f GiB", float64(kib)/(1<<20))
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return m, fmt.Errorf("read the kernel's version: %w", err)
	}
	// The text after the number names the builder.
	number, _, _ := strings.Cut(strings.TrimSpace(string(release)), "-")
	m.kernel = "Linux " + number
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return m, fmt.Errorf("read the load average: %w", err)
	}
	m.load, _, _ = strings.Cut(string(load), " ")
	return m, nil
}

// procValue finds "name : value" in a file of proc(5).
func procValue(path, name string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("describe the machine: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("describe the machine: %s has no %q", path, name)
}

// versions are those of everything that takes part.
type versions struct {
	fxccm, upstream, kubernetes, etcd, golang string
}

func describeVersions(ctx context.Context, api discovery.DiscoveryInterface) (versions, error) {
	v := versions{golang: runtime.Version(), fxccm: "unknown revision"}
	if build, ok := debug.ReadBuildInfo(); ok {
		v.fxccm = revision(build.Settings)
		for _, module := range build.Deps {
			if module.Path == "k8s.io/cloud-provider" {
				v.upstream = module.Version
			}
		}
	}
	server, err := api.ServerVersion()
	if err != nil {
		return v, fmt.Errorf("ask for the API server's version: %w", err)
	}
	v.kubernetes = server.GitVersion
	binaries, err := controlplane.FindBinaries()
	if err != nil {
		return v, err
	}
	out, err := exec.CommandContext(ctx, binaries.Etcd, "--version").Output()
	if err != nil {
		return v, fmt.Errorf("ask for etcd's version: %w", err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	v.etcd = strings.TrimSpace(strings.TrimPrefix(first, "etcd Version:"))
	return v, nil
}

// revision is what was built, as the go command has stamped it.
func revision(settings []debug.BuildSetting) string {
	text := "unknown revision"
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			text = "revision " + s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			text += ", with changes that are not committed"
		}
	}
	return text
}

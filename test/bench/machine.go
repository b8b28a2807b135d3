package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/test/internal/attempt"
)

// machine is what the results were measured on.
type machine struct {
	// hardware is the processor, its cores and the memory, system the kernel and what else the
	// machine did when the benchmark began: the load average of the last minute.
	hardware, system, load string
}

func describeMachine(t *attempt.T) (m machine) {
	proc, err := procfs.NewDefaultFS()
	t.Check(err)
	memory, err := proc.Meminfo()
	t.Check(err)
	load, err := proc.LoadAvg()
	t.Check(err)
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	t.Check(err)
	processor := runtime.GOARCH // not every architecture has a name of its model
	if processors, err := proc.CPUInfo(); err == nil && len(processors) > 0 {
		processor = processors[0].ModelName
	}
	// The text after the number names the builder.
	kernel, _, _ := strings.Cut(strings.TrimSpace(string(release)), "-")
	m.hardware = fmt.Sprintf("%s, %d cores, %.1f GiB of memory", processor, runtime.NumCPU(),
		float64(*memory.MemTotalBytes)/(1<<30))
	m.load = fmt.Sprintf("%.2f", load.Load1)
	m.system = "Linux " + kernel + "; load average before: " + m.load
	return m
}

// versions are those of everything that takes part.
type versions struct {
	// all has them in one line, without upstream's command.
	all, upstream string
}

func (b *bench) describeVersions() (v versions) {
	t, fxccm := b.run, "unknown revision"
	if build, ok := debug.ReadBuildInfo(); ok {
		fxccm = revision(build.Settings)
		for _, module := range build.Deps {
			if module.Path == "k8s.io/cloud-provider" {
				v.upstream = module.Version
			}
		}
	}
	server, err := b.client.Discovery().ServerVersion()
	t.Check(err)
	binaries, err := controlplane.FindBinaries()
	t.Check(err)
	out, err := exec.CommandContext(t.Context(), binaries.Etcd, "--version").Output()
	t.Check(err)
	etcd, _, _ := strings.Cut(strings.TrimPrefix(string(out), "etcd Version:"), "\n")
	v.all = fmt.Sprintf("fxccm %s; %s; kube-apiserver %s; etcd %s", fxccm, runtime.Version(),
		server.GitVersion, strings.TrimSpace(etcd))
	return v
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

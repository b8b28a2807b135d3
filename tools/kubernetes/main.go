// Command kubernetes runs suites of tests on kube-apiservers of several Kubernetes versions, one at
// a time, and writes the results to docs/evidence/kubernetes.md.
//
//	go run ./tools/kubernetes [-suites drills,chart] 1.31 1.34.2
//
// A minor version means its newest release in the Go module proxy, or its newest pre-release if it
// has no release. The kube-apiservers are kept in bin/kubernetes, with the output of each suite.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fxccm/fxccm/tools/internal/evidence"
)

func main() {
	only := flag.String("suites", "", "the suites to run, separated by commas (default: all)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *only, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes:", err)
		os.Exit(1)
	}
}

const page = "docs/evidence/kubernetes.md"

func run(ctx context.Context, only string, wanted []string) error {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	versions, err := resolveAll(ctx, wanted)
	if err != nil {
		return err
	}
	revision, err := evidence.Revision(ctx)
	if err != nil {
		return err
	}
	var failed []string
	for _, version := range versions {
		folder, err := build(ctx, version)
		if err != nil {
			return err
		}
		server, err := describe(ctx, folder)
		if err != nil {
			return err
		}
		server.revision = revision
		for _, s := range chosen {
			done, err := s.run(ctx, version, folder)
			if err != nil {
				return err
			}
			if !done.OK() {
				failed = append(failed, version+" "+s.name)
			}
			if err := record(page, server, s.name, done); err != nil {
				return err
			}
		}
	}
	fmt.Println("kubernetes: wrote", page)
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}

func choose(only string) ([]suite, error) {
	if only == "" {
		return suites, nil
	}
	var chosen []suite
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(suites, func(s suite) bool { return s.name == name })
		if i < 0 {
			var names []string
			for _, s := range suites {
				names = append(names, s.name)
			}
			return nil, fmt.Errorf("there is no suite %q; the suites are %s", name,
				strings.Join(names, ", "))
		}
		chosen = append(chosen, suites[i])
	}
	return chosen, nil
}

// build returns the folder of the kube-apiserver, and of the etcd that it uses.
func build(ctx context.Context, version string) (string, error) {
	cmd := exec.CommandContext(ctx, "tools/controlplane/build.sh", version)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build kube-apiserver %s: %w", version, err)
	}
	return filepath.Abs(filepath.Join("bin", "kubernetes", version))
}

// describe asks the programs for their versions.
func describe(ctx context.Context, folder string) (server, error) {
	apiServer := filepath.Join(folder, "kube-apiserver")
	version, err := evidence.Output(ctx, apiServer, "--version")
	if err != nil {
		return server{}, err
	}
	compiler, err := evidence.Output(ctx, "go", "version", apiServer)
	if err != nil {
		return server{}, err
	}
	etcd, err := evidence.Output(ctx, filepath.Join(folder, "etcd"), "--version")
	if err != nil {
		return server{}, err
	}
	etcd, _, _ = strings.Cut(etcd, "\n")
	return server{
		version: strings.TrimPrefix(version, "Kubernetes "),
		golang:  strings.TrimPrefix(compiler, apiServer+": "),
		etcd:    strings.TrimPrefix(etcd, "etcd Version: "),
		date:    time.Now().UTC().Format(time.DateOnly),
	}, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/fxccm/fxccm/tools/internal/evidence"
)

// progressInterval is how often a suite that runs reports its progress.
const progressInterval = 20 * time.Second

// A suite is a package of tests that need an API server.
type suite struct {
	name string
	// module is the folder of the Go module.
	module, pkg string
}

var suites = []suite{
	{"controllers", ".", "./test/e2e/controllers"},
	{"openstack", ".", "./test/e2e/openstack"},
	{"hosts", ".", "./test/e2e/hostintegration"},
	{"leaks", ".", "./test/e2e/leaks"},
	{"drills", ".", "./test/drills"},
	{"takeover", ".", "./test/providers/takeover"},
	{"program", ".", "./cmd/fxccm"},
	{"chart", "test/chart", "."},
}

// run runs the suite with the programs in folder. An error means that there is no result.
func (s suite) run(ctx context.Context, version, folder string) (*evidence.Result, error) {
	log, err := os.Create(filepath.Join(folder, s.name+".json"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	begin := time.Now()
	fmt.Printf("kubernetes: %s %s\n", version, s.name)
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-vet=off", "-ldflags=-s -w",
		"-parallel=8", "-timeout=30m", s.pkg)
	cmd.Dir, cmd.Stderr = s.module, os.Stderr
	cmd.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+folder)
	// With an interrupt, the tests end their control planes.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	shown := begin
	done, err := evidence.Read(io.TeeReader(out, log), os.Stdout, func(r *evidence.Result) {
		if time.Since(shown) >= progressInterval {
			shown = time.Now()
			fmt.Printf("kubernetes: %s %s: %s, %s\n", version, s.name, r,
				time.Since(begin).Round(time.Second))
		}
	})
	if err = errors.Join(err, ctx.Err(), ignoreExit(cmd.Wait())); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	fmt.Printf("kubernetes: %s %s: %s in %s\n", version, s.name, done,
		time.Since(begin).Round(time.Second))
	for _, p := range done.Problems {
		fmt.Printf("kubernetes: %s %s: %s: %s %s\n", version, s.name, p.Verdict, p.Test, p.Reason)
	}
	return done, nil
}

// ignoreExit ignores the exit code of go test, which the events show, too.
func ignoreExit(err error) error {
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil
	}
	return err
}

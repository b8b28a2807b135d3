package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A builder compiles test binaries into dir.
type builder struct {
	dir  string
	jobs []job
	// count numbers the folders of binaries.
	count int
}

// build compiles the tests of packages with the race detector, those of -plain without it, and
// those of the modules of -modules, whose dependencies the project's module does not have. Some
// tests of the packages of -large are run apart, without the detector.
func build(args []string) error {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	dir := flags.String("dir", "", "folder of the test binaries")
	plain := flags.String("plain", "", "packages whose tests run without the race detector")
	large := flags.String("large", "", "packages with tests that run apart, without the detector")
	largeTests := flags.String("large-tests", "", "the names of these tests, a regular expression")
	modules := flags.String("modules", "", "folders of further modules")
	if err := flags.Parse(args); err != nil {
		return err
	}
	began := time.Now()
	if err := os.RemoveAll(*dir); err != nil {
		return err
	}
	b := &builder{dir: *dir}
	all, err := list(".", flags.Args())
	if err != nil {
		return err
	}
	without, err := list(".", strings.Fields(*plain))
	if err != nil {
		return err
	}
	apart, err := list(".", strings.Fields(*large))
	if err != nil {
		return err
	}
	apart = slices.DeleteFunc(apart, func(p pkg) bool { return !all.has(p) })
	detected := slices.DeleteFunc(slices.Clone(all), without.has)
	undetected := slices.DeleteFunc(slices.Clone(all), func(p pkg) bool { return !without.has(p) })
	if err := b.compile(".", detected, true, ""); err != nil {
		return err
	}
	for i, j := range b.jobs {
		if apart.has(pkg{path: j.Name}) {
			b.jobs[i].Args = []string{"-test.skip=" + *largeTests}
		}
	}
	if err := b.compile(".", undetected, false, ""); err != nil {
		return err
	}
	if err := b.compile(".", apart, false, " (large)", "-test.run="+*largeTests); err != nil {
		return err
	}
	for _, module := range strings.Fields(*modules) {
		packages, err := list(module, []string{"./..."})
		if err != nil {
			return err
		}
		if err := b.compile(module, packages, false, ""); err != nil {
			return err
		}
	}
	fmt.Printf("built %d test binaries in %s\n", len(b.jobs),
		time.Since(began).Round(time.Second))
	return writePlan(b.dir, b.jobs)
}

// A pkg is a package with tests.
type pkg struct{ path, dir string }

type pkgs []pkg

func (p pkgs) has(one pkg) bool {
	return slices.ContainsFunc(p, func(q pkg) bool { return q.path == one.path })
}

// list returns the packages with tests of a module that match patterns.
func list(module string, patterns []string) (pkgs, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	cmd := exec.Command("go", append([]string{
		"list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}",
	}, patterns...)...)
	cmd.Dir, cmd.Stderr = module, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", strings.Join(patterns, " "), err)
	}
	var found pkgs
	for line := range strings.Lines(string(out)) {
		if name, dir, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			found = append(found, pkg{name, dir})
		}
	}
	return found, nil
}

// compile builds the tests of packages of one module, in one go command for all packages with
// different last names, because a folder has only one binary of a name.
func (b *builder) compile(
	module string, packages pkgs, race bool, suffix string, args ...string,
) error {
	for len(packages) > 0 {
		var now, later pkgs
		names := map[string]bool{}
		for _, p := range packages {
			if name := path.Base(p.path); !names[name] {
				names[name] = true
				now = append(now, p)
			} else {
				later = append(later, p)
			}
		}
		folder, err := filepath.Abs(filepath.Join(b.dir, strconv.Itoa(b.count)))
		if err != nil {
			return err
		}
		b.count++
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		if err := goTestC(module, folder, now, race); err != nil {
			return err
		}
		for _, p := range now {
			binary := filepath.Join(folder, path.Base(p.path)+".test")
			if _, err := os.Stat(binary); err != nil {
				return fmt.Errorf("go test -c has not built the tests of %s: %w", p.path, err)
			}
			b.jobs = append(b.jobs,
				job{Name: p.path + suffix, Dir: p.dir, Binary: binary, Race: race, Args: args})
		}
		packages = later
	}
	return nil
}

func goTestC(module, folder string, packages pkgs, race bool) error {
	// Vet is a part of make lint. Without debug information the binaries link in two thirds of the
	// time.
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", folder + "/"}
	cgo := "0"
	if race {
		args, cgo = append(args, "-race"), "1"
	}
	for _, p := range packages {
		args = append(args, p.path)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = module, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build the tests in %s: %w", cmp.Or(module, "."), err)
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// private are the folders with modules that are not imported by others.
var private = []string{"cmd", "example", "test", "tools"}

// checkModules checks that other modules can import the nested modules at this version. Go ignores
// their replace directives, so they must require the released version, and each needs its own tag.
func (b builder) checkModules(ctx context.Context, version string) error {
	files, err := git(ctx, b.source.dir, "ls-files", "--", "go.mod", "*/go.mod")
	if err != nil {
		return err
	}
	modules := map[string]*modfile.File{}
	own := map[string]bool{}
	for _, name := range strings.Fields(files) {
		content, err := os.ReadFile(filepath.Join(b.source.dir, name))
		if err != nil {
			return err
		}
		parsed, err := modfile.Parse(name, content, nil)
		if err != nil {
			return err
		}
		folder, _, _ := strings.Cut(name, "/")
		if slices.Contains(private, folder) || parsed.Module == nil {
			continue
		}
		modules[path.Dir(name)], own[parsed.Module.Mod.Path] = parsed, true
	}
	tags, err := git(ctx, b.source.dir, "tag", "--points-at", "HEAD")
	if err != nil {
		return err
	}
	var problems []error
	for dir, module := range modules {
		for _, need := range module.Require {
			if own[need.Mod.Path] && need.Mod.Version != version {
				problems = append(problems, fmt.Errorf(
					"%s/go.mod requires %s %s: run go mod edit -require=%s@%s there, and commit it",
					dir, need.Mod.Path, need.Mod.Version, need.Mod.Path, version))
			}
		}
		if tag := path.Join(dir, version); !slices.Contains(strings.Fields(tags), tag) {
			problems = append(problems,
				fmt.Errorf("module %s needs the tag %s on this commit", dir, tag))
		}
	}
	slices.SortFunc(problems, func(a, b error) int {
		return strings.Compare(a.Error(), b.Error())
	})
	return errors.Join(problems...)
}

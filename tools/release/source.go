package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// source is the checkout that is built.
type source struct {
	dir      string
	version  string    // the commit's tag, or the output of git describe
	revision string    // the commit
	time     time.Time // the commit's time, which files in images and archives have
}

func readSource(ctx context.Context, dir string) (source, error) {
	s := source{dir: dir}
	var err error
	// The tags of nested modules have their folder before the version.
	if s.version, err = git(ctx, dir, "describe", "--tags", "--match", "v[0-9]*", "--always",
		"--dirty"); err != nil {
		return s, err
	}
	if s.revision, err = git(ctx, dir, "rev-parse", "HEAD"); err != nil {
		return s, err
	}
	seconds, err := git(ctx, dir, "log", "-1", "--format=%cI")
	if err != nil {
		return s, err
	}
	s.time, err = time.Parse(time.RFC3339, seconds)
	s.time = s.time.UTC()
	return s, err
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := commandWith(ctx, dir, inherited(), "git", args...)
	return strings.TrimSpace(out), err
}

// command returns the output of a command, with variables beside those of this process. An error
// contains its standard error.
func command(
	ctx context.Context, dir string, env []string, name string, args ...string,
) (string, error) {
	return commandWith(ctx, dir, append(os.Environ(), env...), name, args...)
}

// commandWith is command with these variables alone.
func commandWith(
	ctx context.Context, dir string, env []string, name string, args ...string,
) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	cmd.Env = env
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", cmd, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

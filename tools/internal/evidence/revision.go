package evidence

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Revision is the commit under test. Pages and docs/evidence, which tools write, do not count.
func Revision(ctx context.Context) (string, error) {
	paths := []string{"--", ".", ":!*.md", ":!docs/evidence"}
	commit, err := Output(ctx, "git", append([]string{"log", "-1", "--format=%h"}, paths...)...)
	if err != nil {
		return "", err
	}
	changed, err := Output(ctx, "git", append([]string{"status", "--porcelain"}, paths...)...)
	if err != nil {
		return "", err
	}
	if changed != "" {
		commit += ", changed"
	}
	return commit, nil
}

// Output is what a command prints.
func Output(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

package deps_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A host has a server of its own, so health and metrics must not bring another one.
func TestHost_WithEndpoints_IsAtMost3MBLarger(t *testing.T) {
	const limit = 3 << 20
	size := func(flags ...string) int64 {
		path := filepath.Join(t.TempDir(), "host")
		cmd := exec.CommandContext(t.Context(), "go", slices.Concat(
			[]string{"build", "-ldflags=-s -w", "-o", path}, flags,
			[]string{"./test/deps/host"})...)
		cmd.Dir = filepath.Join("..", "..")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	with, without := size(), size("-tags=plain")
	t.Logf("a host has %d bytes, with endpoints %d more", without, with-without)
	if with-without > limit || with == without {
		t.Errorf("a host has %d bytes, with endpoints %d, want at most %d more", without, with, limit)
	}
}

// General parts belong into provider/internal/kit.
func TestHuaweiCloud_OwnLines_AreAtMost2500(t *testing.T) {
	const limit = 2500
	root := filepath.Join("..", "..", "provider", "huaweicloud")
	lines, files := 0, 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "stub": // the cloud of its tests
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		lines, files = lines+bytes.Count(text, []byte("\n")), files+1
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 || lines > limit {
		t.Errorf("%d files with %d lines, want at most %d", files, lines, limit)
	}
}

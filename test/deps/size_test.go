package deps_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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

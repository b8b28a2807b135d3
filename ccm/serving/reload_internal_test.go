package serving

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
)

func TestReloaded_FileCannotBeReadOrParsed_PreviousValueIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		write := func(content string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("one")
		r, err := load(logr.Discard(), func(contents [][]byte) (string, error) {
			if string(contents[0]) == "garbage" {
				return "", errors.New("garbage")
			}
			return string(contents[0]), nil
		}, path)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			change func()
			want   string
		}{
			{func() { write("two") }, "two"},
			{func() { write("garbage") }, "two"},
			{func() { _ = os.Remove(path) }, "two"},
			{func() { write("three") }, "three"},
		} {
			before := r.get()
			step.change()
			if got := r.get(); got != before {
				t.Errorf("within the interval the value is %q, want %q", got, before)
			}
			time.Sleep(recheckInterval)
			if got := r.get(); got != step.want {
				t.Errorf("after the interval the value is %q, want %q", got, step.want)
			}
		}
	})
}

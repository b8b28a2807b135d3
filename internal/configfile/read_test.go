package configfile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/internal/configfile"
)

func write(t *testing.T, size int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil { // takes no space
		t.Fatal(err)
	}
	return path
}

func TestRead_RegularFileWithinTheLimit_IsRead(t *testing.T) {
	for _, size := range []int64{0, 10, configfile.MaxBytes} {
		content, err := configfile.Read(write(t, size))
		if err != nil || int64(len(content)) != size {
			t.Errorf("%d bytes: %d bytes, %v", size, len(content), err)
		}
	}
}

func TestRead_FileWithoutEndOrTooLarge_IsRefused(t *testing.T) {
	for want, path := range map[string]string{
		"larger than 1 MiB": write(t, configfile.MaxBytes+1),
		"larger than":       write(t, 2<<30),
		"neither a regular": os.DevNull,
		"is a directory":    t.TempDir(),
		"no such file":      filepath.Join(t.TempDir(), "none"),
	} {
		_, err := configfile.Read(path)
		var of *fs.PathError
		if !errors.As(err, &of) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestReadUpTo_AnotherLimit_IsItsOwn(t *testing.T) {
	large := write(t, configfile.MaxBytes+1)
	if content, err := configfile.ReadUpTo(large, 2<<20); err != nil ||
		len(content) != configfile.MaxBytes+1 {
		t.Errorf("%d bytes, %v", len(content), err)
	}
	_, err := configfile.ReadUpTo(write(t, 2<<20+1), 2<<20)
	if err == nil || !strings.Contains(err.Error(), "larger than 2 MiB") {
		t.Errorf("the error is %v", err)
	}
}

func TestCheck_EachFile_AgreesWithRead(t *testing.T) {
	for _, path := range []string{
		write(t, 10), write(t, configfile.MaxBytes+1), os.DevNull, t.TempDir(),
		filepath.Join(t.TempDir(), "none"),
	} {
		_, want := configfile.Read(path)
		if got := configfile.Check(path); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, and Read: %v", path, got, want)
		}
	}
	if err := configfile.Check(""); err != nil {
		t.Errorf("no file: %v", err)
	}
}

func TestRead_Pipe_IsReadUpToTheLimit(t *testing.T) {
	for want, size := range map[string]int{"": 10, "larger than": configfile.MaxBytes + 1} {
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = writer.Write(make([]byte, size))
			_ = writer.Close()
		}()
		content, err := configfile.Read(fmt.Sprintf("/dev/fd/%d", reader.Fd()))
		_ = reader.Close()
		if want == "" && (err != nil || len(content) != size) {
			t.Errorf("%d bytes: %d bytes, %v", size, len(content), err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d bytes: %v, want %q", size, err, want)
		}
	}
}

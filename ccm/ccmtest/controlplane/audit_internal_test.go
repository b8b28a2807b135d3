package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRepair_RemovesAnIncompleteRecord(t *testing.T) {
	t.Parallel()
	long := `{"auditID":"` + strings.Repeat("x", 10_000) + `"}` + "\n"
	for before, after := range map[string]string{
		"":                 "",
		"{}\n":             "{}\n",
		"{}\n{\"audit":     "{}\n",
		"{\"audit":         "",
		long + long[:9000]: long,
	} {
		path := filepath.Join(t.TempDir(), "audit.log")
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := (&AuditLog{path: path}).repair(); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != after {
			t.Errorf("a log of %d bytes has %d after the repair, want %d", len(before), len(got),
				len(after))
		}
	}
}

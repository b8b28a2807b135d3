package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The test runs the command as make lint does, on a package of the library without changes, and
// with an added file that breaks a rule.
func TestVet_PackageOfTheLibraryBreaksARule_Fails(t *testing.T) {
	dir := t.TempDir()
	tool := filepath.Join(dir, "never")
	command(t, ".", "build", "-o", tool, ".").mustSucceed()
	const root, pkg = "../..", "./internal/inflight"
	command(t, root, "vet", "-vettool="+tool, pkg).mustSucceed()

	added, err := filepath.Abs(filepath.Join(root, pkg, "added.go"))
	if err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(dir, "added.go")
	write(t, bad, []byte("package inflight\n\nfunc init() {}\n"))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{added: bad}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "overlay.json"), overlay)
	said := command(t, root, "vet", "-vettool="+tool,
		"-overlay="+filepath.Join(dir, "overlay.json"), pkg).mustFail()
	if !strings.Contains(said, "init: init runs in every program that imports the package") {
		t.Errorf("go vet printed:\n%s", said)
	}
}

type result struct {
	t      *testing.T
	output string
	err    error
}

func command(t *testing.T, dir string, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return result{t, string(out), err}
}

func (r result) mustSucceed() {
	r.t.Helper()
	if r.err != nil {
		r.t.Fatalf("%v:\n%s", r.err, r.output)
	}
}

func (r result) mustFail() string {
	r.t.Helper()
	if r.err == nil {
		r.t.Fatal("the command succeeded, want a failure")
	}
	return r.output
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

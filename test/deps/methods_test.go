package deps_test

import (
	"bufio"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A program that calls a method by its name, such as in text/template, makes the linker keep every
// exported method of every linked type. That is a third of a host.
func TestPrograms_CallNoMethodByItsName(t *testing.T) {
	for _, program := range []string{"./test/deps/host", "./cmd/fxccm"} {
		if callers := callersByName(t, program); len(callers) > 0 {
			t.Errorf("%s links functions that call methods by their names: %s", program,
				strings.Join(callers, ", "))
		}
	}
}

// callersByName returns the functions of a program that the linker has marked for it.
func callersByName(t *testing.T, program string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-dumpdep", "-o",
		filepath.Join(t.TempDir(), "program"), program)
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	callers, last, edges := map[string]bool{}, "", 0
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		last = lines.Text()
		from, _, isEdge := strings.Cut(last, " -> ")
		if isEdge {
			edges++
		}
		// A line is "<function> <marks> -> <used> <marks>".
		if caller, _, marked := strings.Cut(from, " <ReflectMethod>"); marked {
			callers[caller] = true
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("build %s: %v: %s", program, err, last)
	}
	if edges == 0 {
		t.Fatalf("the linker did not print what %s links", program)
	}
	return slices.Sorted(maps.Keys(callers))
}

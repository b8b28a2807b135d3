//go:build linux

package replica

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build builds programs into dir, with the Makefile's flags, so that they share its build cache.
// root is the folder of the project, packages are their paths from there. A program has the name of
// the last folder of its path.
func Build(root, dir string, packages ...string) error {
	args := append([]string{"build", "-o", dir + string(filepath.Separator)},
		packages...)
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf(
			"cannot build the programs that the tests run (%w); \"make test\" says what it takes:\n%s", err, out)
	}
	return nil
}

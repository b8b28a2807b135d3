//go:build linux

package drills_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/test/internal/replica"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// programs are the paths of the drills' programs, set by TestMain. other is the example of
// otherVersion, by default of this version.
var programs struct{ ccm, host, other, otherVersion string }

// planes are the control planes of the package, which are started on demand.
var planes = struct{ shared, frozen *plane }{shared: newPlane(), frozen: newPlane()}

// machine records the periods in which the machine was too busy.
var machine stalls

var update = flag.Bool("update", false, "write the results to docs/evidence/drills.md")

// all reports whether all cells run, or only some.
func all() bool { return os.Getenv("FXCCM_DRILLS") == "all" }

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(suite.Quietly(func() int { return runSuite(m) }))
}

func runSuite(m *testing.M) (code int) {
	// Cells mostly wait; the lanes limit how many of them run in parallel.
	if err := flag.Set("test.parallel", "256"); err != nil {
		return suite.Failed(err)
	}
	dir, err := os.MkdirTemp("", "fxccm-drills-bin-")
	if err != nil {
		return suite.Failed(err)
	}
	defer func() {
		err := errors.Join(planes.shared.stop(), planes.frozen.stop(), os.RemoveAll(dir))
		if err != nil {
			code = max(code, suite.Failed(err))
		}
	}()
	if err := replica.Build(filepath.Join("..", ".."), dir, "./cmd/fxccm",
		"./test/drills/host"); err != nil {
		return suite.Failed(err)
	}
	programs.ccm, programs.host = filepath.Join(dir, "fxccm"), filepath.Join(dir, "host")
	programs.other, programs.otherVersion = programs.ccm, "this version"
	if commit := os.Getenv("FXCCM_DRILLS_OTHER"); commit != "" {
		if programs.other, programs.otherVersion, err = buildOther(dir, commit); err != nil {
			return suite.Failed(err)
		}
	}
	observing, stop := context.WithCancel(context.Background())
	defer stop()
	go machine.observe(observing)
	code = m.Run()
	if longest := machine.longest(); longest > 0 {
		fmt.Printf("The machine was busy: the drills did not get to run for up to %s.\n", longest)
	}
	if err := report(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// buildOther builds the program of another commit.
func buildOther(dir, commit string) (program, version string, err error) {
	source := filepath.Join(dir, "source")
	if err := os.Mkdir(source, 0o755); err != nil {
		return "", "", err
	}
	unpack := exec.Command("sh", "-c", `git -C ../.. archive "$1" | tar -x -C "$2"`, "sh", commit,
		source)
	if out, err := unpack.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("unpack %s: %w: %s", commit, err, out)
	}
	out, err := exec.Command("git", "log", "-1", "--format=%h of %cs", commit).Output()
	if err != nil {
		return "", "", fmt.Errorf("describe %s: %w", commit, err)
	}
	bin := filepath.Join(dir, "other")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return "", "", err
	}
	folder := "./cmd/fxccm"
	if _, err := os.Stat(filepath.Join(source, folder)); err != nil {
		folder = "./example" // where it was in earlier commits
	}
	err = replica.Build(source, bin, folder)
	return filepath.Join(bin, filepath.Base(folder)), strings.TrimSpace(string(out)), err
}

func (p *plane) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ControlPlane == nil {
		return nil
	}
	return p.Stop(context.Background())
}

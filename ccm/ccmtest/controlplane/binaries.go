package controlplane

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// assetsEnv is a convention of controller-runtime's envtest.
const assetsEnv = "KUBEBUILDER_ASSETS"

const projectModule = "github.com/fxccm/fxccm"

// ErrNoBinaries is wrapped by the error of [FindBinaries] and [Start] when there is no
// kube-apiserver or no etcd to start.
var ErrNoBinaries = errors.New("no control plane to test with")

// Binaries are the paths of the executables of a control plane.
type Binaries struct {
	APIServer string
	Etcd      string
}

// FindBinaries looks for kube-apiserver and etcd: in the folder that KUBEBUILDER_ASSETS names if it
// is set, otherwise in bin/controlplane of this project, which is found by walking up from the
// working directory to its go.mod. It does not look in PATH, because the version there is unknown.
//
// The error wraps [ErrNoBinaries] and says what to do.
func FindBinaries() (Binaries, error) {
	if dir := os.Getenv(assetsEnv); dir != "" {
		return binariesIn(dir,
			fmt.Sprintf("correct %s, or unset it and run `make controlplane`", assetsEnv))
	}
	root, err := projectRoot()
	if err != nil {
		return Binaries{}, err
	}
	if root == "" {
		return Binaries{},
			fmt.Errorf("%w: set %s to a folder that holds kube-apiserver and etcd", ErrNoBinaries,
				assetsEnv)
	}
	return binariesIn(filepath.Join(root, "bin", "controlplane"),
		fmt.Sprintf(
			"run `make controlplane`, or set %s to a folder that holds kube-apiserver and etcd",
			assetsEnv))
}

func binariesIn(dir, advice string) (Binaries, error) {
	found := Binaries{APIServer: executable(dir, "kube-apiserver"), Etcd: executable(dir, "etcd")}
	var missing []string
	for _, path := range []string{found.APIServer, found.Etcd} {
		if _, err := exec.LookPath(path); err != nil {
			missing = append(missing, filepath.Base(path))
		}
	}
	if len(missing) > 0 {
		return Binaries{},
			fmt.Errorf("%w: %s holds no executable %s: %s", ErrNoBinaries, dir,
				strings.Join(missing, " and no "), advice)
	}
	return found, nil
}

func executable(dir, name string) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(dir, name)
}

// projectRoot is the folder of this project's go.mod at or above the working directory, or "" when
// the caller is another project.
func projectRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("look for the project's folder: %w", err)
	}
	for {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && declaresModule(string(data), projectModule) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", nil
		}
		dir = parent
	}
}

func declaresModule(gomod, module string) bool {
	for line := range strings.Lines(gomod) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "module" {
			return strings.Trim(fields[1], `"`) == module
		}
	}
	return false
}

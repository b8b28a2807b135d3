package controlplane_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

func TestFindBinaries_NoneExists_ErrorSaysWhatToDo(t *testing.T) {
	empty := t.TempDir()
	project := t.TempDir()
	inside := filepath.Join(project, "some", "package")
	if err := os.MkdirAll(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(project, "go.mod"),
		[]byte("// comment\nmodule github.com/fxccm/fxccm\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	half := t.TempDir()
	if err := os.WriteFile(filepath.Join(half, "kube-apiserver"), nil, 0o700); err != nil {
		t.Fatal(err)
	}

	for name, test := range map[string]struct {
		assets, dir string
		want        []string
	}{
		"the assets folder is empty": {empty, inside, []string{
			empty, "kube-apiserver", "etcd", "unset it and run `make controlplane`",
		}},
		"one is missing":     {half, inside, []string{half + " holds no executable etcd"}},
		"nothing is built":   {"", inside, []string{filepath.Join(project, "bin", "controlplane"), "run `make controlplane`", "KUBEBUILDER_ASSETS"}},
		"in another project": {"", empty, []string{"set KUBEBUILDER_ASSETS"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBEBUILDER_ASSETS", test.assets)
			t.Chdir(test.dir)
			_, err := controlplane.Start(t.Context(), controlplane.Options{})
			if !errors.Is(err, controlplane.ErrNoBinaries) {
				t.Fatalf("Start: %v, want ErrNoBinaries", err)
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error %q does not mention %q", err, part)
				}
			}
		})
	}
}

func TestFindBinaries_WhenAssetsAreSet_TakesThem(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"kube-apiserver", "etcd"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	found, err := controlplane.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(found.APIServer) != dir || filepath.Dir(found.Etcd) != dir {
		t.Errorf("found %v, want those of %s", found, dir)
	}
}

package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// built returns the folder of a release of a checkout.
func built(t *testing.T, dir string) string {
	t.Helper()
	if err := in(t, dir, "all", "-image", "images.example.org/ccm", version); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "bin", "release", version)
}

func TestRelease_BuiltTwiceFromTheSameCommit_HasTheSameFiles(t *testing.T) {
	var sums []string
	for _, dir := range []string{checkout(t), checkout(t)} {
		sums = append(sums, string(read(t, filepath.Join(built(t, dir), checksumFile))))
	}
	if sums[0] != sums[1] {
		t.Errorf("two builds of one commit in two folders differ:\n%s\n%s", sums[0], sums[1])
	}
}

func TestArchives_OfEachPlatform_HaveProgramLicenseAndCompletion(t *testing.T) {
	out := built(t, checkout(t))
	for _, of := range releasePlatforms {
		name := filepath.Join(out, "fxccm_v0.3.0_"+of.os+"_"+of.arch)
		program, files := "fxccm", map[string][]byte(nil)
		if of.os == "windows" {
			program, files = "fxccm.exe", unzip(t, name+".zip")
		} else {
			packed, err := gzip.NewReader(bytes.NewReader(read(t, name+".tar.gz")))
			if err != nil {
				t.Fatal(err)
			}
			files = unpack(t, packed)
		}
		want := []string{
			"LICENSE", "README.md", "completions/_fxccm", "completions/fxccm.bash",
			"completions/fxccm.fish", program,
		}
		if names := slices.Sorted(maps.Keys(files)); !slices.Equal(names, want) {
			t.Errorf("%s: files %q, want %q", of, names, want)
		}
		for name, want := range map[string]string{
			"completions/fxccm.bash": "it runs v3 completion bash\n",
			"completions/_fxccm":     "it runs v3 completion zsh\n",
			"completions/fxccm.fish": "it runs v3 completion fish\n",
			"LICENSE":                "a license\n",
		} {
			if got := string(files[name]); got != want {
				t.Errorf("%s: %s is %q, want %q", of, name, got, want)
			}
		}
	}
}

func unzip(t *testing.T, path string) map[string][]byte {
	t.Helper()
	archive, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	files := map[string][]byte{}
	for _, each := range archive.File {
		reader, err := each.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[each.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// tool builds a program of another project, if it is not built yet.
func tool(t *testing.T, name string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "bin", filepath.FromSlash(name))
	target := filepath.Join(filepath.Dir(path), filepath.Base(filepath.Dir(path)))
	if _, err := command(t.Context(), root, []string{"MAKEFLAGS=", "GOFLAGS="},
		"make", "--no-print-directory", target); err != nil {
		t.Fatal(err)
	}
	return path
}

// Krew itself validates the manifest, and installs the real program from its archive.
func TestKrew_ArchiveOfEachPlatform_IsInstalledAsPlugin(t *testing.T) {
	krew, validator := tool(t, "krew/krew"), tool(t, "krew/validate-krew-manifest")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	source, err := readSource(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	source.version = version
	b := builder{source: source, progress: io.Discard}
	fxccm := filepath.Join(t.TempDir(), "fxccm")
	// The other tests build the program in the same way, which costs only a link.
	if _, err := command(t.Context(), root, []string{"CGO_ENABLED=0"},
		"go", "build", "-ldflags=-s -w", "-o", fxccm, "./cmd/fxccm"); err != nil {
		t.Fatal(err)
	}
	host := platform{runtime.GOOS, runtime.GOARCH}
	binaries := []binary{{host, fxccm}}
	for _, of := range releasePlatforms {
		if of != host {
			binaries = append(binaries, binary{of, fxccm})
		}
	}
	dir := t.TempDir()
	archives, err := b.writeArchives(t.Context(), dir, binaries)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.writeKrewManifest(dir, archives); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(dir, krewFile)
	if _, err := command(t.Context(), dir, nil, validator,
		"-manifest="+manifest, "-skip-install"); err != nil {
		t.Error(err)
	}
	for _, each := range archives {
		installed := t.TempDir()
		env := []string{
			"KREW_ROOT=" + installed, "KREW_OS=" + each.platform.os,
			"KREW_ARCH=" + each.platform.arch,
		}
		if _, err := command(t.Context(), dir, env, krew, "install",
			"--manifest="+manifest, "--archive="+each.path); err != nil {
			t.Errorf("%s: %v", each.platform, err)
			continue
		}
		kept, err := filepath.Glob(filepath.Join(installed, "store", "fxccm", version, "*"))
		if err != nil || len(kept) != 2 || filepath.Base(kept[0]) != "LICENSE" ||
			filepath.Base(kept[1]) != each.program {
			t.Errorf("%s: installed %q, want program and license", each.platform, kept)
		}
		if each.platform != host {
			continue
		}
		plugin := filepath.Join(installed, "bin", "kubectl-fxccm")
		out, err := command(t.Context(), dir, nil, plugin, "version")
		if err != nil || !strings.Contains(out, "k8s.io/cloud-provider") {
			t.Errorf("kubectl-fxccm version: %q, %v", out, err)
		}
		if out, err := command(t.Context(), dir, nil, plugin, "--help"); err != nil ||
			!strings.Contains(out, "kubectl fxccm") {
			t.Errorf("kubectl-fxccm --help: %q, %v", out, err)
		}
		completer := filepath.Join(t.TempDir(), "kubectl_complete-fxccm")
		if err := os.Symlink(plugin, completer); err != nil {
			t.Fatal(err)
		}
		if out, err := command(t.Context(), dir, nil, completer, "status", "-o", ""); err != nil ||
			out != "json\nyaml\n:4\n" {
			t.Errorf("kubectl_complete-fxccm: %q, %v", out, err)
		}
	}
	if _, err := command(t.Context(), dir, []string{"KREW_ROOT=" + t.TempDir()}, krew, "install",
		"--manifest="+manifest, "--archive="+fxccm); err == nil {
		t.Error("krew installed an archive with another checksum")
	}
}

func TestKrew_Manifest_NamesTheFilesOfTheRelease(t *testing.T) {
	out := built(t, checkout(t))
	var manifest plugin
	if err := yaml.UnmarshalStrict(read(t, filepath.Join(out, krewFile)), &manifest); err != nil {
		t.Fatal(err)
	}
	sums := string(read(t, filepath.Join(out, checksumFile)))
	for _, each := range manifest.Spec.Platforms {
		name, ok := strings.CutPrefix(each.URI,
			"https://github.com/fxccm/fxccm/releases/download/"+version+"/")
		if !ok || !strings.Contains(sums, each.SHA256+"  "+name+"\n") {
			t.Errorf("%s with %s is no file of the release:\n%s", each.URI, each.SHA256, sums)
		}
	}
	if len(manifest.Spec.Platforms) != len(releasePlatforms) {
		t.Errorf("platforms: %+v", manifest.Spec.Platforms)
	}
}

package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"github.com/fxccm/fxccm/test/commandblocks"
)

const version = "v0.3.0"

// make lint must build for all platforms of a release.
func TestPlatforms_OfARelease_AreThoseOfMakeLint(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	want := "\nPLATFORMS := " + strings.Trim(fmt.Sprint(releasePlatforms), "[]") + "\n"
	if !strings.Contains(string(makefile), want) {
		t.Errorf("the Makefile lacks %q", want)
	}
}

// nested is a module below the program's, which other modules import.
const nested = "hosting/library"

// checkout is a repository with a small program that needs one module, and two nested modules. Its
// commit is tagged.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "go.mod",
		"module example.org/program\n\ngo 1.26.0\n\nrequire "+
			strings.Replace(dependency(t), "@", " ", 1)+"\n")
	write(t, dir, "go.sum", string(sums))
	require := func(module, version string) string {
		return "module example.org/program/" + module +
			"\n\nreplace example.org/program => ../..\n\n" +
			"require example.org/program " + version + "\n"
	}
	write(t, dir, nested+"/go.mod", require(nested, version))
	write(t, dir, "test/own/go.mod", require("test/own", "v0.0.0-00010101000000-000000000000"))
	write(t, dir, "cmd/fxccm/main.go", `package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/mod/semver"
)

func main() { fmt.Println("it runs", semver.Major("v3.1.4"), strings.Join(os.Args[1:], " ")) }
`)
	write(t, dir, "LICENSE", "a license\n")
	write(t, dir, "README.md", "read it\n")
	write(t, dir, changelogFile,
		"# Changes\n\n## "+version+" - 2026-11-01\n\n* The first.\n\n## v0.2.0\n\nOlder.\n")
	if err := os.CopyFS(filepath.Join(dir, chartDir),
		os.DirFS(filepath.Join("../..", chartDir))); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"add", "."},
		{
			"-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "--quiet",
			"--message", "All", "--date", "2026-11-01T12:00:00Z",
		},
		{"tag", nested + "/" + version},
		{"tag", version},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-11-01T12:00:00Z")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	return dir
}

// dependency returns a module and its version whose checksum is in go.sum.
func dependency(t *testing.T) string {
	t.Helper()
	out, err := command(t.Context(), ".", nil, "go", "list", "-m", "golang.org/x/mod")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(strings.TrimSpace(out), " ", "@")
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// in runs the command in the checkout.
func in(t *testing.T, dir string, args ...string) error {
	t.Helper()
	t.Chdir(dir)
	return run(t.Context(), args, io.Discard)
}

func TestImage_BuiltTwiceFromTheSameCommit_IsTheSameFile(t *testing.T) {
	var files [][]byte
	for i, dir := range []string{checkout(t), checkout(t)} {
		if i > 0 {
			chooseOtherCode(t, dir)
		}
		out := filepath.Join(t.TempDir(), "image.tar")
		if err := in(t, dir, "image", "-out", out); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, content)
	}
	if !slices.Equal(files[0], files[1]) {
		t.Error("two builds of one commit in two folders differ")
	}
}

// chooseOtherCode sets variables that choose another code for a checkout, in the environment and
// as "go env -w" does.
func chooseOtherCode(t *testing.T, dir string) {
	t.Helper()
	other := t.TempDir()
	write(t, other, "go.work",
		"go 1.26.0\n\nuse "+dir+"\n\nreplace golang.org/x/mod => ./mod\n")
	write(t, other, "mod/go.mod", "module golang.org/x/mod\n\ngo 1.26.0\n")
	write(t, other, "mod/semver/semver.go",
		"package semver\n\nfunc Major(string) string { return \"replaced\" }\n")
	write(t, other, "env", "GOFLAGS=-tags=other -ldflags=-X=main.other=1\n")
	for name, value := range map[string]string{
		"GOENV": filepath.Join(other, "env"), "GOWORK": filepath.Join(other, "go.work"),
		"GOFLAGS": "", "GOAMD64": "v3", "GOARM64": "v9.0", "GOFIPS140": "latest",
		"GOROOT": other, "GIT_DIR": other, "GIT_WORK_TREE": other,
	} {
		t.Setenv(name, value)
	}
}

// The image has the certificates of the module that is linked into this program.
func TestMakefile_ToolOfReleases_HasNoCodeOfTheEnvironment(t *testing.T) {
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, recipe, _ := strings.Cut(string(text), "\nBUILD_RELEASE = ")
	recipe, _, _ = strings.Cut(recipe, "\n")
	for _, variable := range []string{"GOROOT= ", "GOWORK=off ", "GOFLAGS='-mod=readonly "} {
		if !strings.Contains(recipe, variable) {
			t.Errorf("the tool is built without %s: %s", variable, recipe)
		}
	}
}

// fromPage returns the arguments of this program in the page's command, with another address of the
// registry, and the reference to which it pushes.
func fromPage(t *testing.T, registryAddress string) (args []string, reference string) {
	t.Helper()
	const page = "../../docs/how-to/run-on-openstack.md"
	commands, err := commandblocks.RunBy("tools/release", page)
	if err != nil || len(commands) != 1 {
		t.Fatalf("the page has %v, %v, want one command", commands, err)
	}
	words, err := commands[0].Args("make")
	if err != nil {
		t.Fatalf("%s:%v", page, err)
	}
	for i, word := range words {
		words[i] = strings.Replace(word, "registry.example.com", registryAddress, 1)
		if after, ok := strings.CutPrefix(words[i], "PUSH="+registryAddress); ok {
			reference = registryAddress + after
		}
	}
	recipe, err := command(t.Context(), "../..", []string{"MAKEFLAGS="},
		"make", append([]string{"--dry-run", "--no-print-directory"}, words...)...)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(recipe, "release-tool image ")
	if !found || reference == "" {
		t.Fatalf("%s does not push an image: %s", commands[0].Text, recipe)
	}
	return append([]string{"image"}, strings.Fields(rest)...), reference
}

func TestImage_PushedAsOnThePage_ContainsTheProgramAndAuthoritiesForEachPlatform(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	args, reference := fromPage(t, strings.TrimPrefix(server.URL, "http://"))
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := in(t, checkout(t), append(args, "-out", archive)...); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if got := manifest.Annotations["org.opencontainers.image.version"]; got != version {
		t.Errorf("the index's version is %q", got)
	}
	var platforms []string
	for _, each := range manifest.Manifests {
		platforms = append(platforms, each.Platform.String())
		image, err := index.Image(each.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, image, each.Platform.Architecture)
	}
	if fmt.Sprint(platforms) != "[linux/amd64 linux/arm64]" {
		t.Errorf("platforms: %v", platforms)
	}
	if pushed, filed := digest(t, index), archiveDigest(t, archive); pushed != filed {
		t.Errorf("pushed %s, but the archive contains %s", pushed, filed)
	}
}

func checkImage(t *testing.T, image v1.Image, arch string) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != user || config.Architecture != arch ||
		fmt.Sprint(config.Config.Entrypoint) != "[/fxccm]" {
		t.Errorf("%s: config %+v", config.Architecture, config.Config)
	}
	files := unpack(t, mutate.Extract(image))
	if len(files) != 2 || !strings.Contains(string(files["etc/ssl/certs/ca-certificates.crt"]),
		"BEGIN CERTIFICATE") {
		t.Errorf("%s: %d files, want the program and the authorities", arch, len(files))
	}
	program := filepath.Join(t.TempDir(), "fxccm")
	if err := os.WriteFile(program, files["fxccm"], 0o755); err != nil {
		t.Fatal(err)
	}
	if hostArch, _ := command(t.Context(), ".", nil, "go", "env",
		"GOARCH"); strings.TrimSpace(hostArch) != arch {
		return // cannot run here
	}
	if out, err := command(t.Context(), ".", nil, program); err != nil || out != "it runs v3 \n" {
		t.Errorf("the program in the image: %q, %v", out, err)
	}
}

// unpack returns the files of a tar archive.
func unpack(t *testing.T, archive io.ReadCloser) map[string][]byte {
	t.Helper()
	defer archive.Close()
	files := map[string][]byte{}
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		if files[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
}

func digest(t *testing.T, index v1.ImageIndex) v1.Hash {
	t.Helper()
	hash, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// archiveDigest reads the archive as a container engine does.
func archiveDigest(t *testing.T, path string) v1.Hash {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range unpack(t, file) {
		write(t, dir, name, string(content))
	}
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(outer); err != nil {
		t.Error(err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%v, %v", manifest, err)
	}
	return manifest.Manifests[0].Digest
}

func TestImage_RegistryRefuses_IsAnErrorThatNamesTheReference(t *testing.T) {
	server := httptest.NewServer(nil) // answers 404
	defer server.Close()
	reference := strings.TrimPrefix(server.URL, "http://") + "/fxccm:x"
	err := in(t, checkout(t), "image", "-out", filepath.Join(t.TempDir(), "i"), "-push", reference)
	if err == nil || !strings.Contains(err.Error(), "push "+reference) {
		t.Errorf("error: %v", err)
	}
}

func TestRelease_Built_ContainsBinariesImageBillsChangesAndChecksums(t *testing.T) {
	dir := checkout(t)
	if err := in(t, dir, "all", "-image", "images.example.org/ccm", version); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "bin", "release", version)
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	want := []string{
		"CHANGELOG.md", "SHA256SUMS", "fxccm-0.3.0.tgz", "fxccm-v0.3.0-chart.cdx.json",
		"fxccm-v0.3.0-image.tar", "fxccm.yaml",
		"fxccm_v0.3.0_darwin_arm64.cdx.json", "fxccm_v0.3.0_darwin_arm64.tar.gz",
		"fxccm_v0.3.0_linux_amd64.cdx.json", "fxccm_v0.3.0_linux_amd64.tar.gz",
		"fxccm_v0.3.0_linux_arm64.cdx.json", "fxccm_v0.3.0_linux_arm64.tar.gz",
		"fxccm_v0.3.0_windows_amd64.cdx.json", "fxccm_v0.3.0_windows_amd64.zip",
	}
	if !slices.Equal(names, want) {
		t.Errorf("files: %q\nwant %q", names, want)
	}
	if text, err := command(t.Context(), out, nil, "sha256sum", "--check", "--strict",
		"SHA256SUMS"); err != nil ||
		strings.Count(text, ": OK") != len(want)-1 {
		t.Errorf("checksums: %v\n%s", err, text)
	}
	file, err := os.Open(filepath.Join(out, "fxccm_v0.3.0_linux_arm64.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(file, cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, each := range *bom.Components {
		urls = append(urls, each.PackageURL)
	}
	for _, each := range append(*bom.Components, *bom.Metadata.Component) {
		// The toolchain has no checksum in a binary.
		if each.Name != "std" && (each.Hashes == nil || len((*each.Hashes)[0].Value) != 64) {
			t.Errorf("bill of materials: %s has no hash", each.Name)
		}
	}
	if len(urls) != 3 || !strings.HasPrefix(urls[0], "pkg:golang/std@1.") ||
		urls[1] != "pkg:golang/"+dependency(t) ||
		!strings.HasPrefix(urls[2], "pkg:golang/"+authoritiesModule+"@v") ||
		bom.Metadata.Component.Version != version {
		t.Errorf("bill of materials: %q of %+v", urls, bom.Metadata.Component)
	}
	if changes, err := os.ReadFile(filepath.Join(out, changelogFile)); string(
		changes) != "* The first.\n" {
		t.Errorf("changes: %q, %v", changes, err)
	}
	packaged, err := loader.Load(filepath.Join(out, "fxccm-0.3.0.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(packaged.Metadata.Version, " ", packaged.Metadata.AppVersion, " ",
		packaged.Values["image"].(map[string]any)["repository"]); got !=
		"0.3.0 v0.3.0 images.example.org/ccm" {
		t.Errorf("the chart's package has %s", got)
	}
	if err := in(t, dir, "all", version); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("a second build: %v, want an error", err)
	}
}

func TestRelease_CheckoutIsNotReady_IsRefusedAndWritesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(t *testing.T, dir string)
		version string
		want    string
	}{
		"not a version":     {version: "3", want: `version "3": want one like v1.2.3`},
		"not the whole one": {version: "v0.3", want: "want one like v1.2.3"},
		"another's tag":     {version: "v0.4.0", want: "the checkout is v0.3.0, not v0.4.0"},
		"changes since":     {change: edit, version: version, want: "the checkout is v0.3.0-dirty"},
		"without changes":   {change: forget, version: version, want: `no section "## v0.3.0"`},
		"a module's tag": {
			change: untag, version: version,
			want: "module hosting/library needs the tag hosting/library/v0.3.0",
		},
		"a module's requirement": {
			change: requireOlder, version: version,
			want: "hosting/library/go.mod requires example.org/program v0.2.0: run go mod edit " +
				"-require=example.org/program@v0.3.0 there",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := checkout(t)
			if test.change != nil {
				test.change(t, dir)
			}
			err := in(t, dir, "all", test.version)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error: %v, want %q", err, test.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "bin")); err == nil {
				t.Error("files were written")
			}
		})
	}
}

func edit(t *testing.T, dir string) { write(t, dir, "cmd/fxccm/main.go", "package main\n") }

// forget removes the section from the tagged commit.
func forget(t *testing.T, dir string) {
	write(t, dir, changelogFile, "# Changes\n")
	commit(t, dir, version, nested+"/"+version)
}

// untag removes the tag of the nested module.
func untag(t *testing.T, dir string) {
	if _, err := command(t.Context(), dir, nil, "git", "tag", "--delete",
		nested+"/"+version); err != nil {
		t.Fatal(err)
	}
}

// requireOlder makes the nested module require the previous version.
func requireOlder(t *testing.T, dir string) {
	write(t, dir, nested+"/go.mod",
		"module example.org/program/"+nested+"\n\nrequire example.org/program v0.2.0\n")
	commit(t, dir, version, nested+"/"+version)
}

// commit commits all changes, and moves the tags.
func commit(t *testing.T, dir string, tags ...string) {
	t.Helper()
	all := [][]string{{
		"-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "--quiet", "--all",
		"--message", "Change",
	}}
	for _, tag := range tags {
		all = append(all, []string{"tag", "--force", tag})
	}
	for _, args := range all {
		if _, err := command(context.Background(), dir, nil, "git", args...); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzChangelogSection(f *testing.F) {
	f.Add("## v1.0.0\n\ntext\n## v0.9.0\n", "v1.0.0")
	f.Add("## v1.0.0", "v1.0.0")
	f.Fuzz(func(t *testing.T, changelog, version string) {
		section, err := changelogSection(changelog, version)
		if err == nil &&
			(strings.TrimSpace(section) == "" ||
				!strings.Contains(changelog, strings.TrimSpace(section))) {
			t.Errorf("section %q of %q", section, changelog)
		}
	})
}

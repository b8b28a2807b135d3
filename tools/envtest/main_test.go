package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// archive returns a release with programs that print their names.
func archive(t *testing.T, names ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	files := tar.NewWriter(compressed)
	for _, name := range names {
		content := "#!/bin/sh\necho " + name + "\n"
		if err := files.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: "controller-tools/envtest/" + name, Mode: 0o755,
			Size: int64(len(content)),
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(files, content); err != nil {
			t.Fatal(err)
		}
	}
	for _, closer := range []io.Closer{files, compressed} {
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// serve serves an index with the content as two versions. hash replaces the correct hash, unless it
// is empty.
func serve(t *testing.T, content []byte, hash string) string {
	t.Helper()
	if hash == "" {
		hash = fmt.Sprintf("%x", sha512.Sum512(content))
	}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("/archive",
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) })
	mux.HandleFunc("/old", func(http.ResponseWriter, *http.Request) {
		t.Error("the old patch release was downloaded")
	})
	mux.HandleFunc("/index", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "releases:")
		for _, each := range []struct{ version, path string }{
			{"v1.37.0", "old"},
			{"v1.37.2", "archive"},
		} {
			fmt.Fprintf(w,
				"  %s:\n    envtest-%s-%s-%s.tar.gz:\n      hash: %s\n      selfLink: %s/%s\n",
				each.version, each.version, runtime.GOOS, runtime.GOARCH, hash, server.URL,
				each.path)
		}
	})
	return server.URL + "/index"
}

func TestDownload_NewestPatchRelease_IsInstalledAndRuns(t *testing.T) {
	dir := t.TempDir()
	index := serve(t, archive(t, "etcd", "kubectl", "kube-apiserver"), "")
	if err := download(t.Context(), index, "1.37.1", dir, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, name := range programs {
		out, err := exec.Command(filepath.Join(dir, name)).Output()
		if err != nil || string(out) != name+"\n" {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
}

func TestDownload_Fails_ErrorNamesTheCauseAndNoProgramIsInstalled(t *testing.T) {
	whole := archive(t, "etcd", "kube-apiserver")
	for name, test := range map[string]struct {
		index   func(*testing.T) string
		version string
		want    string
	}{
		"wrong checksum": {
			index: func(t *testing.T) string { return serve(t, whole, strings.Repeat("0", 128)) },
			want:  "checksum mismatch",
		},
		"incomplete archive": {
			index: func(t *testing.T) string { return serve(t, archive(t, "etcd"), "") },
			want:  "kube-apiserver",
		},
		"not an archive": {
			index: func(t *testing.T) string { return serve(t, []byte("<html>"), "") },
			want:  "un-gz",
		},
		"no such minor version": {
			index:   func(t *testing.T) string { return serve(t, whole, "") },
			version: "1.99.0", want: "the index has no release 1.99",
		},
		"no index": {
			index: func(t *testing.T) string {
				server := httptest.NewServer(http.NotFoundHandler())
				t.Cleanup(server.Close)
				return server.URL
			},
			want: "404",
		},
		"nothing listens": {
			index: func(*testing.T) string { return "http://127.0.0.1:1/index" },
			want:  "connection refused",
		},
		"switched off":  {index: func(*testing.T) string { return "none" }, want: "ENVTEST_INDEX=none"},
		"not a version": {index: func(*testing.T) string { return "" }, version: "new", want: `version "new"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			version := test.version
			if version == "" {
				version = "1.37.1"
			}
			err := download(t.Context(), test.index(t), version, dir, io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "kube-apiserver")); err == nil {
				t.Error("a program was installed")
			}
		})
	}
}

func TestDownload_IndexDoesNotAnswer_EndsWithItsContext(t *testing.T) {
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(hang)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := download(ctx, server.URL, "1.37.1", t.TempDir(), io.Discard); err == nil {
		t.Error("no error")
	}
}

// The build script installs the release from the index, and compiles nothing.
func TestBuildScript_WithAnIndex_DownloadsInsteadOfBuilding(t *testing.T) {
	said := runBuildScript(t, project(t), serve(t, archive(t, programs...), ""))
	if strings.Contains(said, "compile") {
		t.Errorf("the script compiles:\n%s", said)
	}
}

// In this test, the modules of the control plane are small programs with the same names and
// versions.
func TestBuildScript_IndexFails_BuildsBothPrograms(t *testing.T) {
	notFound := httptest.NewServer(http.NotFoundHandler())
	defer notFound.Close()
	damaged := serve(t, archive(t, programs...), strings.Repeat("0", 128))
	for name, index := range map[string]string{
		"no index": notFound.URL, "wrong checksum": damaged, "switched off": "none",
	} {
		t.Run(name, func(t *testing.T) {
			root := project(t)
			write(t, root, "tools/controlplane/go.mod", `module controlplane

go 1.26.0

require (
	go.etcd.io/etcd/server/v3 v3.7.0
	k8s.io/kubernetes v1.37.1
)

replace (
	go.etcd.io/etcd/server/v3 => ./etcd
	k8s.io/kubernetes => ./kubernetes
)
`)
			write(t, root, "tools/controlplane/go.sum", "")
			for folder, module := range map[string]string{
				"etcd": "go.etcd.io/etcd/server/v3", "kubernetes": "k8s.io/kubernetes",
			} {
				folder = "tools/controlplane/" + folder
				write(t, root, folder+"/go.mod", "module "+module+"\n\ngo 1.26.0\n")
			}
			const program = "package main\n\nimport \"os\"\n\n" +
				"func main() { os.Stdout.WriteString(%q) }\n"
			write(t, root, "tools/controlplane/etcd/main.go", fmt.Sprintf(program, "etcd\n"))
			write(t, root, "tools/controlplane/kubernetes/cmd/kube-apiserver/main.go",
				fmt.Sprintf(program, "kube-apiserver\n"))
			said := runBuildScript(t, root, index)
			for _, want := range []string{
				"cannot download", "built " + filepath.Join(root, "bin/controlplane/etcd"),
				"built both in ",
			} {
				if !strings.Contains(said, want) {
					t.Errorf("it does not print %q:\n%s", want, said)
				}
			}
			if said := runBuildScript(t, root, index); said != "" {
				t.Errorf("it does not use the programs again:\n%s", said)
			}
		})
	}
}

// In this test, a module proxy has the modules of Kubernetes, as small programs.
func TestBuildScript_WithAVersion_BuildsItAsItsGoModSays(t *testing.T) {
	root, proxy, assets := project(t), t.TempDir(), t.TempDir()
	publish(t, proxy, "k8s.io/kubernetes", "v1.31.14", map[string]string{
		"go.mod": `module k8s.io/kubernetes

go 1.21.0

godebug (
	default=go1.20
)

require k8s.io/component-base v0.0.0

replace (
	k8s.io/component-base => ./staging/src/k8s.io/component-base
)
`,
		"cmd/kube-apiserver/main.go": `package main

import (
	"fmt"
	"runtime/debug"

	"k8s.io/component-base/version"
)

func main() {
	info, _ := debug.ReadBuildInfo()
	for _, setting := range info.Settings {
		if setting.Key == "DefaultGODEBUG" {
			fmt.Println(version.Get(), setting.Value)
		}
	}
}
`,
	})
	publish(t, proxy, "k8s.io/component-base", "v0.31.14", map[string]string{
		"go.mod": "module k8s.io/component-base\n\ngo 1.21.0\n",
		"version/version.go": "package version\n\nvar gitVersion, gitMajor, gitMinor string\n\n" +
			"func Get() string { return gitVersion + \" \" + gitMajor + \" \" + gitMinor }\n",
	})
	build := func(version string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "bash",
			filepath.Join(root, "tools/controlplane/build.sh"), version)
		cmd.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+assets, "GOPROXY=file://"+proxy,
			"GOSUMDB=off", "GOFLAGS=-modcacherw", "GOMODCACHE="+t.TempDir())
		said, err := cmd.CombinedOutput()
		return string(said), err
	}
	if said, err := build("v1.31.14"); err == nil || !strings.Contains(said, "no executable") {
		t.Errorf("without an etcd: %v, %s", err, said)
	}
	for _, name := range programs {
		write(t, assets, name, "#!/bin/sh\necho "+name+"\n")
		if err := os.Chmod(filepath.Join(assets, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if said, err := build("v1.31.15"); err == nil ||
		!strings.Contains(said, "cannot download the module k8s.io/kubernetes v1.31.15") {
		t.Errorf("a version that the proxy lacks: %v, %s", err, said)
	}
	if said, err := build("v1.31.14"); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for name, want := range map[string]string{
		"kube-apiserver": "v1.31.14 1 31 ", "etcd": "etcd\n",
	} {
		out, err := exec.CommandContext(t.Context(),
			filepath.Join(root, "bin/kubernetes/v1.31.14", name)).Output()
		if err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("%s: %q, %v, want %q", name, out, err, want)
		}
		if name == "kube-apiserver" && !strings.Contains(string(out), "panicnil=1") {
			t.Errorf("the runtime settings are %s, want those of Go 1.20", out)
		}
	}
	if said, err := build("v1.31.14"); err != nil || said != "" {
		t.Errorf("it does not use the program again: %v, %s", err, said)
	}

	write(t, assets, "kube-apiserver", "#!/bin/sh\necho Kubernetes v1.37.1\n")
	if said, err := build("v1.37.1"); err != nil || said != "" {
		t.Errorf("it does not use the program that has the version: %v, %s", err, said)
	}
	to, err := os.Readlink(filepath.Join(root, "bin/kubernetes/v1.37.1/kube-apiserver"))
	if err != nil || to != filepath.Join(assets, "kube-apiserver") {
		t.Errorf("the program is a link to %q, %v", to, err)
	}
}

// publish writes a module to the folder of a proxy.
func publish(t *testing.T, proxy, module, version string, files map[string]string) {
	t.Helper()
	var content bytes.Buffer
	archive := zip.NewWriter(&content)
	for name, text := range files {
		file, err := archive.Create(module + "@" + version + "/" + name)
		if err == nil {
			_, err = io.WriteString(file, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	at := module + "/@v/" + version
	write(t, proxy, at+".info", fmt.Sprintf("{\"Version\": %q}", version))
	write(t, proxy, at+".mod", files["go.mod"])
	write(t, proxy, at+".zip", content.String())
}

// project returns a copy of the folders that the build script needs.
func project(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	for _, folder := range []string{"tools/controlplane", "tools/envtest"} {
		if err := os.CopyFS(filepath.Join(root, folder),
			os.DirFS(filepath.Join("../..", folder))); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func write(t *testing.T, root, name, content string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// runBuildScript runs the script, returns what it prints, and runs the programs.
func runBuildScript(t *testing.T, root, index string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash",
		filepath.Join(root, "tools/controlplane/build.sh"))
	cmd.Env = append(os.Environ(), "KUBEBUILDER_ASSETS=", "ENVTEST_INDEX="+index)
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for _, name := range programs {
		out, err := exec.CommandContext(t.Context(),
			filepath.Join(root, "bin/controlplane", name)).Output()
		if err != nil || string(out) != name+"\n" {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
	return string(said)
}

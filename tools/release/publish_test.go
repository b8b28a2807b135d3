package main

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	helmregistry "helm.sh/helm/v4/pkg/registry"
)

// asProgram makes this test binary the program.
const asProgram = "FXCCM_RELEASE_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// ociRegistry is a registry on loopback.
type ociRegistry struct {
	address string // host:port
	server  *httptest.Server
}

// image is the repository of the image. Its address is part of the chart.
func (r ociRegistry) image() string { return r.address + "/fxccm" }

func (r ociRegistry) imageTag(t *testing.T) name.Tag {
	return parseTag(t, r.address+"/fxccm:"+version)
}

func (r ociRegistry) chartTag(t *testing.T) name.Tag {
	return parseTag(t, r.address+"/charts/fxccm:0.3.0")
}

func parseTag(t *testing.T, reference string) name.Tag {
	t.Helper()
	tag, err := name.NewTag(reference)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

// serve starts a registry. A middleware handles its requests if it is not nil.
func serve(
	t *testing.T, start func(http.Handler) *httptest.Server,
	middleware func(http.Handler) http.Handler, options ...registry.Option,
) ociRegistry {
	t.Helper()
	handler := registry.New(
		append(options, registry.Logger(log.New(io.Discard, "", 0)))...)
	if middleware != nil {
		handler = middleware(handler)
	}
	server := start(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(server.Close)
	_, address, _ := strings.Cut(server.URL, "://")
	return ociRegistry{address: address, server: server}
}

// isTagged returns whether the registry has the tag.
func isTagged(t *testing.T, tag name.Tag) bool {
	t.Helper()
	_, err := remote.Head(tag)
	var refused *transport.Error
	if errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}

// builtFor returns a checkout with a release for the registry.
func builtFor(t *testing.T, image string) string {
	t.Helper()
	dir := checkout(t)
	if err := in(t, dir, "all", "-image", image, version); err != nil {
		t.Fatal(err)
	}
	return dir
}

func publish(t *testing.T, dir string, r ociRegistry, args ...string) (progress string, err error) {
	t.Helper()
	t.Chdir(dir)
	var out bytes.Buffer
	all := append([]string{"publish", "-image", r.image()}, args...)
	err = run(t.Context(), append(all, version), &out)
	return out.String(), err
}

func TestPublish_Release_HelmPullsTheChartAndTheImageIsThatOfTheFile(t *testing.T) {
	r := serve(t, httptest.NewServer, nil)
	dir := builtFor(t, r.image())
	outputs := filepath.Join(t.TempDir(), "outputs")
	if _, err := publish(t, dir, r, "-outputs", outputs); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "bin", "release", version)

	index, err := remote.Index(r.imageTag(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	filed := archiveDigest(t, filepath.Join(out, imageFile(version)))
	if pushed := digest(t, index); pushed != filed {
		t.Errorf("pushed %s, but the file contains %s", pushed, filed)
	}

	client, err := helmregistry.NewClient(helmregistry.ClientOptPlainHTTP())
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := client.Pull(r.chartTag(t).Name())
	if err != nil {
		t.Fatal(err)
	}
	packaged := read(t, filepath.Join(out, "fxccm-0.3.0.tgz"))
	if !bytes.Equal(pulled.Chart.Data, packaged) || pulled.Chart.Meta.AppVersion != version {
		t.Errorf("pulled %+v, which differs from the file", pulled.Chart.Meta)
	}
	byDigest := r.chartTag(t).Context().Digest(pulled.Manifest.Digest).Name()
	if again, err := client.Pull(byDigest); err != nil ||
		!bytes.Equal(again.Chart.Data, packaged) {
		t.Errorf("pull of %s: %v", byDigest, err)
	}
	// Helm's own push differs in annotations only.
	other := r.address + "/others/fxccm:0.3.0"
	if _, err := client.Push(packaged, other); err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, tag := range []name.Tag{r.chartTag(t), parseTag(t, other)} {
		image, err := remote.Image(tag)
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := image.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, fmt.Sprintf("%+v %+v", manifest.Config, manifest.Layers))
	}
	if parts[0] != parts[1] {
		t.Errorf("the chart's manifest has %s, and that of helm push %s", parts[0], parts[1])
	}

	want := fmt.Sprintf("image=%s/fxccm\nimage-digest=%s\nchart=%s/charts/fxccm\nchart-digest=%s\n",
		r.address, filed, r.address, pulled.Manifest.Digest)
	if got := string(read(t, outputs)); got != want {
		t.Errorf("outputs %q, want %q", got, want)
	}
}

// A registry with the referrers API lists bills of materials there, another one under a tag.
func TestPublish_BillsOfMaterials_ReferToEachPlatformAndTheChart(t *testing.T) {
	for name, withAPI := range map[string]bool{"referrers API": true, "fallback tag": false} {
		t.Run(name, func(t *testing.T) {
			r := serve(t, httptest.NewServer, nil, registry.WithReferrersSupport(withAPI))
			dir := builtFor(t, r.image())
			if _, err := publish(t, dir, r, "-charts", "oci://"+r.address+"/own"); err != nil {
				t.Fatal(err)
			}
			index, err := remote.Index(r.imageTag(t))
			if err != nil {
				t.Fatal(err)
			}
			manifest, err := index.IndexManifest()
			if err != nil {
				t.Fatal(err)
			}
			for _, each := range manifest.Manifests {
				bom := billInRegistry(t, r.imageTag(t).Digest(each.Digest.String()))
				if bom.Metadata.Component.Version != version ||
					(*bom.Components)[0].Name != "std" {
					t.Errorf("%s: %+v", each.Platform, bom.Metadata.Component)
				}
			}
			chartTag := parseTag(t, r.address+"/own/fxccm:0.3.0")
			chart, err := remote.Head(chartTag)
			if err != nil {
				t.Fatal(err)
			}
			bom := billInRegistry(t, chartTag.Digest(chart.Digest.String()))
			packaged := read(t, filepath.Join(dir, "bin/release", version, "fxccm-0.3.0.tgz"))
			got, want := (*bom.Metadata.Component.Hashes)[0].Value, (*sha256Of(packaged))[0].Value
			if got != want {
				t.Errorf("the chart's hash is %s, want %s", got, want)
			}
			container := (*bom.Components)[0]
			if want := digest(t, index).Hex; (*container.Hashes)[0].Value != want ||
				!strings.HasPrefix(container.PackageURL, "pkg:oci/fxccm@sha256%3A"+want+"?") {
				t.Errorf("the chart's image is %+v, want %s", container, want)
			}
		})
	}
}

// billInRegistry reads the one bill of materials that refers to the artifact.
func billInRegistry(t *testing.T, of name.Digest) cyclonedx.BOM {
	t.Helper()
	referrers, err := remote.Referrers(of)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := referrers.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%s has the referrers %+v, %v; want one", of, manifest, err)
	}
	image, err := remote.Image(of.Context().Digest(manifest.Manifests[0].Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	if own, err := image.Manifest(); err != nil ||
		own.ArtifactType != "application/vnd.cyclonedx+json" {
		t.Errorf("%s has a referrer %+v, %v; want a bill of materials", of, own, err)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(content, cyclonedx.BOMFileFormatJSON).Decode(
		&bom); err != nil {
		t.Fatal(err)
	}
	return bom
}

func TestPublish_SameVersionAgain_IsNoOpForEqualBytesAndRefusedForOthers(t *testing.T) {
	var writes atomic.Int32
	r := serve(t, httptest.NewServer, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			if request.Method != http.MethodGet && request.Method != http.MethodHead {
				writes.Add(1)
			}
			next.ServeHTTP(w, request)
		})
	})
	changed, dir := checkout(t), builtFor(t, r.image())
	if _, err := publish(t, dir, r); err != nil {
		t.Fatal(err)
	}
	before := writes.Load()
	progress, err := publish(t, dir, r)
	if err != nil || strings.Count(progress, "is published already, with the same digest") != 2 {
		t.Errorf("the same release again: %v, %q", err, progress)
	}
	write(t, changed, "cmd/fxccm/main.go",
		"package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"another\") }\n")
	commit(t, changed, version, nested+"/"+version)
	if err := in(t, changed, "all", "-image", r.image(), version); err != nil {
		t.Fatal(err)
	}
	if _, err := publish(t, changed, r); err == nil ||
		!strings.Contains(err.Error(),
			r.imageTag(t).Name()+" is published with the digest sha256:") {
		t.Errorf("another release with this version: %v, want an error", err)
	}
	if after := writes.Load(); after != before {
		t.Errorf("%d requests wrote to the registry, want none", after-before)
	}
}

func TestPublish_FilesAreIncompleteOrOfAnotherImage_IsRefused(t *testing.T) {
	r := serve(t, httptest.NewServer, nil)
	unbuilt, dir := checkout(t), builtFor(t, r.address+"/other")
	if _, err := publish(t, dir, r); err == nil ||
		!strings.Contains(err.Error(), "the chart takes its image from "+r.address+"/other") {
		t.Errorf("another image: %v", err)
	}
	chart := filepath.Join(dir, "bin", "release", version, "fxccm-0.3.0.tgz")
	if err := os.WriteFile(chart, []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := publish(t, dir, r); err == nil ||
		!strings.Contains(err.Error(), "differs from its checksum") {
		t.Errorf("a changed file: %v", err)
	}
	if _, err := publish(t, unbuilt, r); err == nil ||
		!strings.Contains(err.Error(), "build the release first") {
		t.Errorf("no release: %v", err)
	}
	if isTagged(t, r.imageTag(t)) || isTagged(t, r.chartTag(t)) {
		t.Error("a tag was set")
	}
}

// The registry is full after some writes, at each of them.
func TestPublish_RegistryFailsAfterAnyWrite_TagsOnlyWhatIsComplete(t *testing.T) {
	var writes, limit atomic.Int32
	full := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			isWrite := request.Method != http.MethodGet && request.Method != http.MethodHead
			if isWrite && writes.Add(1) > limit.Load() {
				w.WriteHeader(http.StatusInsufficientStorage)
				return
			}
			next.ServeHTTP(w, request)
		})
	}
	var current atomic.Value // the registry's handler, with nothing in it at first
	empty := func() {
		current.Store(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	}
	empty()
	r := serve(t, httptest.NewServer, func(http.Handler) http.Handler {
		return full(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			current.Load().(http.Handler).ServeHTTP(w, request)
		}))
	})
	dir := builtFor(t, r.image())
	failures := 0
	for ; ; failures++ {
		empty()
		writes.Store(0)
		limit.Store(int32(failures))
		_, err := publish(t, dir, r)
		if err == nil {
			break
		}
		if !strings.Contains(err.Error(), r.address) || !strings.Contains(err.Error(), "507") {
			t.Errorf("after %d writes: the error names not registry and status: %v", failures, err)
		}
		checkComplete(t, r, failures)
		// The next attempt publishes all.
		limit.Store(1 << 20)
		if _, err := publish(t, dir, r); err != nil {
			t.Errorf("the attempt after %d writes: %v", failures, err)
		}
		if !isTagged(t, r.imageTag(t)) || !isTagged(t, r.chartTag(t)) {
			t.Errorf("the attempt after %d writes left out a tag", failures)
		}
	}
	if failures < 10 {
		t.Errorf("the registry failed %d times, want it for each write", failures)
	}
}

func checkComplete(t *testing.T, r ociRegistry, writes int) {
	t.Helper()
	if isTagged(t, r.chartTag(t)) && !isTagged(t, r.imageTag(t)) {
		t.Errorf("after %d writes the chart is tagged, and its image is not", writes)
	}
	if !isTagged(t, r.imageTag(t)) {
		return
	}
	index, err := remote.Index(r.imageTag(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("after %d writes the tagged image is incomplete: %v", writes, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range manifest.Manifests {
		billInRegistry(t, r.imageTag(t).Digest(each.Digest.String()))
	}
}

func TestPublish_RegistryWithPassword_AcceptsThatOfDockerLogin(t *testing.T) {
	const user, password = "ci", "s3cret-of-the-test"
	r := serve(t, httptest.NewServer, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			gotUser, gotPassword, _ := request.BasicAuth()
			if gotUser != user || gotPassword != password {
				w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, request)
		})
	})
	dir := builtFor(t, r.image())
	for _, test := range []struct {
		name, login string
		accepted    bool
	}{
		{name: "no login"},
		{name: "another password", login: user + ":wrong"},
		{name: "the login", login: user + ":" + password, accepted: true},
	} {
		login(t, r.address, test.login)
		_, err := publish(t, dir, r)
		switch {
		case test.accepted && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case !test.accepted && (err == nil || !strings.Contains(err.Error(), "401") ||
			!strings.Contains(err.Error(), r.address)):
			t.Errorf("%s: %v, want an error with 401 and the address", test.name, err)
		case err != nil && strings.Contains(err.Error(), password):
			t.Errorf("%s: the error has the password: %v", test.name, err)
		}
	}
}

// login writes the file of docker login. Without credentials it has none.
func login(t *testing.T, address, credentials string) {
	t.Helper()
	dir := t.TempDir()
	config := "{}"
	if credentials != "" {
		config = fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, address,
			base64.StdEncoding.EncodeToString([]byte(credentials)))
	}
	write(t, dir, "config.json", config)
	t.Setenv("DOCKER_CONFIG", dir)
}

func TestPublish_RegistryWithTLS_IsAcceptedOnlyWithItsAuthority(t *testing.T) {
	r := serve(t, httptest.NewTLSServer, nil)
	dir := builtFor(t, r.image())
	if _, err := publish(t, dir, r); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown authority: %v, want an error of the certificate", err)
	}
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, pemOf(r.server.Certificate()), 0o644); err != nil {
		t.Fatal(err)
	}
	// A process reads its authorities once.
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "publish", "-image", r.image(), version)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asProgram+"=1", "SSL_CERT_FILE="+authority)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "published the ") != 2 {
		t.Errorf("with the authority: %v: %s", err, out)
	}
}

func pemOf(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}

package main

import (
	"encoding/json"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/fxccm/fxccm/test/commandblocks"
)

// keyPair makes a pair of keys, and returns the private one and the public one.
func keyPair(t *testing.T, cosign string) (private, public string) {
	t.Helper()
	dir := t.TempDir()
	if _, err := command(t.Context(), dir, nil, cosign, "generate-key-pair"); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "cosign.key"), filepath.Join(dir, "cosign.pub")
}

// offline makes requests to other machines fail, and gives cosign the password of the keys.
func offline(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("COSIGN_PASSWORD", "of the test")
}

// verifyCommands returns the arguments of the page's commands `cosign verify`, with the registry
// and the version of the test, and a public key instead of the identity of the workflow.
func verifyCommands(t *testing.T, r ociRegistry, public string) [][]string {
	t.Helper()
	const page = "../../docs/how-to/verify-a-release.md"
	commands, err := commandblocks.RunBy("tools/release", page)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	for _, each := range commands {
		words, err := each.Args("cosign")
		if err != nil {
			t.Fatalf("%s:%v", page, err)
		}
		args, seen := []string{}, map[string]bool{}
		for _, word := range words {
			word = strings.NewReplacer(
				"registry.example.com", r.address, "v0.1.0", version, "0.1.0", version[1:],
			).Replace(word)
			flag, value, _ := strings.Cut(word, "=")
			switch flag {
			case "--certificate-identity":
				seen[flag] = value == "https://github.com/fxccm/fxccm/.github/workflows/"+
					"release.yaml@refs/tags/"+version
			case "--certificate-oidc-issuer":
				seen[flag] = value == "https://token.actions.githubusercontent.com"
			case "--key":
				seen["--certificate-identity"], seen["--certificate-oidc-issuer"] = true, true
			case "--insecure-ignore-tlog":
			default:
				args = append(args, word)
			}
		}
		if !seen["--certificate-identity"] || !seen["--certificate-oidc-issuer"] {
			t.Errorf("%s:%d: the command accepts %v", page, each.Line,
				slices.Collect(maps.Keys(seen)))
		}
		all = append(all, append(args, "--key="+public, "--insecure-ignore-tlog=true"))
	}
	return all
}

func TestPublish_Signed_OnlyTheSignedArtifactAndTheKeyAreAccepted(t *testing.T) {
	cosign := tool(t, "cosign/cosign")
	offline(t)
	private, public := keyPair(t, cosign)
	_, otherPublic := keyPair(t, cosign)
	r := serve(t, httptest.NewServer, nil)
	verifications := verifyCommands(t, r, public)
	dir := builtFor(t, r.image())
	progress, err := publish(t, dir, r, "-cosign", cosign, "-sign", private)
	if err != nil || strings.Count(progress, "signed with "+private) != 2 {
		t.Fatalf("%v: %s", err, progress)
	}
	var verified []string
	for _, args := range verifications {
		out, err := command(t.Context(), dir, nil, cosign, args...)
		if err != nil {
			t.Error(err)
		}
		for _, arg := range args {
			if !strings.HasPrefix(arg, r.address) {
				continue
			}
			verified = append(verified, arg)
			published, err := remote.Head(parseTag(t, arg))
			if err != nil {
				t.Fatal(err)
			}
			if args[0] == "verify-attestation" {
				wantProvenance(t, out, published.Digest.Hex, head(t, dir))
			} else if !strings.Contains(out, published.Digest.String()) {
				t.Errorf("cosign %q printed no digest %v: %s", args, published, out)
			}
		}
	}
	for _, tag := range []name.Tag{r.imageTag(t), r.chartTag(t)} {
		if !slices.Contains(verified, tag.Name()) {
			t.Errorf("the page verifies %q, and not %s", verified, tag)
		}
		refuses(t, cosign, otherPublic, tag, "another key")
		change(t, tag)
		refuses(t, cosign, public, tag, "a changed artifact")
	}
}

func head(t *testing.T, dir string) string {
	t.Helper()
	revision, err := git(t.Context(), dir, "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// wantProvenance checks what cosign prints of a verified attestation: an envelope of DSSE.
func wantProvenance(t *testing.T, printed, digest, commit string) {
	t.Helper()
	var envelope struct{ Payload []byte }
	if err := json.Unmarshal([]byte(printed), &envelope); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	var statement struct {
		PredicateType string
		Subject       []struct{ Digest map[string]string }
		Predicate     provenance
	}
	if err := json.Unmarshal(envelope.Payload, &statement); err != nil {
		t.Fatalf("%v: %s", err, envelope.Payload)
	}
	materials := statement.Predicate.BuildDefinition.ResolvedDependencies
	if len(statement.Subject) != 1 || statement.Subject[0].Digest["sha256"] != digest ||
		statement.PredicateType != "https://slsa.dev/provenance/v1" ||
		len(materials) != 1 || materials[0].Digest["gitCommit"] != commit {
		t.Errorf("the provenance of %s is %s, want commit %s", digest, envelope.Payload, commit)
	}
}

// refuses checks that cosign does not accept the artifact.
func refuses(t *testing.T, cosign, public string, tag name.Tag, situation string) {
	t.Helper()
	_, err := command(t.Context(), ".", nil, cosign, "verify", "--key="+public,
		"--insecure-ignore-tlog=true", tag.Name())
	if err == nil || !strings.Contains(err.Error(), "failed to verify signature") {
		t.Errorf("%s, %s: %v, want a refused signature", situation, tag, err)
	}
}

// change replaces the artifact under its tag, and makes its signatures refer to the new one.
func change(t *testing.T, tag name.Tag) {
	t.Helper()
	signed, err := remote.Get(tag)
	if err != nil {
		t.Fatal(err)
	}
	annotations := map[string]string{"changed": "yes"}
	var changed remote.Taggable
	if signed.MediaType.IsIndex() {
		index, err := signed.ImageIndex()
		if err != nil {
			t.Fatal(err)
		}
		changed = mutate.Annotations(index, annotations).(remote.Taggable)
	} else {
		image, err := signed.Image()
		if err != nil {
			t.Fatal(err)
		}
		changed = mutate.Annotations(image, annotations).(remote.Taggable)
	}
	if err := remote.Put(tag, changed); err != nil {
		t.Fatal(err)
	}
	now, err := remote.Head(tag)
	if err != nil {
		t.Fatal(err)
	}
	referrers, err := remote.Referrers(tag.Digest(signed.Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := referrers.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) == 0 {
		t.Errorf("%s has no signature beside it", tag)
	}
	for _, each := range manifest.Manifests {
		image, err := remote.Image(tag.Digest(each.Digest.String()))
		if err != nil {
			t.Fatal(err)
		}
		forged := mutate.Subject(image, *now).(v1.Image)
		raw, err := partial.Descriptor(forged)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(tag.Digest(raw.Digest.String()), forged); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPublish_SignatureFails_SetsNoTag(t *testing.T) {
	cosign := tool(t, "cosign/cosign")
	offline(t)
	r := serve(t, httptest.NewServer, nil)
	dir := builtFor(t, r.image())
	_, err := publish(t, dir, r, "-cosign", cosign, "-sign", filepath.Join(t.TempDir(), "absent"))
	if err == nil || !strings.Contains(err.Error(), "sign "+r.image()) ||
		!strings.Contains(err.Error(), "no tag was set") {
		t.Errorf("error: %v", err)
	}
	if isTagged(t, r.imageTag(t)) || isTagged(t, r.chartTag(t)) {
		t.Error("a tag was set")
	}
}

// A program in the place of cosign records its arguments.
func TestPublish_Keyless_SignsDigestsWithoutAKey(t *testing.T) {
	r := serve(t, httptest.NewServer, nil)
	dir := builtFor(t, r.image())
	stub, record := filepath.Join(t.TempDir(), "cosign"), filepath.Join(t.TempDir(), "record")
	script := "#!/bin/sh\necho \"$@\" >>" + record + "\n"
	if err := os.WriteFile(stub, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	progress, err := publish(t, dir, r, "-cosign", stub, "-sign", "keyless")
	if err != nil || strings.Count(progress, "signed with the identity of the workflow") != 2 {
		t.Errorf("%v: %s", err, progress)
	}
	want := ""
	for _, tag := range []name.Tag{r.imageTag(t), r.chartTag(t)} {
		published, err := remote.Head(tag)
		if err != nil {
			t.Fatal(err)
		}
		want += "sign --yes " + tag.Digest(published.Digest.String()).Name() + "\n"
	}
	if got := string(read(t, record)); got != want {
		t.Errorf("cosign got %q, want %q", got, want)
	}
}

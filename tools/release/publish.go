package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// artifact is an image or a chart with its tag in a registry.
type artifact struct {
	kind     string // image or chart
	tag      name.Tag
	manifest remote.Taggable
	// referrers refer to the artifact, such as bills of materials.
	referrers []v1.Image
	// provenance is that of the release.
	provenance []byte
}

// publishCommand pushes image and chart of a release that was built. Credentials are those of
// `docker login`, `podman login` and `helm registry login`.
func (b builder) publishCommand(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("publish", flag.ContinueOnError)
	image := flags.String("image", "",
		"repository of the image, such as registry.example.com/fxccm")
	charts := flags.String("charts", "", "where the chart's repository is, such as "+
		"oci://registry.example.com/charts, which is the default for the image above")
	sign := flags.String("sign", "",
		"sign with this private key of cosign, or, as \"keyless\", with the identity of the workflow")
	cosign := flags.String("cosign", filepath.Join("bin", "cosign", "cosign"), "program cosign")
	outputs := flags.String("outputs", "",
		"file to append the names and digests to, in the form of a workflow's outputs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 || *image == "" {
		return errors.New("want the image's repository and one version: " +
			"publish -image registry.example.com/fxccm v1.2.3")
	}
	version := flags.Arg(0)
	dir := filepath.Join("bin", "release", version)
	if err := verifyChecksums(dir); err != nil {
		return fmt.Errorf("%w; build the release first", err)
	}
	unpacked, err := os.MkdirTemp("", "fxccm-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(unpacked)
	all, err := readArtifacts(dir, unpacked, version, *image, strings.TrimPrefix(*charts, "oci://"))
	if err != nil {
		return err
	}
	p := publisher{builder: b, signer: signer{program: *cosign, key: *sign}}
	if err := p.publish(ctx, all); err != nil {
		return err
	}
	return writeOutputs(*outputs, all)
}

// readArtifacts reads image, chart and bills of materials from the release's folder. It unpacks the
// image to a folder that must exist until the image is pushed.
func readArtifacts(dir, unpacked, version, image, charts string) ([]artifact, error) {
	repository, err := name.NewRepository(image)
	if err != nil {
		return nil, err
	}
	if charts == "" {
		charts = path.Join(repository.RegistryStr(), path.Dir(repository.RepositoryStr()), "charts")
	}
	index, err := readImage(filepath.Join(dir, imageFile(version)), unpacked)
	if err != nil {
		return nil, err
	}
	chart, err := readChart(dir, version)
	if err != nil {
		return nil, err
	}
	if from := chart.imageRepository(); from != image {
		return nil, fmt.Errorf("the chart takes its image from %s: build the release for %s",
			from, image)
	}
	chartTag, err := name.NewTag(path.Join(charts, chart.Name()) + ":" + chart.Metadata.Version)
	if err != nil {
		return nil, err
	}
	chartManifest, err := chart.manifest()
	if err != nil {
		return nil, err
	}
	chartBill, err := billOf(chartManifest, filepath.Join(dir, chartBillFile(version)))
	if err != nil {
		return nil, err
	}
	imageBills, err := billsOfPlatforms(index, dir, version)
	if err != nil {
		return nil, err
	}
	from, err := provenanceOf(index, version, image)
	if err != nil {
		return nil, err
	}
	return []artifact{
		{"image", repository.Tag(version), index, imageBills, from},
		{"chart", chartTag, chartManifest, []v1.Image{chartBill}, from},
	}, nil
}

// publisher pushes artifacts.
type publisher struct {
	builder
	signer signer
}

// publish pushes all artifacts by digest, then signs them, and sets the tags last: an artifact that
// has the version's tag is complete. A version that is published stays as it is.
func (p publisher) publish(ctx context.Context, all []artifact) error {
	var missing []artifact
	for _, each := range all {
		exists, err := p.isPublished(ctx, each)
		if err != nil {
			return err
		}
		if !exists {
			missing = append(missing, each)
		}
	}
	for _, each := range missing {
		if err := p.pushByDigest(ctx, each); err != nil {
			return fmt.Errorf("push %s: %w; no tag was set for it", each.tag, err)
		}
	}
	for _, each := range missing {
		if err := p.signer.sign(ctx, each); err != nil {
			return fmt.Errorf("sign %s: %w; no tag was set for it", each.tag, err)
		}
	}
	for _, each := range missing {
		if err := remote.Tag(each.tag, each.manifest, p.options(ctx)...); err != nil {
			return fmt.Errorf("tag %s: %w", each.tag, err)
		}
		digest, err := each.digest()
		if err != nil {
			return err
		}
		fmt.Fprintf(p.progress, "published the %s %s, digest %s%s\n",
			each.kind, each.tag, digest.DigestStr(), p.signer)
	}
	return nil
}

// isPublished returns whether the registry has the artifact under its tag. Another artifact under
// this tag is an error.
func (p publisher) isPublished(ctx context.Context, of artifact) (bool, error) {
	want, err := of.digest()
	if err != nil {
		return false, err
	}
	found, err := remote.Head(of.tag, p.options(ctx)...)
	var refused *transport.Error
	if errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", of.tag, err)
	}
	if found.Digest.String() != want.DigestStr() {
		return false, fmt.Errorf("%s is published with the digest %s, and this %s has %s: "+
			"a version never changes, so release the next one",
			of.tag, found.Digest, of.kind, want.DigestStr())
	}
	fmt.Fprintf(p.progress, "%s is published already, with the same digest %s\n",
		of.tag, want.DigestStr())
	return true, nil
}

func (p publisher) pushByDigest(ctx context.Context, of artifact) error {
	digest, err := of.digest()
	if err != nil {
		return err
	}
	switch manifest := of.manifest.(type) {
	case v1.ImageIndex:
		err = remote.WriteIndex(digest, manifest, p.options(ctx)...)
	case v1.Image:
		err = remote.Write(digest, manifest, p.options(ctx)...)
	}
	if err != nil {
		return err
	}
	for _, referrer := range of.referrers {
		hash, err := referrer.Digest()
		if err != nil {
			return err
		}
		if err := remote.Write(of.tag.Digest(hash.String()), referrer,
			p.options(ctx)...); err != nil {
			return err
		}
	}
	return nil
}

func (p publisher) options(ctx context.Context) []remote.Option {
	return []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
	}
}

// digest is the artifact's reference by digest.
func (a artifact) digest() (name.Digest, error) {
	hash, err := a.hash()
	if err != nil {
		return name.Digest{}, err
	}
	return a.tag.Digest(hash.String()), nil
}

func (a artifact) hash() (v1.Hash, error) {
	raw, err := a.manifest.RawManifest()
	if err != nil {
		return v1.Hash{}, err
	}
	hash, _, err := v1.SHA256(bytes.NewReader(raw))
	return hash, err
}

// writeOutputs appends lines such as image=REPOSITORY and image-digest=sha256:... to the file.
func writeOutputs(file string, all []artifact) error {
	if file == "" {
		return nil
	}
	var lines strings.Builder
	for _, each := range all {
		hash, err := each.hash()
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s=%s\n%s-digest=%s\n",
			each.kind, each.tag.Context().Name(), each.kind, hash)
	}
	out, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = out.WriteString(lines.String())
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	return err
}

// verifyChecksums compares the files of a release with its SHA256SUMS.
func verifyChecksums(dir string) error {
	sums, err := os.ReadFile(filepath.Join(dir, checksumFile))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(sums)) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if fmt.Sprintf("%x", sha256.Sum256(content)) != want {
			return fmt.Errorf("%s differs from its checksum in %s", filepath.Join(dir, name),
				checksumFile)
		}
	}
	return nil
}

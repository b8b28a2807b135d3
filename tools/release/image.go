package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// revisionAnnotation has the commit,
// https://github.com/opencontainers/image-spec/blob/main/annotations.md.
const revisionAnnotation = "org.opencontainers.image.revision"

const (
	// program is the path of the binary in the image.
	program = "/fxccm"
	// authorities is the file in which Go programs look for CA certificates.
	authorities = "/etc/ssl/certs/ca-certificates.crt"
	// authoritiesModule is the module with the certificates.
	authoritiesModule = "golang.org/x/crypto/x509roots/fallback"
	// user has no privileges and needs no name.
	user = "65532:65532"
)

// image returns an index with an image for each binary of imagePlatforms. An image contains only
// the program and the certificates of public CAs.
func (b builder) image(binaries []binary) (v1.ImageIndex, error) {
	annotations := map[string]string{
		"org.opencontainers.image.title":       "fxccm",
		"org.opencontainers.image.description": "Kubernetes cloud controller manager for OpenStack",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.source":      repository,
		"org.opencontainers.image.version":     b.source.version,
		revisionAnnotation:                     b.source.revision,
		"org.opencontainers.image.created":     b.source.time.Format(time.RFC3339),
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, of := range binaries {
		if !slices.Contains(imagePlatforms, of.platform) {
			continue
		}
		image, err := b.platformImage(of, annotations)
		if err != nil {
			return nil, fmt.Errorf("image for %s: %w", of.platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image,
			Descriptor: v1.Descriptor{
				Platform: &v1.Platform{OS: of.platform.os, Architecture: of.platform.arch},
			},
		})
	}
	return mutate.Annotations(index, annotations).(v1.ImageIndex), nil
}

func (b builder) platformImage(of binary, labels map[string]string) (v1.Image, error) {
	content, err := os.ReadFile(of.path)
	if err != nil {
		return nil, err
	}
	trusted, err := publicAuthorities()
	if err != nil {
		return nil, err
	}
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	var additions []mutate.Addendum
	// The certificates change seldom, so they are in a separate layer below the program's.
	for _, file := range []file{
		{authorities, 0o644, trusted}, {program, 0o755, content},
	} {
		layer, err := file.layer(b.source.time)
		if err != nil {
			return nil, err
		}
		additions = append(additions, mutate.Addendum{
			Layer: layer,
			History: v1.History{
				Created:   v1.Time{Time: b.source.time},
				CreatedBy: "add " + file.path,
			},
		})
	}
	if image, err = mutate.Append(image, additions...); err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = of.platform.os, of.platform.arch
	config.Created = v1.Time{Time: b.source.time}
	config.Config = v1.Config{
		User: user, Entrypoint: []string{program}, Labels: labels, WorkingDir: "/",
		ExposedPorts: map[string]struct{}{"10258/tcp": {}},
	}
	return mutate.ConfigFile(image, config)
}

// publicAuthorities returns the roots that Mozilla trusts without conditions, because PEM cannot
// express conditions.
func publicAuthorities() ([]byte, error) {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if _, err := x509.ParseCertificate(root.Certificate); err != nil {
			return nil, err
		}
		block := pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}
		if err := pem.Encode(&out, &block); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

type file struct {
	path    string
	mode    int64
	content []byte
}

// layer returns a layer with the file and its parent folders.
func (f file) layer(modified time.Time) (v1.Layer, error) {
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	var folders []string
	for dir := path.Dir(f.path); dir != "/"; dir = path.Dir(dir) {
		folders = append(folders, dir)
	}
	for _, dir := range slices.Backward(folders) {
		if err := archive.WriteHeader(&tar.Header{
			Typeflag: tar.TypeDir, Name: dir[1:] + "/", Mode: 0o755, ModTime: modified,
		}); err != nil {
			return nil, err
		}
	}
	if err := writeFile(archive, f.path[1:], f.mode, modified, f.content); err != nil {
		return nil, err
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(out.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}

func writeFile(
	archive *tar.Writer, name string, mode int64, modified time.Time, content []byte,
) error {
	if err := archive.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: mode, ModTime: modified, Size: int64(len(content)),
	}); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}

// imageFile is the name of the image's file in a release.
func imageFile(version string) string { return "fxccm-" + version + "-image.tar" }

// writeImage writes the image as an OCI layout in a tar file, which docker, podman, containerd
// and skopeo can load.
func writeImage(index v1.ImageIndex, version, out string) (err error) {
	dir, err := os.MkdirTemp("", "fxccm-layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	written, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := written.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": version,
		"io.containerd.image.name":          "docker.io/library/fxccm:" + version,
	})); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
	}()
	archive := tar.NewWriter(file)
	// WalkDir goes in lexical order, so the same image gives the same file.
	err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return writeFile(archive, filepath.ToSlash(name), 0o644, time.Unix(0, 0), content)
	})
	if err != nil {
		return err
	}
	return archive.Close()
}

// readImage reads an image that writeImage wrote, and unpacks it to dir.
func readImage(path, dir string) (v1.ImageIndex, error) {
	packed, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer packed.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for reader := tar.NewReader(packed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			return nil, err
		}
		if err := root.MkdirAll(filepath.Dir(header.Name), 0o755); err != nil {
			return nil, err
		}
		if err := root.WriteFile(header.Name, content, 0o644); err != nil {
			return nil, err
		}
	}
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s has %d images, want one", path, len(manifest.Manifests))
	}
	return outer.ImageIndex(manifest.Manifests[0].Digest)
}

// push uploads the image with all its platforms.
func (b builder) push(ctx context.Context, index v1.ImageIndex, reference string) error {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(ref, index, remote.WithContext(ctx),
		remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push %s: %w", ref, err)
	}
	fmt.Fprintf(b.progress, "pushed %s\n", ref)
	return nil
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// fileManifest is a manifest with one file, for a file that is no layer of an image.
type fileManifest struct {
	raw    []byte
	config []byte
	file   v1.Layer
}

// newFileManifest returns an artifact that consists of a configuration and a file.
func newFileManifest(
	manifest v1.Manifest, config []byte, content []byte, contentType types.MediaType,
) (v1.Image, error) {
	file := static.NewLayer(content, contentType)
	described, err := partial.Descriptor(file)
	if err != nil {
		return nil, err
	}
	hash, size, err := v1.SHA256(bytes.NewReader(config))
	if err != nil {
		return nil, err
	}
	manifest.SchemaVersion, manifest.MediaType = 2, types.OCIManifestSchema1
	manifest.Config.Digest, manifest.Config.Size = hash, size
	manifest.Layers = []v1.Descriptor{*described}
	raw, err := json.Marshal(manifest)
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(fileManifest{raw: raw, config: config, file: file})
}

func (m fileManifest) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

func (m fileManifest) RawManifest() ([]byte, error) { return m.raw, nil }

func (m fileManifest) RawConfigFile() ([]byte, error) { return m.config, nil }

func (m fileManifest) LayerByDigest(hash v1.Hash) (partial.CompressedLayer, error) {
	own, err := m.file.Digest()
	if err != nil {
		return nil, err
	}
	if hash != own {
		return nil, fmt.Errorf("the manifest has no file %s", hash)
	}
	return m.file, nil
}

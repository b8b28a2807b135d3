package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	helmregistry "helm.sh/helm/v4/pkg/registry"
)

const (
	chartDir = "deploy/chart"
	// placeholder is the image of the chart in this repository. A release replaces it.
	placeholder = "registry.example.com/fxccm"
)

// writeChart packages the Helm chart with the release's version. If a repository of images is
// given, the chart takes the image from there.
func (b builder) writeChart(dir, version, repository string) error {
	copied, err := os.MkdirTemp("", "fxccm-chart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(copied)
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(b.source.dir, chartDir))); err != nil {
		return err
	}
	if repository != "" {
		values := filepath.Join(copied, "values.yaml")
		if err := replaceOnce(values, placeholder, repository); err != nil {
			return err
		}
	}
	// The package has the times of the files.
	if err := b.setTimes(copied); err != nil {
		return err
	}
	chart, err := loader.Load(copied)
	if err != nil {
		return err
	}
	chart.Metadata.Version, chart.Metadata.AppVersion = strings.TrimPrefix(version, "v"), version
	if err := chart.Validate(); err != nil {
		return err
	}
	if _, err := chartutil.Save(chart, dir); err != nil {
		return fmt.Errorf("package the chart: %w", err)
	}
	return nil
}

// setTimes gives all files the commit's time.
func (b builder) setTimes(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, b.source.time, b.source.time)
	})
}

func replaceOnce(path, old, replacement string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if strings.Count(string(content), old) != 1 {
		return fmt.Errorf("%s: want %q once", path, old)
	}
	changed := strings.Replace(string(content), old, replacement, 1)
	return os.WriteFile(path, []byte(changed), 0o644)
}

// chartPackage is the chart's package of a release.
type chartPackage struct {
	*helmchart.Chart
	packaged []byte
}

func readChart(dir, version string) (chartPackage, error) {
	content, err := os.ReadFile(
		filepath.Join(dir, "fxccm-"+strings.TrimPrefix(version, "v")+".tgz"))
	if err != nil {
		return chartPackage{}, err
	}
	chart, err := loader.LoadArchive(bytes.NewReader(content))
	return chartPackage{chart, content}, err
}

// imageRepository is where the chart takes its image from.
func (c chartPackage) imageRepository() string {
	image, _ := c.Values["image"].(map[string]any)
	repository, _ := image["repository"].(string)
	return repository
}

// manifest is the chart as Helm pushes it, https://helm.sh/docs/topics/registries. Helm's own push
// sets the tag at once, and writes the current time into the manifest.
func (c chartPackage) manifest() (v1.Image, error) {
	config, err := json.Marshal(c.Metadata)
	if err != nil {
		return nil, err
	}
	return newFileManifest(v1.Manifest{
		Config: v1.Descriptor{MediaType: helmregistry.ConfigMediaType},
		Annotations: map[string]string{
			"org.opencontainers.image.title":       c.Name(),
			"org.opencontainers.image.version":     c.Metadata.Version,
			"org.opencontainers.image.description": c.Metadata.Description,
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.source":      repository,
		},
	}, config, c.packaged, helmregistry.ChartLayerMediaType)
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
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

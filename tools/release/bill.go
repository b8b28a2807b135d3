package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/uuid"
)

// billType is the media type of CycloneDX in JSON, https://cyclonedx.org/specification/overview.
const billType = "application/vnd.cyclonedx+json"

// chartBillFile is the name of the chart's bill of materials in a release.
func chartBillFile(version string) string { return "fxccm-" + version + "-chart" + billSuffix }

// writeChartBill writes what the chart's package consists of: the package, and the image that it
// runs, if that is known.
func (b builder) writeChartBill(dir, image string, index v1.ImageIndex) error {
	chart, err := readChart(dir, b.source.version)
	if err != nil {
		return err
	}
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL,
		[]byte(chartBillFile(b.source.version)+b.source.revision)).URN()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: b.source.time.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			BOMRef: "chart", Type: cyclonedx.ComponentTypeApplication,
			Name: chart.Name(), Version: chart.Metadata.Version,
			Description: "Helm chart", Hashes: sha256Of(chart.packaged),
		},
	}
	hash, err := index.Digest()
	if err != nil {
		return err
	}
	container := cyclonedx.Component{
		BOMRef: "image", Type: cyclonedx.ComponentTypeContainer,
		Name: "fxccm", Version: b.source.version,
		Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hash.Hex}},
	}
	if image != "" {
		repository, err := name.NewRepository(image)
		if err != nil {
			return err
		}
		container.Name = repository.Name()
		// https://github.com/package-url/purl-spec/blob/main/types-doc/oci-definition.md
		container.PackageURL = fmt.Sprintf("pkg:oci/%s@sha256%%3A%s?repository_url=%s&tag=%s",
			filepath.Base(image), hash.Hex, repository.Name(), b.source.version)
	}
	bom.Components = &[]cyclonedx.Component{container}
	return writeBOM(bom, filepath.Join(dir, chartBillFile(b.source.version)))
}

// billsOfPlatforms returns a referrer for the image of each platform.
func billsOfPlatforms(index v1.ImageIndex, dir, version string) ([]v1.Image, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var bills []v1.Image
	for _, each := range manifest.Manifests {
		image, err := index.Image(each.Digest)
		if err != nil {
			return nil, err
		}
		of := platform{each.Platform.OS, each.Platform.Architecture}
		bill, err := billOf(image, filepath.Join(dir, assetName(version, of)+billSuffix))
		if err != nil {
			return nil, err
		}
		bills = append(bills, bill)
	}
	return bills, nil
}

// billOf returns the bill of materials as a referrer of the artifact.
func billOf(of partial.Describable, file string) (v1.Image, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	described, err := partial.Descriptor(of)
	if err != nil {
		return nil, err
	}
	return newFileManifest(v1.Manifest{
		ArtifactType: billType,
		Config:       v1.Descriptor{MediaType: types.OCIEmptyJSON},
		Subject: &v1.Descriptor{
			MediaType: described.MediaType, Size: described.Size, Digest: described.Digest,
		},
		Annotations: map[string]string{"org.opencontainers.image.title": filepath.Base(file)},
	}, []byte("{}"), content, billType)
}

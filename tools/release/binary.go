package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

var (
	imagePlatforms   = []platform{{"linux", "amd64"}, {"linux", "arm64"}}
	releasePlatforms = append(imagePlatforms[:2:2],
		platform{"darwin", "arm64"}, platform{"windows", "amd64"})
)

// billSuffix ends the names of bills of materials.
const billSuffix = ".cdx.json"

type builder struct {
	source   source
	progress io.Writer
}

// binary is a built program.
type binary struct {
	platform platform
	path     string
}

// assetName is the name of a platform's files in a release, without its suffix.
func assetName(version string, p platform) string {
	return fmt.Sprintf("fxccm_%s_%s_%s", version, p.os, p.arch)
}

// binaries builds the program for each platform into dir. A binary contains no path of the machine,
// and no time except the commit's.
func (b builder) binaries(ctx context.Context, dir string, all []platform) ([]binary, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	var built []binary
	for _, p := range all {
		name := assetName(b.source.version, p)
		if p.os == "windows" {
			name += ".exe"
		}
		path := filepath.Join(dir, name)
		start := time.Now()
		fmt.Fprintf(b.progress, "build %s\n", name)
		env, err := b.environment(ctx, p)
		if err != nil {
			return nil, err
		}
		if _, err := commandWith(ctx, b.source.dir, env, "go", "build", "-trimpath",
			"-buildvcs=true", "-ldflags=-s -w", "-o", path, "./cmd/fxccm"); err != nil {
			return nil, err
		}
		fmt.Fprintf(b.progress, "built %s in %s\n", name, time.Since(start).Round(time.Second))
		built = append(built, binary{platform: p, path: path})
	}
	return built, nil
}

// writeBillOfMaterials writes what is in the binary, its archive and its image to a file in dir, in
// CycloneDX's format: the linked modules, the Go toolchain, and the certificates of public CAs.
func (b builder) writeBillOfMaterials(of binary, dir string) error {
	info, err := buildinfo.ReadFile(of.path)
	if err != nil {
		return err
	}
	bom := cyclonedx.NewBOM()
	// Equal content has the same number, and other content another number.
	name := filepath.Base(of.path) + b.source.revision
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte(name)).URN()
	program := component(info.Main.Path, b.source.version)
	program.Type = cyclonedx.ComponentTypeApplication
	content, err := os.ReadFile(of.path)
	if err != nil {
		return err
	}
	program.Hashes = sha256Of(content)
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: b.source.time.Format(time.RFC3339), Component: &program,
	}
	components := []cyclonedx.Component{component("std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, module := range info.Deps {
		components = append(components, moduleComponent(module))
	}
	if slices.Contains(imagePlatforms, of.platform) {
		certificates, err := certificatesComponent()
		if err != nil {
			return err
		}
		components = append(components, certificates)
	}
	bom.Components = &components
	return writeBOM(bom, filepath.Join(dir, assetName(b.source.version, of.platform)+billSuffix))
}

func writeBOM(bom *cyclonedx.BOM, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	err = cyclonedx.NewBOMEncoder(file, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}

func moduleComponent(module *debug.Module) cyclonedx.Component {
	for module.Replace != nil {
		module = module.Replace
	}
	c := component(module.Path, module.Version)
	// The checksum of go.sum is a SHA-256 hash, https://go.dev/ref/mod#go-sum-files.
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(module.Sum, "h1:"))
	if err == nil && len(sum) == sha256.Size {
		c.Hashes = &[]cyclonedx.Hash{
			{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)},
		}
	}
	return c
}

// certificatesComponent is the file of public CAs in the image.
func certificatesComponent() (cyclonedx.Component, error) {
	content, err := publicAuthorities()
	if err != nil {
		return cyclonedx.Component{}, err
	}
	version := ""
	if own, ok := debug.ReadBuildInfo(); ok {
		for _, module := range own.Deps {
			if module.Path == authoritiesModule {
				version = module.Version
			}
		}
	}
	c := component(authoritiesModule, version)
	c.Type, c.Hashes = cyclonedx.ComponentTypeData, sha256Of(content)
	c.Description = "certificates of public authorities in the image, at " + authorities
	return c, nil
}

func sha256Of(content []byte) *[]cyclonedx.Hash {
	sum := sha256.Sum256(content)
	return &[]cyclonedx.Hash{
		{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])},
	}
}

// component is a Go module; its reference is a package URL, https://github.com/package-url/purl-spec.
func component(path, version string) cyclonedx.Component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cyclonedx.Component{
		BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version,
		PackageURL: url,
	}
}

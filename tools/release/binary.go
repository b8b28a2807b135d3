package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
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

type builder struct {
	source   source
	progress io.Writer
}

// binary is a built program.
type binary struct {
	platform platform
	path     string
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
		name := fmt.Sprintf("fxccm-%s-%s-%s", b.source.version, p.os, p.arch)
		if p.os == "windows" {
			name += ".exe"
		}
		path := filepath.Join(dir, name)
		start := time.Now()
		fmt.Fprintf(b.progress, "build %s\n", name)
		env := []string{"CGO_ENABLED=0", "GOOS=" + p.os, "GOARCH=" + p.arch, "GOFLAGS="}
		if _, err := command(ctx, b.source.dir, env, "go", "build", "-trimpath", "-buildvcs=true",
			"-ldflags=-s -w", "-o", path, "./example"); err != nil {
			return nil, err
		}
		fmt.Fprintf(b.progress, "built %s in %s\n", name, time.Since(start).Round(time.Second))
		built = append(built, binary{platform: p, path: path})
	}
	return built, nil
}

// writeBillOfMaterials writes the modules that are linked into the binary to a file beside it, in
// CycloneDX's format.
func (b builder) writeBillOfMaterials(of binary) error {
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
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: b.source.time.Format(time.RFC3339), Component: &program,
	}
	components := []cyclonedx.Component{component("std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, module := range info.Deps {
		components = append(components, moduleComponent(module))
	}
	bom.Components = &components
	file, err := os.Create(of.path + ".cdx.json")
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
	return component(module.Path, module.Version)
}

// component is a Go module; its reference is a package URL, https://github.com/package-url/purl-spec.
func component(path, version string) cyclonedx.Component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cyclonedx.Component{
		BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version,
		PackageURL: url,
	}
}

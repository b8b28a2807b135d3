// Release builds the files of a release of fxccm: the image, archives with the program, bills of
// materials, the Helm chart's package, the manifest for krew, the section of the changelog, and
// checksums. It pushes and signs image and chart. It needs no container engine.
//
//	release image [-out FILE] [-push REFERENCE]
//	release all [-image REPOSITORY] VERSION
//	release publish -image REPOSITORY [-charts REPOSITORY] [-sign KEY|keyless] VERSION
//
// `make image`, `make release` and `make publish` run it from the repository's root. The same
// commit and Go toolchain produce the same bytes, whatever the environment of the build is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/mod/semver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, progress io.Writer) error {
	if len(args) == 0 {
		return errors.New("want a command: image, all or publish")
	}
	source, err := readSource(ctx, ".")
	if err != nil {
		return err
	}
	b := builder{source: source, progress: progress}
	switch args[0] {
	case "image":
		return b.imageCommand(ctx, args[1:])
	case "all":
		return b.allCommand(ctx, args[1:])
	case "publish":
		return b.publishCommand(ctx, args[1:])
	}
	return fmt.Errorf("unknown command %q: want image, all or publish", args[0])
}

// imageCommand builds the image for all its platforms, writes it to a file, and pushes it if a
// reference is given. Credentials are those of `docker login` and `podman login`.
func (b builder) imageCommand(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	out := flags.String("out", filepath.Join("bin", "fxccm-image.tar"), "OCI archive to write")
	push := flags.String("push", "",
		"reference to push to, such as registry.example.com/fxccm:v1.2.3")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("want flags only, got %q", flags.Args())
	}
	dir, err := os.MkdirTemp("", "fxccm-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binaries, err := b.binaries(ctx, dir, imagePlatforms)
	if err != nil {
		return err
	}
	index, err := b.image(binaries)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if err := writeImage(index, b.source.version, *out); err != nil {
		return err
	}
	fmt.Fprintf(b.progress, "%s: image %s, digest %s\n", *out, b.source.version, digest)
	if *push == "" {
		return nil
	}
	return b.push(ctx, index, *push)
}

func (b builder) allCommand(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("all", flag.ContinueOnError)
	image := flags.String("image", "",
		"repository that the chart takes the image from, such as registry.example.com/fxccm")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("want one version: all v1.2.3")
	}
	return b.release(ctx, flags.Arg(0), *image)
}

// release writes all files of a release to a new folder. The folder must not exist, because a
// release is built once.
func (b builder) release(ctx context.Context, version, image string) error {
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return fmt.Errorf("version %q: want one like v1.2.3 or v1.2.3-rc.1", version)
	}
	if b.source.version != version {
		return fmt.Errorf("the checkout is %s, not %s: commit all changes and tag the commit first",
			b.source.version, version)
	}
	if err := b.checkModules(ctx, version); err != nil {
		return err
	}
	changelog, err := os.ReadFile(changelogFile)
	if err != nil {
		return err
	}
	section, err := changelogSection(string(changelog), version)
	if err != nil {
		return err
	}
	complete := filepath.Join("bin", "release", version)
	if _, err := os.Stat(complete); err == nil {
		return fmt.Errorf("%s exists: remove it to build the release again", complete)
	}
	if err := os.MkdirAll(filepath.Dir(complete), 0o755); err != nil {
		return err
	}
	// A failed release leaves no files behind.
	dir, err := os.MkdirTemp(filepath.Dir(complete), ".building-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, changelogFile), []byte(section), 0o644); err != nil {
		return err
	}
	programs, err := os.MkdirTemp("", "fxccm-programs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(programs)
	binaries, err := b.binaries(ctx, programs, releasePlatforms)
	if err != nil {
		return err
	}
	for _, binary := range binaries {
		if err := b.writeBillOfMaterials(binary, dir); err != nil {
			return err
		}
	}
	archives, err := b.writeArchives(ctx, dir, binaries)
	if err != nil {
		return err
	}
	if err := b.writeKrewManifest(dir, archives); err != nil {
		return err
	}
	index, err := b.image(binaries)
	if err != nil {
		return err
	}
	if err := writeImage(index, version, filepath.Join(dir, imageFile(version))); err != nil {
		return err
	}
	if err := b.writeChart(dir, version, image); err != nil {
		return err
	}
	if err := b.writeChartBill(dir, image, index); err != nil {
		return err
	}
	if err := writeChecksums(dir); err != nil {
		return err
	}
	return os.Rename(dir, complete)
}

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

// completionFiles are the names of the completion files in an archive, by shell. Each shell looks
// for its file under this name.
var completionFiles = []struct{ shell, name string }{
	{"bash", "completions/fxccm.bash"},
	{"fish", "completions/fxccm.fish"},
	{"zsh", "completions/_fxccm"},
}

// documents are the repository's files in each archive.
var documents = []string{"LICENSE", "README.md"}

// archive is the file that users of a platform download.
type archive struct {
	platform platform
	path     string
	program  string // its name in the archive
}

// writeArchives writes an archive for each binary to dir: a zip for Windows, and else a tar.gz.
func (b builder) writeArchives(
	ctx context.Context, dir string, binaries []binary,
) ([]archive, error) {
	common, err := b.commonFiles(ctx, binaries)
	if err != nil {
		return nil, err
	}
	var written []archive
	for _, of := range binaries {
		content, err := os.ReadFile(of.path)
		if err != nil {
			return nil, err
		}
		pack, suffix, program := packTar, ".tar.gz", "fxccm"
		if of.platform.os == "windows" {
			pack, suffix, program = packZip, ".zip", "fxccm.exe"
		}
		packed, err := pack(append([]file{{program, 0o755, content}}, common...), b.source.time)
		if err != nil {
			return nil, err
		}
		path := filepath.Join(dir, assetName(b.source.version, of.platform)+suffix)
		if err := os.WriteFile(path, packed, 0o644); err != nil {
			return nil, err
		}
		written = append(written, archive{platform: of.platform, path: path, program: program})
	}
	return written, nil
}

// commonFiles returns the files that all archives contain. The program writes its completion files.
func (b builder) commonFiles(ctx context.Context, binaries []binary) ([]file, error) {
	var files []file
	for _, name := range documents {
		content, err := os.ReadFile(filepath.Join(b.source.dir, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, 0o644, content})
	}
	host := platform{runtime.GOOS, runtime.GOARCH}
	if !slices.ContainsFunc(binaries, func(b binary) bool { return b.platform == host }) {
		dir, err := os.MkdirTemp("", "fxccm-host-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		if binaries, err = b.binaries(ctx, dir, []platform{host}); err != nil {
			return nil, err
		}
	}
	own := slices.IndexFunc(binaries, func(b binary) bool { return b.platform == host })
	for _, each := range completionFiles {
		text, err := commandWith(ctx, b.source.dir, inherited(), binaries[own].path, "completion",
			each.shell)
		if err != nil {
			return nil, err
		}
		if text == "" {
			return nil, fmt.Errorf("the program wrote no completion for %s", each.shell)
		}
		files = append(files, file{each.name, 0o644, []byte(text)})
	}
	return files, nil
}

// packTar returns a tar.gz with the files. Equal files and times give equal bytes.
func packTar(files []file, modified time.Time) ([]byte, error) {
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	packed := tar.NewWriter(compressed)
	for _, each := range files {
		if err := writeFile(packed, each.path, each.mode, modified, each.content); err != nil {
			return nil, err
		}
	}
	if err := packed.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// packZip returns a zip with the files. Equal files and times give equal bytes.
func packZip(files []file, modified time.Time) ([]byte, error) {
	var out bytes.Buffer
	packed := zip.NewWriter(&out)
	for _, each := range files {
		header := &zip.FileHeader{Name: each.path, Method: zip.Deflate, Modified: modified}
		header.SetMode(fs.FileMode(each.mode))
		writer, err := packed.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(writer, bytes.NewReader(each.content)); err != nil {
			return nil, err
		}
	}
	if err := packed.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
